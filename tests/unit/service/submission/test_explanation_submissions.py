"""Explanations written together are what they would be if each had been written alone."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import permutations
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from service.http.bodies import PostedBody
from service.http.faults import InvalidRequestError
from service.http.idempotency import Submission
from service.http.json_bodies import MalformedJsonError
from service.http.problems import ProblemError
from service.resources import ExplanationResource
from service.submission import explanation_submissions as submissions
from service.submission.explanation_submissions import (
    Checked,
    Committed,
    Question,
    Submissions,
    check,
    write_all,
)
from store.catalogue import datasets
from store.database.tables import Denoiser, Explanation, Job, JobEvent
from store.errors import IdempotencyMismatch


@pytest.fixture
def question(api: Any) -> Callable[..., Question]:
    """A question about a GNN and a set that are the same for all, under a key or none."""
    about = {"gnn": api.gnn(), "dataset": api.dataset(), "graph": api.graph()}

    def make(key: str | None = None, **changes: Any) -> Question:
        body = json.dumps({"kind": "counterfactual", **about, **changes}).encode()
        return Question(
            PostedBody.of(body), Submission("POST /v1/explanations", body.hex()[-64:], key)
        )

    return make


def count(api: Any, table: type) -> int:
    with api.store.database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_a_group_has_the_outcomes_of_its_members(api: Any, question: Any) -> None:
    malformed = Question(
        PostedBody.of(b'{"kind": '), Submission("POST /v1/explanations", "0" * 64, None)
    )
    outcomes = write_all(
        api.store,
        [
            question(seed=1),
            malformed,
            question(seed=2, key="k"),
            question(seed=3, gnn="gnn_nobody"),
            question(seed=2, key="k"),
            question(seed=-4),
            question(seed=5, denoiser={"steps": 7}),
        ],
    )
    assert [type(one) for one in outcomes] == [
        *(Committed, MalformedJsonError, Committed, ProblemError, Committed),
        *(InvalidRequestError, Committed),
    ]
    first, keyed, again, other = (outcomes[place] for place in (0, 2, 4, 6))
    assert again.made.id == keyed.made.id
    assert (keyed.made.replayed, again.made.replayed) == (False, True)
    assert len({one.made.id for one in (first, keyed, other)}) == 3
    # One training for the two questions that the same denoiser answers, another for the third.
    assert first.new.job.waiting_for == keyed.new.job.waiting_for
    assert other.new.job.waiting_for != first.new.job.waiting_for
    assert (count(api, Explanation), count(api, Denoiser)) == (3, 2)
    for one in (first, keyed, other):
        assert api.client.get(f"/v1/explanations/{one.made.id}").json() == one.new.model_dump(
            mode="json"
        )
        events = one.new.links.events
        assert api.client.get(events.removesuffix("/events")).json()["state"] == "queued"
    assert count(api, JobEvent) == count(api, Job) + 2  # the probe was also claimed and ended


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_one_key_for_two_bodies_spoils_the_group_but_not_its_members(
    api: Any, question: Any, order: tuple[int, ...]
) -> None:
    asked = [question(seed=1, key="k"), question(seed=2, key="k"), question(seed=3)]
    before = api.written()
    with pytest.raises(IdempotencyMismatch):
        write_all(api.store, [asked[place] for place in order])
    after = api.written()
    assert {**after, "artifacts": before["artifacts"]} == before


def test_a_set_deleted_since_the_check_is_not_found(api: Any, question: Any) -> None:
    checked = check(api.store, question(seed=1))
    assert isinstance(checked, Checked)
    doomed = api.dataset()
    late = check(api.store, question(seed=2, dataset=doomed))
    with api.store.database.transaction() as session:
        datasets.delete(session, doomed)
    before = api.written()
    with pytest.raises(ProblemError) as refused:
        write_all(api.store, [checked, late])
    assert (refused.value.status, refused.value.faults[0].at) == (404, "/dataset")
    assert api.written() == before
    (alone,) = write_all(api.store, [checked])
    assert isinstance(alone, Committed)


def test_large_bodies_are_read_beside_the_group(api: Any) -> None:
    body = json.dumps(
        {
            "kind": "counterfactual",
            "gnn": api.gnn(),
            "dataset": api.dataset(),
            "graph": api.graph(),
        }
    ).replace(", ", "," + " " * 8_000)
    assert len(body) > 64 * 1024
    headers = {"Content-Type": "application/json", "Idempotency-Key": "large"}
    first = api.client.post("/v1/explanations", content=body, headers=headers)
    again = api.client.post("/v1/explanations", content=body, headers=headers)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert "idempotency-replayed" in again.headers


def test_an_answer_that_cannot_be_made_leaves_nothing_written(
    api: Any, question: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the commit it would be written again, one by one."""
    checked = [check(api.store, question(seed=seed)) for seed in (1, 2)]
    before = api.written()

    def fails(explanation: Explanation, job: Job) -> ExplanationResource:
        raise LookupError(explanation.id, job.id)

    monkeypatch.setattr(submissions, "new_explanation", fails)
    with pytest.raises(LookupError):
        write_all(api.store, checked)
    assert api.written() == before


def test_a_database_that_is_away_is_asked_once_for_a_group(
    api: Any, question: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [question(seed=seed) for seed in range(5)]
    opened: list[int] = []

    @contextmanager
    def away() -> Iterator[Session]:
        opened.append(1)
        time.sleep(0.2)  # while the others come
        raise OperationalError("BEGIN", {}, Exception("database is locked"))
        yield

    monkeypatch.setattr(api.store.database, "reading", away)
    group = Submissions(api.store)

    async def ask_all() -> list[Committed | BaseException]:
        return await asyncio.gather(*map(group.ask, asked), return_exceptions=True)

    outcomes = asyncio.run(ask_all())
    group.close()
    assert [type(one) for one in outcomes] == [OperationalError] * 5
    assert len(opened) <= 2  # the first may have been alone
