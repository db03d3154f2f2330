"""Errors about invalid input, with the place of each fault; the store adds its own errors."""

# ruff: noqa: N818 - a domain error is named for what happened

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_SHOWN = 64  # characters of a key or id that a message repeats


@dataclass(frozen=True)
class Fault:
    """One fault of an input and its place (RFC 6901 pointer)."""

    pointer: str
    detail: str


class DomainError(Exception):
    """Base class of all domain errors."""


class InvalidInput(DomainError):
    """The input is invalid; `faults` lists every fault and its place."""

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

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"plug-in {quoted(name)}: {reason}")
        self.name = name


def pointer(*tokens: str | int) -> str:
    """The JSON pointer of a place, with each key shortened and made printable."""
    return "".join("/" + _token(token) for token in tokens)


def printable(text: str) -> str:
    """At most `MAX_SHOWN` characters of the text, without unprintable characters."""
    cut = text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in cut
    )


def quoted(text: str) -> str:
    """What was sent, for a message: short, printable and in quotes."""
    return repr(printable(text))


def _token(token: str | int) -> str:
    if isinstance(token, int):
        return str(token)
    return printable(token).replace("~", "~0").replace("/", "~1")
