"""GNNs that are asked over HTTP: which addresses a deployment lets its workers call."""

from __future__ import annotations

from urllib.parse import urlsplit

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.plugins import BLACK_BOX
from store.database.tables import Gnn, JsonObject
from store.settings import Settings


def is_black_box(gnn: Gnn) -> bool:
    return url_of(gnn.spec) is not None


def url_of(spec: JsonObject) -> str | None:
    """Where the GNN of a stored spec is asked; None if it has weights."""
    (first, *_) = spec["layers"]
    return first["url"] if first["type"] == BLACK_BOX else None


def check_url(url: str, settings: Settings, pointer: str = "") -> None:
    """Raises InvalidInput unless this deployment calls this address; names are not resolved here"""
    if not settings.black_box:
        raise InvalidInput(
            "this deployment takes no GNNs by URL; D4_BLACK_BOX would have to be on", pointer
        )
    # first of all, since reading a URL drops line breaks
    if not url.isascii() or any(ord(letter) <= 32 for letter in url) or "\\" in url:
        raise InvalidInput("has characters that a URL writes as %…", pointer)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"is not a URL: {error}", pointer) from None
    if parts.scheme not in ("http", "https"):
        raise InvalidInput(f"has the scheme {parts.scheme[:20]!r}, not http or https", pointer)
    if "@" in parts.netloc or parts.fragment or not parts.hostname:
        raise InvalidInput("needs a host and may have no user name and no fragment", pointer)
    allowed = hosts(settings.black_box_hosts)
    names = {parts.hostname.lower(), f"{parts.hostname.lower()}:{port or _port(parts.scheme)}"}
    if not names & allowed:
        said = f"the host {parts.hostname[:80]!r} is not one that this deployment calls"
        raise InvalidInput(f"{said} (D4_BLACK_BOX_HOSTS)", pointer)


def hosts(listed: str) -> set[str]:
    """Of a comma-separated setting: `host` or `host:port` each."""
    return {name.strip().lower() for name in listed.split(",") if name.strip()}


def _port(scheme: str) -> int:
    return 443 if scheme == "https" else 80
