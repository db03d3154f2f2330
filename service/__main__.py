"""`python -m service`: the API process."""

from __future__ import annotations

import os

# NumPy's libraries read these when they are loaded. Their threads would compete with the event
# loop, and the matrices of drawings are too small to profit.
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
from service.http.access.key_lookup import keys_exist
from service.http.middleware.admission import Capacity
from service.http.middleware.origins import is_loopback
from service.http.server_protocol import BoundedHttpProtocol
from store import tracing
from store.database import schema
from store.errors import ManyMachines, SchemaMismatch, SettingsError
from store.logs import configure
from store.process_limits import forbid_core_dumps
from store.queue.dispatcher import Dispatcher
from store.queue.job_notifications import JobNotifications
from store.queue.queue_publisher import QueuePublisher
from store.queue.worker_calls import WorkerCalls, nobody_answers
from store.settings import Settings
from store.store import Store

log = logging.getLogger("service")

_SHUTDOWN_SECONDS = 5
_NO_KEYS = (
    "D4_HOST is {host!r}, but there is no API key: without keys the API serves loopback only. Make "
    "the first key with `python -m store keys create --name admin`, or set D4_HOST to 127.0.0.1"
)


class Server(uvicorn.Server):
    """Ends waiting requests and event streams first, so that shutdown does not wait for them."""

    def __init__(self, config: uvicorn.Config, context: Context) -> None:
        super().__init__(config)
        self._context = context

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.job_watcher.stop()
        await super().shutdown(sockets)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m service", description=__doc__)
    parser.add_argument(
        "--limit-concurrency",
        type=int,
        default=Capacity.requests,
        help="limit of concurrent requests; further requests get 503 (default %(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        settings = Settings.from_environment()
        check_plugins()
    except (SettingsError, PluginError) as error:
        print(f"service: {error}", file=sys.stderr)
        return 2
    forbid_core_dumps()
    configure("service", settings.log_level)
    tracing.configure("service")
    try:
        opened_store = Store.open(settings, connections=CONNECTIONS)
    except SchemaMismatch as error:
        print(f"service: {error}", file=sys.stderr)
        return schema.EXIT_CODE
    except (ManyMachines, SQLAlchemyError, OSError) as error:
        print(f"service: cannot open the database: {error}", file=sys.stderr)
        return 1
    with opened_store as store:
        if not is_loopback(settings.host) and not keys_exist(store.database):
            print(f"service: {_NO_KEYS.format(host=settings.host)}", file=sys.stderr)
            return 2
        publisher = QueuePublisher(settings.redis_url) if settings.redis_url else None
        calls = WorkerCalls(settings.redis_url) if settings.redis_url else None
        app = create_app(
            store,
            dispatcher=Dispatcher(store.database, publisher, settings),
            notifications=JobNotifications(settings.redis_url) if settings.redis_url else None,
            ping_broker=publisher.ping if publisher else None,
            ask_worker=calls.ask if calls else nobody_answers,
            capacity=Capacity(requests=options.limit_concurrency),
        )
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=BoundedHttpProtocol,
            log_config=None,
            proxy_headers=False,  # `GatewayHeaders` reads them
            access_log=False,  # `service/telemetry/middleware.py` writes one line per request
            server_header=False,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        # Loaded modules stay in memory: scanning them again would only delay requests.
        gc.collect()
        gc.freeze()
        try:
            Server(config, app.state.context).run()
        finally:
            if publisher is not None:
                publisher.close()
            tracing.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
