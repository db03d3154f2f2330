"""Events of a job, from its stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
from httpx_sse import EventSource


@dataclass(frozen=True)
class Event:
    type: str
    id: str | None
    data: dict[str, Any]


def read_events(response: httpx.Response) -> Iterator[Event]:
    """The events of a `text/event-stream`; skips pings and data that is not a JSON object."""
    for event in EventSource(response).iter_sse():
        try:
            data = json.loads(event.data)
        except ValueError:
            continue
        if isinstance(data, dict):
            yield Event(event.event, event.id or None, data)
