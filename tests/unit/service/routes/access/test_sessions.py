from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from d4explain.contracts.scopes import DEFAULT_TENANT
from service.http.access.key_lookup import FRESH_SECONDS
from store.access import api_keys
from store.access.api_keys import NewKey

if TYPE_CHECKING:
    from conftest import Deployment


@pytest.fixture
def session(api: Deployment, admin: NewKey) -> dict[str, Any]:
    """Logs the client in; from then on it sends the cookie and no key."""
    answer = api.client.post("/v1/session")
    assert answer.status_code == 201, answer.text
    key = api.client.headers.pop("Authorization")
    hidden, readable = answer.headers.get_list("set-cookie")
    for cookie in (hidden, readable):
        assert {"Path=/", "SameSite=strict"} <= set(cookie.split("; "))
        assert "Secure" not in cookie  # over http
        assert admin.text not in cookie
    assert "HttpOnly" in hidden
    assert readable.startswith(f"d4_csrf={answer.json()['csrf_token']}; ")
    assert "HttpOnly" not in readable
    api.client.headers["Authorization"] = ""  # for the fixture `admin`, which removes it
    document: dict[str, Any] = {**answer.json(), "key": key}
    return document


def test_a_session_reads_and_follows_events_without_a_key(
    api: Deployment, session: dict[str, Any]
) -> None:
    assert api.client.get("/v1/gnns").status_code == 200
    shown = api.client.get("/v1/session").json()
    assert shown["csrf_token"] == session["csrf_token"]
    assert (shown["tenant"], shown["expires_at"]) == (DEFAULT_TENANT, session["expires_at"])


def test_a_session_changes_nothing_without_its_csrf_token(
    api: Deployment, session: dict[str, Any]
) -> None:
    gnn = api.gnn()
    before = api.written()
    for headers in ({}, {"X-CSRF-Token": "0" * 64}, {"X-CSRF-Token": "é"}):
        sent = {name: value.encode() for name, value in headers.items()}
        answer = api.client.delete(f"/v1/gnns/{gnn}", headers=sent)
        assert answer.status_code == 403
        assert answer.json()["type"] == "urn:d4explain:problem:csrf-token"
    assert api.written() == before
    token = {"X-CSRF-Token": session["csrf_token"]}
    assert api.client.delete(f"/v1/gnns/{gnn}", headers=token).status_code == 204


def test_a_cookie_is_refused_after_logout(api: Deployment, session: dict[str, Any]) -> None:
    cookies = dict(api.client.cookies)
    token = {"X-CSRF-Token": session["csrf_token"]}
    answer = api.client.delete("/v1/session", headers=token)
    assert answer.status_code == 204
    assert "Max-Age=0" in answer.headers["set-cookie"]
    stolen = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    assert api.client.get("/v1/gnns", headers=stolen).status_code == 401


def test_a_session_ends_with_its_key(
    api: Deployment, session: dict[str, Any], admin: NewKey
) -> None:
    with api.store.database.transaction() as database_session:
        api_keys.revoke(database_session, admin.row.id, DEFAULT_TENANT)
    time.sleep(FRESH_SECONDS)
    assert api.client.get("/v1/gnns").status_code == 401


def test_neither_a_session_nor_a_deployment_without_keys_starts_one(
    api: Deployment, session: dict[str, Any]
) -> None:
    token = {"X-CSRF-Token": session["csrf_token"]}
    assert api.client.post("/v1/session", headers=token).status_code == 409


def test_over_https_the_cookie_is_secure_and_of_this_host_only(
    api: Deployment, admin: NewKey
) -> None:
    answer = api.client.post("https://127.0.0.1/v1/session")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-d4_session=")
    assert "Secure" in cookie
    assert "Domain" not in cookie


def test_a_deployment_without_keys_has_no_sessions(api: Deployment) -> None:
    assert api.client.post("/v1/session").status_code == 409
    assert api.client.get("/v1/session").json()["key_id"] is None
    assert api.client.delete("/v1/session").status_code == 404
