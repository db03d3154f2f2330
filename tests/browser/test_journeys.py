"""What a person does in the dashboard, in a real browser on a real stack."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import answered, ask_page, ring

SLOW = 60_000  # milliseconds; a worker on a busy machine


def ask_by_search(page: Page, address: str, graph: object) -> None:
    """Asks about a pasted graph, answered by search alone."""
    page.goto(ask_page(address))
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

    expect(page.get_by_text("Nobody has checked whether other networks")).to_be_visible()
    nearest = page.locator("section", has_text="Nearest real graph that the GNN calls class 1")
    expect(nearest.get_by_text("they share")).to_be_visible(timeout=SLOW)
    expect(nearest.locator("circle.node")).to_have_count(6)  # of the rings, those of 6 have class 1

    page.get_by_text("The drawing as a table").click()
    table = page.get_by_role("region", name="Edges of the drawing")
    expect(table.get_by_role("row")).to_have_count(1 + 6)  # the heading, five edges, an added one
    expect(table.get_by_role("row", name="added")).to_have_count(1)

    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("the class of the original graph")).to_be_visible(timeout=SLOW)
    expect(page.locator("line.edge.added")).to_have_count(0)
    expect(table.get_by_role("row", name="added")).to_have_count(0)
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
    with page.expect_download() as started:
        page.get_by_role("link", name="SVG").click()
    started.value.save_as(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text().startswith("<svg")
    with page.expect_download() as started:
        page.get_by_role("link", name="JSON").click()
    started.value.save_as(tmp_path / "answer.json")
    document = json.loads((tmp_path / "answer.json").read_text())
    page.get_by_text("Receipt", exact=True).click()
    assert json.loads(page.locator("pre").inner_text()) == document["receipt"]

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


def test_a_registered_gnn_is_probed_and_gives_its_first_explanation(
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
    page.get_by_role("button", name="3. 5 nodes, 5 edges").click()
    expect(page.get_by_role("heading", name="Your graph")).to_be_visible()
    expect(page.locator("circle.node")).to_have_count(5)
    page.get_by_label("search only").check()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url("**/explanations/exp_*")
    expect(page.get_by_text("becomes class 1")).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("link", name=re.compile("mine@"))).to_be_visible()


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
    page.goto(ask_page(address))
    page.get_by_label("Graph", exact=True).fill(text)
    page.get_by_role("button", name="Read the graph").click()
    expect(page.get_by_role("alert")).to_contain_text(said)


def test_patterns_of_a_class_are_shown_with_their_evidence(
    page: Page, address: str, class_explanation: str
):
    result = httpx.get(f"{address}/v1/explanations/{class_explanation}").json()["result"]
    page.goto(f"{address}/explanations/{class_explanation}")
    if not result["examples"]:
        expect(page.get_by_text(result["reason"])).to_be_visible()
        return
    example = result["examples"][0]
    pattern = page.locator("section", has=page.get_by_role("heading", name="Pattern 1"))
    for name, share in (("in the class", "in_class"), ("elsewhere", "elsewhere")):
        expect(pattern.get_by_role("row", name=name)).to_contain_text(
            f"{100 * example['support'][share]:.0f} %"
        )
    shown = [place for place in example["occurrences"] if place["shown"] is not None][:2]
    marked = pattern.locator("figure")
    expect(marked).to_have_count(len(shown))
    if shown:
        expect(marked.first.locator("circle.node:not(.faint)")).to_have_count(
            len(shown[0]["nodes"])
        )
    steps = result["receipt"]["config"]["steps"]
    times = [f"t = {steps + 1 - step['step']}" for step in example["chain"]]
    expect(pattern.locator(".film li > span")).to_have_text(times if len(times) > 1 else [])


def test_a_question_about_a_class_is_asked_by_name_and_canceled(page: Page, address: str) -> None:
    """Graphs of 30 nodes: the training takes far longer than opening the page."""
    graphs = [ring(30 + number % 3) for number in range(24)]
    stored = httpx.post(f"{address}/v1/datasets", json={"name": "slow rings", "graphs": graphs})
    page.goto(ask_page(address))
    page.get_by_label("Reference set").select_option(stored.raise_for_status().json()["id"])
    page.get_by_label("What does a class look like?").check()
    page.get_by_role("combobox", name="Class", exact=True).select_option(label="class 1")
    expect(page.get_by_text("There is no estimate")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url("**/explanations/exp_*")
    expect(page.get_by_role("heading", name="Class explanation")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("canceled").first).to_be_visible(timeout=SLOW)


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n1 2\n2 0",
        "a,b\nb,c\nc,a",
        '{"edge_index": [[0, 1, 2], [1, 2, 0]], "num_nodes": 3}',
        '{"elements": {"nodes": [{"data": {"id": "0", "value": 0}}, {"data": {"id": "1"}}, '
        '{"data": {"id": "2"}}], "edges": [{"data": {"source": "0", "target": "1"}}, '
        '{"data": {"source": "1", "target": "2"}}, {"data": {"source": "2", "target": "0"}}, '
        '{"data": {"source": "2", "target": "1", "edit": "removed"}}]}}',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="d0" for="node" '
        'attr.name="x0"/><graph edgedefault="undirected"><node id="0"><data key="d0">1.0</data>'
        '</node><node id="1"/><node id="2"/><edge source="0" target="1"/><edge source="1" '
        'target="2"/><edge source="0" target="2"/></graph></graphml>',
    ],
    ids=["edges", "names", "pyg", "cytoscape", "graphml"],
)
def test_graphs_of_every_format_are_read(page: Page, address: str, text: str) -> None:
    if "graphml" in text:
        text = text.replace('<node id="1"/><node id="2"/>', _NODES)
    page.goto(ask_page(address))
    page.get_by_label("Graph", exact=True).fill(text)
    page.get_by_role("button", name="Read the graph").click()
    expect(page.get_by_role("heading", name="Your graph")).to_be_visible()
    expect(page.locator("circle.node")).to_have_count(3)
    expect(page.locator("line.edge")).to_have_count(3)


_NODES = '<node id="1"><data key="d0">1</data></node><node id="2"><data key="d0">1</data></node>'


def test_a_dropped_file_is_read(page: Page, address: str) -> None:
    page.goto(ask_page(address))
    transfer = page.evaluate_handle(
        """text => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([text], "graph.json"));
          return transfer;
        }""",
        json.dumps(ring(4)),
    )
    page.dispatch_event("#graph-text", "drop", {"dataTransfer": transfer})
    expect(page.get_by_role("heading", name="Your graph")).to_be_visible()
    expect(page.locator("circle.node")).to_have_count(4)


def test_a_graph_of_500_nodes_is_drawn_and_stays_fluent(page: Page, address: str) -> None:
    edges = [(node, node + 1) for node in range(499)] + [(node, node + 7) for node in range(490)]
    graph = {
        "nodes": [{"id": node, "x": [1.0]} for node in range(500)],
        "edges": [{"source": source, "target": target} for source, target in edges],
    }
    page.goto(ask_page(address))
    page.get_by_label("Graph", exact=True).fill(json.dumps(graph))
    page.get_by_role("button", name="Read the graph").click()
    expect(page.locator("circle.node")).to_have_count(500, timeout=SLOW)
    before = page.locator("svg > g").first.get_attribute("transform")
    page.get_by_role("button", name="Zoom in").click()
    changed = page.evaluate(
        """() => new Promise(resolve => {
          let changes = 0;
          const watch = new MutationObserver(list => (changes += list.length));
          watch.observe(document.querySelector(".drawing > svg"),
            {subtree: true, attributes: true, childList: true});
          document.querySelector('[aria-label="Zoom out"]').click();
          setTimeout(() => { watch.disconnect(); resolve(changes); }, 100);
        })"""
    )
    assert changed == 1  # one attribute, not 1,500 elements
    assert page.locator("svg > g").first.get_attribute("transform") == before


def test_unknown_addresses_say_so(page: Page, address: str):
    page.goto(f"{address}/explanations/exp_{'0' * 20}")
    expect(page.get_by_role("alert")).to_contain_text("exp_")
    assert page.goto(f"{address}/nowhere").status == 404


def test_the_overview_names_gnn_set_and_verdict_of_recent_explanations(
    page: Page, address: str
) -> None:
    explanation = answered(address, ring(5))  # a recent one
    listed = httpx.get(f"{address}/v1/explanations/{explanation}").json()
    page.goto(address)
    expect(page).to_have_title("Overview · d4explain")
    for queue in ("train", "sample", "light"):
        expect(page.get_by_text(f"Queue {queue}")).to_be_visible()
    row = page.get_by_role("row", name=f"…{explanation[-6:]}")
    expect(row).to_contain_text("edges@1")
    expect(row).to_contain_text("rings@1")
    expect(row).to_contain_text("unjudged")
    expect(row).to_contain_text("100 %")  # its flip rate
    trend = page.locator("section", has_text="Validity and transfer, last")
    newest = httpx.get(f"{address}/v1/explanations?limit=50").json()["items"]
    with_rate = [
        one
        for one in newest
        if one["result_stage"] == "final" and one["summary"].get("flip_rate") is not None
    ]
    expect(trend.locator("circle.mark")).to_have_count(len(with_rate))
    expect(trend.get_by_role("heading")).to_contain_text(f"last {len(with_rate)} final answer")
    row.get_by_role("link").first.click()
    expect(page).to_have_title(f"Explanations · {explanation} · d4explain")
    assert listed["id"] in page.url
    assert page.evaluate("document.activeElement.id") == "content"
