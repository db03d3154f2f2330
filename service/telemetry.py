"""Prometheus metrics, a log line per request, and headers of every response."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from d4explain.contracts.errors import printable
from service.http.auditing import REQUEST_ID
from service.metric_queries import (
    deliveries_by_state,
    jobs_by_kind_and_state,
    live_workers,
    queue_counts,
    served_queues,
)
from store.database.identifiers import new_id
from store.database.sessions import Database

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


class JobMetrics(Collector):
    """Metrics of jobs, queues and workers, read from the database at each scrape."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> list[Metric]:
        return []  # otherwise registration would call `collect`

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("d4_database_up", "1 if the database is available.")
        try:
            with self._database.reading() as session:
                by_state = jobs_by_kind_and_state(session)
                by_queue = queue_counts(session)
                by_delivery_state = deliveries_by_state(session)
                workers_by_queue = served_queues(live_workers(session))
        except Exception:
            log.warning("database unavailable during a scrape", exc_info=True)
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        jobs = GaugeMetricFamily(
            "d4_jobs",
            "Jobs by state, including all ended jobs.",
            labels=["kind", "state"],
        )
        for (kind, state), count in by_state.items():
            jobs.add_metric([kind.value, state.value], count)
        yield jobs
        depth = GaugeMetricFamily(
            "d4_queue_depth", "Jobs that have not ended.", labels=["queue", "state"]
        )
        for queue, counts in by_queue.items():
            depth.add_metric([queue.value, "queued"], counts.queued)
            depth.add_metric([queue.value, "waiting"], counts.waiting)
            depth.add_metric([queue.value, "running"], counts.running)
        yield depth
        workers = GaugeMetricFamily("d4_workers", "Live workers.", labels=["queue"])
        for queue, count in workers_by_queue.items():
            workers.add_metric([queue.value], count)
        yield workers
        undelivered = GaugeMetricFamily(
            "d4_webhook_deliveries", "Notifications that were not delivered.", labels=["state"]
        )
        for delivery_state, count in by_delivery_state.items():
            undelivered.add_metric([delivery_state.value], count)
        yield undelivered


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
