"""Answers: JSON with an ETag, pages with a Link, accepted work with its address."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from service.resources import Item, JobResource, PageOf

RETRY_AFTER = "1"  # seconds between polls that cost little and still feel quick


def reply(
    content: BaseModel | dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    if isinstance(content, BaseModel):
        text = content.model_dump_json()
        return Response(text, status, headers=headers, media_type="application/json")
    return JSONResponse(content, status, headers=headers)


def tagged(request: Request, response: Response) -> Response:
    """Adds a strong ETag; answers 304 to a client that has this very answer already."""
    tag = entity_tag(bytes(response.body))
    response.headers.update(caching_headers(tag))
    return not_modified(request, tag, response.headers) or response


def entity_tag(*parts: bytes) -> str:
    """A strong ETag of an answer that these bytes determine."""
    return f'"{hashlib.sha256(b"".join(parts)).hexdigest()[:32]}"'


def caching_headers(tag: str) -> dict[str, str]:
    # kept by the client, asked about again
    return {"ETag": tag, "Cache-Control": "private, no-cache"}


def not_modified(request: Request, tag: str, headers: Mapping[str, str]) -> Response | None:
    """304 if the client has the answer with this ETag already."""
    known = request.headers.get("if-none-match", "")
    tags = {candidate.strip().removeprefix("W/") for candidate in known.split(",")}
    if tag not in tags and "*" not in tags:
        return None
    kept = caching_headers(tag) | {
        name: headers[name] for name in ("Retry-After", "Preference-Applied") if name in headers
    }
    return Response(status_code=304, headers=kept)


def page_reply(
    request: Request, page: PageOf[Item], query: Mapping[str, str | int | None]
) -> Response:
    """A list; its Link repeats the filters of the request."""
    headers = {}
    if page.next_cursor is not None:
        parameters = {name: value for name, value in query.items() if value is not None}
        following = urlencode({**parameters, "cursor": page.next_cursor})
        headers["Link"] = f'<{request.url.path}?{following}>; rel="next"'
    return reply(page, headers=headers)


def accepted_headers(location: str) -> dict[str, str]:
    return {"Location": location, "Retry-After": RETRY_AFTER}


def poll_headers(job: JobResource) -> dict[str, str]:
    """When to ask again, for as long as there is something to wait for."""
    return {} if job.state.is_terminal else {"Retry-After": RETRY_AFTER}
