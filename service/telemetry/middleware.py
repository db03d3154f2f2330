"""Metrics of requests, a log line per request, and headers of every response."""

from __future__ import annotations

import logging
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from d4explain.contracts.errors import printable
from service.http.auditing import REQUEST_ID
from store.database.identifiers import new_id

log = logging.getLogger("service.access")

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
_DEBUG_PATHS = {"/livez", "/readyz", "/metrics"}


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
        request_id = new_id("req")
        scope[REQUEST_ID] = request_id

        async def send_with_headers(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status, seconds = message["status"], time.perf_counter() - started
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers["X-Request-Id"] = request_id
            await send(message)

        self.metrics.running.inc()
        try:
            await self.app(scope, receive, send_with_headers)
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
