"""One request through real processes: its id in logs and webhooks, its spans at a collector."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from d4explain.contracts.webhooks import WebhookEvent
from store import jobs
from store.database.sessions import now
from store.database.tables import Job
from store.webhooks import endpoints
from tests.processes import EdgeCounter, Stack, opened_stack
from tests.receivers import Receiver, receiver

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
REQUEST_ID = "audit-2026.11_19"
EDGES = [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]
RING = {"edge_index": EDGES, "num_nodes": 6}


@dataclass(frozen=True)
class SentSpan:
    service: str
    name: str
    kind: int
    trace_id: str
    id: str
    parent: str
    attributes: dict[str, Any]
    start: int
    end: int


@pytest.fixture(scope="module")
def collector() -> Iterator[Receiver]:
    """Answers like an OTLP/HTTP collector: 200 to every export."""
    with receiver() as running:
        running.status = 200
        yield running


@pytest.fixture(scope="module")
def hook() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, collector: Receiver) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    local = {"webhook_hosts": "127.0.0.1", "webhook_private_hosts": "127.0.0.1"}
    with opened_stack(folder, **local) as running:
        running.extra_environment |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url.rsplit("/", 1)[0],
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        yield running


def spans(collector: Receiver) -> list[SentSpan]:
    """What the collector got, read with OpenTelemetry's own protobuf classes."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
        ExportTraceServiceRequest,
    )

    found = []
    for export in list(collector.received):
        assert export.path == "/v1/traces"
        message = ExportTraceServiceRequest.FromString(export.body)
        for of_resource in message.resource_spans:
            resource = {one.key: one.value.string_value for one in of_resource.resource.attributes}
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    values = {
                        one.key: one.value.string_value or one.value.int_value
                        for one in span.attributes
                    }
                    found.append(
                        SentSpan(
                            resource["service.name"],
                            span.name,
                            span.kind,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            values,
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                        )
                    )
    return found


@pytest.fixture(scope="module")
def asked(
    stack: Stack, edge_counter: EdgeCounter, collector: Receiver, hook: Receiver
) -> dict[str, Any]:
    """A search whose first worker dies: the job is lost by the queue and run by another one."""
    service = stack.start_service()
    with stack.store.database.transaction() as session:
        ended = [WebhookEvent.EXPLANATION_SUCCEEDED]
        endpoints.create(session, url=hook.url, tenant="default", events=ended)
    with httpx.Client(base_url=service.url, timeout=30) as client:
        stack.ensure_workers(1)
        gnn = client.post(
            "/v1/gnns",
            data={"name": "edges", "spec": json.dumps(edge_counter.spec)},
            files={"weights": ("w", edge_counter.weights)},
            headers={"Prefer": "wait=30"},
        ).json()
        assert gnn["state"] == "ready", gnn
        dataset = client.post("/v1/datasets", json={"name": "rings", "graphs": [RING] * 4}).json()

        def probe_has_arrived() -> bool:  # a killed worker sends no more spans
            return {"queue probe", "job probe"} <= {span.name for span in spans(collector)}

        stack.until(probe_has_arrived, "the spans of the probe arrive")
        [worker] = stack.workers
        worker.kill()
        posted = client.post(
            "/v1/explanations",
            json={
                "kind": "counterfactual", "gnn": gnn["id"], "dataset": dataset["id"],
                "graph": RING, "explainer": "search", "aim": "minimal", "judges": "none",
            },
            headers={"X-Request-ID": REQUEST_ID, "traceparent": f"00-{TRACE}-{CALLER}-01"},
        )  # fmt: skip
        assert posted.status_code == 202, posted.text
        assert posted.headers["x-request-id"] == REQUEST_ID
        job_id = posted.json()["job"]["id"]
        with stack.store.database.transaction() as session:  # a worker that claims it and dies
            assert jobs.claim(session, job_id, "dead", 60) is not None
        with stack.store.database.transaction() as session:
            row = session.get(Job, job_id)
            assert row is not None
            row.lease_until = session.scalar(now()) - 1
        stack.ensure_workers(1)
        done = client.get(f"/v1/explanations/{posted.json()['id']}", headers={"Prefer": "wait=30"})
        assert done.json()["state"] == "succeeded", done.text

    def has_arrived() -> bool:
        names = {span.name for span in spans(collector) if span.trace_id == TRACE}
        return bool(hook.received) and {"webhook", "job counterfactual"} <= names

    stack.until(has_arrived, "webhook and spans arrive")
    return dict(done.json())


def test_the_spans_of_a_request_form_one_tree(asked: dict[str, Any], collector: Receiver) -> None:
    mine = {span.name: span for span in spans(collector) if span.trace_id == TRACE}
    request = mine["POST /v1/explanations"]
    assert (request.service, request.parent) == ("d4explain-service", CALLER)
    assert request.attributes["http.response.status_code"] == 202
    assert request.attributes["http.route"] == "/v1/explanations"
    job = mine["job counterfactual"]
    assert (job.service, job.parent) == ("d4explain-worker", request.id)
    assert job.attributes["d4.job.id"] == asked["job"]["id"]
    assert job.attributes["d4.job.attempt"] == 2  # the message of the first one was lost
    for phase in ("load", "search", "typicality", "distances"):
        assert mine[phase].parent == job.id
        assert job.start <= mine[phase].start <= mine[phase].end <= job.end
    webhook = mine["webhook"]
    assert (webhook.service, webhook.parent) == ("d4explain-webhooks", request.id)
    assert webhook.attributes["http.response.status_code"] == 204
    assert {span.attributes.get("d4.request_id", REQUEST_ID) for span in mine.values()} == {
        REQUEST_ID
    }


def test_a_first_attempt_has_the_wait_in_the_queue(
    asked: dict[str, Any], collector: Receiver
) -> None:
    """The probe of the GNN, which no caller traced, has a trace of its own."""
    queue = next(span for span in spans(collector) if span.name == "queue probe")
    job = next(span for span in spans(collector) if span.name == "job probe")
    request = next(span for span in spans(collector) if span.name == "POST /v1/gnns")
    assert queue.trace_id == job.trace_id == request.trace_id != TRACE
    assert queue.parent == job.parent == request.id
    assert request.parent == ""
    assert queue.start <= queue.end <= job.start + 1_000_000


def test_logs_and_webhook_name_the_request(
    stack: Stack, asked: dict[str, Any], hook: Receiver, collector: Receiver
) -> None:
    job_id = asked["job"]["id"]
    started = [one for one in stack.logs("Starting attempt") if one["job"] == job_id]
    assert [one["request"] for one in started] == [REQUEST_ID]
    api_log = (stack.folder / "service-0.log").read_text().splitlines()
    access = [json.loads(line) for line in api_log if '"service.access"' in line]
    assert [one["message"] for one in access if one["request"] == REQUEST_ID] == [
        "POST /v1/explanations 202"
    ]
    [sent] = hook.received
    assert sent.headers["x-request-id"] == REQUEST_ID
    webhook = next(
        span for span in spans(collector) if span.name == "webhook" and span.trace_id == TRACE
    )
    assert sent.headers["traceparent"] == f"00-{TRACE}-{webhook.id}-01"


def test_health_checks_and_scrapes_make_no_spans(
    stack: Stack, asked: dict[str, Any], collector: Receiver
) -> None:
    with httpx.Client(base_url=stack.services[0].url) as client:
        for path in ("/livez", "/readyz", "/metrics", "/v1/metrics", "/v1/gnns"):
            assert client.get(path).status_code == 200

    def was_listed() -> bool:
        return any(span.name == "GET /v1/gnns" for span in spans(collector))

    stack.until(was_listed, "the span of the list arrives")
    names = {span.name for span in spans(collector)}
    assert not any(path in name for name in names for path in ("livez", "readyz", "metrics"))


def test_without_a_collector_no_exporter_is_loaded() -> None:
    code = (
        "import sys; from store import tracing; tracing.configure('x', {}); "
        "import service.app, worker.process.child; s = tracing.start('x'); "
        "print(s is tracing.NO_SPAN, 'opentelemetry.exporter' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert ran.stdout.split() == ["True", "False"]
