"""Checks of single fields of a layer; each raises ValueError with the value that it got."""

from __future__ import annotations


def require_positive(field: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{field} must be a whole number of at least 1; got {value!r}")


def require_one_of(field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{field} must be one of {', '.join(allowed)}; got {value!r}")


def require_distinct(field: str, values: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    for value in values:
        require_one_of(field, value, allowed)
    if not values or len(set(values)) < len(values):
        raise ValueError(f"{field} must be one or more different names; got {values!r}")
