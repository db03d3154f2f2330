"""Pages of other sites, and gateways in front of the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from d4explain.contracts.scopes import DEFAULT_TENANT, Scope
from store.access import api_keys

if TYPE_CHECKING:
    from conftest import Deployment

DASHBOARD = "https://dash.example.org"


@pytest.fixture(scope="module")
def listed(deployed: Callable[..., Deployment]) -> tuple[Deployment, str]:
    """A deployment that lists a site, and a key."""
    deployment = deployed(allowed_origins=f"{DASHBOARD}, https://other.example")
    with deployment.store.database.transaction() as session:
        key = api_keys.create(session, tenant=DEFAULT_TENANT, name="x", scopes=list(Scope))
    return deployment, key.text


def test_a_page_of_a_listed_site_uses_the_api_with_a_key(listed: tuple[Deployment, str]) -> None:
    deployment, key = listed
    asked = {"Origin": DASHBOARD, "Access-Control-Request-Method": "POST"}
    wanted = "authorization, content-type, idempotency-key, prefer"
    preflight = deployment.client.options(
        "/v1/explanations", headers={**asked, "Access-Control-Request-Headers": wanted}
    )
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == DASHBOARD
    assert set(wanted.split(", ")) <= set(
        preflight.headers["access-control-allow-headers"].lower().split(", ")
    )
    headers = {"Origin": DASHBOARD, "Authorization": f"Bearer {key}"}
    answer = deployment.client.get("/v1/gnns", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == DASHBOARD
    assert "access-control-allow-credentials" not in {*answer.headers, *preflight.headers}
    refused = deployment.client.get("/v1/gnns", headers={"Origin": DASHBOARD})
    assert refused.status_code == 401  # with headers, so that the page can read why
    assert refused.headers["access-control-allow-origin"] == DASHBOARD


def test_a_cookie_from_a_listed_site_does_not_count(listed: tuple[Deployment, str]) -> None:
    deployment, key = listed
    client = deployment.client
    client.post("/v1/session", headers={"Authorization": f"Bearer {key}"})
    assert client.get("/v1/gnns").status_code == 200
    assert client.get("/v1/gnns", headers={"Origin": "http://127.0.0.1"}).status_code == 200
    assert client.get("/v1/gnns", headers={"Origin": DASHBOARD}).status_code == 401
    client.cookies.clear()


@pytest.mark.parametrize("origin", ["https://evil.example", f"{DASHBOARD}.evil.example", "null"])
def test_other_sites_stay_refused(listed: tuple[Deployment, str], origin: str) -> None:
    deployment, key = listed
    headers = {"Origin": origin, "Authorization": f"Bearer {key}"}
    answer = deployment.client.get("/v1/gnns", headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
    assert "D4_ALLOWED_ORIGINS" in answer.json()["detail"]


def test_without_the_setting_no_site_may_read(api: Deployment) -> None:
    answer = api.client.get("/v1/gnns", headers={"Origin": DASHBOARD})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


FORWARDED = {
    "X-Forwarded-Host": "d4.example.org",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-For": "203.0.113.7",
}


def test_a_trusted_gateway_names_host_scheme_and_client(deployed: Callable[..., Any]) -> None:
    deployment = deployed(trusted_proxies="10.0.0.0/8", allowed_hosts="d4.example.org")
    with deployment.store.database.transaction() as session:
        key = api_keys.create(session, tenant=DEFAULT_TENANT, name="x", scopes=list(Scope))
    headers = {**FORWARDED, "Host": "api.internal", "Authorization": f"Bearer {key.text}"}
    app, client_at = deployment.client.app, type(deployment.client)
    gateway = client_at(app, "http://127.0.0.1", client=("10.1.2.3", 1), headers=headers)
    answer = gateway.post("/v1/session", headers={"Origin": "https://d4.example.org"})
    assert answer.status_code == 201, answer.text
    assert "Secure" in answer.headers["set-cookie"]
    stranger = client_at(app, "http://127.0.0.1", client=("192.0.2.9", 1), headers=headers)
    assert stranger.post("/v1/session").status_code == 403  # its Host is `api.internal`


def test_a_client_cannot_name_another_address_to_try_more_keys(api: Deployment) -> None:
    with api.store.database.transaction() as session:
        api_keys.create(session, tenant=DEFAULT_TENANT, name="x", scopes=list(Scope))
    statuses = {
        api.client.get(
            "/v1/gnns",
            headers={
                "X-Forwarded-For": f"203.0.113.{number}",
                "Authorization": f"Bearer {api_keys.new_text()}",
            },
        ).status_code
        for number in range(12)
    }
    assert statuses == {401, 429}
