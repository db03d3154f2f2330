"""A proxy that cuts PostgreSQL connections after COMMIT is sent and before the reply arrives."""

from __future__ import annotations

import contextlib
import socket
import threading

from sqlalchemy import make_url


class CuttingProxy:
    """Forwards bytes to PostgreSQL; while `cuts` is set, it drops the reply to a COMMIT."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cuts = False
        self.dropped = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @classmethod
    def before(cls, database_url: str) -> CuttingProxy:
        address = make_url(database_url)
        return cls(address.host or "127.0.0.1", address.port or 5432)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            # Otherwise `accept` would take one more connection.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                committing = threading.Event()
                for pump in (self._to_server, self._to_client):
                    arguments = (client, server, committing)
                    threading.Thread(target=pump, args=arguments, daemon=True).start()

    def _to_server(
        self, client: socket.socket, server: socket.socket, committing: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self.cuts and b"COMMIT\x00" in data:
                    committing.set()
                server.sendall(data)
        with contextlib.suppress(OSError):  # a killed client resets its connection
            server.shutdown(socket.SHUT_WR)

    def _to_client(
        self, client: socket.socket, server: socket.socket, committing: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if committing.is_set():  # PostgreSQL has replied, so the transaction is committed
                    self.dropped += 1
                    break
                client.sendall(data)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def url_through(self, database_url: str) -> str:
        """The URL of the same database through this proxy."""
        url = make_url(database_url).set(host="127.0.0.1", port=self.port)
        # Otherwise the connection may be encrypted, and the proxy could not see the COMMIT.
        url = url.update_query_dict({"sslmode": "disable", "gssencmode": "disable"})
        return url.render_as_string(hide_password=False)
