"""Who sent a request: the tenant whose data it may see, and what it may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.routing import APIRoute

from d4explain.contracts.scopes import DEFAULT_TENANT, Scope
from service.http.problems import ProblemError

# They tell nothing about a tenant: health, the pages and the reference of the API.
PAGES = frozenset(
    {
        "/",
        "/gnns",
        "/explanations",
        "/evaluations",
        "/ask",
        "/evaluate",
        "/compare",
        "/settings",
        "/docs",
    }
)
OPEN_PATHS = PAGES | {"/livez", "/readyz", "/openapi.json", "/oembed"}
OPEN_FOLDERS = (
    *("/docs/", "/dashboard/", "/gnns/", "/explanations/", "/jobs/"),
    *("/evaluations/", "/comparisons/"),
)
_PRINCIPAL = "d4explain.principal"  # in the ASGI scope of an authenticated request


@dataclass(frozen=True)
class Principal:
    tenant: str
    scopes: frozenset[Scope]
    key_id: str | None  # None without keys: the deployment then serves loopback only
    session_id: str | None = None  # of a browser
    explanation_id: str | None = None  # of a link, which opens nothing else


# A deployment without keys has one tenant, and every client may do everything.
ANYBODY = Principal(DEFAULT_TENANT, frozenset(Scope), None)


def set_principal(scope: MutableMapping[str, Any], principal: Principal) -> None:
    """Called by `authentication` before the route runs."""
    scope[_PRINCIPAL] = principal


def known_principal(scope: MutableMapping[str, Any]) -> Principal | None:
    """None for paths that need no key."""
    principal: Principal | None = scope.get(_PRINCIPAL)
    return principal


async def principal_of(request: Request) -> Principal:
    # Not `def`: FastAPI would run it in a thread.
    return principal_in(request.scope)


def principal_in(scope: Mapping[str, Any]) -> Principal:
    principal = scope[_PRINCIPAL]
    assert isinstance(principal, Principal)
    return principal


def requires(scope: Scope) -> Callable[[Request], Awaitable[Principal]]:
    """The dependency of a route that needs `scope`."""

    async def principal_with_scope(request: Request) -> Principal:
        principal = await principal_of(request)
        if scope not in principal.scopes:
            has = ", ".join(one for one in Scope if one in principal.scopes)
            raise ProblemError(
                HTTPStatus.FORBIDDEN,
                "missing-scope",
                f"This request needs the scope {scope.value}; the key has {has}.",
                headers={"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'},
            )
        return principal

    principal_with_scope.__name__ = f"principal_that_may_{scope.value}"
    principal_with_scope.needed_scope = scope  # type: ignore[attr-defined]  # for `scope_of`
    return principal_with_scope


def scope_of(route: APIRoute) -> Scope | None:
    """The scope that a route needs; None if any key will do."""
    scopes = [getattr(one.call, "needed_scope", None) for one in route.dependant.dependencies]
    return next((scope for scope in scopes if scope is not None), None)


AnyKey = Annotated[Principal, Depends(principal_of)]  # whatever its scopes
Reader = Annotated[Principal, Depends(requires(Scope.READ))]
Explainer = Annotated[Principal, Depends(requires(Scope.EXPLAIN))]
Registrar = Annotated[Principal, Depends(requires(Scope.REGISTER))]
Admin = Annotated[Principal, Depends(requires(Scope.ADMIN))]
