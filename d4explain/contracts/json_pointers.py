"""JSON pointers (RFC 6901) that are safe to show in a message."""

from __future__ import annotations

MAX_SHOWN = 64  # characters of a caller's key or id that a message repeats


def pointer(*tokens: str | int) -> str:
    """The JSON pointer of a place, with each key shortened and made printable."""
    return "".join("/" + _token(token) for token in tokens)


def printable(text: str) -> str:
    """At most `MAX_SHOWN` characters of the text, without unprintable characters."""
    cut = text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in cut
    )


def _token(token: str | int) -> str:
    if isinstance(token, int):
        return str(token)
    return printable(token).replace("~", "~0").replace("/", "~1")
