"""Supervises the embedded stack: the broker, the API and the workers on this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from d4explain.errors import CommandError
from d4explain.stack import broker
from d4explain.stack.absolute_paths import absolute_artifacts, absolute_database_url
from d4explain.stack.folder_lock import DataFolderLock
from d4explain.stack.ports import free_port, require_free, require_loopback
from d4explain.stack.processes import Child, Command, Signals
from d4explain.stack.readiness import READY_SECONDS, readiness
from d4explain.stack.source_tree import python_command, python_environment, source_root
from store.process_limits import cpu_limit
from store.settings import Settings

STOP_SECONDS = 8.0  # a worker finishes its step, writes a checkpoint and releases its lease
BROKER_SECONDS = 10.0
MAX_EARLY_EXITS = 3  # give up if a child dies this often before the stack is ready
MAX_LINES_SHOWN = 5
TICK_SECONDS = 0.5
NICENESS = 5  # of workers, so that the API answers quickly while they use all cores
_TRAINING_NICENESS = 10  # so that short jobs are quick while networks are trained
STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class _StopRequested(Exception):  # noqa: N818 - not an error
    """Ctrl-C, or a signal from the system."""


def worker_queues(cores: int) -> dict[str, str]:
    """The queues of each worker, by its name.

    A question about a new GNN needs two trainings. On two cores they run side by side, and the
    final answer comes after the longer one.
    """
    second = {"worker-train-2": "train"} if cores > 1 else {}
    return {"worker-train": "train", **second, "worker-sample": "sample,light"}


class Stack:
    """Runs in the main thread until a stop signal; leaves no process behind."""

    def __init__(
        self,
        settings: Settings,
        console: Console,
        started: float | None = None,
        *,
        on_ready: Callable[[str], None] | None = None,
    ) -> None:
        """`on_ready` is called once, with the address."""
        require_loopback(settings.host)
        self._on_ready = on_ready
        self._settings = settings
        self._console = console
        self._started = time.monotonic() if started is None else started
        self._data_dir = settings.data_dir
        self._port = settings.port or free_port(settings.host)
        self._broker: Child | None = None
        self._children: list[Child] = []
        self._broker_name = ""
        self._queues = worker_queues(int(cpu_limit()))
        self._signals = Signals()
        self._lock = DataFolderLock(self._data_dir)

    @property
    def address(self) -> str:
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"http://{host}:{self._port}"

    def run(self) -> None:
        """Start the stack, watch it until a stop signal, and stop it."""
        with self._signals:
            self._lock.acquire(self.address)
            try:
                self._start()
                self._watch()
            except _StopRequested as request:
                self._print(f"[dim]{request}: stopping … (Ctrl-C again to kill)[/dim]")
            finally:
                self._stop()
                self._lock.release()

    def _start(self) -> None:
        require_free(self._settings.host, self._port)
        # Migrate before any other process opens the database; the broker starts meanwhile.
        migration = self._python("migrate", self._environment(), "-m", "store", "migrate")
        migration.start()
        try:
            url = self._settings.redis_url
            if url is None:
                url = self._start_broker()
            else:
                self._require_broker(url)
            self._wait_for(migration)
        finally:
            self._stop_children([migration], 0.0, kill_now=True)
        threads = self._settings.threads or max(1, int(cpu_limit()) // 2)
        environment = self._environment(redis_url=url, threads=threads)
        self._children.append(self._python("api", environment, "-m", "service"))
        for name, queues in self._queues.items():
            serve = ("-m", "worker", "--queues", queues)
            niceness = _TRAINING_NICENESS if queues == "train" else NICENESS
            self._children.append(self._python(name, environment, *serve, niceness=niceness))
        for child in self._children:
            child.start()
        self._wait_until_ready()
        self._print_banner(threads)
        if self._on_ready is not None:
            self._on_ready(self.address)

    def _start_broker(self) -> str:
        binary = broker.find_binary()
        self._broker_name = str(binary)
        server = broker.configure_broker(binary, self._data_dir / "broker", self._log("broker"))
        self._broker = Child(server.command)
        self._broker.start()
        deadline = time.monotonic() + BROKER_SECONDS
        while not server.answers():
            if self._broker.check() is not None:
                # For example, a newer version wrote the queue. It contains only notifications.
                if self._broker.starts > 1:
                    raise self._early_exit_error(self._broker)
                moved = broker.move_aside(server.folder)
                self._warn(f"the broker could not read its old queue; moved to {moved.name}")
                self._broker.start()
            if time.monotonic() > deadline:
                raise CommandError("the broker does not answer", f"its log: {self._log('broker')}")
            self._pause(0.02)
        return server.url

    def _require_broker(self, url: str) -> None:
        self._broker_name = broker.redact_password(url)
        problem = broker.redis_problem(url)
        if problem is not None:
            raise CommandError(
                f"no Redis answers at {self._broker_name}: {problem}",
                hint="check D4_REDIS_URL, or unset it to start a broker",
            )

    def _wait_for(self, migration: Child) -> None:
        while (child_exit := migration.check()) is None:
            self._pause(0.02)
        if child_exit.code != 0:
            reason = next(reversed(migration.last_lines()), f"{migration.name} {child_exit}")
            raise CommandError(
                reason.removeprefix("store: "), hint=f"the whole log is {migration.command.log}"
            )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            state = readiness(self._settings.host, self._port)
            if state.ready:
                return
            self._check_children()
            for child in self._children:
                if child.last_exit is not None and child.starts >= MAX_EARLY_EXITS:
                    raise self._early_exit_error(child)
            if time.monotonic() > deadline:
                raise CommandError(
                    f"not ready after {READY_SECONDS:.0f} s: {state.detail}",
                    hint=f"the logs are in {self._data_dir / 'logs'}",
                )
            self._pause(0.05)

    def _watch(self) -> None:
        workers_announced = False
        while True:
            self._pause(TICK_SECONDS)
            self._check_children()
            if not workers_announced and readiness(self._settings.host, self._port).has_workers:
                workers_announced = True
                self._print(f"[dim]workers are ready after {self._elapsed_seconds():.1f} s[/]")

    def _check_children(self) -> None:
        """Show the warnings of children and restart those that exited."""
        for child in self._all_children():
            for line in list(child.important_lines())[-MAX_LINES_SHOWN:]:
                self._warn(f"{child.name}: {line}")
            child.trim_log()
            child_exit = child.check()
            if child_exit is not None:
                self._warn(f"{child.name} {child_exit}; restarting it (log: {child.command.log})")
            if child.is_restart_due():
                child.start()

    def _stop(self) -> None:
        began = time.monotonic()
        running = [child for child in self._all_children() if child.pid is not None]
        # The broker stops last: workers unregister through it.
        kill_now = self._stop_children(self._children, STOP_SECONDS, kill_now=False)
        self._stop_children(
            [self._broker] if self._broker else [], BROKER_SECONDS, kill_now=kill_now
        )
        if running:
            self._print(f"Stopped in {time.monotonic() - began:.1f} s.")

    def _stop_children(self, children: list[Child], seconds: float, *, kill_now: bool) -> bool:
        """Terminate, then kill after `seconds` or at a second Ctrl-C; returns whether it came."""
        deadline = time.monotonic() + seconds
        for child in children:
            child.terminate()
        while any(child.pid is not None for child in children):
            for child in children:
                child.check()
                if kill_now or time.monotonic() > deadline:
                    child.kill()
            kill_now |= bool(self._signals.wait(0.05) & STOP_SIGNALS)
        return kill_now

    def _pause(self, seconds: float) -> None:
        received = self._signals.wait(seconds) & STOP_SIGNALS
        if received:
            raise _StopRequested(", ".join(sorted(number.name for number in received)))

    def _all_children(self) -> list[Child]:
        return [*([self._broker] if self._broker else []), *self._children]

    def _python(
        self, name: str, environment: Mapping[str, str], *arguments: str, niceness: int = 0
    ) -> Child:
        argv = python_command(*arguments)
        log = self._log(name)
        # Celery puts the current folder of a worker first on its path: it must be the source tree.
        return Child(Command(name, argv, log, environment, niceness=niceness, folder=source_root()))

    def _environment(self, *, redis_url: str | None = None, threads: int = 1) -> dict[str, str]:
        changes = {
            "redis_url": redis_url,
            "port": self._port,
            "threads": threads,
            "artifacts": absolute_artifacts(self._settings.artifacts),
            "database_url": absolute_database_url(self._settings.database_url),
        }
        settings = self._settings.model_copy(update=changes)
        environment = python_environment({**os.environ, **settings.environment()})
        return environment | {
            "OMP_NUM_THREADS": str(threads),
            "PYTHONUNBUFFERED": "1",
        }

    def _log(self, name: str) -> Path:
        return self._data_dir / "logs" / f"{name}.log"

    def _elapsed_seconds(self) -> float:
        return time.monotonic() - self._started

    def _early_exit_error(self, child: Child) -> CommandError:
        last = "\n".join(f"  {line}" for line in child.last_lines())
        return CommandError(
            f"{child.name} {child.last_exit} {child.starts} times; end of its log:\n{last}",
            hint=f"the whole log is {child.command.log}",
        )

    def _print_banner(self, threads: int) -> None:
        rows = Table.grid(padding=(0, 2))
        rows.add_row("API", f"[bold link={self.address}]{self.address}[/]")
        rows.add_row("API docs", f"{self.address}/docs")
        rows.add_row("broker", escape(self._broker_name))
        each = "1 thread each" if threads == 1 else f"{threads} threads each"
        rows.add_row("workers", f"{' | '.join(self._queues.values())}  ({each})")
        rows.add_row("data", escape(str(self._data_dir)))
        title = f"d4explain is ready after {self._elapsed_seconds():.1f} s"
        self._print(Panel(rows, title=title, subtitle="Ctrl-C stops everything", expand=False))

    def _print(self, content: object) -> None:
        try:
            self._console.print(content, soft_wrap=isinstance(content, str))
        except OSError:  # the terminal is gone; the stack keeps running
            self._console = Console(quiet=True)

    def _warn(self, line: str) -> None:
        self._print(f"[yellow]{time.strftime('%H:%M:%S')}[/] {escape(line)}")
