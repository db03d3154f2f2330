"""What can go wrong for a person at the terminal: each is one clear line, never a traceback."""

from __future__ import annotations


class D4Error(Exception):
    """Base of all that this package raises on purpose; `hint` says what one can do."""

    hint: str | None = None


class CommandError(D4Error):
    """Something the person who ran the command can act on."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
