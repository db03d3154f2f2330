"""Errors about what was sent; the store adds its own."""

# ruff: noqa: N818 - a domain error is named for what happened

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an input, and where (RFC 6901 pointer)."""

    pointer: str
    detail: str


class DomainError(Exception):
    """Base of all errors of the domain."""


class InvalidInput(DomainError):
    """Something sent is not acceptable; `faults` names each place."""

    def __init__(
        self,
        message: str,
        pointer: str = "",
        allowed: object = None,
        faults: Sequence[Fault] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.pointer = pointer
        self.allowed = allowed
        self.faults = tuple(faults) or (Fault(pointer, message),)


class PluginError(DomainError):
    """A plug-in of this environment cannot be used, or one that is needed is not there."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"plug-in {name[:80]!r}: {why}")
        self.name = name
