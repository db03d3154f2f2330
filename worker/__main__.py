"""`python -m worker --queues sample,light`: one worker process with one child that runs jobs."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

from celery.exceptions import CPendingDeprecationWarning, SecurityWarning
from sqlalchemy.exc import SQLAlchemyError

from d4explain.contracts.errors import PluginError
from d4explain.contracts.spec_checks.layer_types import check_plugins
from store import logs
from store.database import schema
from store.errors import ManyMachines, SchemaMismatch, SettingsError
from store.jobs import Queue, workers
from store.queue.celery_config import known_message_queues
from store.settings import Settings
from store.store import Store
from worker.process.celery_app import NoBrokerError, create_app
from worker.process.process_env import PARENT_VARIABLE, QUEUES_VARIABLE, SHUTDOWN_SIGNAL
from worker.webhooks.delivery_loop import delivering


def main(arguments: list[str] | None = None) -> int:
    known = [queue.value for queue in Queue]
    parser = argparse.ArgumentParser(prog="python -m worker", description="Run queued jobs.")
    parser.add_argument(
        "--queues",
        default=",".join(known),
        type=_parse_queues,
        help=f"comma-separated list of {', '.join(known)} (default: all)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit with 0 if a worker on this host is alive, else with 1",
    )
    options = parser.parse_args(arguments)
    if options.check:
        return _check_alive(Settings.from_environment())
    try:
        settings = Settings.from_environment()
        check_plugins()
        app = create_app(settings)
    except (SettingsError, PluginError, NoBrokerError) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 2
    try:
        Store.open(settings).close()  # creates or migrates the schema before the first job
    except SchemaMismatch as error:
        print(f"worker: {error}", file=sys.stderr)
        return schema.EXIT_CODE
    except (ManyMachines, SQLAlchemyError, OSError) as error:
        print(f"worker: cannot open the database: {error}", file=sys.stderr)
        return 1
    logs.configure("worker", settings.log_level)
    _put_source_tree_first()
    os.environ[QUEUES_VARIABLE] = options.queues
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    # Children inherit the mask, so a shutdown signal waits until a starting child listens.
    signal.pthread_sigmask(signal.SIG_BLOCK, {SHUTDOWN_SIGNAL})
    # Celery warns about running as root. Only JSON messages are accepted, so that is safe here.
    warnings.simplefilter("ignore", SecurityWarning)
    # Celery warns about late acknowledgement at every lost connection; we acknowledge early.
    warnings.simplefilter("ignore", CPendingDeprecationWarning)
    # A worker of short jobs also sends webhooks; more of these workers send more at once.
    is_sender = Queue.LIGHT in options.queues.split(",")
    queues = known_message_queues(Queue(name) for name in options.queues.split(","))
    with delivering(settings) if is_sender else nullcontext():
        app.worker_main(
            [
                "--quiet",
                "worker",
                f"--queues={','.join(queues)}",
                f"--hostname={_name_prefix()}{secrets.token_hex(3)}@d4explain",
                f"--loglevel={settings.log_level}",
                # Workers coordinate through the database, not with each other.
                "--without-mingle",
                "--without-gossip",
                "--without-heartbeat",
            ]
        )
    return 0


def _put_source_tree_first() -> None:
    """Makes the child import `models` from here, although `python -m` starts at the current folder.

    The child inherits `sys.path`.
    """
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def _name_prefix() -> str:
    return f"{socket.gethostname()}-"


def _check_alive(settings: Settings) -> int:
    with Store.open(settings, migrate=False) as store, store.database.reading() as session:
        alive = [worker.name for worker in workers.live(session)]
    local = [name for name in alive if name.startswith(_name_prefix())]
    print(f"{len(local)} of {len(alive)} live workers are on this host")
    return 0 if local else 1


def _parse_queues(text: str) -> str:
    names = [name.strip() for name in text.split(",") if name.strip()]
    try:
        queues = [Queue(name) for name in names]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not queues:
        raise argparse.ArgumentTypeError("expected at least one queue")
    return ",".join(queues)


if __name__ == "__main__":
    sys.exit(main())
