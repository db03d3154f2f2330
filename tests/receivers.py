"""Receivers of webhooks: real HTTP(S) servers on this machine that answer as a test wants."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request, with the time at which its body had arrived."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def message(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document


@dataclass
class Receiver:
    url: str
    status: int = 204
    seconds: float = 0.0  # before it answers
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    # Writes the whole answer, instead of all above.
    raw: Callable[[Any], None] | None = None
    received: list[Received] = field(default_factory=list)

    def ids(self) -> list[str]:
        return [one.id for one in list(self.received)]


@contextmanager
def receiver(tls: ssl.SSLContext | None = None, port: int = 0) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            target.received.append(Received(self.path, headers, body, time.time()))
            if target.raw is not None:
                target.raw(self.wfile)
                return
            time.sleep(target.seconds)
            self.send_response(target.status)
            for name, value in target.headers.items():
                self.send_header(name, value)
            if target.status != 204:
                self.send_header("Content-Length", str(len(target.body)))
            self.end_headers()
            self.wfile.write(target.body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:
            pass  # a sender that does not wait for the answer

    server = Server(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    scheme = "http" if tls is None else "https"
    target = Receiver(f"{scheme}://127.0.0.1:{server.server_address[1]}/hook")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield target
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
