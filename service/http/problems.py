"""Every error as one shape, RFC 9457 problem+json; one table from domain errors to statuses."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from d4explain.contracts.errors import InvalidInput
from service.http.faults import MAX_FAULTS, Fault, InvalidRequestError, Place, pointer
from service.http.json_bodies import MalformedJsonError
from store import errors as domain
from store.artifacts.disk_space import is_disk_full
from store.database.sessions import OUTAGES, CommitUnknownError
from store.store import Store

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:d4explain:problem:"
_AWAY = HTTPStatus.SERVICE_UNAVAILABLE
_SOON = {"Retry-After": "5"}
_LATER = {"Retry-After": "30"}
_SAME_KEY = (
    "Send the same request again with the same Idempotency-Key: it is carried out once, "
    "however often it is sent."
)
_LOOK_FIRST = (
    "Look whether it was carried out (lists show the newest first) before you send it again; with "
    "an Idempotency-Key it could be sent again as it is."
)


class ProblemPlace(BaseModel):
    """One thing that is wrong; where is a body pointer, a query parameter or a header."""

    model_config = ConfigDict(extra="forbid")

    detail: str
    pointer: str | None = Field(None, description="JSON pointer (RFC 6901) into the body.")
    parameter: str | None = Field(None, description="Name of a query parameter.")
    header: str | None = Field(None, description="Name of a header.")


class Problem(BaseModel):
    """RFC 9457; `type` is stable and meant for programs, `detail` for people."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemPlace]


class ProblemError(Exception):
    """An error that only HTTP knows, ready to be sent."""

    def __init__(
        self,
        status: HTTPStatus,
        slug: str,
        detail: str,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.faults = tuple(faults)
        self.headers = dict(headers or {})
        self.members = members


# Domain error → status and last part of `type`. The nearest class in the error's ancestry counts.
STATUSES: dict[type[Exception], tuple[HTTPStatus, str]] = {
    domain.NotFound: (HTTPStatus.NOT_FOUND, "not-found"),
    domain.Conflict: (HTTPStatus.CONFLICT, "conflict"),
    domain.GnnNotReady: (HTTPStatus.CONFLICT, "gnn-not-ready"),
    InvalidInput: (HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input"),
    domain.IdempotencyMismatch: (HTTPStatus.UNPROCESSABLE_ENTITY, "idempotency-mismatch"),
    InvalidRequestError: (HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input"),
    MalformedJsonError: (HTTPStatus.BAD_REQUEST, "malformed-json"),
    domain.DiskFull: (HTTPStatus.INSUFFICIENT_STORAGE, "disk-full"),
}


def problem(
    status: int,
    slug: str,
    detail: str,
    faults: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> JSONResponse:
    """The one way an error leaves this service."""
    content = {
        "type": _TYPE + slug,
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
        "errors": [_place(fault) for fault in faults[:MAX_FAULTS]],
        **members,
    }
    return JSONResponse(content, int(status), headers=headers, media_type=MEDIA_TYPE)


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """`routes` are all that the application has, with those of its routers one by one."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(HTTPException, partial(_on_http, routes=routes))
    app.add_exception_handler(RequestValidationError, _on_validation)
    for kind in STATUSES:
        app.add_exception_handler(kind, _on_domain)
    for kind in OUTAGES:
        app.add_exception_handler(kind, _on_outage)


class LastResort:
    """Outermost middleware: what nobody caught becomes a 500 of the same shape, and a log line."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except ClientDisconnect:
            log.info("%s %s: the client left", scope["method"], scope["path"])
        except Exception as error:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise  # the server cuts the connection: half an answer must not look whole
            detail = "The service failed; its log has the reason."
            response = problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", detail)
            if is_disk_full(error):  # of artifacts or of a spooled upload
                response = _disk_full()
            await response(scope, receive, send)


async def _on_problem(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    return problem(
        error.status, error.slug, error.detail, error.faults, error.headers, **error.members
    )


async def _on_domain(_: Request, error: Exception) -> JSONResponse:
    known = next(kind for kind in type(error).__mro__ if kind in STATUSES)
    status, slug = STATUSES[known]
    if isinstance(error, domain.DiskFull):
        return _disk_full(f"{_detail(error)}. Nothing was accepted.")
    return problem(status, slug, _detail(error), _faults(error))


async def _on_outage(request: Request, error: Exception) -> JSONResponse:
    store: Store = request.app.state.context.store
    has_key = "idempotency-key" in request.headers
    if isinstance(error, CommitUnknownError):
        log.error("the database was lost during a commit: %s", error)
        detail = "The database was lost while it stored this request: the outcome is unknown. " + (
            _SAME_KEY if has_key else _LOOK_FIRST
        )
        return problem(_AWAY, "outcome-unknown", detail, headers=_SOON)
    if store.disk.explains(error):
        log.error("the database's disk is full: %s", error)
        store.disk.note_refusal()
        return _disk_full()
    log.error("the database does not answer: %s", error)
    # No claim about what was stored: this may be a read that followed the commit.
    detail = "The database does not answer at the moment. " + (
        _SAME_KEY if has_key else "Send the request again in a few seconds."
    )
    return problem(_AWAY, "database-unavailable", detail, headers=_SOON)


def _disk_full(detail: str = "The service's disk is full.") -> JSONResponse:
    again = "Send the request again when there is room."
    return problem(
        HTTPStatus.INSUFFICIENT_STORAGE, "disk-full", f"{detail} {again}", headers=_LATER
    )


async def _on_http(
    request: Request, error: Exception, *, routes: Sequence[BaseRoute]
) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_at(request, routes))
    slug = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
    details = {
        HTTPStatus.NOT_FOUND: "There is nothing at this address; /openapi.json lists what is.",
        HTTPStatus.METHOD_NOT_ALLOWED: "This address does not take this method.",
    }
    detail = details.get(HTTPStatus(error.status_code), str(error.detail))
    return problem(error.status_code, slug, detail, headers=headers)


def _methods_at(request: Request, routes: Sequence[BaseRoute]) -> list[str]:
    """Of all routes of this address; the router itself names those of the first one only."""
    methods: set[str] = set()
    for route in routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods)


async def _on_validation(_: Request, error: Exception) -> JSONResponse:
    """Query parameters and headers that FastAPI read; bodies are read by `json_bodies`."""
    assert isinstance(error, RequestValidationError)
    faults = []
    for found in error.errors()[:MAX_FAULTS]:
        place, *rest = found["loc"]
        words = str(found["msg"]).replace("Input should", "should")
        if found["type"] == "extra_forbidden":
            words = "is not a known parameter"
        where: Place = place if place in {"query", "header"} else "body"
        name = pointer(*rest)
        faults.append(Fault(name if where == "body" else name.removeprefix("/"), words, where))
    return await _on_domain(_, InvalidRequestError(faults))


def _detail(error: Exception) -> str:
    text = str(error)
    if isinstance(error, InvalidRequestError):
        return text  # begins with the name of the place
    return text[:1].upper() + text[1:]


def _faults(error: Exception) -> list[Fault]:
    if isinstance(error, InvalidRequestError):
        return list(error.faults)
    if isinstance(error, InvalidInput):
        return [Fault(fault.pointer, fault.detail) for fault in error.faults]
    if isinstance(error, domain.IdempotencyMismatch):
        return [Fault("Idempotency-Key", str(error), "header")]
    return []


def _place(fault: Fault) -> dict[str, str]:
    names = {"body": "pointer", "query": "parameter", "header": "header"}
    return {names[fault.place]: fault.at, "detail": fault.detail}
