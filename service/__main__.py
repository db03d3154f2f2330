"""`python -m service`: the API process."""

from __future__ import annotations

import os

# NumPy's libraries look at these once, when they are loaded. Their threads would take the cores
# from the event loop, and the matrices of drawings are too small to gain from them.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import gc
import logging
import socket
import sys

import uvicorn
from sqlalchemy.exc import SQLAlchemyError

from d4explain.contracts.errors import PluginError
from d4explain.contracts.spec_checks.layer_types import check_plugins
from service.app import create_app
from service.context import CONNECTIONS, Context
from service.http.admission import Capacity
from service.http.server_protocol import BoundedHttpProtocol
from store.database import schema
from store.errors import SchemaMismatch, SettingsError
from store.logs import configure
from store.queue.dispatcher import Dispatcher
from store.queue.job_notifications import JobNotifications
from store.queue.queue_publisher import QueuePublisher
from store.settings import Settings
from store.store import Store

log = logging.getLogger("service")

_GRACE_SECONDS = 5


class Server(uvicorn.Server):
    """Lets those who wait and follow go first, so that stopping does not wait for them."""

    def __init__(self, config: uvicorn.Config, context: Context) -> None:
        super().__init__(config)
        self._context = context

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.watch.stop()
        await super().shutdown(sockets)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m service", description=__doc__)
    parser.add_argument(
        "--limit-concurrency",
        type=int,
        default=Capacity.requests,
        help="requests served at once; beyond it 503 (default %(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        settings = Settings.from_environment()
        check_plugins()
    except (SettingsError, PluginError) as error:
        print(f"service: {error}", file=sys.stderr)
        return 2
    configure("service", settings.log_level)
    try:
        opened = Store.open(settings, connections=CONNECTIONS)
    except SchemaMismatch as error:
        print(f"service: {error}", file=sys.stderr)
        return schema.EXIT_CODE
    except (SQLAlchemyError, OSError) as error:
        print(f"service: the database cannot be opened: {error}", file=sys.stderr)
        return 1
    with opened as store:
        doorbell = QueuePublisher(settings.redis_url) if settings.redis_url else None
        app = create_app(
            store,
            dispatcher=Dispatcher(store.database, doorbell, settings),
            notifications=JobNotifications(settings.redis_url) if settings.redis_url else None,
            broker_answers=doorbell.ping if doorbell else None,
            capacity=Capacity(requests=options.limit_concurrency),
        )
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=BoundedHttpProtocol,
            log_config=None,
            access_log=False,  # `service.telemetry` writes one line per request
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        # What was loaded stays: to look through it again for garbage would make requests wait.
        gc.collect()
        gc.freeze()
        try:
            Server(config, app.state.context).run()
        finally:
            if doorbell is not None:
                doorbell.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
