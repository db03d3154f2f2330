"""Every page without serious findings of axe, in both colour schemes, and by keyboard alone."""

from __future__ import annotations

from typing import Literal

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import ring
from tests.browser.test_journeys import SLOW

SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def explanation(address: str) -> str:
    body = {
        "kind": "counterfactual",
        "gnn": "edges",
        "dataset": "rings",
        "graph": ring(5),
        "explainer": "search",
        "aim": "minimal",
        "judges": "none",
    }
    answer = httpx.post(
        f"{address}/v1/explanations", json=body, headers={"Prefer": "wait=60"}, timeout=90
    )
    assert answer.json()["state"] == "succeeded", answer.text
    return str(answer.json()["id"])


def paths(address: str, explanation: str) -> dict[str, str]:
    document = httpx.get(f"{address}/v1/explanations/{explanation}").json()
    return {
        "overview": "/",
        "gnns": "/gnns",
        "gnn": f"/gnns/{document['gnn']}",
        "explanations": "/explanations",
        "viewer": f"/explanations/{explanation}",
        "job": f"/jobs/{document['job']['id']}",
        "ask": "/ask",
    }


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_no_page_has_serious_findings(
    browser: Browser, address: str, explanation: str, colours: Literal["light", "dark"]
):
    findings = {}
    for name, path in paths(address, explanation).items():
        context = browser.new_context(color_scheme=colours, bypass_csp=True)  # axe injects itself
        page = context.new_page()
        page.goto(address + path)
        page.wait_for_load_state("networkidle")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        violations = Axe().run(page).response["violations"]
        serious = [found for found in violations if found["impact"] in SERIOUS]
        findings[name] = [
            (found["id"], [node["target"] for node in found["nodes"]][:3]) for found in serious
        ]
        context.close()
    assert not any(findings.values()), findings


def test_a_question_is_asked_and_an_edit_undone_by_keyboard_alone(page: Page, address: str):
    page.goto(f"{address}/ask")
    press_until(page, "1. 3 nodes, 3 edges")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Your graph")).to_be_visible()
    press_until(page, "search only")
    page.keyboard.press("Space")
    expect(page.get_by_label("search only")).to_be_checked()
    press_until(page, "Ask")
    page.keyboard.press("Enter")
    page.wait_for_url("**/explanations/exp_*")
    expect(page.get_by_role("heading", name="Edits")).to_be_visible(timeout=SLOW)


def press_until(page: Page, name: str) -> None:
    """Presses Tab until the focused element has this text or label."""
    script = """() => {
      const focused = document.activeElement;
      const label = focused.labels && focused.labels[0];
      return ((label || focused).textContent || "").trim();
    }"""
    for _ in range(80):
        page.keyboard.press("Tab")
        text = str(page.evaluate(script))
        if text == name or (len(name) > 3 and text.startswith(name)):
            return
    raise AssertionError(f"Tab never reaches {name!r}")
