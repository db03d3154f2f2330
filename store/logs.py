"""Structured logs: one JSON object per line, with the ids of the current request and job."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TextIO

current_job: ContextVar[str | None] = ContextVar("current_job", default=None)
current_request: ContextVar[str | None] = ContextVar("current_request", default=None)

_JSON = json.JSONEncoder(ensure_ascii=False, default=str)
# Standard attributes of a record; all others were passed by `extra=` and are logged.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


@contextmanager
def request_context(request_id: str | None) -> Iterator[None]:
    """Adds this request's id to every log line inside the block."""
    token = current_request.set(request_id)
    try:
        yield
    finally:
        current_request.reset(token)


@contextmanager
def job_context(job_id: str, request_id: str | None = None) -> Iterator[None]:
    """Adds this job's id, and that of the request that caused it, to every log line inside."""
    token = current_job.set(job_id)
    try:
        with request_context(request_id):
            yield
    finally:
        current_job.reset(token)


class JsonLines(logging.Formatter):
    """Formats records as JSON; escaped newlines prevent forged lines."""

    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "component": self._component,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, current in (("request", current_request), ("job", current_job)):
            if current.get() is not None:
                line[name] = current.get()
        more = vars(record)
        line |= {key: more[key] for key in sorted(more.keys() - _STANDARD)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _JSON.encode(line)


def configure(component: str, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Sends all logs of this process to one stream; a second call replaces the first."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(component))
    logging.basicConfig(level=level, handlers=[handler], force=True)
