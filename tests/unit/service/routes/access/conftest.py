from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from d4explain.contracts.scopes import DEFAULT_TENANT, Scope
from store.access import api_keys
from store.access.api_keys import NewKey

if TYPE_CHECKING:
    from conftest import Deployment


@pytest.fixture
def admin(api: Deployment) -> Iterator[NewKey]:
    """A key with all scopes, which the client of `api` sends."""
    with api.store.database.transaction() as session:
        key = api_keys.create(session, tenant=DEFAULT_TENANT, name="admin", scopes=list(Scope))
    api.client.headers["Authorization"] = f"Bearer {key.text}"
    yield key
    del api.client.headers["Authorization"]
