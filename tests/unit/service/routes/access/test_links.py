from __future__ import annotations

import re
import time
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from d4explain.contracts.scopes import DEFAULT_TENANT
from service.http.access.key_lookup import FRESH_SECONDS
from store.access import api_keys
from store.access.api_keys import NewKey

if TYPE_CHECKING:
    from conftest import Deployment


@pytest.fixture
def explanation(api: Deployment, admin: NewKey) -> dict[str, Any]:
    posted = api.explanation()
    api.finish_explanation(posted)
    return posted


def link_to(api: Deployment, explanation: dict[str, Any], **options: Any) -> dict[str, Any]:
    answer = api.client.post(f"/v1/explanations/{explanation['id']}/links", json=options)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def anonymous(
    api: Deployment, url: str, method: str = "GET", headers: dict[str, str] | None = None
) -> Any:
    return api.client.request(method, url, headers={"Authorization": "", **(headers or {})})


def test_a_link_opens_its_explanation_and_drawings_without_a_key(
    api: Deployment, explanation: dict[str, Any]
) -> None:
    url = link_to(api, explanation)["url"]
    path = url.partition("?")[0]
    token = url.partition("?")[2]
    opened = anonymous(api, url)
    assert (opened.status_code, opened.json()["id"]) == (200, explanation["id"])
    drawing = anonymous(api, f"{url}&format=svg&graph=0")
    assert drawing.headers["content-type"].startswith("image/svg+xml")
    assert drawing.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "frame-ancestors" not in drawing.headers["content-security-policy"]
    assert "x-frame-options" not in drawing.headers
    assert anonymous(api, f"{path}/answers/final?{token}").status_code == 200
    assert anonymous(api, f"{path}?format=svg").status_code == 401


def test_a_link_opens_the_view_for_frames_of_other_pages(
    api: Deployment, explanation: dict[str, Any]
) -> None:
    token = link_to(api, explanation)["url"].partition("?")[2]
    address = f"/embed/explanations/{explanation['id']}"
    view = anonymous(api, f"{address}?graph=0&{token}")
    assert view.status_code == 200
    assert view.headers["content-type"].startswith("text/html")
    assert "frame-ancestors *" in view.headers["content-security-policy"]
    assert "<script" not in view.text
    assert "<svg" in view.text
    assert anonymous(api, address).status_code == 401
    described = anonymous(api, f"/oembed?url=http://127.0.0.1{address}%3F{token}")
    assert f'src="http://127.0.0.1{address}?{token}"' in described.json()["html"]
    for foreign in (
        "http://evil.example/embed/explanations/exp_1",
        "http://127.0.0.1/v1/gnns",
        "x",
    ):
        assert anonymous(api, f"/oembed?url={foreign}").status_code == 422


def test_a_view_tells_other_sites_how_to_embed_it(
    api: Deployment, explanation: dict[str, Any]
) -> None:
    """A consumer of oEmbed gets the address of the view, token and all, and shows the frame."""
    token = link_to(api, explanation)["url"].partition("?")[2]
    address = f"/embed/explanations/{explanation['id']}?graph=0&{token}"
    [href] = re.findall(
        r'<link rel="alternate" type="application/json\+oembed" href="([^"]+)"',
        anonymous(api, address).text,
    )
    described = anonymous(api, unescape(href)).json()
    assert (described["type"], described["version"]) == ("rich", "1.0")
    [source] = re.findall(r'<iframe src="([^"]+)"', described["html"])
    assert unescape(source).endswith(address)
    assert "<svg" in anonymous(api, unescape(source)).text


def test_the_page_of_an_explanation_tells_how_to_embed_it(
    api: Deployment, explanation: dict[str, Any]
) -> None:
    page = anonymous(api, f"/explanations/{explanation['id']}?graph=1")
    [href] = re.findall(r'<([^>]+)>; rel="alternate"; type="application/json', page.headers["link"])
    html = anonymous(api, href).json()["html"]
    assert f"/embed/explanations/{explanation['id']}?graph=1" in unescape(html)


def test_oembed_keeps_to_the_size_and_the_format_that_are_asked_for(
    api: Deployment, explanation: dict[str, Any]
) -> None:
    url = f"/oembed?url=http://127.0.0.1/embed/explanations/{explanation['id']}"
    described = anonymous(api, f"{url}&maxwidth=400&maxheight=100000").json()
    assert (described["width"], described["height"]) == (400, 760)
    assert 'width="400" height="760"' in described["html"]
    assert anonymous(api, f"{url}&format=xml").status_code == 501
    assert anonymous(api, f"{url}&maxwidth=0").status_code == 422
    quoted = anonymous(api, f'{url}%3Fa="><script>').json()["html"]
    assert "<script" not in quoted


def test_a_browser_gets_errors_of_a_view_as_a_page(
    api: Deployment, explanation: dict[str, Any]
) -> None:
    address = f"/embed/explanations/{explanation['id']}?token=nonsense"
    html = {"Accept": "text/html,*/*;q=0.8"}
    answer = anonymous(api, address, headers=html)
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert "frame-ancestors *" in answer.headers["content-security-policy"]
    assert "The link has expired or was removed." in answer.text
    assert anonymous(api, address).json()["status"] == 401


def test_a_link_shows_its_image_on_other_sites_without_any_key_too(api: Deployment) -> None:
    """A deployment without keys serves everybody; browsers still ask for the header."""
    posted = api.explanation()
    api.finish_explanation(posted)
    url = link_to(api, posted)["url"]
    drawing = api.client.get(f"{url}&format=svg")
    assert drawing.status_code == 200
    assert drawing.headers["cross-origin-resource-policy"] == "cross-origin"
    path = url.partition("?")[0]
    for other in (f"{path}?format=svg", f"{path}?format=svg&token=nonsense"):
        answer = api.client.get(other)
        assert answer.status_code == 200
        assert answer.headers.get("cross-origin-resource-policy") != "cross-origin"


def test_a_link_opens_nothing_else(api: Deployment, explanation: dict[str, Any]) -> None:
    token = link_to(api, explanation)["url"].partition("?")[2]
    other = api.explanation()
    before = api.written()
    for method, path in (
        ("GET", f"/v1/explanations/{other['id']}"),
        ("GET", "/v1/explanations"),
        ("GET", f"/v1/jobs/{explanation['job']['id']}"),
        ("GET", f"/v1/explanations/{explanation['id']}/links"),
        ("POST", f"/v1/explanations/{explanation['id']}/links"),
        ("POST", f"/v1/jobs/{explanation['job']['id']}/cancel"),
        ("DELETE", f"/v1/explanations/{explanation['id']}"),
    ):
        answer = anonymous(api, f"{path}?{token}", method)
        assert answer.status_code == 403, (method, path)
        assert answer.json()["type"].endswith("link-opens-one-explanation")
    assert api.written() == before


def test_the_token_of_a_link_is_no_key(api: Deployment, explanation: dict[str, Any]) -> None:
    url = link_to(api, explanation)["url"]
    headers = {"Authorization": f"Bearer {url.partition('token=')[2]}"}
    assert api.client.get(url.partition("?")[0], headers=headers).status_code == 401


def test_links_are_listed_without_their_tokens_and_deleted(
    api: Deployment, explanation: dict[str, Any]
) -> None:
    made = link_to(api, explanation, seconds=60)
    at = f"/v1/explanations/{explanation['id']}/links"
    listed = api.client.get(at)
    assert [item["id"] for item in listed.json()["items"]] == [made["id"]]
    assert "d4v_" not in listed.text
    assert api.client.delete(f"{at}/{made['id']}").status_code == 204
    assert api.client.delete(f"{at}/{made['id']}").status_code == 404
    time.sleep(FRESH_SECONDS)
    assert anonymous(api, made["url"]).status_code == 401


def test_a_link_ends_after_its_seconds_and_with_its_key(
    api: Deployment, explanation: dict[str, Any], admin: NewKey
) -> None:
    short, long = link_to(api, explanation, seconds=4), link_to(api, explanation, seconds=600)
    assert anonymous(api, short["url"]).status_code == 200
    time.sleep(4.1)
    assert anonymous(api, short["url"]).status_code == 401
    assert anonymous(api, long["url"]).status_code == 200
    with api.store.database.transaction() as session:
        api_keys.revoke(session, admin.row.id, DEFAULT_TENANT)
    time.sleep(FRESH_SECONDS)
    assert anonymous(api, long["url"]).status_code == 401


@pytest.mark.parametrize("seconds", [0, 7 * 24 * 3600 + 1, 1.5])
def test_a_link_lives_at_most_a_week(
    api: Deployment, explanation: dict[str, Any], seconds: float
) -> None:
    at = f"/v1/explanations/{explanation['id']}/links"
    answer = api.client.post(at, json={"seconds": seconds})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/seconds")


def test_a_link_works_without_keys_too(api: Deployment) -> None:
    posted = api.explanation()
    assert anonymous(api, link_to(api, posted)["url"]).status_code == 200
