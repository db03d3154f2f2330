"""The audit report opens where nothing may be loaded and nothing runs, as dashboards show files."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import ring


@pytest.fixture(scope="module")
def report(address: str) -> str:
    """The HTML of an evaluation of nine rings."""
    tests = [{**ring(3 + number % 4), "label": int(number % 4 == 3)} for number in range(9)]
    httpx.post(f"{address}/v1/datasets", json={"name": "tested", "graphs": tests})
    body = {
        "gnn": "edges",
        "dataset": "rings",
        "test": "tested",
        "explainers": ["search", "greedy"],
        "metrics": ["mmd"],
        "judges": "none",
    }
    headers = {"Prefer": "wait=120"}
    posted = httpx.post(f"{address}/v1/evaluations", json=body, headers=headers, timeout=150)
    assert posted.json()["state"] == "succeeded", posted.text
    answer = httpx.get(f"{address}/v1/evaluations/{posted.json()['id']}/report", timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.fixture
def framed(browser: Browser, report: str, tmp_path: Path) -> Page:
    """The report in a frame without scripts and without an origin; nothing else may be loaded."""
    (tmp_path / "outer.html").write_text(
        '<!doctype html><iframe sandbox style="width:900px;height:800px"></iframe>'
        f"<script>document.querySelector('iframe').srcdoc = {json.dumps(report)}</script>",
        encoding="utf-8",
    )
    return browser.new_page()


def test_a_sandboxed_frame_shows_all_plots_and_requests_nothing(
    framed: Page, tmp_path: Path
) -> None:
    requested: list[str] = []
    faults: list[str] = []
    framed.on("request", lambda request: requested.append(request.url))
    framed.on("console", lambda message: faults.append(message.text))
    outer = (tmp_path / "outer.html").as_uri()
    framed.goto(outer)
    inside = framed.frame_locator("iframe")
    expect(inside.get_by_role("heading", name="10. How long it is kept")).to_be_visible()
    for plot in ("CF-ACC curve", "Fidelity curve", "Number of edits by search"):
        expect(inside.get_by_role("img", name=plot, exact=True)).to_be_visible()
    shown = inside.locator("svg")
    for place in range(shown.count()):
        box = shown.nth(place).bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert box["height"] > 40
    assert set(requested) <= {outer, "about:srcdoc"}
    assert faults == []
    frame = framed.frames[1]
    widths = frame.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]  # nothing is cut off at the right
    framed.close()
