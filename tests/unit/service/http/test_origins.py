"""Pages of other sites get no answer from an API without keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.http.origins import ANY_HOST, hosts_of

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
def test_only_our_own_host_and_origin_are_answered(
    api: Deployment, headers: dict[str, str], status: int
) -> None:
    before = api.written()
    answer = api.client.get("/v1/jobs", headers=headers)
    assert answer.status_code == status
    if status == 403:
        assert answer.headers["content-type"] == "application/problem+json"
        refused = "Host" if headers.get("Host", "127.0.0.1") != "127.0.0.1" else "Origin"
        assert f"{refused} header {headers.get(refused)!r}" in answer.json()["detail"]
        assert ("D4_ALLOWED_HOSTS" in answer.json()["detail"]) == (refused == "Host")
        posted = api.client.post("/v1/datasets", json={"name": "a", "graphs": []}, headers=headers)
        assert posted.status_code == 403
    assert api.written() == before


def test_a_refusal_says_what_to_set(api: Deployment) -> None:
    answer = api.client.get("/v1/jobs", headers={"Host": "Explain.example:8400"})
    assert answer.json()["detail"] == (
        "Unknown Host header 'Explain.example:8400'; add 'explain.example' to D4_ALLOWED_HOSTS."
    )


def test_hosts_come_from_the_setting_or_from_the_address() -> None:
    assert "api.example" in hosts_of("api.example, other.example", "127.0.0.1")
    assert "localhost" in hosts_of("api.example", "0.0.0.0")
    assert hosts_of("", "127.0.0.1") == {"127.0.0.1", "localhost", "::1"}
    assert "explain.example" in hosts_of("", "Explain.example")
    assert ANY_HOST in hosts_of("*", "127.0.0.1")


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_listening_on_every_address_is_not_answering_to_every_name(address: str) -> None:
    """A page that points its own name at loopback reaches a port that is published there."""
    assert hosts_of("", address) == hosts_of("", "127.0.0.1")
    assert hosts_of("api", address) == {"api", *hosts_of("", "127.0.0.1")}
