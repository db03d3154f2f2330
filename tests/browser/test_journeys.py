"""What a person does in the dashboard, in a real browser on a real stack."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import ring

SLOW = 60_000  # milliseconds; a worker on a busy machine


def ask_by_search(page: Page, address: str, graph: object) -> None:
    """Asks about a pasted graph, answered by search alone."""
    page.goto(f"{address}/ask")
    page.get_by_label("Graph", exact=True).fill(json.dumps(graph))
    page.get_by_role("button", name="Read the graph").click()
    page.get_by_label("search only").check()
    expect(page.get_by_text("of work")).to_be_visible()  # the estimate
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url("**/explanations/exp_*")
    expect(page.get_by_role("heading", name="Edits")).to_be_visible(timeout=SLOW)


def test_ask_view_undo_freeze_ask_again_and_download(page: Page, address: str, tmp_path: Path):
    ask_by_search(page, address, ring(5))
    expect(page.get_by_text("becomes class 1")).to_be_visible()
    expect(page.locator("line.edge.added")).to_have_count(1)

    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("the class of the original graph")).to_be_visible(timeout=SLOW)
    expect(page.locator("line.edge.added")).to_have_count(0)
    page.get_by_role("button", name="Back to the answer").click()
    expect(page.locator("line.edge.added")).to_have_count(1)

    page.get_by_role("combobox", name="From", exact=True).select_option("0")
    page.get_by_role("combobox", name="To", exact=True).select_option("1")
    page.get_by_role("button", name="Toggle edge").click()
    expect(page.get_by_text("With your changes the GNN says")).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="Back to the answer").click()

    with page.expect_download() as started:
        page.get_by_role("button", name="CSV of edits").click()
    table = tmp_path / "edits.csv"
    started.value.save_as(table)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["action"] for row in rows] == ["add"]
    with page.expect_download() as started:
        page.get_by_role("button", name="PNG").click()
    picture = tmp_path / "graph.png"
    started.value.save_as(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as started:
        page.get_by_role("link", name="GraphML").click()
    graphml = tmp_path / "graph.graphml"
    started.value.save_as(graphml)
    assert "<graphml" in graphml.read_text()

    before = page.url
    frozen = rows[0]["source"]
    section = page.locator("section", has_text="Freeze and ask again")
    section.get_by_role("combobox", name="Node", exact=True).select_option(label=frozen)
    section.get_by_role("button", name="Freeze node").click()
    expect(section.get_by_text(f"Frozen: node {frozen}.")).to_be_visible()
    section.get_by_role("button", name="Ask again").click()
    page.wait_for_url(lambda url: url != before and "/explanations/exp_" in url)
    expect(page.get_by_text("becomes class 1").first).to_be_visible(timeout=SLOW)
    added = page.get_by_role("region", name="Edits").get_by_role("row").nth(1)
    assert frozen not in [part.strip() for part in added.inner_text().split("\t")[1].split("–")]  # noqa: RUF001


def test_a_registered_gnn_is_probed_and_then_asked(
    page: Page, address: str, gnn_files: tuple[Path, Path]
):
    spec, weights = gnn_files
    page.goto(f"{address}/gnns")
    page.get_by_label("Name").fill("mine")
    page.get_by_label("Spec").set_input_files(spec)
    page.get_by_label("Weights").set_input_files(weights)
    page.get_by_role("button", name="Register").click()
    page.wait_for_url("**/gnns/gnn_*")
    expect(page.get_by_text("All checks passed.")).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("heading", name="Layers")).to_be_visible()
    page.get_by_role("link", name="Ask about a graph").click()
    page.get_by_role("button", name="1. 3 nodes, 3 edges").click()
    expect(page.get_by_role("heading", name="Your graph")).to_be_visible()
    expect(page.locator("circle.node")).to_have_count(3)


def test_weights_that_do_not_fit_are_refused_with_the_reason(
    page: Page, address: str, gnn_files: tuple[Path, Path]
):
    spec, weights = gnn_files
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "classes": 3}))
    page.goto(f"{address}/gnns")
    page.get_by_label("Name").fill("wrong")
    page.get_by_label("Spec").set_input_files(spec)
    page.get_by_label("Weights").set_input_files(weights)
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("alert")).to_contain_text("classes")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{nonsense", "no valid JSON"),
        ('{"nodes": [], "edges": []}', "nodes"),
        ('{"directed": true, "nodes": [{"id": 0}], "edges": []}', "directed"),
        (json.dumps({"nodes": [{"id": 0, "x": [1, 2]}], "edges": []}), "features"),
    ],
)
def test_a_bad_graph_is_refused_with_the_reason(page: Page, address: str, text: str, said: str):
    page.goto(f"{address}/ask")
    page.get_by_label("Graph", exact=True).fill(text)
    page.get_by_role("button", name="Read the graph").click()
    expect(page.get_by_role("alert")).to_contain_text(said)


def test_a_canceled_explanation_says_so(page: Page, address: str):
    body = {"kind": "counterfactual", "gnn": "edges", "dataset": "rings", "graph": ring(5)}
    explanation = httpx.post(f"{address}/v1/explanations", json=body).json()
    page.goto(f"{address}/explanations/{explanation['id']}")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("canceled").first).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("button", name="Retry")).to_be_visible(timeout=SLOW)


def test_patterns_of_a_class_are_shown_with_their_evidence(page: Page, address: str):
    body = {
        "kind": "class",
        "gnn": "edges",
        "dataset": "rings",
        "target_class": 0,
        "preset": "fast",
        "denoiser": {"steps": 10, "hidden": 8, "blocks": 1},
    }
    explanation = httpx.post(f"{address}/v1/explanations", json=body).json()
    page.goto(f"{address}/explanations/{explanation['id']}")
    expect(page.get_by_text("succeeded").first).to_be_visible(timeout=2 * SLOW)
    result = httpx.get(f"{address}/v1/explanations/{explanation['id']}").json()["result"]
    if result["examples"]:
        share = result["examples"][0]["support"]["in_class"]
        row = page.get_by_role("row", name="in the class").first
        expect(row).to_contain_text(f"{100 * share:.0f} %")
    else:
        expect(page.get_by_text(result["reason"])).to_be_visible()


def test_unknown_addresses_say_so(page: Page, address: str):
    page.goto(f"{address}/explanations/exp_{'0' * 20}")
    expect(page.get_by_role("alert")).to_contain_text("exp_")
    assert page.goto(f"{address}/nowhere").status == 404
