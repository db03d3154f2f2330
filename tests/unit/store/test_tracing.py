"""Spans: off without a collector, and what a collector gets."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from store import tracing
from store.database.origins import Origin
from store.jobs import Claim, JobKind
from tests.receivers import Receiver, receiver
from worker.execution.attempt_spans import attempt_span, fail_attempt
from worker.execution.phases import Phases

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(autouse=True)
def _off_afterwards() -> Iterator[None]:
    yield
    tracing.configure("test", {})


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")
    with receiver() as running:
        running.status = 200
        endpoint = running.url.rsplit("/", 1)[0]
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        tracing.configure("test")
        yield running


def sent(collector: Receiver) -> dict[str, Any]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
        ExportTraceServiceRequest,
    )

    tracing.flush()
    messages = [ExportTraceServiceRequest.FromString(one.body) for one in collector.received]
    return {
        span.name: span
        for message in messages
        for of_resource in message.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    }


def claim(attempt: int = 1) -> Claim:
    return Claim(
        job_id="job_1", attempt=attempt, owner="w", kind=JobKind.PREDICT, tenant="lab",
        subject_id=None, gnn_id=None, dataset_id=None, denoiser_id=None, witness_set_id=None,
        request_digest=None, checkpoint=None, seed=0, created_at=1_700_000_000.0,
        origin=Origin("req-1", PARENT),
    )  # fmt: skip


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_nothing_is_measured_without_a_collector(environ: dict[str, str]) -> None:
    tracing.configure("test", environ)
    assert not tracing.is_on()
    span = tracing.start("x", parent=PARENT)
    assert span is tracing.NO_SPAN
    assert span.traceparent is None
    with tracing.within(span), attempt_span(claim()):
        fail_attempt("nothing happens")
    span.end()


def test_without_the_extra_the_log_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with caplog.at_level(logging.WARNING):
        tracing.configure("test", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert not tracing.is_on()
    assert "d4explain[otel]" in caplog.text


def test_an_attempt_with_its_wait_and_phases(collector: Receiver) -> None:
    with attempt_span(claim()):
        phases = Phases()
        phases.enter("load")
        phases.enter("search")
        phases.end()
    spans = sent(collector)
    job = spans["job predict"]
    assert job.trace_id.hex() == PARENT.split("-")[1]
    assert job.parent_span_id.hex() == PARENT.split("-")[2]
    assert job.status.code == 0
    queue = spans["queue predict"]
    assert queue.start_time_unix_nano == 1_700_000_000 * 10**9
    assert queue.end_time_unix_nano == job.start_time_unix_nano
    for name in ("load", "search"):
        assert spans[name].parent_span_id == job.span_id
    assert spans["load"].end_time_unix_nano <= spans["search"].start_time_unix_nano
    assert set(phases.seconds) == {"load", "search"}


def test_a_failed_later_attempt(collector: Receiver) -> None:
    with attempt_span(claim(attempt=2)):
        fail_attempt("out_of_memory")
    spans = sent(collector)
    assert set(spans) == {"job predict"}  # the wait belongs to the first attempt
    assert (spans["job predict"].status.code, spans["job predict"].status.message) == (
        2,
        "out_of_memory",
    )


def test_a_collector_that_is_down_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    tracing.configure("test")
    with attempt_span(claim()):
        pass
    tracing.flush()
