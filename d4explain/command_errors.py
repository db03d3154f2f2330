"""What can go wrong for a person at the terminal: each is one clear line, never a traceback."""

from __future__ import annotations


class CommandError(Exception):
    """Something the person who ran the command can act on; `hint` says how."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
