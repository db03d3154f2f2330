"""Spans of OpenTelemetry, if the environment names a collector; otherwise nothing is measured.

The variables are those of OpenTelemetry (`OTEL_EXPORTER_OTLP_ENDPOINT`, …). Its packages are the
extra `otel`, and are imported only if a collector is named.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Protocol

log = logging.getLogger(__name__)

Kind = Literal["INTERNAL", "SERVER", "CLIENT", "CONSUMER"]
Attributes = Mapping[str, str | int | float | bool | None]

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_FLUSH_MILLISECONDS = 2000
_NANOSECONDS = 1_000_000_000


class Span(Protocol):
    """A span that has begun; call `end` once."""

    @property
    def traceparent(self) -> str | None:
        """The parent of spans in other processes; None while tracing is off."""

    def set(self, attributes: Attributes) -> None: ...

    def rename(self, name: str) -> None: ...

    def fail(self, reason: str) -> None: ...

    def end(self, at: float | None = None) -> None: ...


class _NoSpan:
    traceparent = None

    def set(self, attributes: Attributes) -> None:
        pass

    def rename(self, name: str) -> None:
        pass

    def fail(self, reason: str) -> None:
        pass

    def end(self, at: float | None = None) -> None:
        pass


NO_SPAN: Span = _NoSpan()


class _OtelSpan:
    def __init__(self, span: Any) -> None:
        self.span = span

    @property
    def traceparent(self) -> str:
        context = self.span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def set(self, attributes: Attributes) -> None:
        for name, value in attributes.items():
            if value is not None:
                self.span.set_attribute(name, value)

    def rename(self, name: str) -> None:
        self.span.update_name(name)

    def fail(self, reason: str) -> None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 — an extra

        self.span.set_status(Status(StatusCode.ERROR, reason))

    def end(self, at: float | None = None) -> None:
        self.span.end(None if at is None else round(at * _NANOSECONDS))


_provider: Any = None  # of this process; None while tracing is off


def configure(component: str, environ: Mapping[str, str] = os.environ) -> None:
    """Call it once in every process that makes spans; it starts a thread that sends them."""
    global _provider  # noqa: PLW0603 — like the log handlers of a process
    _provider = None
    is_disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_disabled or not any(environ.get(name, "").strip() for name in _ENDPOINTS):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        log.warning(
            "%s is set, but traces need the extra `otel`: pip install 'd4explain[otel]'",
            " or ".join(_ENDPOINTS),
        )
        return
    resource = Resource.create({"service.name": f"d4explain-{component}"})
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))


def flush() -> None:
    """Sends what has ended; call it before the process ends."""
    if _provider is not None:
        _provider.force_flush(_FLUSH_MILLISECONDS)


def is_on() -> bool:
    return _provider is not None


def start(
    name: str,
    *,
    kind: Kind = "INTERNAL",
    parent: str | None = None,
    at: float | None = None,
    attributes: Attributes | None = None,
) -> Span:
    """Begins a span, now or at a time since the epoch.

    `parent` is a W3C traceparent; without one, the span belongs to the block of `within`.
    """
    if _provider is None:
        return NO_SPAN
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 — an extra
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    context = TraceContextTextMapPropagator().extract({"traceparent": parent}) if parent else None
    span = _provider.get_tracer("d4explain").start_span(
        name,
        context,
        SpanKind[kind],
        {key: value for key, value in (attributes or {}).items() if value is not None},
        start_time=None if at is None else round(at * _NANOSECONDS),
    )
    return _OtelSpan(span)


@contextmanager
def within(span: Span) -> Iterator[None]:
    """Spans that begin in this block belong to `span`, which does not end with it."""
    if not isinstance(span, _OtelSpan):
        yield
        return
    from opentelemetry.trace import use_span  # noqa: PLC0415 — an extra

    with use_span(span.span, record_exception=False, set_status_on_exception=False):
        yield
