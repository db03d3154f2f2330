"""Server-sent events, as far as the job streams use them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    type: str
    id: str | None
    data: dict[str, Any]


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """Events of a `text/event-stream`; pings and data that is no JSON object are skipped.

    https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """
    kind, identifier, data = "message", None, []  # type: str, str | None, list[str]
    for line in lines:
        if not line:
            event = _event(kind, identifier, data)
            if event is not None:
                yield event
            kind, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                kind = value
            case "id":
                identifier = value
            case "data":
                data.append(value)


def _event(kind: str, identifier: str | None, data: list[str]) -> Event | None:
    try:
        document = json.loads("\n".join(data))
    except ValueError:
        return None
    return Event(kind, identifier, document) if isinstance(document, dict) else None
