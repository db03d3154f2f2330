"""Builds responses: JSON, pages, and the headers for caching and polling."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from service.resources import Item, JobResource, PageOf

MIN_RETRY_SECONDS = 1


def json_response(
    content: BaseModel | dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    if isinstance(content, BaseModel):
        text = content.model_dump_json()
        return Response(text, status, headers=headers, media_type="application/json")
    return JSONResponse(content, status, headers=headers)


def with_etag(request: Request, response: Response) -> Response:
    """Adds a strong ETag; answers 304 if the client already has this response."""
    tag = entity_tag(bytes(response.body))
    response.headers.update(caching_headers(tag))
    return not_modified(request, tag, response.headers) or response


def entity_tag(*parts: bytes) -> str:
    """A strong ETag of a response that depends only on these bytes."""
    return f'"{hashlib.sha256(b"".join(parts)).hexdigest()[:32]}"'


def caching_headers(tag: str) -> dict[str, str]:
    # The client may store the response but must revalidate it.
    return {"ETag": tag, "Cache-Control": "private, no-cache"}


def not_modified(request: Request, tag: str, headers: Mapping[str, str]) -> Response | None:
    """304 if the client already has the response with this ETag."""
    if_none_match = request.headers.get("if-none-match", "")
    tags = {candidate.strip().removeprefix("W/") for candidate in if_none_match.split(",")}
    if tag not in tags and "*" not in tags:
        return None
    repeated = ("Retry-After", "Preference-Applied")
    also = {name: headers[name] for name in repeated if name in headers}
    return Response(status_code=304, headers=caching_headers(tag) | also)


def page_response(
    request: Request, page: PageOf[Item], query: Mapping[str, str | int | None]
) -> Response:
    """A page of a list, with a Link to the next page that repeats the request's filters."""
    headers = {}
    if page.next_cursor is not None:
        parameters = {name: value for name, value in query.items() if value is not None}
        headers = next_link(request, {**parameters, "cursor": page.next_cursor})
    return json_response(page, headers=headers)


def next_link(request: Request, query: Mapping[str, str | int]) -> dict[str, str]:
    return {"Link": f'<{request.url.path}?{urlencode(query)}>; rel="next"'}


def accepted_headers(location: str, seconds: float | None = None) -> dict[str, str]:
    return {"Location": location, **retry_after(seconds)}


def poll_headers(job: JobResource) -> dict[str, str]:
    """When to poll again, unless the job has ended: after the trainings that it waits for."""
    if job.state.is_terminal:
        return {}
    return retry_after(job.seconds_left if job.trainings else None)


def retry_after(seconds: float | None) -> dict[str, str]:
    """A whole number of seconds, at least one; one if unknown."""
    return {"Retry-After": str(max(MIN_RETRY_SECONDS, math.ceil(seconds or 0)))}
