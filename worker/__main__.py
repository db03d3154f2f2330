"""`python -m worker --queues sample,light`: one worker process with one child that runs jobs."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import sys
import warnings

from celery.exceptions import CPendingDeprecationWarning, SecurityWarning
from sqlalchemy.exc import SQLAlchemyError

from d4explain.contracts.errors import PluginError
from d4explain.contracts.gnn_layers import check_plugins
from store import logs
from store.database import schema
from store.errors import SchemaMismatch, SettingsError
from store.jobs import Queue, workers
from store.settings import Settings
from store.store import Store
from worker.process.celery_app import NoBrokerError, create_app
from worker.process.process_env import PARENT, QUEUES, SHUTDOWN


def main(arguments: list[str] | None = None) -> int:
    known = [queue.value for queue in Queue]
    parser = argparse.ArgumentParser(prog="python -m worker", description="Runs queued jobs.")
    parser.add_argument(
        "--queues",
        default=",".join(known),
        type=_queues,
        help=f"comma-separated, of {', '.join(known)} (default: all)",
    )
    parser.add_argument(
        "--check", action="store_true", help="exit with 0 if a worker of this host is alive, else 1"
    )
    asked = parser.parse_args(arguments)
    if asked.check:
        return _check(Settings.from_environment())
    try:
        settings = Settings.from_environment()
        check_plugins()
        app = create_app(settings)
    except (SettingsError, PluginError, NoBrokerError) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 2
    try:
        Store.open(settings).close()  # the schema is there before the first job
    except SchemaMismatch as error:
        print(f"worker: {error}", file=sys.stderr)
        return schema.EXIT_CODE
    except (SQLAlchemyError, OSError) as error:
        print(f"worker: the database cannot be opened: {error}", file=sys.stderr)
        return 1
    logs.configure("worker", settings.log_level)
    os.environ[QUEUES] = asked.queues
    os.environ[PARENT] = str(os.getpid())
    # Children inherit the mask: a shutdown that comes while one is starting waits until it listens.
    signal.pthread_sigmask(signal.SIG_BLOCK, {SHUTDOWN})
    # Only JSON is accepted, so being root in a container gives a message no power.
    warnings.simplefilter("ignore", SecurityWarning)
    # About late acknowledgement, at every lost connection; messages are acknowledged early here.
    warnings.simplefilter("ignore", CPendingDeprecationWarning)
    app.worker_main(
        [
            "--quiet",
            "worker",
            f"--queues={asked.queues}",
            f"--hostname={_name_prefix()}{secrets.token_hex(3)}@d4explain",
            f"--loglevel={settings.log_level}",
            # Workers do not talk to each other: the database is where they meet.
            "--without-mingle",
            "--without-gossip",
            "--without-heartbeat",
        ]
    )
    return 0


def _name_prefix() -> str:
    return f"{socket.gethostname()}-"


def _check(settings: Settings) -> int:
    with Store.open(settings, migrate=False) as store, store.database.reading() as session:
        alive = [worker.name for worker in workers.live(session)]
    here = [name for name in alive if name.startswith(_name_prefix())]
    print(f"{len(here)} of {len(alive)} live workers are on this host")
    return 0 if here else 1


def _queues(text: str) -> str:
    names = [name.strip() for name in text.split(",") if name.strip()]
    try:
        queues = [Queue(name) for name in names]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not queues:
        raise argparse.ArgumentTypeError("name at least one queue")
    return ",".join(queues)


if __name__ == "__main__":
    sys.exit(main())
