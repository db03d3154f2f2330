"""Events of a job, from its stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
from httpx_sse import EventSource, ServerSentEvent


@dataclass(frozen=True)
class Event:
    type: str
    id: str | None
    data: dict[str, Any]


def read_events(response: httpx.Response) -> Iterator[Event]:
    """The events of a `text/event-stream`; skips pings and data that is not a JSON object."""
    for received in EventSource(response).iter_sse():
        event = _parsed(received)
        if event is not None:
            yield event


async def read_events_async(response: httpx.Response) -> AsyncIterator[Event]:
    """Like `read_events`."""
    async for received in EventSource(response).aiter_sse():
        event = _parsed(received)
        if event is not None:
            yield event


def _parsed(received: ServerSentEvent) -> Event | None:
    try:
        data = json.loads(received.data)
    except ValueError:
        return None
    return Event(received.event, received.id or None, data) if isinstance(data, dict) else None
