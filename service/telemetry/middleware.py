"""Metrics of requests, a log line per request, and headers of every response."""

from __future__ import annotations

import logging
import re
import time
from http import HTTPStatus

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from d4explain.contracts.errors import printable
from service.http.faults import Fault, shown
from service.http.middleware.auditing import REQUEST_ID
from service.http.problems import problem
from store import tracing
from store.database.identifiers import new_id
from store.database.origins import Origin, coming_from, valid_traceparent
from store.logs import request_context
from store.tracing import Span

log = logging.getLogger("service.access")

REQUEST_ID_HEADER = "X-Request-ID"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_REQUEST_ID_RULE = "it should be 1 to 64 letters, digits, dots, hyphens and underscores"

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
# The pages and drawings set policies of their own; JSON needs nothing.
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_DEBUG_PATHS = {"/livez", "/readyz", "/metrics", "/v1/metrics"}


class RequestMetrics:
    """Metrics per route template; paths contain ids, which would give unlimited labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "d4_http_requests", "Requests.", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "d4_http_request_seconds",
            "Time until the response starts.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.running = Gauge("d4_http_requests_running", "Requests in progress.", registry=registry)


class Telemetry:
    """Outermost middleware: counts every response, also rejections, and adds headers."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status, seconds = 0, 0.0
        headers = Headers(scope=scope)
        app, request_id = self.app, headers.get(REQUEST_ID_HEADER)
        if request_id is None or not _REQUEST_ID.fullmatch(request_id):
            if request_id is not None:
                app = _refusal(request_id)
            request_id = new_id("req")
        scope[REQUEST_ID] = request_id
        span = self._span(scope, request_id, valid_traceparent(headers.get("traceparent")))
        parent = span.traceparent or valid_traceparent(headers.get("traceparent"))

        async def send_with_headers(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status, seconds = message["status"], time.perf_counter() - started
                sent = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    sent.setdefault(name, value)
                sent[REQUEST_ID_HEADER] = request_id
            await send(message)

        self.metrics.running.inc()
        try:
            with (
                request_context(request_id),
                coming_from(Origin(request_id, parent)),
                tracing.within(span),
            ):
                await app(scope, receive, send_with_headers)
        finally:
            self.metrics.running.dec()
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            route = getattr(scope.get("route"), "path", "unmatched")
            self.metrics.requests.labels(method, route, str(status)).inc()
            self.metrics.seconds.labels(method, route).observe(seconds)
            log.log(
                logging.DEBUG if scope["path"] in _DEBUG_PATHS else logging.INFO,
                "%s %s %d",
                method,
                printable(scope["path"]),
                status,
                extra={"status": status, "seconds": round(seconds, 4), "request": request_id},
            )
            _end_span(span, method, route, status)

    def _span(self, scope: Scope, request_id: str, parent: str | None) -> Span:
        if not tracing.is_on() or scope["path"] in _DEBUG_PATHS:
            return tracing.NO_SPAN
        return tracing.start(
            scope["method"],
            kind="SERVER",
            parent=parent,
            attributes={"http.request.method": scope["method"], "d4.request_id": request_id},
        )


def _end_span(span: Span, method: str, route: str, status: int) -> None:
    span.rename(f"{method} {route}")
    span.set({"http.route": route, "http.response.status_code": status})
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        span.fail(str(status))
    span.end()


def _refusal(sent: str) -> ASGIApp:
    fault = Fault(REQUEST_ID_HEADER, f"is {shown(sent)}; {_REQUEST_ID_RULE}", "header")
    return problem(
        HTTPStatus.BAD_REQUEST,
        "invalid-request",
        f"The header {REQUEST_ID_HEADER} is invalid: {_REQUEST_ID_RULE}.",
        [fault],
    )
