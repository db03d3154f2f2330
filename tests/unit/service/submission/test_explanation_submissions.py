"""Explanations committed together equal those committed one by one."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from d4explain.contracts.scopes import DEFAULT_TENANT
from service.http.bodies import PostedBody
from service.http.faults import InvalidRequestError
from service.http.idempotency import Submission
from service.http.json_bodies import MalformedJsonError
from service.http.problems import ProblemError
from service.resources import ExplanationResource
from service.submission import explanation_checks, explanation_submissions
from service.submission.explanation_checks import (
    CheckedExplanation,
    PostedExplanation,
    check,
    check_all,
)
from service.submission.explanation_submissions import Committed, Submissions, commit_all
from store.catalogue import datasets
from store.database.tables import Denoiser, Explanation, Job, JobEvent
from store.errors import IdempotencyMismatch
from store.jobs import TrainingQueue
from store.store import Store


@pytest.fixture
def post(api: Any) -> Callable[..., PostedExplanation]:
    """Posts a request about the same GNN and dataset, with or without an idempotency key."""
    about = {"gnn": api.gnn(), "dataset": api.dataset(), "graph": api.graph()}

    def make(key: str | None = None, **changes: Any) -> PostedExplanation:
        body = json.dumps({"kind": "counterfactual", **about, **changes}).encode()
        return PostedExplanation(
            PostedBody.of(body),
            Submission(DEFAULT_TENANT, "POST /v1/explanations", body.hex()[-64:], key, None),
        )

    return make


def submit_all(store: Store, batch: Sequence[PostedExplanation]) -> list[Committed | Exception]:
    """Checks a batch, then commits what passed."""
    results = check_all(store, batch)
    checked = [one for one in results if isinstance(one, CheckedExplanation)]
    committed = iter(commit_all(store, checked))
    return [
        next(committed)
        if isinstance(one, CheckedExplanation)
        else one
        if isinstance(one, Exception)
        else Committed(one, None)
        for one in results
    ]


def count(api: Any, table: type) -> int:
    with api.store.database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_each_request_of_a_batch_gets_its_own_result(api: Any, post: Any) -> None:
    malformed = PostedExplanation(
        PostedBody.of(b'{"kind": '),
        Submission(DEFAULT_TENANT, "POST /v1/explanations", "0" * 64, None, None),
    )
    outcomes = submit_all(
        api.store,
        [
            post(seed=1),
            malformed,
            post(seed=2, key="k"),
            post(seed=3, gnn="gnn_nobody"),
            post(seed=2, key="k"),
            post(seed=-4),
            post(seed=5, denoiser={"steps": 7}),
        ],
    )
    assert [type(one) for one in outcomes] == [
        *(Committed, MalformedJsonError, Committed, ProblemError, Committed),
        *(InvalidRequestError, Committed),
    ]
    first, keyed, again, other = (outcomes[place] for place in (0, 2, 4, 6))
    assert again.created.id == keyed.created.id
    assert (keyed.created.replayed, again.created.replayed) == (False, True)
    assert len({one.created.id for one in (first, keyed, other)}) == 3
    # The first two share a denoiser; the third has another.
    assert first.resource.job.waiting_for == keyed.resource.job.waiting_for
    assert other.resource.job.waiting_for != first.resource.job.waiting_for
    assert (count(api, Explanation), count(api, Denoiser)) == (3, 2)
    for one in (first, keyed, other):
        stored = api.client.get(f"/v1/explanations/{one.created.id}").json()
        assert stored == one.resource.model_dump(mode="json")
        events = one.resource.links.events
        assert api.client.get(events.removesuffix("/events")).json()["state"] == "queued"
    assert count(api, JobEvent) == count(api, Job) + 2  # the probe was also claimed and ended


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_one_key_with_two_bodies_leaves_the_whole_batch_unwritten(
    api: Any, post: Any, order: tuple[int, ...]
) -> None:
    asked = [post(seed=1, key="k"), post(seed=2, key="k"), post(seed=3)]
    before = api.written()
    with pytest.raises(IdempotencyMismatch):
        submit_all(api.store, [asked[place] for place in order])
    after = api.written()
    assert {**after, "artifacts": before["artifacts"]} == before


def test_a_dataset_deleted_since_the_check_is_not_found(api: Any, post: Any) -> None:
    checked = check(api.store, post(seed=1))
    assert isinstance(checked, CheckedExplanation)
    doomed = api.dataset()
    late = check(api.store, post(seed=2, dataset=doomed))
    with api.store.database.transaction() as session:
        datasets.delete(session, doomed, tenant=DEFAULT_TENANT)
    before = api.written()
    with pytest.raises(ProblemError) as refused:
        commit_all(api.store, [checked, late])
    assert (refused.value.status, refused.value.faults[0].at) == (404, "/dataset")
    assert api.written() == before
    (alone,) = commit_all(api.store, [checked])
    assert isinstance(alone, Committed)


def test_large_bodies_are_checked_outside_the_batch(api: Any) -> None:
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


def test_a_response_that_cannot_be_built_leaves_nothing_written(
    api: Any, post: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error after the commit would write the batch again, item by item."""
    checked = [check(api.store, post(seed=seed)) for seed in (1, 2)]
    before = api.written()

    def fails(explanation: Explanation, job: Job, queue: TrainingQueue) -> ExplanationResource:
        raise LookupError(explanation.id, job.id)

    monkeypatch.setattr(explanation_submissions, "new_explanation", fails)
    with pytest.raises(LookupError):
        commit_all(api.store, checked)
    assert api.written() == before


def test_an_outage_is_shared_by_the_whole_batch(
    api: Any, post: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [post(seed=seed) for seed in range(5)]
    opened: list[int] = []

    @contextmanager
    def away() -> Iterator[Session]:
        opened.append(1)
        time.sleep(0.2)  # meanwhile the others arrive
        raise OperationalError("BEGIN", {}, Exception("database is locked"))
        yield

    monkeypatch.setattr(api.store.database, "reading", away)
    submissions = Submissions(api.store)

    async def submit_together() -> list[object]:
        return await asyncio.gather(*map(submissions.check, asked), return_exceptions=True)

    outcomes = asyncio.run(submit_together())
    submissions.close()
    assert [type(one) for one in outcomes] == [OperationalError] * 5
    assert len(opened) <= 2  # the first may have been alone


def test_the_commit_thread_parses_nothing(
    api: Any, post: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, str] = {}

    def recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            threads[name] = threading.current_thread().name
            return function(*args)

        return call

    parse, respond = explanation_checks.parse_model, explanation_submissions.new_explanation
    monkeypatch.setattr(explanation_checks, "parse_model", recorded("parse", parse))
    monkeypatch.setattr(explanation_submissions, "new_explanation", recorded("commit", respond))
    submissions = Submissions(api.store)

    async def submit() -> Committed:
        return await submissions.commit(await submissions.check(post(seed=1)))

    assert asyncio.run(submit()).resource is not None
    submissions.close()
    assert threads == {"parse": "explanation-checks", "commit": "explanation-commits"}
