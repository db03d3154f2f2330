"""Pages of other sites get no answer from an API without keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.origins import ANY_HOST, hosts_of

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
        posted = api.client.post("/v1/datasets", json={"name": "a", "graphs": []}, headers=headers)
        assert posted.status_code == 403
    assert api.written() == before


def test_hosts_come_from_the_setting_or_from_the_address() -> None:
    assert "api.example" in hosts_of("api.example, other.example", "127.0.0.1")
    assert "localhost" in hosts_of("api.example", "0.0.0.0")
    assert ANY_HOST not in hosts_of("", "127.0.0.1")
    assert hosts_of("", "0.0.0.0") == {ANY_HOST}
