"""The message for graphs that exceed a limit of this deployment."""

from __future__ import annotations

_MAX_SHOWN = 10**18  # a posted number may have thousands of digits


def too_many(sent: int, what: str, allowed: int) -> str:
    count = f"{sent:,}" if sent < _MAX_SHOWN else "more than 10^18"
    return f"the graph has {count} {what}; this deployment accepts at most {allowed:,}"
