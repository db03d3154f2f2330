"""Sums of observations of all processes, in Redis.

Workers on any number of machines add to the same counters, and every API reads them. Losing Redis
resets the counters, as a restart would; Prometheus expects that of counters.
"""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, cast

import redis

from store.database.job_series import JOB_CLAIMS, JOB_SECONDS, LEASE_LOSSES
from store.database.observations import (
    RECENT,
    ModelGroup,
    Observation,
    Series,
    SeriesType,
)
from store.metrics.answer_series import ANSWER_SERIES
from store.queue.redis_urls import for_redis_py

log = logging.getLogger(__name__)

STORED_SERIES = (JOB_SECONDS, JOB_CLAIMS, LEASE_LOSSES, *ANSWER_SERIES)
OTHER = "other"
IDLE_SECONDS = 24 * 3600  # a group without answers for this long makes room for a new one
_KEPT_SECONDS = 30 * 24 * 3600  # figures of a group without answers
_WORKER_SECONDS = 30  # figures of a worker that has stopped
_PAUSE_SECONDS = 5.0  # after a failure, so that a broker outage does not slow down every job
_PREFIX = "d4explain:metrics"
_ALL = f"{_PREFIX}:all"
_SERIES = {series.name: series for series in STORED_SERIES}
_EVERYTHING_ELSE = ModelGroup(*(OTHER,) * len(ModelGroup._fields))

# Atomic, so that processes cannot exceed the limit together. Returns 1 if the group has a place.
_TAKE_PLACE = """
local groups, hash = KEYS[1], KEYS[2]
local group, limit, idle = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = tonumber(redis.call('TIME')[1])
if not redis.call('ZSCORE', groups, group) and redis.call('ZCARD', groups) >= limit then
  local oldest = redis.call('ZRANGE', groups, 0, 0, 'WITHSCORES')
  if not oldest[2] or tonumber(oldest[2]) > now - idle then return 0 end
  redis.call('ZREM', groups, oldest[1])
  redis.call('DEL', ARGV[4] .. oldest[1])
end
redis.call('ZADD', groups, now, group)
return 1
"""
_APPEND_RECENT = """
local bits = (redis.call('HGET', KEYS[1], ARGV[1]) or '') .. ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], string.sub(bits, -tonumber(ARGV[3])))
"""


@dataclass
class StoredFigure:
    """The value of a series for some labels."""

    series: Series
    labels: dict[str, str]
    value: float = 0.0  # the sum of a histogram
    buckets: dict[float, int] = field(default_factory=dict)  # by upper bound, not cumulative


class MetricStore:
    """Its methods never raise broker errors. Without a broker, nothing is stored."""

    def __init__(self, redis_url: str | None, max_groups: int) -> None:
        self._max_groups = max_groups
        self._paused_until = 0.0
        self._redis: redis.Redis | None = None
        if redis_url is not None:
            self._redis = redis.Redis.from_url(
                for_redis_py(redis_url),
                socket_timeout=1,
                socket_connect_timeout=1,
                decode_responses=True,
            )

    def publish(self, observations: Sequence[Observation]) -> None:
        """Adds observations to the figures of the deployment and to those of their tenants."""
        if self._redis is None or not observations or time.monotonic() < self._paused_until:
            return
        try:
            self._add(self._redis, observations)
        except (OSError, redis.RedisError) as error:
            self._pause("add to the metrics", error)

    def report_worker(self, name: str, figures: Mapping[str, Any]) -> None:
        """Stores what a worker measures about itself; it expires if the worker stops."""
        if self._redis is None or time.monotonic() < self._paused_until:
            return
        try:
            self._redis.set(f"{_PREFIX}:worker:{name}", json.dumps(figures), ex=_WORKER_SECONDS)
        except (OSError, redis.RedisError) as error:
            self._pause("report the worker's memory", error)

    def worker_figures(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The latest report of each live worker; raises errors of the broker."""
        if self._redis is None or not names:
            return {}
        keys = [f"{_PREFIX}:worker:{name}" for name in names]
        reports = cast("list[str | None]", self._redis.mget(keys))
        return {name: json.loads(one) for name, one in zip(names, reports, strict=True) if one}

    def read(self, tenant: str | None = None) -> list[StoredFigure]:
        """The figures of a tenant with names, or of the deployment without; raises its errors."""
        if self._redis is None:
            return []
        if tenant is None:
            return _figures(self._read_hash(_ALL), None)
        found = _figures(self._read_hash(_tenant_key(tenant)), None)
        groups = cast("list[str]", self._redis.zrange(_groups_key(tenant), 0, -1))
        for group in sorted({*groups, json.dumps(_EVERYTHING_ELSE)}):
            cells = self._read_hash(_group_prefix(tenant) + group)
            found += _figures(cells, ModelGroup(*json.loads(group)))
        return found

    def close(self) -> None:
        if self._redis is not None:
            self._redis.close()

    def _read_hash(self, key: str) -> dict[str, str]:
        assert self._redis is not None
        return cast("dict[str, str]", self._redis.hgetall(key))

    def _add(self, client: redis.Redis, observations: Sequence[Observation]) -> None:
        cells = _Cells()
        for observation in observations:
            if observation.series.deployment:
                cells.add(_ALL, observation)
            if observation.group is None:
                cells.add(_tenant_key(observation.tenant), observation)
        grouped = [one for one in observations if one.group is not None]
        for (tenant, group), some in groupby(grouped, key=lambda one: (one.tenant, one.group)):
            assert group is not None
            placed = self._placed(client, tenant, group)
            key = _group_prefix(tenant) + json.dumps(placed)
            for observation in some:
                if placed == group:
                    cells.add(key, observation, observation.class_name)
                elif observation.series.type is not SeriesType.LATEST:  # of which model?
                    cells.add(key, observation, OTHER)
        cells.write(client)

    def _placed(self, client: redis.Redis, tenant: str, group: ModelGroup) -> ModelGroup:
        """The group, or `other` if the tenant has too many."""
        name, prefix = json.dumps(group), _group_prefix(tenant)
        keys_and_arguments = (_groups_key(tenant), prefix + name, name)
        limits = (str(self._max_groups), str(IDLE_SECONDS), prefix)
        has_place = client.eval(_TAKE_PLACE, 2, *keys_and_arguments, *limits)
        return group if has_place else _EVERYTHING_ELSE

    def _pause(self, what: str, error: Exception) -> None:
        self._paused_until = time.monotonic() + _PAUSE_SECONDS
        log.info("cannot %s: %s", what, error)


class _Cells:
    """The changes of some hashes: one field per counter, bucket, sum or gauge."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], float] = defaultdict(float)
        self._latest: dict[tuple[str, str], float] = {}
        self._recent: dict[tuple[str, str], str] = defaultdict(str)

    def add(self, key: str, observation: Observation, *class_name: str) -> None:
        series = observation.series
        labels = (*observation.labels, *class_name)
        if series.type is SeriesType.LATEST:
            self._latest[key, _field(series, labels, "")] = observation.values[-1]
            return
        if series.type is SeriesType.SHARE:
            bits = "".join("1" if value else "0" for value in observation.values)
            self._recent[key, _field(series, labels, "")] += bits
            return
        for value in observation.values:
            self._sums[key, _field(series, labels, "")] += value
            if series.type is SeriesType.HISTOGRAM:
                bound = next((one for one in series.buckets if value <= one), float("inf"))
                self._sums[key, _field(series, labels, str(float(bound)))] += 1

    def write(self, client: redis.Redis) -> None:
        pipeline = client.pipeline(transaction=True)
        for (key, name), value in self._sums.items():
            pipeline.hincrbyfloat(key, name, value)
        for (key, name), value in self._latest.items():
            pipeline.hset(key, name, repr(float(value)))
        for (key, name), bits in self._recent.items():
            pipeline.eval(_APPEND_RECENT, 1, key, name, bits, str(RECENT))
        for key in {key for key, _ in (*self._sums, *self._latest, *self._recent)} - {_ALL}:
            pipeline.expire(key, _KEPT_SECONDS)
        pipeline.execute()


def _figures(cells: Mapping[str, str], group: ModelGroup | None) -> list[StoredFigure]:
    """Reads a hash back; ignores series that this version does not know."""
    found: dict[tuple[str, ...], StoredFigure] = {}
    for name, text in sorted(cells.items()):
        series_name, *values, bound = json.loads(name)
        series = _SERIES.get(series_name)
        names = _label_names(series, group) if series is not None else ()
        if series is None or len(values) != len(names):
            continue
        labels = dict(zip(names, values, strict=True))
        labels |= {} if group is None else group._asdict()
        figure = found.setdefault((series_name, *values), StoredFigure(series, labels))
        if bound:
            figure.buckets[float(bound)] = round(float(text))
        elif series.type is SeriesType.SHARE:
            figure.value = text.count("1") / len(text)
        else:
            figure.value = float(text)
    return list(found.values())


def _label_names(series: Series, group: ModelGroup | None) -> tuple[str, ...]:
    return series.labels if group is None else (*series.labels, "class")


def _field(series: Series, labels: Sequence[str], bound: str) -> str:
    return json.dumps([series.name, *labels, bound])


def _tenant_key(tenant: str) -> str:
    return f"{_PREFIX}:tenant:{tenant}"


def _groups_key(tenant: str) -> str:
    return f"{_PREFIX}:groups:{tenant}"


def _group_prefix(tenant: str) -> str:
    return f"{_PREFIX}:group:{tenant}:"
