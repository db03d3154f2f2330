"""The client against a fake API: the requests it sends and the results it returns."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from d4explain import (
    Client,
    InvalidNameError,
    RefusedError,
    UnreachableError,
    UnsuccessfulJobError,
    WaitTimeoutError,
)
from d4explain.client.resources import Job
from d4explain.client.transport.events import Event, read_events
from d4explain.contracts.job_states import GnnState, JobState
from d4explain.contracts.requests import DenoiserConfig
from d4explain.stack.ports import free_port

Handler = Callable[[httpx.Request], httpx.Response]
GRAPH = {"nodes": [{"id": "a"}, {"id": "b"}], "edges": [{"source": "a", "target": "b"}]}


def job(state: str = "running", **more: Any) -> dict[str, Any]:
    return {
        "id": "job_1",
        "kind": "train",
        "state": state,
        "attempt": 1,
        "progress": None,
        "waiting_for": None,
        "cancel_requested": False,
        "error": None,
        "retry_of": None,
        "subject": {},
        "created_at": "2026-01-01T00:00:00Z",
        "started_at": None,
        "finished_at": None,
        "a_field_of_the_future": True,
        **more,
    }


def gnn(**more: Any) -> dict[str, Any]:
    known = {"id": "gnn_1", "name": "g", "state": "ready", "sha256": "0", "spec": {"classes": 3}}
    return {**known, "report": None, "job_id": "job_1", "created_at": "now", **more}


def client_of(handler: Handler, **options: Any) -> Client:
    return Client("http://api", transport=httpx.MockTransport(handler), **options)


def problem(status: int, detail: str, *errors: dict[str, str]) -> httpx.Response:
    body = {"type": "about:blank", "title": "Bad", "status": status, "detail": detail}
    return httpx.Response(status, json={**body, "errors": list(errors)})


# Errors


def test_a_problem_is_raised_with_its_message_and_pointers() -> None:
    errors = [
        {"pointer": "/graph/edges/3", "detail": "is a self-loop"},
        {"pointer": "/seed", "detail": "should be at least 0"},
    ]
    answer = problem(422, "/graph/edges/3: is a self-loop", *errors)
    with client_of(lambda _: answer) as client, pytest.raises(RefusedError) as refused:
        client.gnn("gnn_1")
    error = refused.value
    assert error.status == 422
    assert [item.pointer for item in error.errors] == ["/graph/edges/3", "/seed"]
    assert str(error) == ("/graph/edges/3: is a self-loop; /seed: should be at least 0 (HTTP 422)")


def test_an_error_without_a_problem_document_keeps_its_status() -> None:
    answer = httpx.Response(502, text="<html>")
    message = r"Bad Gateway \(HTTP 502\)"
    with client_of(lambda _: answer) as client, pytest.raises(RefusedError, match=message):
        client.gnn("gnn_1")


def test_an_unreachable_server_is_reported_with_its_address() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with Client(address, attempts=1) as client, pytest.raises(UnreachableError) as error:
        client.job("job_1")
    assert address in str(error.value)


def test_a_post_is_retried_with_the_same_idempotency_key() -> None:
    keys = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) < 3:
            raise httpx.ConnectError("not yet")
        return httpx.Response(202, json=job("queued"))

    with client_of(answer) as client:
        assert client.retry("job_1").state is JobState.QUEUED
        client.retry("job_1")
    assert len(keys) == 4
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]


def test_a_503_is_retried_after_retry_after_with_the_same_key() -> None:
    requests: list[tuple[float, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append((time.monotonic(), request.headers["Idempotency-Key"]))
        if len(requests) == 1:
            refusal = problem(503, "the outcome is unknown")
            refusal.headers["Retry-After"] = "1"
            return refusal
        return httpx.Response(202, json=job("queued"))

    with client_of(answer) as client:
        assert client.retry("job_1").state is JobState.QUEUED
    (first, key), (second, again) = requests
    assert second - first >= 1
    assert again == key


def test_the_number_of_retries_after_a_503_is_limited() -> None:
    requests = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal requests
        requests += 1
        return problem(503, "the database does not answer")

    with client_of(answer, attempts=2) as client, pytest.raises(RefusedError) as refused:
        client.gnn("gnn_1")
    assert (refused.value.status, requests) == (503, 2)


def test_other_errors_are_not_retried() -> None:
    requests = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal requests
        requests += 1
        return problem(507, "the disk is full")

    with client_of(answer) as client, pytest.raises(RefusedError, match="disk is full"):
        client.retry("job_1")
    assert requests == 1


# Registering, reference sets, predictions


def test_a_gnn_is_sent_as_a_form() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        body = request.read()
        assert request.headers["content-type"].startswith("multipart/form-data")
        for part in (
            b'name="name"',
            b'name="spec"',
            b'{"classes": 3}',
            b'name="weights"',
            b"\x01\x02",
        ):
            assert part in body
        return httpx.Response(201, json=gnn())

    with client_of(answer) as client:
        assert client.register_gnn("g", {"classes": 3}, b"\x01\x02").state is GnnState.READY


def test_a_rejected_gnn_is_returned_with_its_report() -> None:
    report = {
        "passed": False,
        "checks": [{"name": "determinism", "passed": False, "detail": "two answers differ"}],
    }
    rejected = gnn(state="rejected", report=report)
    body = {"title": "t", "detail": "rejected", "status": 422, "errors": [], "gnn": rejected}
    with client_of(lambda _: httpx.Response(422, json=body)) as client:
        found = client.register_gnn("g", {}, b"")
    assert found.state is GnnState.REJECTED
    assert found.report is not None
    assert found.report.checks[0].name == "determinism"


def test_a_refused_spec_raises() -> None:
    answer = problem(422, "/spec/layers: is required")
    with client_of(lambda _: answer) as client, pytest.raises(RefusedError, match="/spec/layers"):
        client.register_gnn("g", {}, b"")


def test_the_client_waits_for_a_slow_probe() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        match request.method, request.url.path:
            case "POST", _:
                return httpx.Response(202, json=gnn(state="probing"))
            case _, "/v1/jobs/job_1":
                return httpx.Response(200, json=job("succeeded"))
        return httpx.Response(200, json=gnn())

    with client_of(answer) as client:
        assert client.register_gnn("g", {}, b"").state is GnnState.READY


def test_predictions_come_from_the_response_or_the_job() -> None:
    prediction = {"predicted_class": 1, "probabilities": [0.1, 0.9]}
    now = {"gnn": "gnn_1", "job": job("succeeded"), "predictions": [prediction]}
    later = {**now, "job": job("queued"), "predictions": None}
    done = job("succeeded", result={"kind": "prediction", "predictions": [prediction]})

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=done)
        return httpx.Response(200, json=now if json.loads(request.content)["graphs"] else later)

    with client_of(answer) as client:
        assert client.predictions("gnn_1", [GRAPH])[0].predicted_class == 1
        assert client.predictions("gnn_1", [])[0].predicted_class == 1


def test_node_predictions_are_returned_by_node_id() -> None:
    nodes = [{"node": "b", "predicted_class": 1, "probabilities": [0.1, 0.9]},
             {"node": 7, "predicted_class": 0, "probabilities": [0.6, 0.4]}]  # fmt: skip
    requests = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(json.loads(request.content))
        found = {"gnn": "gnn_1", "job": job("succeeded"), "predictions": [{"nodes": nodes}]}
        return httpx.Response(200, json=found)

    with client_of(answer) as client:
        found = client.node_predictions("gnn_1", GRAPH, ["b", 7])
        client.node_predictions("gnn_1", GRAPH)
        with pytest.raises(TypeError, match="gnn_1 classifies nodes"):
            client.predictions("gnn_1", [GRAPH])
    assert {node: one.probabilities for node, one in found.items()} == {
        "b": [0.1, 0.9],
        7: [0.6, 0.4],
    }
    assert requests == [{"graph": GRAPH, "nodes": ["b", 7]}, {"graph": GRAPH}, {"graphs": [GRAPH]}]


def test_pages_are_followed_to_the_end() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.params["state"] == "running"
        if "cursor" not in request.url.params:
            return httpx.Response(200, json={"items": [job(id="job_2")], "next_cursor": "c"})
        return httpx.Response(200, json={"items": [job(id="job_1")], "next_cursor": None})

    with client_of(answer) as client:
        assert [item.id for item in client.jobs(state="running")] == ["job_2", "job_1"]


# Explanations


def test_explanation_requests_have_graph_or_graphs() -> None:
    requests = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(json.loads(request.content))
        assert request.headers["Prefer"] == "wait=0"
        body = {"id": "exp_1", "kind": "counterfactual", "gnn": "gnn_1", "dataset": "set_1"}
        body |= {"denoiser": "den_1", "state": "queued", "created_at": "now"}
        return httpx.Response(202, json={**body, "result": None, "job": job("queued")})

    with client_of(answer) as client:
        client.explain_counterfactual("gnn_1", "set_1", [GRAPH], seed=3)
        client.explain_counterfactual("gnn_1", "set_1", [GRAPH, GRAPH], preset="fast")
        client.explain_counterfactual("gnn_1", "set_1", [GRAPH], node="a")
        client.explain_class("gnn_1", "set_1", 2, example_count=4)
    common = {"gnn": "gnn_1", "dataset": "set_1"}
    assert requests == [
        {"kind": "counterfactual", **common, "graph": GRAPH, "seed": 3},
        {"kind": "counterfactual", **common, "graphs": [GRAPH, GRAPH], "preset": "fast"},
        {"kind": "counterfactual", **common, "graph": GRAPH, "node": "a"},
        {"kind": "class", **common, "target_class": 2, "example_count": 4},
    ]


def test_a_denoiser_config_omits_unset_fields() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert json.loads(request.content)["config"] == {"recipe": "default", "steps": 5, "seed": 0}
        body = {"id": "den_1", "gnn": "gnn_1", "dataset": "set_1", "objective": "class"}
        body |= {"state": "training", "created_at": "now"}
        return httpx.Response(202, json={**body, "metrics": None, "job": job("queued")})

    with client_of(answer) as client:
        denoiser = client.train_denoiser("gnn_1", "set_1", "class", DenoiserConfig(steps=5))
    assert denoiser.job.state is JobState.QUEUED


# Waiting


class FakeJobApi(BaseHTTPRequestHandler):
    """An API with one job; the server object holds its states and event streams."""

    server: FakeJobServer

    def do_GET(self) -> None:
        if not self.path.endswith("/events"):
            self.server.polls += 1
            state = (
                self.server.states.pop(0) if len(self.server.states) > 1 else self.server.states[0]
            )
            self._send(200, "application/json", json.dumps(job(state)).encode())
            return
        self.server.last_event_ids.append(self.headers.get("Last-Event-ID"))
        if not self.server.streams:
            self._send(503, "application/problem+json", b'{"detail": "no events here"}')
            return
        self._send(200, "text/event-stream", self.server.streams.pop(0).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


class FakeJobServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FakeJobApi)
        self.states = ["running"]
        self.streams: list[str] = []
        self.polls = 0
        self.last_event_ids: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server() -> Iterator[FakeJobServer]:
    with FakeJobServer() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def sse(number: int, kind: str, data: dict[str, Any]) -> str:
    return f"id: {number}\r\nevent: {kind}\r\ndata: {json.dumps(data)}\r\n\r\n"


def progress(number: int, step: int) -> str:
    return sse(number, "progress", {"phase": "train", "step": step, "total": 10, "metrics": {}})


def test_events_update_the_progress(server: FakeJobServer) -> None:
    server.states = ["running", "succeeded"]
    server.streams = [
        ": ping\r\n\r\n" + progress(1, 3) + progress(2, 7) + sse(3, "state", {"state": "succeeded"})
    ]
    seen: list[Job] = []
    with Client(server.url) as client:
        done = client.wait("job_1", on_progress=seen.append)
    assert done.state is JobState.SUCCEEDED
    assert [item.progress.step for item in seen if item.progress] == [3, 7]
    assert server.polls == 2


def test_a_broken_stream_resumes_after_the_last_event(server: FakeJobServer) -> None:
    server.states = ["running", "running", "succeeded"]
    server.streams = [progress(1, 3), progress(2, 7) + sse(3, "state", {"state": "succeeded"})]
    seen: list[Job] = []
    with Client(server.url) as client:
        client.wait("job_1", on_progress=seen.append)
    assert server.last_event_ids == [None, "1"]
    assert [item.progress.step for item in seen if item.progress] == [3, 7]


def test_without_events_the_job_is_polled(server: FakeJobServer) -> None:
    server.states = ["queued", "running", "running", "succeeded"]
    seen: list[str] = []
    with Client(server.url) as client:
        client.wait("job_1", on_progress=lambda item: seen.append(item.state))
    assert seen == ["queued", "running", "running", "succeeded"]
    assert server.polls == 4


def test_a_failed_job_raises_its_error() -> None:
    failed = job("failed", error={"type": "OutOfMemory", "message": "no memory", "attempts": []})
    with client_of(lambda _: httpx.Response(200, json=failed)) as client:
        with pytest.raises(UnsuccessfulJobError, match="train job job_1 failed: no memory"):
            client.wait("job_1")
        assert client.wait("job_1", check=False).state is JobState.FAILED


def test_waiting_ends_at_the_timeout(server: FakeJobServer) -> None:
    began = time.monotonic()
    with Client(server.url) as client, pytest.raises(WaitTimeoutError, match="still running"):
        client.wait("job_1", timeout=0.3)
    assert time.monotonic() - began < 2


def test_a_waiting_job_reports_the_job_that_it_waits_for() -> None:
    states = {"job_2": ["queued", "queued", "succeeded"], "job_1": ["running", "succeeded"]}

    def answer(request: httpx.Request) -> httpx.Response:
        name = request.url.path.split("/")[3]
        if request.url.path.endswith("/events"):
            return httpx.Response(503)
        state = states[name].pop(0)
        waits = {"waiting_for": "job_1"} if state == "queued" else {}
        return httpx.Response(200, json=job(state, id=name, **waits))

    seen: list[tuple[str, str]] = []
    with client_of(answer) as client:
        client.wait("job_2", on_progress=lambda item: seen.append((item.id, item.state)))
    assert seen == [
        ("job_2", "queued"),
        ("job_1", "running"),
        ("job_1", "succeeded"),
        ("job_2", "succeeded"),
    ]


@pytest.mark.parametrize("has_progress", [True, False])
def test_a_canceled_job_ends_the_wait_while_its_training_goes_on(has_progress: bool) -> None:
    """The stream of the waiting job has the training's progress, and then its own end."""
    states = ["queued", "canceled"]
    training = {"phase": "train", "step": 3, "total": 10, "metrics": {}}

    def answer(request: httpx.Request) -> httpx.Response:
        name = request.url.path.split("/")[3]
        if request.url.path.endswith("/events"):
            assert name == "job_2", "the training never ends"
            before = f"event: progress\r\ndata: {json.dumps(training)}\r\n\r\n"
            text = (before if has_progress else "") + sse(7, "state", {"state": "canceled"})
            return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})
        if name == "job_1":
            return httpx.Response(200, json=job("running"))
        return httpx.Response(200, json=job(states.pop(0), id="job_2", waiting_for="job_1"))

    seen: list[Job] = []
    with client_of(answer) as client, pytest.raises(UnsuccessfulJobError, match="canceled"):
        client.wait("job_2", on_progress=seen.append, timeout=5)
    steps = [(item.id, item.progress.step) for item in seen if item.progress]
    assert steps == ([("job_1", 3)] if has_progress else [])


def test_a_canceled_explanation_ends_the_wait_while_its_training_runs(served: Any) -> None:
    """With the real API: the training is claimed and never ends."""
    posted = served.explanation(aim="minimal", judges="none")
    training = posted["job"]["waiting_for"]
    served.claim(training)
    waiting = threading.Event()
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            with Client(str(served.client.base_url)) as client:
                client.wait(posted["job"]["id"], on_progress=lambda _: waiting.set(), timeout=20)
        except UnsuccessfulJobError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(10)
    canceled = served.client.post(f"/v1/jobs/{posted['job']['id']}/cancel").json()
    assert (canceled["state"], canceled["waiting_for"]) == ("canceled", None)
    thread.join(timeout=5)
    assert not thread.is_alive()
    assert "canceled" in str(caught[0])
    assert served.client.get(f"/v1/jobs/{training}").json()["state"] == "running"


def test_the_client_waits_for_a_restarting_server() -> None:
    calls = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(request.url.path)
        if request.url.path.endswith("/events"):
            raise httpx.ReadError("gone")
        if len(calls) in (3, 4, 5):
            raise httpx.ConnectError("restarting")
        return httpx.Response(200, json=job("running" if len(calls) == 1 else "succeeded"))

    with client_of(answer, attempts=1) as client:
        assert client.wait("job_1").state is JobState.SUCCEEDED
    assert len(calls) == 6


def test_server_sent_events_are_parsed() -> None:
    lines = [
        ": a comment",
        "event: state",
        'data: {"state":',
        'data: "running"}',
        "id: 7",
        "retry: 100",
        "",
        "data: not json",
        "",
        "data: [1]",
        "",
        'data:{"step": 1}',
        "",
        'data: {"cut": "off"}',
    ]
    body = "\n".join(lines).encode()
    stream = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=body)
    assert list(read_events(stream)) == [
        Event("state", "7", {"state": "running"}),
        Event("message", "7", {"step": 1}),
    ]


@pytest.mark.parametrize("name", ["", "x" * 201, "a@b", "a/b", "gnn_1", "set_1", ".", "a\x00b"])
def test_wrong_names_are_refused_before_anything_is_exported_or_sent(
    name: str, tmp_path: Path
) -> None:
    """No server answers at this address, and the model cannot be exported."""
    file = tmp_path / "large.npz"
    file.write_bytes(b"")
    with Client("http://127.0.0.1:9", attempts=1) as client:
        for create in (
            lambda: client.register(object(), [], name=name),
            lambda: client.register_gnn(name, {}, b""),
            lambda: client.register_archive(name, b""),
            lambda: client.register_black_box(name, {}, "https://gnn.example.org"),
            lambda: client.create_dataset(name, []),
            lambda: client.upload_large_graph(name, file),
        ):
            with pytest.raises(InvalidNameError, match=r"the name .* should "):
                create()
