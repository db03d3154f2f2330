"""GNNs that workers query over HTTP: which URLs a deployment allows."""

from __future__ import annotations

from urllib.parse import urlsplit

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.plugins import BLACK_BOX
from store.database.table_base import JsonObject
from store.database.tables import Gnn
from store.settings import Settings


def is_black_box(gnn: Gnn) -> bool:
    return url_of(gnn.spec) is not None


def url_of(spec: JsonObject) -> str | None:
    """The URL of the GNN in a stored spec; None if it has weights."""
    (first, *_) = spec["layers"]
    return first["url"] if first["type"] == BLACK_BOX else None


def check_url(url: str, settings: Settings, pointer: str = "") -> None:
    """Raises InvalidInput unless this deployment allows the URL; does not resolve names."""
    if not settings.black_box:
        raise InvalidInput(
            "this deployment does not accept GNNs by URL; set D4_BLACK_BOX=on to allow them",
            pointer,
        )
    # check this first: urlsplit drops line breaks
    if not url.isascii() or any(ord(letter) <= 32 for letter in url) or "\\" in url:
        raise InvalidInput("contains characters that must be percent-encoded in a URL", pointer)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"is not a URL: {error}", pointer) from None
    if parts.scheme not in ("http", "https"):
        raise InvalidInput(f"has the scheme {parts.scheme[:20]!r}; expected http or https", pointer)
    if "@" in parts.netloc or parts.fragment or not parts.hostname:
        raise InvalidInput("must have a host, no user name and no fragment", pointer)
    allowed = hosts(settings.black_box_hosts)
    names = {parts.hostname.lower(), f"{parts.hostname.lower()}:{port or _port(parts.scheme)}"}
    if not names & allowed:
        host = f"the host {parts.hostname[:80]!r}"
        raise InvalidInput(f"{host} is not in D4_BLACK_BOX_HOSTS of this deployment", pointer)


def hosts(listed: str) -> set[str]:
    """Parses a comma-separated setting of `host` or `host:port`."""
    return {name.strip().lower() for name in listed.split(",") if name.strip()}


def _port(scheme: str) -> int:
    return 443 if scheme == "https" else 80
