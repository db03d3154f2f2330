"""Start broker, API and one worker as processes for a measurement."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from d4explain.stack import broker
from d4explain.stack.ports import LOOPBACK, free_port
from d4explain.stack.readiness import readiness
from d4explain.stack.supervisor import NICENESS
from store.settings import Settings

_START_SECONDS = 120.0  # importing torch is slow on a busy machine
_STOP_SECONDS = 20.0
_TRAINING_SECONDS = 86_400.0  # `load` keeps a worker busy with a training that never ends


@dataclass
class Deployment:
    settings: Settings
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return self.settings.port

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        stdin: bytes | None = None,
    ) -> None:
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes[name] = process
        if process.stdin is not None:
            with process.stdin:
                process.stdin.write(stdin or b"")

    def kill(self, name: str) -> None:
        """Send SIGKILL, which simulates a failure of the machine."""
        self._signal(name, signal.SIGKILL)
        self.processes.pop(name).wait()

    def stop(self) -> None:
        for name in self.processes:
            self._signal(name, signal.SIGTERM)
        for name, process in self.processes.items():
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._signal(name, signal.SIGKILL)
                process.wait()

    def cpu_seconds(self, name: str) -> float:
        """CPU seconds of a process and its threads; NaN without /proc."""
        try:
            stat = Path(f"/proc/{self.processes[name].pid}/stat").read_text()
        except OSError:
            return math.nan
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def log(self, name: str) -> Path:
        return self.settings.data_dir / f"{name}.log"

    def require_alive(self) -> None:
        for name, process in self.processes.items():
            if process.poll() is not None:
                log_tail = self.log(name).read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{name} ended with {process.returncode}: {log_tail}")

    def _signal(self, name: str, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.processes[name].pid, number)


@contextmanager
def deployment(queues: str, *, threads: int = 1) -> Iterator[Deployment]:
    """Run API, broker and one worker for these queues until the block ends.

    Data go to the current folder, because temporary folders may be in memory, where syncing is
    free.
    """
    folder = Path(tempfile.mkdtemp(prefix=".d4explain-", dir=Path.cwd()))
    log = folder / "broker.log"
    local_broker = broker.configure_broker(broker.find_binary(), folder / "broker", log)
    settings = Settings(
        data_dir=folder,
        port=free_port(),
        redis_url=local_broker.url,
        threads=threads,
        max_training_seconds=_TRAINING_SECONDS,
    )
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("D4_")}
    environment = inherited | settings.environment() | {"OMP_NUM_THREADS": str(threads)}
    running = Deployment(settings)
    try:
        running.start("broker", local_broker.command.argv, environment, local_broker.command.stdin)
        running.start("api", [sys.executable, "-m", "service"], environment)
        # The niceness of the embedded stack's workers.
        worker = ["nice", "-n", str(NICENESS), sys.executable, "-m", "worker", "--queues", queues]
        running.start("worker", worker, environment)
        _wait_until_ready(running)
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(running: Deployment) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not (state := readiness(LOOPBACK, running.port)).ready:
        running.require_alive()
        if time.monotonic() > deadline:
            raise RuntimeError(f"The API is not ready: {state.detail}")
        time.sleep(0.1)
