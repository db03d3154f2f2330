"""A PostgreSQL connection that breaks after COMMIT is sent and before the reply arrives."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import func, make_url, select

from store.database.sessions import CommitUnknownError, Database
from store.database.tables import Lead


class CuttingProxy:
    """Forwards bytes to PostgreSQL; while `cuts` is set, it drops the reply to a COMMIT."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cuts = False
        self.dropped = 0
        threading.Thread(target=self._accept, daemon=True).start()

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


@pytest.fixture(scope="module")
def migrated_url(postgres_url: str) -> str:
    database = Database(postgres_url)
    database.migrate()
    database.close()
    return postgres_url


@pytest.fixture
def proxy(migrated_url: str) -> Iterator[CuttingProxy]:
    address = make_url(migrated_url)
    running = CuttingProxy(address.host or "127.0.0.1", address.port or 5432)
    yield running
    running.close()


@pytest.fixture
def through_proxy(proxy: CuttingProxy, migrated_url: str) -> str:
    url = make_url(migrated_url).set(host="127.0.0.1", port=proxy.port)
    # Otherwise the connection may be encrypted, and the proxy could not see the COMMIT.
    url = url.update_query_dict({"sslmode": "disable", "gssencmode": "disable"})
    return url.render_as_string(hide_password=False)


def test_the_store_reports_an_unknown_outcome(proxy: CuttingProxy, through_proxy: str) -> None:
    database = Database(through_proxy)
    proxy.cuts = True

    def write() -> None:
        with database.transaction() as session:
            session.add(Lead(name="lost", owner="me", lease_until=0.0))

    with pytest.raises(CommitUnknownError):
        write()
    assert proxy.dropped == 1
    proxy.cuts = False
    with database.reading() as session:
        count = select(func.count()).select_from(Lead).where(Lead.name == "lost")
        assert session.scalar(count) == 1  # committed, although the caller got no reply
    database.close()


def test_callers_can_repeat_the_request_with_the_same_key(
    proxy: CuttingProxy, through_proxy: str, deployed
) -> None:
    api = deployed(database_url=through_proxy)
    gnn, dataset = api.gnn(), api.dataset()
    common = {"gnn": gnn, "dataset": dataset}
    requests = {
        "/v1/datasets": {"name": "a set", "graphs": [api.graph()]},
        "/v1/denoisers": {**common, "objective": "counterfactual"},
        "/v1/explanations": {**common, "kind": "counterfactual", "graph": api.graph()},
        f"/v1/gnns/{gnn}/predictions": {"graphs": [api.graph()]},
    }
    for number, (address, body) in enumerate(requests.items()):
        headers = {"Idempotency-Key": f"key-{number}", "Prefer": "wait=0"}
        proxy.cuts = True
        answer = api.client.post(address, json=body, headers=headers)
        proxy.cuts = False
        assert answer.status_code == 503, answer.text
        assert answer.json()["type"].endswith("outcome-unknown"), address
        assert "same Idempotency-Key" in answer.json()["detail"]
        before = api.written()
        again = api.client.post(address, json=body, headers=headers)
        assert again.is_success, again.text
        assert again.headers["idempotency-replayed"] == "true", address
        assert api.written() == before
    assert proxy.dropped == len(requests)
    # A dry run only reads, so it takes no locks.
    dry = api.client.post("/v1/explanations?dry_run=true", json=requests["/v1/explanations"])
    assert dry.status_code == 200


def test_an_outage_before_the_commit_has_a_known_outcome(
    proxy: CuttingProxy, through_proxy: str, deployed
) -> None:
    api = deployed(database_url=through_proxy)
    body = {"name": "a set", "graphs": [api.graph()]}
    proxy.close()
    api.store.database.engine.dispose()
    answer = api.client.post("/v1/datasets", json=body, headers={"Idempotency-Key": "never"})
    assert answer.status_code == 503
    assert answer.json()["type"].endswith("database-unavailable")
