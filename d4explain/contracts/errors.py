"""Errors about invalid input; the store adds its own errors."""

# ruff: noqa: N818 - a domain error is named for what happened

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One fault of an input and its place (RFC 6901 pointer)."""

    pointer: str
    detail: str


class DomainError(Exception):
    """Base class of all domain errors."""


class InvalidInput(DomainError):
    """The input is invalid; `faults` lists each place."""

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
    """A plug-in is missing or cannot be used."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"plug-in {name[:80]!r}: {why}")
        self.name = name
