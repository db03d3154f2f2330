"""Sums of observations in a real Redis."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.database.job_series import JOB_CLAIMS, JOB_SECONDS
from store.database.observations import RECENT, ModelGroup, Observation
from store.metrics import answer_series
from store.metrics.metric_store import IDLE_SECONDS, OTHER, MetricStore, StoredFigure
from tests.processes import Broker

LIMIT = 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    running = Broker(tmp_path_factory.mktemp("broker"))
    running.start()
    yield running
    running.kill()


@pytest.fixture
def metrics(broker: Broker) -> Iterator[MetricStore]:
    with redis.Redis.from_url(broker.url) as client:
        client.flushdb()
    opened = MetricStore(broker.url, LIMIT)
    yield opened
    opened.close()


def model(number: int) -> ModelGroup:
    return ModelGroup("motifs", str(number), "rings", "1")


def flips(number: int, *outcomes: bool, class_name: str = "house") -> Observation:
    values = tuple(map(float, outcomes))
    return Observation(
        answer_series.VALIDITY, "lab", values, group=model(number), class_name=class_name
    )


def edits(number: int, *counts: float, tenant: str = "lab") -> Observation:
    return Observation(answer_series.EDITS, tenant, counts, group=model(number), class_name="house")


def of(found: list[StoredFigure], **labels: str) -> list[StoredFigure]:
    return [figure for figure in found if figure.labels.items() >= labels.items()]


def test_processes_add_to_the_same_figures(broker: Broker, metrics: MetricStore) -> None:
    other = MetricStore(broker.url, LIMIT)
    for store, tenant in ((metrics, "lab"), (other, "lab"), (other, "clinic")):
        store.publish([Observation(JOB_CLAIMS, tenant, (1.0,), ("train",))])
    other.close()
    [claims] = metrics.read()
    assert (claims.series, claims.labels, claims.value) == (JOB_CLAIMS, {"kind": "train"}, 3)
    assert [figure.value for figure in metrics.read("lab")] == [2]
    assert [figure.value for figure in metrics.read("clinic")] == [1]


@given(st.lists(st.floats(0, 10_000, allow_nan=False), min_size=1, max_size=30))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_histogram_counts_every_value_in_its_bucket(
    metrics: MetricStore, values: list[float]
) -> None:
    assert metrics._redis is not None
    metrics._redis.flushdb()
    metrics.publish([Observation(JOB_SECONDS, "lab", tuple(values), ("class", "running"))])
    [figure] = metrics.read()
    assert figure.value == pytest.approx(sum(values), rel=1e-9, abs=1e-9)
    bounds = [*JOB_SECONDS.buckets, float("inf")]
    expected = dict.fromkeys(map(float, bounds), 0)
    for value in values:
        expected[float(bounds[bisect.bisect_left(bounds, value)])] += 1
    assert figure.buckets == {bound: count for bound, count in expected.items() if count}


def test_a_share_covers_the_last_hundred(metrics: MetricStore) -> None:
    metrics.publish([flips(1, *[False] * 60)])
    metrics.publish([flips(1, *[True] * 60)])
    [figure] = of(metrics.read("lab"), version="1")
    assert figure.value == 60 / RECENT
    assert [figure.value for figure in metrics.read()] == [60 / RECENT]


def test_further_models_are_counted_as_other(metrics: MetricStore) -> None:
    """Also their classes, so that their names cannot grow without a limit either."""
    for number in range(1, 9):
        metrics.publish([flips(number, True, class_name=f"class {number}"), edits(number, 2.0)])
    versions = {figure.labels["version"] for figure in metrics.read("lab")}
    assert versions == {"1", "2", "3", OTHER}
    others = of(metrics.read("lab"), version=OTHER)
    assert {figure.labels["class"] for figure in others} == {OTHER}
    assert {figure.labels["gnn"] for figure in others} == {OTHER}
    [total] = [figure for figure in others if figure.series is answer_series.EDITS]
    assert (total.value, total.buckets) == (10, {2.0: 5})
    # The newest MMD of some model would say nothing.
    mmd = Observation(answer_series.MMD, "lab", (0.5,), ("counterfactual", "sum"), model(9), "all")
    metrics.publish([mmd])
    assert all(figure.series is not answer_series.MMD for figure in metrics.read("lab"))


def test_an_idle_model_makes_room(broker: Broker, metrics: MetricStore) -> None:
    for number in range(1, LIMIT + 1):
        metrics.publish([edits(number, 1.0)])
    with redis.Redis.from_url(broker.url, decode_responses=True) as client:
        [(oldest, _), *_] = client.zrange("d4explain:metrics:groups:lab", 0, 0, withscores=True)
        client.zincrby("d4explain:metrics:groups:lab", -IDLE_SECONDS - 60, oldest)
    metrics.publish([edits(7, 1.0)])
    metrics.publish([edits(8, 1.0)])
    versions = {figure.labels["version"] for figure in metrics.read("lab")}
    assert len(versions - {OTHER}) == LIMIT
    assert versions >= {"7", OTHER}
    assert "8" not in versions


def test_tenants_share_neither_names_nor_places(metrics: MetricStore) -> None:
    for number in range(1, LIMIT + 1):
        metrics.publish([edits(number, 1.0)])
    metrics.publish([edits(9, 4.0, tenant="clinic")])
    [figure] = metrics.read("clinic")
    assert (figure.labels["version"], figure.value) == ("9", 4)
    assert not of(metrics.read("lab"), version="9")
    [everything] = metrics.read()
    assert (everything.labels, everything.value) == ({}, 7)


def test_a_lost_broker_stops_nothing(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    metrics = MetricStore(broker.url, LIMIT)
    metrics.publish([edits(1, 1.0)])
    metrics.report_worker("w", {"resident_bytes": 1})
    with pytest.raises(redis.RedisError):
        metrics.read()
    metrics.close()


def test_without_a_broker_there_are_no_figures() -> None:
    metrics = MetricStore(None, LIMIT)
    metrics.publish([edits(1, 1.0)])
    assert (metrics.read(), metrics.read("lab"), metrics.worker_figures(["w"])) == ([], [], {})
