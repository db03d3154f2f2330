"""Errors that the command line prints as one line, without a traceback."""

from __future__ import annotations


class D4Error(Exception):
    """Base of the expected errors of this package; `hint` suggests a remedy."""

    hint: str | None = None


class CommandError(D4Error):
    """An error that the user of the command can fix."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
