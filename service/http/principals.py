"""Who sent a request: the tenant whose data it may see, and what it may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from d4explain.contracts.scopes import Scope

DEFAULT_TENANT = "default"


@dataclass(frozen=True)
class Principal:
    tenant: str
    scopes: frozenset[Scope]
    key_id: str | None  # None without keys: the deployment then serves loopback only


# A deployment without keys has one tenant, and every client may do everything.
ANYBODY = Principal(DEFAULT_TENANT, frozenset(Scope), None)


def requires(scope: Scope) -> Callable[[Request], Principal]:
    """The dependency of a route that needs `scope`."""

    def principal_with_scope(_: Request) -> Principal:
        return ANYBODY

    principal_with_scope.__name__ = f"principal_that_may_{scope.value}"
    return principal_with_scope


Reader = Annotated[Principal, Depends(requires(Scope.READ))]
Explainer = Annotated[Principal, Depends(requires(Scope.EXPLAIN))]
Registrar = Annotated[Principal, Depends(requires(Scope.REGISTER))]
Admin = Annotated[Principal, Depends(requires(Scope.ADMIN))]
