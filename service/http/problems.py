"""Turns every error into RFC 9457 problem+json; one table maps domain errors to statuses."""

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

from d4explain.contracts.errors import InvalidInput, printable
from service.http.faults import MAX_FAULTS, Fault, InvalidRequestError, Place, pointer, shown
from service.http.json_bodies import MalformedJsonError
from store import errors as domain
from store.artifacts.disk_space import is_disk_full
from store.database.sessions import OUTAGES, CommitUnknownError
from store.store import Store

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:d4explain:problem:"
_RETRY_SOON = {"Retry-After": "5"}
_RETRY_LATER = {"Retry-After": "30"}
_SAME_KEY = "Send the same request again with the same Idempotency-Key; it is executed only once."
_CHECK_FIRST = (
    "Check whether it was executed (lists show the newest first) before you send it again. With an "
    "Idempotency-Key you could safely repeat it."
)


class ProblemPlace(BaseModel):
    """One invalid value: in the body, a query parameter or a header."""

    model_config = ConfigDict(extra="forbid")

    detail: str
    pointer: str | None = Field(None, description="JSON pointer (RFC 6901) into the body.")
    parameter: str | None = Field(None, description="Name of a query parameter.")
    header: str | None = Field(None, description="Name of a header.")


class Problem(BaseModel):
    """RFC 9457. `type` is stable and meant for programs, `detail` for people."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemPlace]


class ProblemError(Exception):
    """An error of the HTTP layer, ready to be sent."""

    def __init__(
        self,
        status: HTTPStatus,
        slug: str,
        detail: str,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
        **extensions: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.faults = tuple(faults)
        self.headers = dict(headers or {})
        self.extensions = extensions  # extension members of RFC 9457


# Domain error → status and last part of `type`. The most specific class applies.
STATUSES: dict[type[Exception], tuple[HTTPStatus, str]] = {
    domain.NotFound: (HTTPStatus.NOT_FOUND, "not-found"),
    domain.Conflict: (HTTPStatus.CONFLICT, "conflict"),
    domain.Gone: (HTTPStatus.GONE, "gone"),
    domain.OnHold: (HTTPStatus.CONFLICT, "on-hold"),
    domain.QuotaExceeded: (HTTPStatus.TOO_MANY_REQUESTS, "quota-exceeded"),
    domain.QueueFull: (HTTPStatus.SERVICE_UNAVAILABLE, "overloaded"),
    domain.ArtifactDeleted: (HTTPStatus.SERVICE_UNAVAILABLE, "try-again"),
    domain.GnnNotReady: (HTTPStatus.CONFLICT, "gnn-not-ready"),
    InvalidInput: (HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input"),
    domain.IdempotencyMismatch: (HTTPStatus.UNPROCESSABLE_ENTITY, "idempotency-mismatch"),
    InvalidRequestError: (HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input"),
    MalformedJsonError: (HTTPStatus.BAD_REQUEST, "malformed-json"),
    domain.DiskFull: (HTTPStatus.INSUFFICIENT_STORAGE, "disk-full"),
    domain.ArtifactsUnavailable: (HTTPStatus.SERVICE_UNAVAILABLE, "artifacts-unavailable"),
}


def problem(
    status: int,
    slug: str,
    detail: str,
    faults: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
    **extensions: Any,
) -> JSONResponse:
    """The response for every error."""
    content = {
        "type": _TYPE + slug,
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
        "errors": [_error_entry(fault) for fault in faults[:MAX_FAULTS]],
        **extensions,
    }
    return JSONResponse(content, int(status), headers=headers, media_type=MEDIA_TYPE)


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Installs the handlers; `routes` are all routes, including those of routers."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(HTTPException, partial(_on_http, routes=routes))
    app.add_exception_handler(RequestValidationError, _on_validation)
    for kind in STATUSES:
        app.add_exception_handler(kind, _on_domain)
    for kind in OUTAGES:
        app.add_exception_handler(kind, on_outage)


class UnhandledErrors:
    """Middleware that logs an uncaught error and answers 500 as a problem."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_and_record(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, send_and_record)
        except ClientDisconnect:
            log.info("%s %s: client disconnected", scope["method"], printable(scope["path"]))
        except Exception as error:
            log.exception("%s %s failed", scope["method"], printable(scope["path"]))
            if started:
                raise  # the response is incomplete: the server closes the connection
            detail = "Internal error; see the service's log."
            response = problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", detail)
            if is_disk_full(error):  # while writing an artifact or an upload
                response = _disk_full()
            await response(scope, receive, send)


async def _on_problem(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    return problem(
        error.status, error.slug, error.detail, error.faults, error.headers, **error.extensions
    )


async def _on_domain(_: Request, error: Exception) -> JSONResponse:
    known = next(kind for kind in type(error).__mro__ if kind in STATUSES)
    status, slug = STATUSES[known]
    if isinstance(error, domain.DiskFull):
        return _disk_full(f"{_detail(error)}. Nothing was accepted.")
    if isinstance(error, domain.ArtifactsUnavailable):
        log.error("%s: %s", error, error.__cause__)
        detail = f"{_detail(error)}. Send the request again in a few seconds."
        return problem(status, slug, detail, headers=_RETRY_SOON)
    if isinstance(error, domain.QuotaExceeded):
        quota = {"name": error.name, "limit": error.limit, "used": error.used}
        return problem(status, slug, f"{_detail(error)}.", headers=_RETRY_LATER, quota=quota)
    retry = _RETRY_SOON if status is HTTPStatus.SERVICE_UNAVAILABLE else None
    return problem(status, slug, _detail(error), _faults(error), retry)


async def on_outage(request: Request, error: Exception) -> JSONResponse:
    store: Store = request.app.state.context.store
    has_key = "idempotency-key" in request.headers
    if isinstance(error, CommitUnknownError):
        log.error("lost the database connection during a commit: %s", error)
        detail = (
            "The database connection was lost while storing this request; the outcome is unknown. "
            + (_SAME_KEY if has_key else _CHECK_FIRST)
        )
        return problem(
            HTTPStatus.SERVICE_UNAVAILABLE, "outcome-unknown", detail, headers=_RETRY_SOON
        )
    if store.disk.explains(error):
        log.error("database disk full: %s", error)
        store.disk.note_refusal()
        return _disk_full()
    log.error("database unavailable: %s", error)
    # Do not say what was stored: this may be a read after the commit.
    detail = "The database is unavailable. " + (
        _SAME_KEY if has_key else "Send the request again in a few seconds."
    )
    return problem(
        HTTPStatus.SERVICE_UNAVAILABLE, "database-unavailable", detail, headers=_RETRY_SOON
    )


def _disk_full(detail: str = "The service's disk is full.") -> JSONResponse:
    advice = "Send the request again when space is available."
    return problem(
        HTTPStatus.INSUFFICIENT_STORAGE, "disk-full", f"{detail} {advice}", headers=_RETRY_LATER
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
        HTTPStatus.NOT_FOUND: f"There is no path {shown(request.url.path)}; /openapi.json lists "
        "all paths.",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.method} is not allowed; see the Allow header.",
    }
    detail = details.get(HTTPStatus(error.status_code), str(error.detail))
    return problem(error.status_code, slug, detail, headers=headers)


def _methods_at(request: Request, routes: Sequence[BaseRoute]) -> list[str]:
    """Methods of all routes at this path; Starlette only lists those of the first route."""
    methods: set[str] = set()
    for route in routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods)


async def _on_validation(_: Request, error: Exception) -> JSONResponse:
    """Errors in query parameters and headers; `json_bodies` handles bodies."""
    assert isinstance(error, RequestValidationError)
    faults = []
    for invalid in error.errors()[:MAX_FAULTS]:
        source, *path = invalid["loc"]
        detail = str(invalid["msg"]).replace("Input should", "should")
        if invalid["type"] == "extra_forbidden":
            detail = "is not a known parameter"
        place: Place = source if source in {"query", "header"} else "body"
        at = pointer(*path)
        faults.append(Fault(at if place == "body" else at.removeprefix("/"), detail, place))
    return await _on_domain(_, InvalidRequestError(faults))


def _detail(error: Exception) -> str:
    text = str(error)
    if isinstance(error, InvalidRequestError):
        return text  # begins with a field name
    return text[:1].upper() + text[1:]


def _faults(error: Exception) -> list[Fault]:
    if isinstance(error, InvalidRequestError):
        return list(error.faults)
    if isinstance(error, InvalidInput):
        return [Fault(fault.pointer, fault.detail) for fault in error.faults]
    if isinstance(error, domain.IdempotencyMismatch):
        return [Fault("Idempotency-Key", str(error), "header")]
    return []


def _error_entry(fault: Fault) -> dict[str, str]:
    names = {"body": "pointer", "query": "parameter", "header": "header"}
    return {names[fault.place]: fault.at, "detail": fault.detail}
