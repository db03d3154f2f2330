"""References to a GNN, `gnn_…`, `name@3`, `name@production`, `name`, or to a reference set."""

from __future__ import annotations

import re
from dataclasses import dataclass

from d4explain.resource_names import GNN, MAX_NAME_LENGTH, is_printable

MAX_ALIAS_LENGTH = 64
MAX_REFERENCE_LENGTH = MAX_NAME_LENGTH + 1 + MAX_ALIAS_LENGTH
# An alias begins with a letter, so that it cannot look like a version.
ALIAS_PATTERN = r"^[a-z][a-z0-9_.-]{0,63}$"

_ID = re.compile(r"[a-z0-9_]{1,28}")
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_ALIAS = re.compile(ALIAS_PATTERN)


@dataclass(frozen=True)
class Reference:
    """Either `id`, or `name` with a version or an alias; a name alone means its newest version.

    Only GNNs have aliases.
    """

    id: str | None = None
    name: str | None = None
    version: int | None = None
    alias: str | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether it always refers to the same GNN."""
        return self.id is not None or self.version is not None


def parse_reference(text: str, prefix: str = GNN) -> Reference | None:
    """Parses a reference; None if it cannot refer to anything."""
    if text.startswith(prefix) and _ID.fullmatch(text.removeprefix(prefix)):
        return Reference(id=text)
    name, at, which = text.rpartition("@")
    if not at:
        return Reference(name=text) if is_printable(text) and text else None
    if not name or not is_printable(name):
        return None
    if _VERSION.fullmatch(which):
        return Reference(name=name, version=int(which))
    return Reference(name=name, alias=which) if _ALIAS.fullmatch(which) else None
