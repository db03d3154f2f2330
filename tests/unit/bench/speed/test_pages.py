"""A store that is filled with copies answers like one that was asked that often."""

from __future__ import annotations

from typing import Any

from bench.speed.api.filled_store import copy_explanations
from bench.speed.api.pages import Visit, _section


def test_copies_are_explanations_with_jobs_and_answers(api: Any) -> None:
    posted = [api.explanation(), api.explanation()]
    for one in posted:
        api.finish_explanation(one)
    copy_explanations(api.store, [one["id"] for one in posted], 30, seed=1)
    listed = api.client.get("/v1/explanations?limit=50").json()["items"]
    assert len(listed) == 32
    assert {one["state"] for one in listed} == {"succeeded"}
    assert [one["created_at"] for one in listed] == sorted(
        (one["created_at"] for one in listed), reverse=True
    )
    assert [one["id"] for one in listed[:2]] == [one["id"] for one in reversed(posted)]
    copy = api.client.get(f"/v1/explanations/{listed[-1]['id']}").json()
    original = next(one for one in posted if one["gnn"] == copy["gnn"])
    answer = api.client.get(f"/v1/explanations/{original['id']}").json()["result"]
    assert copy["result"] == answer
    job = api.client.get(f"/v1/jobs/{copy['job']['id']}").json()
    assert job["subject"]["explanation"] == copy["id"]


def test_figures_are_those_of_the_slowest_page() -> None:
    seen = {
        "fast": [
            Visit(10, "/a", 100, None),
            Visit(30, "/b", 120, None),
            Visit(20, "/c", 110, None),
        ],
        "slow": [Visit(50, "/d", 300, 400.0), Visit(60, "/e", 320, 500.0)],
    }
    section = _section(1000, seen, [float(number) for number in range(1, 101)])
    assert section.figures.page_server_ms == 55
    assert section.figures.page_paint_ms == 310
    assert section.figures.large_drawing_ms == 450
    assert section.figures.what_if_p50_ms == 50.5
    assert 94 < section.figures.what_if_p95_ms < 97
    [table] = section.tables
    assert table.rows[0] == ("fast", 20, "/b", 110, 120)
