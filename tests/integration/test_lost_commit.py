"""A PostgreSQL connection that breaks after COMMIT is sent and before the reply arrives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from store.database.sessions import CommitUnknownError, Database
from store.database.tables import Lead
from tests.cutting_proxy import CuttingProxy


@pytest.fixture(scope="module")
def migrated_url(postgres_url: str) -> str:
    database = Database(postgres_url)
    database.migrate()
    database.close()
    return postgres_url


@pytest.fixture
def proxy(migrated_url: str) -> Iterator[CuttingProxy]:
    running = CuttingProxy.before(migrated_url)
    yield running
    running.close()


@pytest.fixture
def through_proxy(proxy: CuttingProxy, migrated_url: str) -> str:
    return proxy.url_through(migrated_url)


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
