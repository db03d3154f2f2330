"""Evaluations and comparisons: started by a form, watched, read, downloaded and compared."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import evaluated, register, ring
from tests.browser.test_accessibility import press_until
from tests.browser.test_journeys import SLOW


def percent(share: float) -> str:
    return f"{100 * share:.{1 if 0 < share < 0.1 else 0}f} %"


def read(address: str, path: str) -> dict[str, Any]:
    document: dict[str, Any] = httpx.get(f"{address}/v1{path}").json()
    return document


def test_an_evaluation_is_started_by_keyboard_and_its_figures_and_rows_are_read(
    page: Page, address: str, tmp_path: Path
) -> None:
    page.goto(f"{address}/evaluations")
    press_until(page, "Start an evaluation")
    page.keyboard.press("Enter")
    page.wait_for_url("**/evaluate")
    page.get_by_label("Reference set: MMD").select_option(label="rings@1 (24 graphs)")
    page.get_by_label("Test set").select_option(label="rings@1 (24 graphs)")
    expect(page.get_by_text("The test set is the reference set")).to_be_visible()
    page.get_by_label("Instances, drawn by the seed").fill("10")
    press_until(page, "greedy")
    page.keyboard.press("Space")
    page.get_by_label("random").check()
    page.get_by_label("transfer").uncheck()
    expect(page.get_by_text("of work on one CPU core for 10 instances")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("training of")).to_have_count(0)
    press_until(page, "Start")
    page.keyboard.press("Enter")
    page.wait_for_url("**/evaluations/evl_*")
    expect(page.get_by_role("heading", name="Figures", exact=True)).to_be_visible(timeout=3 * SLOW)

    found = read(address, page.url.removeprefix(address))
    search, random = found["result"]["explainers"]
    validity = page.get_by_role("row", name="Share of instances with a counterfactual")
    for place, one in enumerate((search, random)):
        cell = validity.get_by_role("cell").nth(place)
        figure = one["validity"]
        low, high = percent(figure["low"]), percent(figure["high"])
        expect(cell).to_have_text(f"{percent(figure['value'])} {low} to {high}")
    expect(page.get_by_role("row", name="Jaccard similarity of the edits")).to_have_count(0)
    absent = page.get_by_text("Figures that no explainer has")
    expect(absent).to_contain_text("Stability")
    expect(absent).not_to_contain_text("Validity")
    expect(page.get_by_text("Not asked for, so not measured: transfer, typicality")).to_be_visible()
    expect(page.get_by_text("The test set has no labels")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("CF-ACC curves; areas: search"))).to_be_visible()

    for name in ("Audit report", "JSON", "Model card"):
        link = page.get_by_role("link", name=name, exact=True).get_attribute("href")
        answer = httpx.get(f"{address}{link}", timeout=60)
        assert answer.status_code == 200, answer.text

    rows = read(address, f"/evaluations/{found['id']}/rows")["items"]
    with page.expect_download() as started:
        page.get_by_role("link", name="CSV of all rows").click()
    assert len(saved_rows(started.value, tmp_path)) == len(rows) == 20
    with page.expect_download() as started:
        page.get_by_role("link", name="Parquet of all rows").click()
    started.value.save_as(tmp_path / "rows.parquet")
    assert (tmp_path / "rows.parquet").read_bytes().startswith(b"PAR1")
    missed = [row for row in rows if not row["found"] and row["explainer"] == "random"]
    assert missed, "random search finds everything; the test needs a miss"
    page.get_by_role("combobox", name="Show", exact=True).select_option("not flipped")
    page.get_by_role("combobox", name="Explainer", exact=True).select_option("random")
    table = page.get_by_role("region", name="Rows")
    expect(table.get_by_role("row")).to_have_count(1 + len(missed))
    with page.expect_download() as started:
        page.get_by_role("link", name="CSV of these rows").click()
    assert len(saved_rows(started.value, tmp_path)) == len(missed)
    page.get_by_role("combobox", name="Show", exact=True).select_option("brittle")
    expect(page.get_by_text("No row matches.")).to_be_visible()

    page.goto(f"{address}/")
    expect(page.get_by_role("region", name="Evaluations")).to_contain_text(found["id"][-6:])
    page.goto(f"{address}/gnns/{found['gnn']}")
    page.get_by_role("link", name="All evaluations and comparisons of this GNN").click()
    expect(page.get_by_role("combobox", name="GNN", exact=True)).to_have_value(found["gnn"])
    expect(page.get_by_role("link", name=f"Evaluation …{found['id'][-6:]}")).to_be_visible()


def saved_rows(download: Any, folder: Path) -> list[dict[str, str]]:
    download.save_as(folder / "rows.csv")
    return list(csv.DictReader((folder / "rows.csv").read_text().splitlines()))


def test_a_form_without_explainers_or_with_a_wrong_count_says_so(page: Page, address: str) -> None:
    page.goto(f"{address}/evaluate")
    for name in ("search", "greedy"):
        page.get_by_label(name, exact=True).uncheck()
    expect(page.get_by_text("Choose at least one explainer.")).to_be_visible()
    expect(page.get_by_role("button", name="Start")).to_have_count(0)
    page.get_by_label("search", exact=True).check()
    page.get_by_label("Instances, drawn by the seed").fill("0")
    expect(page.get_by_role("alert")).to_contain_text("/count")
    expect(page.get_by_role("button", name="Start")).to_be_disabled()


def test_two_explainers_are_compared_by_the_form(page: Page, address: str, evaluation: str) -> None:
    page.goto(f"{address}/evaluations/{evaluation}")
    page.get_by_role("link", name="Compare", exact=True).click()
    page.wait_for_url(f"**/compare?baseline={evaluation}")
    page.get_by_role("combobox", name="Candidate", exact=True).select_option(evaluation)
    page.get_by_label("Explainer of the baseline").select_option("search")
    expect(page.get_by_label("Explainer of the candidate")).to_have_value("random")
    expect(page.get_by_text("nothing was retrained")).to_be_visible()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/comparisons/cmp_*")
    expect(page.get_by_text("a paired test over the instances")).to_be_visible(timeout=SLOW)
    result = read(address, page.url.removeprefix(address))["result"]
    assert result["figures"]
    body = page.get_by_role("region", name="Compared figures").locator("tbody")
    for place, figure in enumerate(result["figures"]):
        row = body.get_by_role("row").nth(place)
        expect(row.get_by_role("cell").first).to_contain_text(finding(figure))
    if not result["moved"]:
        expect(page.get_by_text("No figure moved beyond noise.")).to_be_visible()
    page.goto(f"{address}/evaluations")
    table = page.get_by_role("region", name="Comparisons")
    expect(table.get_by_role("row").nth(1)).to_contain_text("random")


def finding(figure: dict[str, Any]) -> str:
    if not figure["moved"]:
        return "within noise"
    return {True: "worse", False: "better", None: "changed"}[figure["worse"]]


def test_two_gnns_need_retrained_ones_or_a_choice(page: Page, address: str) -> None:
    """On a test set of their own, for which there are no other evaluations."""
    with httpx.Client(base_url=address, timeout=90) as api:
        register(api, "other")
        graphs = [ring(3 + number % 4) for number in range(12)]
        stored = api.post("/v1/datasets", json={"name": "compared", "graphs": graphs})
        test = stored.raise_for_status().json()["id"]
    baseline, other = evaluated(address, test=test), evaluated(address, "other", test)
    page.goto(f"{address}/compare?baseline={baseline}")
    page.get_by_role("combobox", name="Candidate", exact=True).select_option(other)
    expect(page.get_by_text("There is none with this test set")).to_be_visible()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("alert")).to_contain_text("needs at least 2")
    page.get_by_label("of the instances only").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/comparisons/cmp_*")
    expect(page.get_by_text("Another training of the same GNN may differ")).to_be_visible(
        timeout=SLOW
    )
    expect(page.get_by_text("Same class by both GNNs")).to_be_visible()


@pytest.mark.parametrize("width", [360, 1280])
def test_pages_do_not_scroll_sideways(
    browser: Browser, address: str, evaluation: str, comparison: str, width: int
) -> None:
    """Wide tables scroll in their own regions."""
    page = browser.new_context(viewport={"width": width, "height": 800}).new_page()
    paths = ("/evaluations", f"/evaluations/{evaluation}", "/evaluate", "/compare")
    for path in (*paths, f"/comparisons/{comparison}"):
        page.goto(address + path)
        page.wait_for_load_state("networkidle")
        expect(page.locator("main h1")).to_be_visible()
        assert wide(page.locator("html")) <= width, path
    page.context.close()


def wide(element: Locator) -> int:
    width: int = element.evaluate("one => one.scrollWidth")
    return width
