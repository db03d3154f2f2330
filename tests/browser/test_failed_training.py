"""A training that fails: what the pages say about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import prepared, ring
from tests.browser.test_journeys import SLOW
from tests.processes import Stack, opened_stack

QUESTION = {
    "kind": "counterfactual",
    "gnn": "edges",
    "dataset": "rings",
    "graph": ring(5),
    "aim": "minimal",
    "judges": "none",
    "denoiser": {"steps": 5000, "hidden": 64, "blocks": 4},
}


@pytest.fixture(scope="module")
def stack(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A job has one attempt: it fails if its worker dies."""
    with opened_stack(tmp_path_factory.mktemp("stack"), max_attempts=1) as stack:
        yield stack


def test_a_failed_training_is_named_and_the_provisional_answer_stays(page: Page, stack: Stack):
    address = prepared(stack)

    def job() -> dict[str, Any]:
        [training] = httpx.get(f"{address}/v1/jobs?kind=train").json()["items"]
        found: dict[str, Any] = training
        return found

    posted = httpx.post(f"{address}/v1/explanations", json=QUESTION)
    assert posted.status_code == 202, posted.text
    stack.until(lambda: job()["state"] == "running", "the training runs", 60)
    stack.workers[0].kill()
    stack.wait_for(stack.start_worker())
    page.goto(f"{address}/explanations/{posted.json()['id']}")
    stack.until(lambda: job()["state"] == "failed", "the training has failed", 60)
    expect(page.get_by_role("heading", name="Edits")).to_be_visible(timeout=SLOW)

    def reason() -> str | None:
        path = f"{address}/v1/explanations/{posted.json()['id']}"
        found: str | None = httpx.get(path).json()["reason"]
        return found

    stack.until(lambda: reason() is not None, "the explanation has ended", 60)
    expect(page.get_by_text(reason()).first).to_be_visible(timeout=SLOW)
    expect(page.locator("line.edge.added")).to_have_count(1)
    page.goto(f"{address}/jobs/{job()['id']}")
    expect(page.get_by_text("failed").first).to_be_visible(timeout=SLOW)
    expect(page.get_by_text(job()["error"]["message"]).first).to_be_visible()
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
