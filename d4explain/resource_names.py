"""Names of GNNs and reference sets; client and server check them by the same rule."""

from __future__ import annotations

import unicodedata

MAX_NAME_LENGTH = 200
GNN, DATASET = "gnn_", "set_"  # prefixes of ids


def name_fault(name: str) -> str | None:
    """Why this is not a valid name; names must differ from ids, versions and URLs.

    GNNs and reference sets have one rule, because a GNN and its reference set often share a name.
    """
    if not 1 <= len(name) <= MAX_NAME_LENGTH:
        return f"should have 1 to {MAX_NAME_LENGTH} characters"
    if not is_printable(name):
        return "should not contain control characters"
    if "@" in name or "/" in name:
        return "should not contain '@' or '/'; they separate names from versions and URL paths"
    if name.startswith((GNN, DATASET)):
        return f"should not begin with {GNN!r} or {DATASET!r}, like an id"
    if name in (".", ".."):
        return "should not be '.' or '..'"
    return None


def is_printable(text: str) -> bool:
    return not any(unicodedata.category(character) in {"Cc", "Cs"} for character in text)
