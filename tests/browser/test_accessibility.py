"""Every page without serious findings of axe, in both colour schemes and on a narrow screen; and

every journey by keyboard alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import answered, ask_page, ring
from tests.browser.test_journeys import SLOW

SERIOUS = {"serious", "critical"}


@pytest.fixture
def paths(
    address: str, explanation: str, class_explanation: str, evaluation: str, comparison: str
) -> dict[str, str]:
    document = httpx.get(f"{address}/v1/explanations/{explanation}").json()
    return {
        "overview": "/",
        "gnns": "/gnns",
        "gnn": f"/gnns/{document['gnn']}",
        "explanations": "/explanations",
        "viewer": f"/explanations/{explanation}",
        "class gallery": f"/explanations/{class_explanation}",
        "nothing": f"/explanations/exp_{'0' * 20}",
        "settings": "/settings",
        "job": f"/jobs/{document['job']['id']}",
        "ask": ask_page(address).removeprefix(address),
        "evaluations": "/evaluations",
        "evaluation": f"/evaluations/{evaluation}",
        "evaluate": "/evaluate",
        "comparison": f"/comparisons/{comparison}",
        "compare": f"/compare?baseline={evaluation}",
        "report": f"/v1/explanations/{explanation}/report",
        "report of a class": f"/v1/explanations/{class_explanation}/report",
        "letter": f"/v1/explanations/{explanation}/letter",
        "embedded view": f"/embed/explanations/{explanation}",
        "embedded class": f"/embed/explanations/{class_explanation}",
        "embedded view of nothing": f"/embed/explanations/exp_{'0' * 20}",
    }


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_no_page_has_serious_findings_or_is_wider_than_the_screen(
    browser: Browser,
    address: str,
    paths: dict[str, str],
    *,
    colours: Literal["light", "dark"],
    width: int,
):
    findings = {}
    for name, path in paths.items():
        context = browser.new_context(
            color_scheme=colours,
            viewport={"width": width, "height": 800},
            bypass_csp=True,  # axe injects itself
        )
        page = context.new_page()
        page.goto(address + path)
        page.wait_for_load_state("networkidle")
        expect(page.locator("main, body > p, body > h1").first).to_be_visible()
        if name == "ask":  # with a graph
            page.get_by_role("button", name="1. 3 nodes, 3 edges").click()
            expect(page.get_by_role("heading", name="Your graph")).to_be_visible()
        for folded in page.locator("summary").all():
            folded.click()
        findings[name] = serious_findings(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        context.close()
    assert not any(findings.values()), findings


def test_asking_viewing_undoing_freezing_and_downloading_by_keyboard_alone(
    page: Page, address: str, tmp_path: Path
):
    page.goto(ask_page(address))
    press_until(page, "3. 5 nodes, 5 edges")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Your graph")).to_be_visible()
    press_until(page, "Freeze edge")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Frozen: edge 0–1.")).to_be_visible()  # noqa: RUF001
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing is frozen.")).to_be_visible()
    press_until(page, "search only")
    page.keyboard.press("Space")
    expect(page.get_by_label("search only")).to_be_checked()
    press_until(page, "Ask")
    page.keyboard.press("Enter")
    page.wait_for_url("**/explanations/exp_*")
    expect(page.get_by_role("heading", name="Edits")).to_be_visible(timeout=SLOW)

    press_until(page, "Undo")
    page.keyboard.press("Enter")
    expect(page.get_by_text("With your changes the GNN says")).to_be_visible(timeout=SLOW)
    press_until(page, "Back to the answer")
    page.keyboard.press("Enter")
    expect(page.get_by_text("With your changes")).to_have_count(0)
    press_until(page, "Toggle edge")
    page.keyboard.press("Enter")
    expect(page.get_by_text("With your changes the GNN says")).to_be_visible(timeout=SLOW)
    press_until(page, "CSV of edits")
    with page.expect_download() as started:
        page.keyboard.press("Enter")
    started.value.save_as(tmp_path / "edits.csv")
    assert (tmp_path / "edits.csv").read_text().startswith('"action"')

    before = page.url
    press_until(page, "Freeze node")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Frozen: node 0.")).to_be_visible()
    press_until(page, "Ask again")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url != before and "/explanations/exp_" in url)
    expect(page.get_by_role("heading", name="Edits")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("Frozen: node 0.")).to_be_visible()


def test_alternatives_are_chosen_with_the_arrow_keys(page: Page, address: str):
    kite = {"nodes": ring(5)["nodes"], "edges": [*ring(4)["edges"], {"source": 0, "target": 4}]}
    page.goto(f"{address}/explanations/{answered(address, kite)}")
    choices = page.get_by_role("radio")
    expect(choices.nth(1)).to_be_visible()
    press_until(page, "1: 1 edit")
    page.keyboard.press("ArrowRight")
    expect(choices.nth(1)).to_be_checked()
    assert "alternative=1" in page.url


def test_a_bad_graph_and_a_class_gallery_by_keyboard_alone(
    page: Page, address: str, class_explanation: str
):
    page.goto(ask_page(address))
    press_until(page, "Graph")
    page.keyboard.type("{nonsense")
    press_until(page, "Read the graph")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("no valid JSON")
    page.goto(f"{address}/explanations")
    expect(page.get_by_role("link", name=class_explanation[-6:])).to_be_visible()
    press_until(page, f"Class …{class_explanation[-6:]}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Class explanation")).to_be_visible(timeout=SLOW)
    strips = page.locator(".film").count()
    for _ in range(strips):
        press_until(page, "t = ")


def test_registering_asking_and_asking_about_a_class_by_keyboard_alone(
    page: Page, address: str, gnn_files: tuple[Path, Path]
):
    page.goto(f"{address}/")
    press_until(page, "Skip to content")
    press_until(page, "GNNs")
    page.keyboard.press("Enter")
    page.wait_for_url("**/gnns")
    press_until(page, "Name")
    page.keyboard.type("typed")
    files = iter(gnn_files)
    page.on("filechooser", lambda chooser: chooser.set_files(next(files)))
    for label in ("Spec", "Weights"):
        press_until(page, label)
        page.keyboard.press("Space")
        expect(page.get_by_label(label)).to_have_value(re.compile("fakepath"))
    press_until(page, "Register")
    page.keyboard.press("Enter")
    page.wait_for_url("**/gnns/gnn_*")
    expect(page.get_by_text("All checks passed.")).to_be_visible(timeout=SLOW)
    press_until(page, "Ask about a graph")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ask?gnn=*")
    expect(page.get_by_role("button", name="3. 5 nodes, 5 edges")).to_be_visible(timeout=SLOW)
    press_until(page, "3. 5 nodes, 5 edges")
    page.keyboard.press("Enter")
    expect(page.get_by_label("search only")).to_be_visible(timeout=SLOW)
    press_until(page, "search only")
    page.keyboard.press("Space")
    press_until(page, "Ask")
    page.keyboard.press("Enter")
    expect(page.get_by_text("becomes class 1")).to_be_visible(timeout=SLOW)
    page.go_back()
    expect(page.get_by_label("What does a class look like?")).to_be_visible(timeout=SLOW)
    press_until(page, "What would change")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name="Patterns of a class")).to_be_visible()
    press_until(page, "Ask")
    page.keyboard.press("Enter")
    page.wait_for_url("**/explanations/exp_*")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible(timeout=SLOW)
    press_until(page, "Cancel")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Retry")).to_be_visible(timeout=SLOW)


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_added_and_removed_edges_differ_without_colour(
    browser: Browser, address: str, colours: Literal["light", "dark"]
):
    """By dashes, and both by width from kept ones."""
    page = browser.new_context(color_scheme=colours).new_page()
    page.goto(f"{address}/explanations/{answered(address, ring(5))}")
    page.locator(".stage line.edge.added").wait_for(state="attached", timeout=SLOW)
    page.locator(".stage .clickable line.hit").first.dispatch_event("click")  # removes an edge
    page.locator(".stage line.edge.removed").wait_for(state="attached")
    styles = {
        kind: page.locator(f".stage line.edge.{kind}").first.evaluate(
            "line => [getComputedStyle(line).strokeDasharray, getComputedStyle(line).strokeWidth]"
        )
        for kind in ("added", "removed", "kept")
    }
    page.context.close()
    assert styles["added"][0] == styles["kept"][0] == "none"
    assert styles["removed"][0] != "none"
    assert len({width for _, width in styles.values()}) == 3


def serious_findings(page: Page) -> list[tuple[str, list[str]]]:
    """Rules of axe that the page breaks, and where."""
    violations = Axe().run(page).response["violations"]
    serious = [found for found in violations if found["impact"] in SERIOUS]
    return [(found["id"], [node["target"] for node in found["nodes"]][:3]) for found in serious]


def press_until(page: Page, name: str) -> None:
    """Presses Tab until the focused element has this text or label."""
    script = """() => {
      const focused = document.activeElement;
      const label = focused.labels && focused.labels[0];
      return ((label || focused).textContent || "").trim();
    }"""
    for _ in range(120):
        page.keyboard.press("Tab")
        text = str(page.evaluate(script))
        if text == name or (len(name) > 3 and text.startswith(name)):
            return
    raise AssertionError(f"Tab never reaches {name!r}")
