"""Every explanation that the API accepted is stored exactly once, even if the API is killed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import httpx
from sqlalchemy import func, select

from d4explain.contracts.job_states import JobKind
from store.database.tables import Explanation, Job, JobEvent

if TYPE_CHECKING:
    from tests.processes import Stack

CLIENTS = 8
ACCEPTED_BEFORE_KILL = 25


class Submitters:
    """Clients that send requests with idempotency keys until the API stops answering."""

    def __init__(self, url: str, body: dict[str, Any]) -> None:
        self.sent: dict[str, dict[str, Any]] = {}  # by key
        self.accepted: dict[str, str] = {}  # key to explanation
        self._url = url
        self._body = body
        self._threads = [threading.Thread(target=self._run, args=[n]) for n in range(CLIENTS)]

    def __enter__(self) -> Submitters:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join(30)

    def _run(self, number: int) -> None:
        with httpx.Client(base_url=self._url, timeout=20) as client:
            for position in range(10_000):
                key = f"{number}-{position}"
                self.sent[key] = {**self._body, "seed": len(self.sent)}
                try:
                    answer = client.post(
                        "/v1/explanations", json=self.sent[key], headers={"Idempotency-Key": key}
                    )
                except httpx.TransportError:
                    return
                assert answer.status_code == 202, answer.text
                self.accepted[key] = answer.json()["id"]


def test_accepted_explanations_survive_kill_9_and_are_stored_once(
    stack: Stack, deployment_of: Any
) -> None:
    service = stack.start_service()
    with httpx.Client(base_url=service.url) as client:
        deployed = deployment_of(stack.store, client)
        body = {
            "kind": "counterfactual",
            "gnn": deployed.gnn(),
            "dataset": deployed.dataset(),
            "graph": deployed.graph(),
        }
    with Submitters(service.url, body) as submitters:
        stack.until(
            lambda: len(submitters.accepted) >= ACCEPTED_BEFORE_KILL, "enough requests are accepted"
        )
        service.kill()
    sent, accepted = submitters.sent, submitters.accepted
    assert len(sent) > len(accepted)  # the kill interrupted some requests
    assert_complete(stack, accepted)

    service = stack.start_service()
    with httpx.Client(base_url=service.url, timeout=20) as client:
        for key, body in sent.items():
            answer = client.post("/v1/explanations", json=body, headers={"Idempotency-Key": key})
            assert answer.status_code == 202, answer.text
            assert answer.json()["id"] == accepted.setdefault(key, answer.json()["id"])
    assert len(set(accepted.values())) == len(sent)
    assert_complete(stack, accepted)
    with stack.store.database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Explanation)) == len(sent)


def assert_complete(stack: Stack, accepted: dict[str, str]) -> None:
    """Checks that accepted explanations are stored, each with a job, events and a request."""
    with stack.store.database.reading() as session:
        explanations = session.scalars(select(Explanation)).all()
        jobs = set(session.scalars(select(Job.id).where(Job.kind == JobKind.COUNTERFACTUAL)))
        jobs_with_events = set(session.scalars(select(JobEvent.job_id)))
    assert set(accepted.values()) <= {explanation.id for explanation in explanations}
    assert {explanation.job_id for explanation in explanations} == jobs
    assert len(explanations) == len(jobs)
    assert jobs <= jobs_with_events
    for explanation in explanations:
        assert stack.store.artifacts.of("default").exists(explanation.request_digest)
