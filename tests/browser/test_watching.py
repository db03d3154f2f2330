"""Jobs that a person watches until they end, fail or are canceled."""

from __future__ import annotations

from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from d4explain.contracts.scopes import DEFAULT_TENANT
from store.catalogue import datasets
from tests.browser.conftest import ask_page, prepared, ring
from tests.browser.test_journeys import SLOW
from tests.processes import Stack, opened_stack


def test_a_provisional_answer_is_watched_until_the_final_one(page: Page, tmp_path: Path) -> None:
    """No worker trains until the page has shown the provisional answer."""
    with opened_stack(tmp_path) as stack:
        address = prepared(stack, queues="sample,light")
        body = {"kind": "counterfactual", "gnn": "edges", "dataset": "rings", "graph": ring(5)}
        body |= {"aim": "minimal", "judges": "none"}
        body |= {"denoiser": {"steps": 10, "hidden": 8, "blocks": 1}}
        posted = httpx.post(f"{address}/v1/explanations", json=body).json()
        page.goto(f"{address}/explanations/{posted['id']}")
        watch_both_answers(page, stack)


def watch_both_answers(page: Page, stack: Stack) -> None:
    expect(page.get_by_text("Provisional answer, found by search.")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("becomes class 1")).to_be_visible()
    expect(page.get_by_text("The final answer is on its way")).to_be_visible()
    stack.start_worker("train")
    expect(page.get_by_text("Provisional answer")).to_have_count(0, timeout=2 * SLOW)
    expect(page.get_by_text("The final answer is on its way")).to_have_count(0)
    expect(page.get_by_text("becomes class 1")).to_be_visible()
    page.get_by_role("link", name="job", exact=True).click()
    expect(page.get_by_role("row", name="provisional answer")).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("row", name="waiting for a training")).to_have_count(1)
    expect(page.get_by_text("Invalid Date")).to_have_count(0)


def test_a_question_is_asked_and_watched_while_networks_are_trained(
    page: Page, address: str
) -> None:
    graphs = [ring(3 + number % 5) for number in range(120)]  # enough for witnesses
    stored = httpx.post(f"{address}/v1/datasets", json={"name": "untrained", "graphs": graphs})
    dataset = stored.raise_for_status().json()["id"]
    page.goto(ask_page(address))
    page.get_by_label("Reference set").select_option(dataset)
    page.get_by_role("button", name="3. 5 nodes, 5 edges").click()
    expect(page.get_by_text("networks are trained first")).to_be_visible()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url("**/explanations/exp_*")
    expect(page.get_by_role("link", name="Witnesses")).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("progressbar").first).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("left.")).to_be_visible()
    page.get_by_role("link", name="job", exact=True).click()
    expect(page.get_by_role("progressbar").first).to_be_visible(timeout=SLOW)
    phases = page.get_by_role("region", name="Phases")
    expect(phases.get_by_role("row", name="waiting for a training")).to_contain_text("…")
    expect(phases).not_to_contain_text("training witnesses")  # that phase is another job's
    expect(page.get_by_text("Invalid Date")).to_have_count(0)
    page.get_by_role("link", name="To its explanation").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("canceled").first).to_be_visible(timeout=SLOW)
    for job in httpx.get(f"{address}/v1/jobs?limit=20").json()["items"]:
        if job["links"]["cancel"] is not None:  # later tests need the worker
            httpx.post(f"{address}/v1/jobs/{job['id']}/cancel").raise_for_status()


def test_the_curves_of_a_training_grow_while_it_runs(page: Page, address: str) -> None:
    """Graphs of 30 nodes: a training takes far longer than opening the page."""
    graphs = [ring(30 + number % 3) for number in range(24)]
    stored = httpx.post(f"{address}/v1/datasets", json={"name": "long rings", "graphs": graphs})
    dataset = stored.raise_for_status().json()["id"]
    config = {"steps": 300, "hidden": 64, "blocks": 4, "seed": 9}
    body = {"gnn": "edges", "dataset": dataset, "objective": "counterfactual", "config": config}
    training = httpx.post(f"{address}/v1/denoisers", json=body).raise_for_status().json()
    page.goto(f"{address}/jobs/{training['job']['id']}")
    loss = page.locator("figure.plot", has_text="loss").locator("polyline")
    expect(loss).to_be_visible(timeout=SLOW)
    drawn = len((loss.get_attribute("points") or "").split())
    page.wait_for_function(
        "drawn => document.querySelector('polyline').getAttribute('points').split(' ').length"
        " > drawn",
        arg=drawn,
        timeout=SLOW,
    )
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("canceled").first).to_be_visible(timeout=SLOW)


def test_a_canceled_explanation_says_so(page: Page, address: str):
    body = {"kind": "counterfactual", "gnn": "edges", "dataset": "rings", "graph": ring(5)}
    explanation = httpx.post(f"{address}/v1/explanations", json=body).json()
    page.goto(f"{address}/explanations/{explanation['id']}")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("canceled").first).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("button", name="Retry")).to_be_visible(timeout=SLOW)


def test_a_failed_training_says_why_and_can_be_retried(
    page: Page, deployment: tuple[str, Stack]
) -> None:
    """The file of the reference set is lost."""
    address, stack = deployment
    graphs = [ring(3 + number % 5) for number in range(12)]
    stored = httpx.post(f"{address}/v1/datasets", json={"name": "lost", "graphs": graphs}).json()
    with stack.store.database.reading() as session:
        digest = datasets.get(session, stored["id"], DEFAULT_TENANT).graphs_digest
    [file] = stack.settings.data_dir.rglob(f"*{digest}*")
    content = file.read_bytes()
    file.unlink()
    body = {"kind": "counterfactual", "gnn": "edges", "dataset": stored["id"], "graph": ring(5)}
    body |= {"aim": "minimal", "judges": "none", "denoiser": {"steps": 5}}
    posted = httpx.post(f"{address}/v1/explanations", json=body).json()
    page.goto(f"{address}/explanations/{posted['id']}")
    expect(page.get_by_role("alert").first).to_contain_text("train", timeout=2 * SLOW)
    page.get_by_role("link", name="job", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible(timeout=SLOW)
    file.write_bytes(content)
    page.get_by_role("button", name="Retry").click()
    page.wait_for_url(lambda url: posted["job"]["id"] not in url)
    expect(page.get_by_text("succeeded").first).to_be_visible(timeout=2 * SLOW)
