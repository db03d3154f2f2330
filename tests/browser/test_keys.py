"""A deployment with keys: logging in, rights, and links in pages of another origin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Literal, NamedTuple

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from d4explain.contracts.scopes import Scope
from store.access import api_keys
from tests.browser.conftest import prepared, ring
from tests.browser.test_accessibility import press_until, serious_findings
from tests.browser.test_journeys import SLOW
from tests.processes import opened_stack

QUESTION = {
    "kind": "counterfactual",
    "gnn": "edges",
    "dataset": "rings",
    "graph": ring(5),
    "explainer": "search",
    "aim": "minimal",
    "judges": "none",
}


class Guarded(NamedTuple):
    address: str
    admin: str
    reader: str
    explanation: str


@pytest.fixture(scope="module")
def guarded(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A running API that gets its keys after the first explanation."""
    with opened_stack(tmp_path_factory.mktemp("guarded")) as stack:
        address = prepared(stack)
        asked = httpx.post(
            f"{address}/v1/explanations", json=QUESTION, headers={"Prefer": "wait=60"}, timeout=90
        )
        assert asked.json()["state"] == "succeeded", asked.text
        texts = []
        for scopes in (frozenset(Scope), frozenset({Scope.READ})):
            with stack.store.database.transaction() as session:
                new = api_keys.create(
                    session, tenant="default", name="a key", scopes=sorted(scopes), seconds=None
                )
                texts.append(new.text)
        # The API looks for new keys every two seconds.
        stack.until(
            lambda: httpx.get(f"{address}/v1/session").status_code == 401, "keys are needed"
        )
        yield Guarded(address, *texts, asked.json()["id"])


def log_in(page: Page, guarded: Guarded, key: str, path: str = "/") -> None:
    page.goto(guarded.address + path)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("link", name="Overview")).to_be_visible(timeout=SLOW)


def test_a_person_logs_in_makes_a_key_and_logs_out(page: Page, guarded: Guarded) -> None:
    log_in(page, guarded, guarded.admin, "/settings")
    page.get_by_label("Name").fill("for the board")
    page.get_by_role("button", name="Make the key").click()
    shown = page.get_by_text("shown once").locator("code").inner_text()
    headers = {"Authorization": f"Bearer {shown}"}
    assert httpx.get(f"{guarded.address}/v1/gnns", headers=headers).status_code == 200
    page.reload()
    expect(page.get_by_role("row", name="for the board")).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("API key")).to_be_visible()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_logging_in_and_keys_have_no_serious_findings_and_need_no_mouse(
    browser: Browser, guarded: Guarded, colours: Literal["light", "dark"]
) -> None:
    context = browser.new_context(color_scheme=colours, bypass_csp=True)  # axe injects itself
    page = context.new_page()
    page.goto(f"{guarded.address}/settings")
    expect(page.get_by_label("API key")).to_be_visible()
    assert serious_findings(page) == []
    press_until(page, "API key")
    page.keyboard.type(guarded.admin)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("button", name="Rotate").first).to_be_visible(timeout=SLOW)
    assert serious_findings(page) == []
    press_until(page, "Name")
    page.keyboard.type(f"typed in {colours}")
    press_until(page, "Make the key")
    page.keyboard.press("Enter")
    expect(page.get_by_text("shown once")).to_be_visible(timeout=SLOW)
    press_until(page, "Log out")
    page.keyboard.press("Enter")
    expect(page.get_by_label("API key")).to_be_visible(timeout=SLOW)
    context.close()


def test_a_wrong_key_is_refused(page: Page, guarded: Guarded) -> None:
    page.goto(guarded.address)
    page.get_by_label("API key").fill("d4_nonsense")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown, expired or revoked")


def test_a_reader_may_look_but_not_ask(page: Page, guarded: Guarded) -> None:
    log_in(page, guarded, guarded.reader, f"/explanations/{guarded.explanation}")
    expect(page.get_by_role("heading", name="Edits")).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="Undo").click()  # the GNN answers, and nothing is stored
    expect(page.get_by_text("the class of the original graph")).to_be_visible(timeout=SLOW)
    expect(page.locator(".stage line.edge.removed, .stage line.edge.kept")).to_have_count(5)
    expect(page.get_by_role("button", name="Ask again")).to_have_count(0)
    page.goto(f"{guarded.address}/ask")
    expect(page.get_by_role("alert")).to_contain_text("needs the scope explain", timeout=SLOW)
    page.goto(f"{guarded.address}/gnns")
    expect(page.get_by_role("row", name="edges@1")).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("button", name="Register")).to_have_count(0)


def test_a_link_made_in_the_viewer_needs_no_key(
    browser: Browser, page: Page, guarded: Guarded
) -> None:
    log_in(page, guarded, guarded.reader, f"/explanations/{guarded.explanation}")
    page.get_by_label("Link for a frame, days").fill("2", timeout=SLOW)
    page.get_by_role("button", name="Make the link").click()
    link = page.get_by_role("link", name="/embed/explanations/")
    expect(link).to_be_visible(timeout=SLOW)
    stranger = browser.new_context()
    view = stranger.new_page()
    assert view.goto(str(link.get_attribute("href"))).status == 200
    expect(view.get_by_text("would have said")).to_be_visible()
    keyless = view.goto(f"{guarded.address}/v1/explanations/{guarded.explanation}/report")
    assert keyless.status == 401
    stranger.close()


@pytest.fixture
def other_site() -> Iterator[tuple[str, dict[str, str]]]:
    """A page of another origin; its HTML is the entry "page"."""
    content: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content["page"].encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://localhost:{server.server_address[1]}", content
    server.shutdown()
    thread.join()
    server.server_close()


def test_another_site_shows_an_explanation_by_a_link(
    page: Page, guarded: Guarded, other_site: tuple[str, dict[str, str]]
) -> None:
    site, content = other_site
    headers = {"Authorization": f"Bearer {guarded.reader}"}
    path = f"{guarded.address}/v1/explanations/{guarded.explanation}/links"
    link = httpx.post(path, json={"seconds": 600}, headers=headers).json()
    token = link["url"].partition("?")[2]
    view = f"{guarded.address}/embed/explanations/{guarded.explanation}?{token}"
    drawing = f"{guarded.address}{link['url']}&format=svg"
    content["page"] = (
        f'<iframe src="{view}" sandbox width=900 height=700></iframe><img src="{drawing}" id="d">'
    )
    page.goto(site)
    frame = page.frame_locator("iframe")
    expect(frame.get_by_text("would have said")).to_be_visible(timeout=SLOW)
    expect(frame.locator("svg").first).to_be_visible()
    page.wait_for_function("document.getElementById('d').naturalWidth > 0", timeout=SLOW)

    httpx.delete(f"{path}/{link['id']}", headers=headers).raise_for_status()
    page.wait_for_timeout(2500)  # a removed link works for at most two seconds
    answer = page.request.get(view)
    assert answer.status == 401
    assert "expired or was removed" in json.loads(answer.text())["detail"]


def test_an_expired_link_says_so_in_the_frame(
    page: Page, guarded: Guarded, other_site: tuple[str, dict[str, str]]
) -> None:
    site, content = other_site
    path = f"{guarded.address}/v1/explanations/{guarded.explanation}/links"
    headers = {"Authorization": f"Bearer {guarded.reader}"}
    link = httpx.post(path, json={"seconds": 1}, headers=headers).raise_for_status().json()
    token = link["url"].partition("?")[2]
    view = f"{guarded.address}/embed/explanations/{guarded.explanation}?{token}"
    content["page"] = f'<iframe src="{view}" sandbox></iframe>'
    page.wait_for_timeout(3500)  # one second, and two in which the API may not know it yet
    page.goto(site)
    shown = page.frame_locator("iframe").get_by_role("alert")
    expect(shown).to_contain_text("The link has expired or was removed.", timeout=SLOW)


def test_a_report_opens_in_a_sandboxed_frame(
    page: Page, guarded: Guarded, other_site: tuple[str, dict[str, str]]
) -> None:
    """As MLflow shows HTML artifacts: no origin of its own, and nothing else is loaded."""
    site, content = other_site
    headers = {"Authorization": f"Bearer {guarded.reader}"}
    path = f"{guarded.address}/v1/explanations/{guarded.explanation}"
    report = httpx.get(f"{path}/report", headers=headers).raise_for_status().text
    content["page"] = f'<iframe sandbox srcdoc="{escape(report)}" width=900 height=700></iframe>'
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(site)
    frame = page.frame_locator("iframe")
    expect(frame.get_by_text("would have said")).to_be_visible(timeout=SLOW)
    expect(frame.locator("svg line.added")).to_have_count(2)  # the edge and its legend
    expect(frame.get_by_role("heading", name="Receipt")).to_be_attached()
    assert {url.split("/")[2] for url in requests} == {site.split("/")[2]}


def test_a_reader_sees_evaluations_but_starts_none(page: Page, guarded: Guarded) -> None:
    log_in(page, guarded, guarded.reader, "/evaluations")
    expect(page.get_by_text("No evaluations yet.")).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("link", name="Start an evaluation")).to_have_count(0)
    for path in ("/evaluate", "/compare"):
        page.goto(guarded.address + path)
        expect(page.get_by_role("alert")).to_contain_text("needs the scope explain", timeout=SLOW)
