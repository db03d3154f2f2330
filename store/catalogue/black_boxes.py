"""GNNs that workers query over HTTP: which URLs a deployment allows."""

from __future__ import annotations

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.plugins import BLACK_BOX
from store.database.tables import Gnn
from store.database.tables.base import JsonObject
from store.outgoing_urls import black_box_rules, check_url
from store.settings import Settings


def is_black_box(gnn: Gnn) -> bool:
    return url_of(gnn.spec) is not None


def url_of(spec: JsonObject) -> str | None:
    """The URL of the GNN in a stored spec; None if it has weights."""
    (first, *_) = spec["layers"]
    return first["url"] if first["type"] == BLACK_BOX else None


def check_black_box_url(url: str, settings: Settings, pointer: str = "") -> None:
    """Raises InvalidInput unless this deployment allows the URL; does not resolve names."""
    if not settings.black_box:
        raise InvalidInput(
            "this deployment does not accept GNNs by URL; set D4_BLACK_BOX=on to allow them",
            pointer,
        )
    check_url(url, black_box_rules(settings), pointer)
