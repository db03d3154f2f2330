"""Lists need a constant number of queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event

COUNT = 50


@contextmanager
def statements(api) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(_connection, _cursor, statement, *_) -> None:
        seen.append(statement)

    engine = api.store.database.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)
        for number, statement in reversed(list(enumerate(seen))):
            if "api_keys" in statement:  # and its BEGIN: asked once in a while, whatever the route
                del seen[number - 1 : number + 1]


@pytest.fixture(scope="module")
def filled(shared_api):
    """A deployment with fifty items in every list."""
    api = shared_api
    dataset = api.dataset()
    gnns = [api.gnn() for _ in range(COUNT)]
    for number, gnn in enumerate(gnns):
        given = api.client.put(f"/v1/gnns/a%20GNN/aliases/alias-{number}", json={"gnn": gnn})
        assert given.is_success, given.text
    for seed in range(COUNT):
        api.explanation(gnn=gnns[0], dataset=dataset, seed=seed, denoiser={"steps": seed + 1})
    for _ in range(COUNT - 1):
        api.dataset()
    evaluated = [api.evaluation(gnn=gnns[0], dataset=dataset) for _ in range(COUNT)]
    for evaluation in evaluated[:2]:
        api.finish_evaluation(evaluation)
    for seed in range(COUNT):
        body = {"baseline": evaluated[0], "candidate": evaluated[1], "seed": seed}
        assert api.client.post("/v1/comparisons", json=body).status_code == 202
    return api


@pytest.mark.parametrize(
    "noun",
    ["gnns", "datasets", "denoisers", "explanations", "jobs", "evaluations", "comparisons"],
)
def test_the_number_of_queries_does_not_grow_with_the_page(filled, noun):
    counted = {}
    for limit in (1, COUNT):
        with statements(filled) as seen:
            page = filled.client.get(f"/v1/{noun}?limit={limit}").json()
        assert len(page["items"]) == limit
        counted[limit] = len(seen)
    assert counted[1] == counted[COUNT] <= 4


def test_listed_items_equal_single_resources(filled):
    for noun in ("gnns", "denoisers", "explanations", "evaluations", "comparisons"):
        for item in filled.client.get(f"/v1/{noun}?limit=3").json()["items"]:
            alone = filled.client.get(f"/v1/{noun}/{item['id']}").json()
            alone.pop("result", None)
            assert item == alone
