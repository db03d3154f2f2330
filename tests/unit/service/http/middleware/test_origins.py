"""The API rejects requests from pages of other sites."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.http.middleware.origins import ANY_HOST, allowed_hosts

if TYPE_CHECKING:
    from conftest import Deployment


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:8400"}, 200),
        ({"Host": "[::1]:8400"}, 200),
        ({"Origin": "http://127.0.0.1"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[broken"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "[broken"}, 403),
        ({"Host": ""}, 403),
    ],
)
def test_only_known_hosts_and_the_own_origin_are_accepted(
    api: Deployment, headers: dict[str, str], status: int
) -> None:
    before = api.written()
    answer = api.client.get("/v1/jobs", headers=headers)
    assert answer.status_code == status
    if status == 403:
        assert answer.headers["content-type"] == "application/problem+json"
        rejected = "Host" if headers.get("Host", "127.0.0.1") != "127.0.0.1" else "Origin"
        assert f"{rejected} header {headers.get(rejected)!r}" in answer.json()["detail"]
        assert ("D4_ALLOWED_HOSTS" in answer.json()["detail"]) == (rejected == "Host")
        posted = api.client.post("/v1/datasets", json={"name": "a", "graphs": []}, headers=headers)
        assert posted.status_code == 403
    assert api.written() == before


def test_a_rejection_names_the_setting(api: Deployment) -> None:
    answer = api.client.get("/v1/jobs", headers={"Host": "Explain.example:8400"})
    assert answer.json()["detail"] == (
        "Unknown Host header 'Explain.example:8400'; add 'explain.example' to D4_ALLOWED_HOSTS."
    )


def test_allowed_hosts_come_from_the_setting_and_the_address() -> None:
    assert "api.example" in allowed_hosts("api.example, other.example", "127.0.0.1")
    assert "localhost" in allowed_hosts("api.example", "0.0.0.0")
    assert allowed_hosts("", "127.0.0.1") == {"127.0.0.1", "localhost", "::1"}
    assert "explain.example" in allowed_hosts("", "Explain.example")
    assert ANY_HOST in allowed_hosts("*", "127.0.0.1")


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_listening_on_every_address_does_not_allow_every_host(address: str) -> None:
    """Otherwise a page whose host name resolves to loopback could use the API."""
    assert allowed_hosts("", address) == allowed_hosts("", "127.0.0.1")
    assert allowed_hosts("api", address) == {"api", *allowed_hosts("", "127.0.0.1")}
