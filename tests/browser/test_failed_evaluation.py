"""Evaluations whose shard fails or that are canceled: what the page says, and the retry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from d4explain.contracts.job_states import JobKind, JobState
from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from tests.browser.conftest import prepared, ring
from tests.browser.test_journeys import SLOW
from tests.processes import Stack, opened_stack

INSTANCES = 60  # two shards


@pytest.fixture(scope="module")
def stack(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A job has one attempt: it fails if its worker dies."""
    with opened_stack(tmp_path_factory.mktemp("stack"), max_attempts=1) as stack:
        yield stack


@pytest.fixture(scope="module")
def address(stack: Stack) -> str:
    """Without a worker: tests start one when they want work to be done."""
    address = prepared(stack)
    graphs = [ring(3 + number % 4) for number in range(INSTANCES)]
    httpx.post(f"{address}/v1/datasets", json={"name": "many rings", "graphs": graphs})
    for worker in stack.workers:
        worker.kill()
    return address


def posted(address: str, seed: int) -> str:
    body = {"gnn": "edges", "dataset": "rings", "test": "many rings", "seed": seed}
    body |= {"explainers": ["search"], "metrics": []}
    answer = httpx.post(f"{address}/v1/evaluations", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def test_a_canceled_evaluation_says_so_and_can_be_retried(
    page: Page, address: str, stack: Stack
) -> None:
    page.goto(f"{address}/evaluations/{posted(address, seed=1)}")
    expect(page.get_by_text(f"0 of {INSTANCES} instances explained")).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("This evaluation was canceled.")).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text(f"0 of {INSTANCES} instances explained")).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("This evaluation was canceled.")).to_be_visible(timeout=SLOW)


def test_a_failed_shard_is_named_the_other_rows_stay_and_a_retry_completes_them(
    page: Page, address: str, stack: Stack
) -> None:
    id_ = posted(address, seed=2)
    first, *others = shards(stack, id_)
    assert others
    with stack.store.database.transaction() as session:
        assert jobs.claim(session, first, "a worker that dies", -1) is not None
    with stack.store.database.transaction() as session:
        jobs.reap(session)  # or the service was first
    page.goto(f"{address}/evaluations/{id_}")
    expect(page.get_by_text("instances explained")).to_be_visible(timeout=SLOW)
    stack.wait_for(stack.start_worker())
    expect(page.get_by_role("alert")).to_contain_text("1 shards have no rows", timeout=2 * SLOW)
    found: dict[str, Any] = httpx.get(f"{address}/v1/evaluations/{id_}").json()
    assert found["state"] == "failed"
    assert 0 < found["explained_count"] < INSTANCES
    rows = page.get_by_role("region", name="Rows").get_by_role("row")
    expect(rows).to_have_count(1 + min(20, found["explained_count"]))
    expect(page.get_by_role("link", name="CSV")).to_have_count(0)
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("heading", name="Figures", exact=True)).to_be_visible(timeout=2 * SLOW)
    expect(page.get_by_role("alert")).to_have_count(0)


def shards(stack: Stack, evaluation: str) -> list[str]:
    with stack.store.database.reading() as session:
        page = jobs.page(session, tenant=DEFAULT_TENANT, kind=JobKind.EVALUATION_SHARD)
        return [
            job.id
            for job in page.items
            if job.subject_id == evaluation and job.state is JobState.QUEUED
        ]
