"""Builds the OpenAPI description of routes from models and real examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service import examples
from service.glossary.field_texts import add_field_texts
from service.http.principals import OPEN_PATHS, scope_of
from service.http.problems import MEDIA_TYPE, Problem
from service.http.waiting import MAX_WAIT_SECONDS

_REF = "#/components/schemas/{model}"
_MODELS: set[type[BaseModel]] = {Problem}

_SECURITY_SCHEMES = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, `d4_…`. A deployment without keys serves loopback only and "
        "needs none.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "d4_session",
        "description": "The cookie of `POST /v1/session`; over https it is called "
        "`__Host-d4_session`.",
    },
}
DRY_RUN = {
    "name": "dry_run",
    "in": "query",
    "required": False,
    "description": "Only check the request and estimate its cost; nothing is queued.",
    "schema": {"type": "boolean", "default": False},
}
WAIT_FOR = {
    "name": "wait_for",
    "in": "query",
    "required": False,
    "description": "The answer that `Prefer: wait` and `Retry-After` refer to.",
    "schema": {"type": "string", "enum": ["provisional", "final"], "default": "final"},
}
PREFER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`wait=n`: wait until the job has ended, or for n seconds (at most "
    f"{MAX_WAIT_SECONDS}). `respond-async`: do not wait.",
    "schema": {"type": "string", "maxLength": 100},
    "example": "wait=10",
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Same key and body: same resource. Same key, different body: 422.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "example": "5f0c1a52-7d0b-4b8e-9a53-0c9f6d8a2b11",
}
IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "An ETag; 304 without a body if the answer has not changed.",
    "schema": {"type": "string", "maxLength": 1000},
    "example": '"9f2b6c0e4d1a4f7f8f0a1b2c3d4e5f60"',
}


def schema_of(model: type[BaseModel]) -> dict[str, str]:
    """A reference to the model's schema, which `install_openapi` adds to the components."""
    _MODELS.add(model)
    name = re.sub(r"[^a-zA-Z0-9.\-_]", "_", model.__name__)
    return {"$ref": _REF.format(model=name)}


def json_request(
    model: type[BaseModel], named_examples: Mapping[str, Any], *parameters: dict[str, Any]
) -> dict[str, Any]:
    """`openapi_extra` of a route with a JSON body."""
    content = {
        "schema": schema_of(model),
        "examples": {name: {"value": value} for name, value in named_examples.items()},
    }
    return {
        "requestBody": {"required": True, "content": {"application/json": content}},
        "parameters": list(parameters),
    }


def response(
    description: str,
    model: type[BaseModel] | None = None,
    example: Any = None,
    *,
    media_type: str = "application/json",
    other_examples: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One entry of a route's `responses`; `other_examples` are texts by media type."""
    entry: dict[str, Any] = {"description": description}
    if example is not None:
        schema: dict[str, Any] = schema_of(model) if model else {"type": "string"}
        if media_type == "text/event-stream":  # OpenAPI 3.1 cannot describe event streams
            schema = {}
        entry["content"] = {media_type: {"schema": schema, "example": example}}
        for other_type, text in (other_examples or {}).items():
            entry["content"][other_type] = {"schema": {"type": "string"}, "example": text}
    return entry


def response_variants(
    description: str,
    variants: Mapping[str, tuple[type[BaseModel], Any]],
    other_examples: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Like `response`, for JSON of one of several models, each with an example."""
    entry = response(description, Problem, {}, other_examples=other_examples)
    entry["content"]["application/json"] = {
        "schema": {"anyOf": [schema_of(model) for model, _ in variants.values()]},
        "examples": {name: {"value": example} for name, (_, example) in variants.items()},
    }
    return entry


def problem_responses(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """Error entries of a route's `responses`: these statuses and those of every route."""
    common = (
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.INSUFFICIENT_STORAGE,
    )
    return {
        int(status): {
            "description": status.phrase,
            "content": {
                MEDIA_TYPE: {"schema": schema_of(Problem), "example": examples.problem(status)}
            },
        }
        for status in sorted({*common, *statuses})
    }


def install_openapi(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Completes `/openapi.json`.

    FastAPI omits models that routes parse themselves and removes nulls from examples.
    """
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                description=app.description,
                routes=app.routes,
                tags=app.openapi_tags,
            )
            models = sorted(_MODELS, key=lambda model: model.__name__)
            _, definitions = models_json_schema(
                [(model, "validation") for model in models], ref_template=_REF
            )
            components = schema.setdefault("components", {}).setdefault("schemas", {})
            components |= definitions["$defs"]
            for route in routes:
                if route.include_in_schema:
                    _restore_examples(route, schema["paths"][route.path])
                    _add_security(route, schema["paths"][route.path])
            schema["components"]["securitySchemes"] = _SECURITY_SCHEMES
            add_field_texts(schema)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _add_security(route: APIRoute, methods: dict[str, Any]) -> None:
    """Says what a route needs, and names the scope; a deployment without keys needs nothing."""
    if route.path in OPEN_PATHS:
        return
    scope = scope_of(route)
    needed = [] if scope is None else [scope.value]
    for method in route.methods or ():
        methods[method.lower()]["security"] = [{}, {"key": needed}, {"session": needed}]


def _restore_examples(route: APIRoute, methods: dict[str, Any]) -> None:
    """Restores the route's request body and responses with their nulls."""
    for method in route.methods or ():
        operation = methods[method.lower()]
        body = (route.openapi_extra or {}).get("requestBody")
        if body is not None:
            operation["requestBody"] = body
        for status, entry in route.responses.items():
            if "content" in entry:
                operation["responses"][str(status)]["content"] = entry["content"]
