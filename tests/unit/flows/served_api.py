"""A real server for the API of a test; a thread does the work of a worker."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from service.app import create_app
from service.http.server_protocol import BoundedHttpProtocol
from tests.conftest import ask_worker_of

if TYPE_CHECKING:
    from tests.conftest import Deployment


@contextmanager
def serving(
    api: Deployment, on_request: Callable[[str, str], None] = lambda method, path: None
) -> Iterator[str]:
    """The address of the server; `on_request` is called with the method and path of each."""
    app = create_app(api.store, heartbeat_seconds=0.2, ask_worker=ask_worker_of(api.store))

    async def observed(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            on_request(scope["method"], scope["path"])
        await app(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(observed, http=BoundedHttpProtocol, log_config=None))
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()
    api.work()  # imports PyG here: two threads that import it at once would fail

    def work() -> None:
        while not stop.is_set():
            api.work()
            time.sleep(0.02)

    threads = [
        threading.Thread(target=server.run, kwargs={"sockets": [listener]}),
        threading.Thread(target=work),
    ]
    for thread in threads:
        thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        app.state.context.job_watcher.stop()
        server.should_exit = True
        for thread in threads:
            thread.join(timeout=20)
        listener.close()
