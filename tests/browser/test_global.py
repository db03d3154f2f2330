"""Asks for global counterfactuals in the dashboard and checks one of them, in a real browser."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import ask_page

SLOW = 60_000  # milliseconds; a worker on a busy machine


def test_ask_read_and_draw_the_edits(page: Page, address: str) -> None:
    page.goto(ask_page(address))
    page.get_by_label("near to many graphs of a class").check()
    page.get_by_label("Graphs at most").fill("1")
    page.get_by_label("Edits per node and edge").fill("0.2")
    expect(page.get_by_text("of work")).to_be_visible()  # the estimate
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url("**/explanations/exp_*")
    heading = page.get_by_role("heading", name="Global counterfactuals")
    expect(heading).to_contain_text("succeeded", timeout=SLOW)
    headline = page.locator("p.headline")
    expect(headline).to_contain_text(
        re.compile(r"\d+ of the 18 graphs that the GNN calls class 0 \(\d+ %\) are near to one of")
    )
    graph = page.locator("section", has=page.get_by_role("heading", name="Graph 1"))
    expect(graph.get_by_role("row", name="class 1")).to_be_visible()
    expect(graph.locator("circle.node").first).to_be_visible()

    graph.get_by_text("covered graph").click()
    covered = graph.get_by_role("region", name="Graphs covered by graph 1")
    first = covered.get_by_role("row").nth(1)
    count = int(first.get_by_role("cell").nth(0).inner_text())
    words = first.get_by_role("cell").nth(2).inner_text()
    assert len(words.split(", ")) == count  # each edit is listed
    first.get_by_role("button", name="Draw the edits").click()
    drawing = graph.locator("figure", has_text="added and removed edges in colour")
    expect(drawing.locator("line.edge.added")).to_have_count(words.count("+ edge"))
    expect(drawing.locator("line.edge.removed")).to_have_count(words.count("\N{MINUS SIGN} edge"))

    expect(page.get_by_role("region", name="Coverage by theta").get_by_role("row")).to_have_count(7)
    expect(page.get_by_role("region", name="Recurring edits")).to_be_visible()
