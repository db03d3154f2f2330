"""Reads the metrics of jobs, queues, workers and answers at each scrape."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator

import redis
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind
from service.telemetry.metric_queries import (
    deliveries_by_state,
    jobs_by_kind_and_state,
    live_workers,
    queue_ages,
    queue_counts,
    served_queues,
)
from store.database.observations import SeriesType
from store.metrics.metric_store import STORED_SERIES, StoredFigure
from store.store import Store

log = logging.getLogger(__name__)

_WORKER_SERIES = {
    "resident_bytes": (
        "d4_worker_resident_bytes",
        "Memory of the process that runs the jobs of a worker.",
    ),
    "limit_bytes": (
        "d4_worker_memory_limit_bytes",
        "Memory that the worker may use: that of its container or machine.",
    ),
    "device_used_bytes": (
        "d4_device_used_bytes",
        "Used memory of a worker's GPU, also by other processes.",
    ),
    "device_bytes": ("d4_device_memory_bytes", "Memory of a worker's GPU."),
}


class _Scrape(Collector):
    def describe(self) -> list[Metric]:
        return []  # otherwise registration would call `collect`


class DeploymentMetrics(_Scrape):
    """Figures of the whole deployment; no label names a tenant or anything of one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        names: list[str] = []

        def from_database(session: Session) -> Iterator[Metric]:
            live = live_workers(session)
            names.extend(worker.name for worker in live)
            yield from _job_metrics(session, None)
            workers = GaugeMetricFamily("d4_workers", "Live workers.", labels=["queue"])
            for queue, count in served_queues(live).items():
                workers.add_metric([queue.value], count)
            yield workers
            undelivered = GaugeMetricFamily(
                "d4_webhook_deliveries", "Notifications that were not delivered.", labels=["state"]
            )
            for delivery_state, count in deliveries_by_state(session).items():
                undelivered.add_metric([delivery_state.value], count)
            yield undelivered

        yield from _from_database(self._store, from_database)
        yield from _from_broker(
            lambda: [
                *_worker_metrics(self._store.metrics.worker_figures(names)),
                *_stored_metrics(_with_zeros(self._store.metrics.read())),
            ]
        )


class TenantMetrics(_Scrape):
    """Figures of one tenant, with the names of its models."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    def collect(self) -> Iterator[Metric]:
        yield from _from_database(self._store, lambda session: _job_metrics(session, self._tenant))
        yield from _from_broker(lambda: _stored_metrics(self._store.metrics.read(self._tenant)))


def _from_database(
    store: Store, collect: Callable[[Session], Iterable[Metric]]
) -> Iterator[Metric]:
    found: list[Metric] = []
    try:
        with store.database.reading() as session:
            found = list(collect(session))
        is_up = 1
    except Exception:
        log.warning("database unavailable during a scrape", exc_info=True)
        is_up = 0
    yield GaugeMetricFamily("d4_database_up", "1 if the database is available.", value=is_up)
    yield from found


def _from_broker(collect: Callable[[], Iterable[Metric]]) -> Iterator[Metric]:
    found: list[Metric] = []
    try:
        found = list(collect())
        is_up = 1
    except (OSError, redis.RedisError):
        log.warning("broker unavailable during a scrape", exc_info=True)
        is_up = 0
    yield GaugeMetricFamily(
        "d4_metrics_up",
        "1 if the broker, which holds the figures below, answers.",
        value=is_up,
    )
    yield from found


def _job_metrics(session: Session, tenant: str | None) -> Iterator[Metric]:
    jobs = GaugeMetricFamily(
        "d4_jobs", "Jobs by state, including all ended jobs.", labels=["kind", "state"]
    )
    for (kind, state), count in jobs_by_kind_and_state(session, tenant).items():
        jobs.add_metric([kind.value, state.value], count)
    yield jobs
    depth = GaugeMetricFamily(
        "d4_queue_depth", "Jobs that have not ended.", labels=["queue", "state"]
    )
    for queue, counts in queue_counts(session, tenant).items():
        depth.add_metric([queue.value, "queued"], counts.queued)
        depth.add_metric([queue.value, "waiting"], counts.waiting)
        depth.add_metric([queue.value, "running"], counts.running)
    yield depth
    ages = GaugeMetricFamily(
        "d4_queue_age_seconds",
        "Seconds since the oldest job that only waits for a worker was submitted; 0 without any.",
        labels=["queue"],
    )
    for queue, seconds in queue_ages(session, tenant).items():
        ages.add_metric([queue.value], seconds)
    yield ages


def _worker_metrics(reports: dict[str, dict[str, int]]) -> Iterator[Metric]:
    for field, (name, text) in _WORKER_SERIES.items():
        family = GaugeMetricFamily(name, text, labels=["worker"])
        for worker, figures in reports.items():
            if field in figures:
                family.add_metric([worker], figures[field])
        yield family


def _stored_metrics(figures: list[StoredFigure]) -> Iterator[Metric]:
    for series in STORED_SERIES:
        some = [figure for figure in figures if figure.series == series]
        if not some:
            continue
        names = list(some[0].labels)
        family = _FAMILIES[series.type](series.name, series.help, labels=names)
        for figure in some:
            values = [figure.labels[name] for name in names]
            if isinstance(family, HistogramMetricFamily):
                family.add_metric(values, _cumulative(figure), figure.value)
            else:
                family.add_metric(values, figure.value)
        yield family


def _with_zeros(figures: list[StoredFigure]) -> list[StoredFigure]:
    """Adds counters that were never increased: `increase()` ignores what a counter starts with."""
    known = {(figure.series.name, *figure.labels.values()) for figure in figures}
    counters = [series for series in STORED_SERIES if series.type is SeriesType.COUNTER]
    zeros = [
        StoredFigure(series, dict(zip(series.labels, values, strict=True)))
        for series in counters
        for values in (((kind.value,) for kind in JobKind) if series.labels else [()])
        if (series.name, *values) not in known
    ]
    return [*figures, *zeros]


_FAMILIES = {
    SeriesType.COUNTER: CounterMetricFamily,
    SeriesType.HISTOGRAM: HistogramMetricFamily,
    SeriesType.LATEST: GaugeMetricFamily,
    SeriesType.SHARE: GaugeMetricFamily,
}


def _cumulative(figure: StoredFigure) -> list[tuple[str, float]]:
    total, counts = 0, []
    for bound in (*figure.series.buckets, math.inf):
        total += figure.buckets.get(float(bound), 0)
        counts.append(("+Inf" if math.isinf(bound) else str(float(bound)), float(total)))
    return counts
