from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest

from d4explain.contracts.scopes import Scope
from service.access_models import ScopeName
from store.access.api_keys import NewKey

if TYPE_CHECKING:
    from conftest import Deployment

KEY = {"name": "dashboard", "scopes": ["read"]}


def get(api: Deployment, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    status: int = api.client.get("/v1/gnns", headers=headers).status_code
    return status


def test_an_admin_makes_a_key_that_works_and_is_shown_once(api: Deployment, admin: NewKey) -> None:
    posted = api.client.post("/v1/keys", json={**KEY, "days": 2})
    assert posted.status_code == 201, posted.text
    made = posted.json()
    assert posted.headers["cache-control"] == "no-store"
    assert made["key"].startswith(made["prefix"])
    assert (made["scopes"], made["state"]) == (["read"], "active")
    assert get(api, made["key"]) == 200
    listed = api.client.get("/v1/keys")
    assert [item["id"] for item in listed.json()["items"]] == [made["id"], admin.row.id]
    secret = made["key"].rsplit("_", 1)[1]
    shown = api.client.get(posted.headers["location"])
    assert secret not in listed.text + shown.text
    assert shown.json() == {**{k: v for k, v in made.items() if k != "key"}, **last_use(shown)}


def last_use(shown: Any) -> dict[str, Any]:
    """It is written after the request that used the key."""
    return {"last_used_at": shown.json()["last_used_at"]}


def test_a_key_can_be_rotated_with_overlap_and_revoked(api: Deployment, admin: NewKey) -> None:
    old = api.client.post("/v1/keys", json=KEY).json()
    new = api.client.post(f"/v1/keys/{old['id']}/rotate", json={"overlap_hours": 1}).json()
    assert (get(api, old["key"]), get(api, new["key"])) == (200, 200)
    assert new["rotated_from"] == old["id"]
    assert api.client.get(f"/v1/keys/{old['id']}").json()["expires_at"] is not None
    assert api.client.delete(f"/v1/keys/{old['id']}").status_code == 204
    assert api.client.get(f"/v1/keys/{old['id']}").json()["state"] == "revoked"
    again = api.client.post(f"/v1/keys/{old['id']}/rotate", json={})
    assert (again.status_code, again.json()["type"]) == (409, "urn:d4explain:problem:conflict")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["root"]}, "/scopes/0"),
        ({"name": ""}, "/name"),
        ({"days": 0}, "/days"),
        ({"days": 1e9}, "/days"),
        ({"tenant": "another"}, "/tenant"),
    ],
)
def test_wrong_fields_are_named(
    api: Deployment, admin: NewKey, change: dict[str, Any], pointer: str
) -> None:
    answer = api.client.post("/v1/keys", json={**KEY, **change})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_a_key_may_have_every_scope() -> None:
    assert set(get_args(ScopeName)) == set(Scope)


def test_without_keys_the_api_makes_none(api: Deployment) -> None:
    answer = api.client.post("/v1/keys", json=KEY)
    assert answer.status_code == 409
    assert "python -m store keys create" in answer.json()["detail"]
    assert api.client.get("/v1/keys").json()["items"] == []
