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
    tag = f'"{hashlib.sha256(response.body).hexdigest()[:32]}"'
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = "private, no-cache"  # kept by the client, asked about again
    known = request.headers.get("if-none-match", "")
    tags = {candidate.strip().removeprefix("W/") for candidate in known.split(",")}
    if tag not in tags and "*" not in tags:
        return response
    kept = {"ETag": tag} | {
        name: response.headers[name]
        for name in ("Cache-Control", "Retry-After", "Preference-Applied")
        if name in response.headers
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
