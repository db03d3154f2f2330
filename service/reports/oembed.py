"""The address under which a page is described by oEmbed."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import Request

from service.http.access.credentials import SENT_QUERY


def oembed_address(request: Request) -> str:
    """With the address of the requested page, and the token of a link if it had one."""
    sent = request.scope.get(SENT_QUERY, request.scope["query_string"]).decode("latin-1")
    root = f"{request.url.scheme}://{request.headers.get('host', '')}"
    page = f"{root}{request.url.path}" + (f"?{sent}" if sent else "")
    return f"{root}/oembed?{urlencode({'url': page, 'format': 'json'})}"
