"""Bodies and resources of keys, sessions and links, and how they are built from rows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from d4explain.contracts.scopes import KeyState, Scope
from service.http.access.credentials import LINK_PARAMETER
from service.http.principals import Principal
from service.metadata_models import Metadata, StoredMetadata
from service.resources import Resource
from service.schemas import Body
from store.access.api_keys import NewKey, state_of
from store.access.temporary_tokens import NewToken
from store.database.clock import timestamp
from store.database.tables import ApiKey, TemporaryToken

# The names of `Scope`: a strict body accepts no names of an enum.
ScopeName = Literal["read", "explain", "register", "admin"]
MAX_LINK_SECONDS = 7 * 24 * 3600
MAX_DAYS = 3650
_MAX_OVERLAP_HOURS = 30 * 24


class KeyIn(Body):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=len(Scope))]
    days: Annotated[float, Field(gt=0, le=MAX_DAYS, allow_inf_nan=False)] | None = None
    metadata: Metadata = Field(default_factory=dict)


class RotationIn(Body):
    overlap_hours: Annotated[float, Field(ge=0, le=_MAX_OVERLAP_HOURS, allow_inf_nan=False)] = 24.0


class LinkIn(Body):
    seconds: Annotated[int, Field(ge=1, le=MAX_LINK_SECONDS)] = 3600


class KeyResource(Resource):
    id: str
    name: str
    prefix: str
    scopes: list[Scope]
    state: KeyState
    metadata: StoredMetadata
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    rotated_from: str | None


class NewKeyResource(KeyResource):
    key: str


class SessionResource(Resource):
    tenant: str
    scopes: list[Scope]
    key_id: str | None
    csrf_token: str | None
    expires_at: str | None


class LinkResource(Resource):
    id: str
    explanation: str
    created_at: str
    expires_at: str


class NewLinkResource(LinkResource):
    url: str


def key_resource(row: ApiKey, at: float) -> KeyResource:
    """`at` is the time by the database's clock."""
    return KeyResource(
        id=row.id,
        name=row.name,
        prefix=row.prefix,
        scopes=[Scope(scope) for scope in row.scopes],
        state=state_of(row, at),
        metadata=row.caller_metadata or {},
        created_at=timestamp(row.created_at),
        expires_at=_optional(row.expires_at),
        revoked_at=_optional(row.revoked_at),
        last_used_at=_optional(row.last_used_at),
        rotated_from=row.rotated_from,
    )


def new_key_resource(new: NewKey, at: float) -> NewKeyResource:
    return NewKeyResource(**dict(key_resource(new.row, at)), key=new.text)


def session_resource(
    principal: Principal, csrf_token: str | None, expires_at: float | None
) -> SessionResource:
    return SessionResource(
        tenant=principal.tenant,
        scopes=[scope for scope in Scope if scope in principal.scopes],
        key_id=principal.key_id,
        csrf_token=csrf_token,
        expires_at=_optional(expires_at),
    )


def link_resource(row: TemporaryToken) -> LinkResource:
    return LinkResource(
        id=row.id,
        explanation=row.explanation_id or "",
        created_at=timestamp(row.created_at),
        expires_at=timestamp(row.expires_at),
    )


def new_link_resource(new: NewToken) -> NewLinkResource:
    url = f"/v1/explanations/{new.row.explanation_id}?{LINK_PARAMETER}={new.text}"
    return NewLinkResource(**dict(link_resource(new.row)), url=url)


def _optional(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)
