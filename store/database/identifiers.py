"""Random ids that sort by time."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u


def new_id(prefix: str) -> str:
    """`prefix_` + 10 characters of milliseconds + 10 of randomness."""
    milliseconds = time.time_ns() // 1_000_000
    return f"{prefix}_{_base32(milliseconds)}{_base32(secrets.randbits(50))}"


def _base32(number: int) -> str:
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(45, -1, -5))
