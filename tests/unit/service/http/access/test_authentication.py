"""Every request needs a key as soon as the deployment has one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from d4explain.contracts.scopes import DEFAULT_TENANT, Scope
from service.http.access import failed_keys
from service.http.access.key_lookup import FRESH_SECONDS
from service.http.principals import OPEN_PATHS
from store.access import api_keys
from store.access.api_keys import NewKey

if TYPE_CHECKING:
    from conftest import Deployment

MakeKey = Callable[..., NewKey]


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def test_without_keys_everybody_may_do_everything(api: Deployment) -> None:
    assert api.client.get("/v1/gnns").status_code == 200
    assert api.client.get("/v1/gnns", headers=bearer("whatever")).status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "Bearer d4_x", f"Bearer {'é' * 20}"],
)
def test_a_request_without_a_valid_key_is_refused(
    make_key: MakeKey, api: Deployment, authorization: str | None
) -> None:
    make_key()
    headers = {} if authorization is None else {"Authorization": authorization.encode()}
    answer = api.client.get("/v1/gnns", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith('Bearer realm="d4explain"')
    assert answer.json()["type"] == "urn:d4explain:problem:unauthorized"


def test_an_unknown_path_needs_a_key_too(make_key: MakeKey, api: Deployment) -> None:
    key = make_key()
    assert api.client.get("/v1/nothing").status_code == 401
    assert api.client.get("/v1/nothing", headers=bearer(key.text)).status_code == 404


@pytest.mark.parametrize("path", [*sorted(OPEN_PATHS), "/docs/swagger-ui.css"])
def test_open_paths_need_no_key(make_key: MakeKey, api: Deployment, path: str) -> None:
    make_key()
    answer = api.client.get(path)
    # Without a broker it is not ready, and a page may need parameters.
    assert answer.status_code in (200, 422, 503)


def test_a_missing_scope_is_named(make_key: MakeKey, api: Deployment) -> None:
    key = make_key(Scope.READ, Scope.EXPLAIN)
    answer = api.client.get("/metrics", headers=bearer(key.text))
    assert answer.status_code == 403
    assert answer.json()["detail"] == (
        "This request needs the scope admin; the key has read, explain."
    )
    challenge = answer.headers["www-authenticate"]
    assert challenge == 'Bearer error="insufficient_scope", scope="admin"'
    assert api.client.get("/v1/gnns", headers=bearer(key.text)).status_code == 200
    assert api.client.get("/metrics", headers=bearer(make_key().text)).status_code == 200


def test_a_revoked_or_expired_key_stops_within_two_seconds(
    make_key: MakeKey, api: Deployment
) -> None:
    revoked, expiring = make_key(), make_key(seconds=1)
    for key in (revoked, expiring):
        assert api.client.get("/v1/gnns", headers=bearer(key.text)).status_code == 200
    with api.store.database.transaction() as session:
        api_keys.revoke(session, revoked.row.id, DEFAULT_TENANT)
    time.sleep(FRESH_SECONDS)
    for key in (revoked, expiring):
        answer = api.client.get("/v1/gnns", headers=bearer(key.text))
        assert answer.status_code == 401
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_a_client_that_tries_keys_is_slowed_and_others_are_not(
    make_key: MakeKey, api: Deployment
) -> None:
    used, unused = make_key(), make_key()

    def status(text: str) -> int:
        return api.client.get("/v1/gnns", headers=bearer(text)).status_code

    assert status(used.text) == 200
    tried = [status(api_keys.new_text()) for _ in range(failed_keys.MAX_FAILURES + 3)]
    assert tried == [401] * failed_keys.MAX_FAILURES + [429] * 3
    answer = api.client.get("/v1/gnns", headers=bearer(unused.text))
    assert answer.status_code == 429  # whether a key is right stays unknown
    assert 0 < int(answer.headers["retry-after"]) <= failed_keys.SECONDS_PER_FAILURE + 1
    assert status(used.text) == 200  # it worked before, so it is not a guess


def test_the_use_of_a_key_is_recorded(make_key: MakeKey, api: Deployment) -> None:
    key = make_key()
    assert key.row.last_used_at is None
    api.client.get("/v1/gnns", headers=bearer(key.text))
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with api.store.database.reading() as session:
            if api_keys.get(session, key.row.id, DEFAULT_TENANT).last_used_at is not None:
                return
        time.sleep(0.02)
    pytest.fail("the use of the key was not recorded")
