from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from d4explain.contracts.scopes import DEFAULT_TENANT, Scope
from store.access import api_keys
from store.access.api_keys import NewKey

if TYPE_CHECKING:
    from store.store import Store


@pytest.fixture
def make_key(opened_store: Store) -> Callable[..., NewKey]:
    """Makes keys of the deployment `api`."""

    def make(*scopes: Scope, tenant: str = DEFAULT_TENANT, seconds: float | None = None) -> NewKey:
        with opened_store.database.transaction() as session:
            return api_keys.create(
                session, tenant=tenant, name="test", scopes=scopes or Scope, seconds=seconds
            )

    return make
