"""Fixtures that several test modules share."""

from __future__ import annotations

import json
import math
import shutil
import socket
import ssl
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import httpx

    from d4explain.contracts.worker_calls import CallKind
    from store.jobs import Claim
    from store.queue.worker_calls import AskWorker
    from store.store import Store
    from worker.calls.listener import CallAnswerer
    from worker.loading.library import Library


class Deployment:
    """The API on a real store in a temporary folder; the test acts as the worker."""

    def __init__(self, store: Store, client: httpx.Client, tenant: str = "default") -> None:
        self.store = store
        self.client = client
        self.tenant = tenant  # that the client's key belongs to

    # Reading the store.

    def written(self) -> dict[str, int]:
        """Counts rows per table and artifacts; equal counts mean that nothing was written.

        The audit log is left out: it also records what was refused.
        """
        from sqlalchemy import func, select  # noqa: PLC0415

        from store.database.tables import Table  # noqa: PLC0415

        with self.store.database.reading() as session:
            counts = {
                table.name: session.scalar(select(func.count()).select_from(table)) or 0
                for table in Table.metadata.sorted_tables
                if table.name != "audit_log"
            }
        return {**counts, "artifacts": sum(1 for _ in self.store.artifacts.listed())}

    # Creating resources.

    def gnn(self, features: int = 1, classes: int = 2, *, state: str = "ready") -> str:
        """Creates a GNN that is already probed, without HTTP."""
        from d4explain.contracts.probe_reports import ProbeCheck, ProbeReport  # noqa: PLC0415
        from store import jobs  # noqa: PLC0415
        from store.catalogue import gnns  # noqa: PLC0415

        spec = self.spec(features, classes)
        digest = self.store.artifacts.of(self.tenant).put(self.weights(features, classes))
        with self.store.database.transaction() as session:
            gnn, job = gnns.create(
                session, name="a GNN", spec=spec, weights_digest=digest, tenant=self.tenant
            )
            if state != "probing":
                claim = jobs.claim(session, job.id, "test", 60)
                assert claim is not None
                passed = state == "ready"
                check = ProbeCheck(name="deterministic", passed=passed, detail="two runs")
                gnns.finish(session, claim, ProbeReport(passed=passed, checks=[check]))
                jobs.succeed(session, claim)
        return gnn.id

    def dataset(self, features: int = 1) -> str:
        graph = {
            "nodes": [{"id": i, "x": [1.0] * features} for i in range(4)],
            "edges": [{"source": i, "target": i + 1} for i in range(3)],
            "label": 0,
        }
        answer = self.client.post("/v1/datasets", json={"name": "a set", "graphs": [graph]})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def explanation(self, **changes: Any) -> dict[str, Any]:
        """Posts an explanation of `self.graph()` with a new GNN and a new reference set."""
        body = {
            "kind": "counterfactual",
            "gnn": self.gnn(),
            "dataset": self.dataset(),
            "graph": self.graph(),
            **changes,
        }
        body = {name: value for name, value in body.items() if value is not None}
        answer = self.client.post("/v1/explanations", json=body)
        assert answer.status_code == 202, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def evaluation(self, **changes: Any) -> str:
        """Posts an evaluation by search alone, of a new GNN and a new set if none is given."""
        dataset = changes.get("dataset") or self.dataset()
        body = {
            "gnn": changes.get("gnn") or self.gnn(),
            "dataset": dataset,
            "test": dataset,
            "explainers": ["search"],
            "metrics": [],
            **changes,
        }
        answer = self.client.post("/v1/evaluations", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def finish_evaluation(self, evaluation: str) -> None:
        """Ends its jobs with the figures and rows of the OpenAPI examples; edits fit `graph`."""
        import json as documents  # noqa: PLC0415

        from service import examples  # noqa: PLC0415
        from store import jobs  # noqa: PLC0415
        from store.catalogue.evaluations import evaluations  # noqa: PLC0415

        artifacts = self.store.artifacts.of(self.tenant)
        fitting = {"added": [[0, 2]], "removed": [[1, 2]]}
        items = [{**row, **fitting} for row in examples.ROWS["items"]]
        rows = artifacts.put(documents.dumps({"rows": items}).encode())
        result = artifacts.put(documents.dumps(examples.EVALUATION["result"]).encode())
        with self.store.database.reading() as session:
            shards = evaluations.shards(session, evaluation, self.tenant)
            job = evaluations.get(session, evaluation, self.tenant).job_id
        for shard in shards:
            claim = self.claim(shard.job_id)
            with self.store.database.transaction() as session:
                evaluations.finish_shard(session, claim, rows_digest=rows)
                jobs.succeed(session, claim)
        claim = self.claim(job)
        with self.store.database.transaction() as session:
            evaluations.finish(
                session, claim, result_digest=result, parquet_digest=rows, summary={}
            )
            jobs.succeed(session, claim)

    @staticmethod
    def spec(features: int = 1, classes: int = 2) -> Any:
        from d4explain.contracts.gnn_spec import GnnSpecDocument  # noqa: PLC0415

        layers = [
            {"type": "gcn", "out": 4},
            {"type": "pool", "op": "mean"},
            {"type": "linear", "out": classes},
        ]
        document = {"features": features, "classes": classes, "layers": layers}
        return GnnSpecDocument.model_validate(document)

    @classmethod
    def weights(cls, features: int = 1, classes: int = 2, *, value: float = 0.5) -> bytes:
        import numpy as np  # noqa: PLC0415
        import safetensors.numpy  # noqa: PLC0415

        from d4explain.contracts.gnn_files.gnn_tensors import expected_tensors  # noqa: PLC0415

        return bytes(
            safetensors.numpy.save(
                {
                    name: np.full(tensor.shape, value, tensor.dtype)
                    for name, tensor in expected_tensors(cls.spec(features, classes)).items()
                }
            )
        )

    @staticmethod
    def graph(features: int = 1) -> dict[str, Any]:
        """A path a-b-c-d."""
        names = "abcd"
        return {
            "nodes": [{"id": name, "x": [1.0] * features} for name in names],
            "edges": [{"source": s, "target": t} for s, t in pairwise(names)],
        }

    # Acting as the worker.

    def claim(self, job_id: str) -> Claim:
        from store import jobs  # noqa: PLC0415

        with self.store.database.transaction() as session:
            claim = jobs.claim(session, job_id, "test", 60)
        assert claim is not None
        return claim

    def finish(self, job_id: str, result: Any = None) -> None:
        """Claims the job and ends it as the handler of its kind would."""
        from d4explain.contracts.job_states import Stage  # noqa: PLC0415
        from d4explain.contracts.probe_reports import ProbeCheck, ProbeReport  # noqa: PLC0415
        from store import jobs  # noqa: PLC0415
        from store.catalogue import (  # noqa: PLC0415
            denoisers,
            explanations,
            gnns,
            witness_sets,
        )

        claim = self.claim(job_id)
        with self.store.database.transaction() as session:
            inline = None
            match claim.kind:
                case jobs.JobKind.PROBE:
                    passed = result is None
                    check = ProbeCheck(name="probe", passed=passed, detail=result or "fine")
                    gnns.finish(session, claim, ProbeReport(passed=passed, checks=[check]))
                case jobs.JobKind.TRAIN:
                    digest = self.store.artifacts.of(self.tenant).put(b"weights")
                    denoisers.finish(
                        session, claim, weights_digest=digest, shape={}, metrics={"loss": 0.1}
                    )
                case jobs.JobKind.WITNESSES:
                    digest = self.store.artifacts.of(self.tenant).put(b"witnesses")
                    witness_sets.finish(
                        session, claim, weights_digest=digest, description={}, metrics={}
                    )
                case jobs.JobKind.PREDICT:
                    inline = result
                case jobs.JobKind.PROVISIONAL:
                    provisional = result or self.result().model_copy(
                        update={"stage": Stage.PROVISIONAL, "final_adds": ["verdicts"]}
                    )
                    digest = self.store.artifacts.of(self.tenant).put(
                        provisional.model_dump_json().encode()
                    )
                    explanations.finish_provisional(
                        session, claim, result_digest=digest, summary={"found": 1}
                    )
                case _:
                    digest = self.store.artifacts.of(self.tenant).put(
                        result.model_dump_json().encode()
                    )
                    summary = {"found": 1}
                    explanations.finish(session, claim, result_digest=digest, summary=summary)
            jobs.succeed(session, claim, inline)

    def finish_explanation(self, explanation: dict[str, Any], result: Any = None) -> None:
        """Finishes the explanation, and before it the jobs that it waits for."""
        job_id = explanation["job"]["id"]
        while (awaited := self.awaited(job_id)) is not None:
            self.finish(awaited)
        self.finish(job_id, result or self.result())

    def awaited(self, job_id: str) -> str | None:
        from store import jobs  # noqa: PLC0415

        with self.store.database.reading() as session:
            return jobs.get(session, job_id, tenant=self.tenant).awaited

    def work(
        self,
        library: Library | None = None,
        handlers: Mapping[Any, Any] | None = None,
        kinds: Container[str] | None = None,
    ) -> None:
        """Runs all queued jobs, or those of some kinds, with the real handlers or the given ones.

        `library` keeps loaded models.
        """
        import torch  # noqa: PLC0415

        from store import jobs  # noqa: PLC0415
        from worker.execution.runner import Runner  # noqa: PLC0415
        from worker.handlers import HANDLERS  # noqa: PLC0415
        from worker.loading.library import Library  # noqa: PLC0415

        library = library or Library(self.store.artifacts, torch.device("cpu"))
        runner = Runner(self.store, library, {**HANDLERS, **(handlers or {})}, "test")
        while True:
            with self.store.database.reading() as session:
                queued = jobs.page(session, state=jobs.JobState.QUEUED, tenant=self.tenant).items
            ready = [
                job.id
                for job in queued
                if not job.is_blocked and (kinds is None or job.kind in kinds)
            ]
            if not ready:
                return
            runner.run(ready[-1])

    def soon(self, act: Callable[[], None], when: Callable[[], bool]) -> threading.Thread:
        """Calls `act` in a thread as soon as `when` is true."""

        def run() -> None:
            deadline = time.monotonic() + 20
            while not when():
                assert time.monotonic() < deadline, "the condition did not become true within 20 s"
                time.sleep(0.01)
            act()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def queued(self, kind: str) -> list[str]:
        from store import jobs  # noqa: PLC0415

        with self.store.database.reading() as session:
            page = jobs.page(
                session, state=jobs.JobState.QUEUED, kind=jobs.JobKind(kind), tenant=self.tenant
            )
        return [job.id for job in page.items]

    @staticmethod
    def result() -> Any:
        """A counterfactual result for two graphs: found for the first, not for the second."""
        from d4explain.contracts.counterfactual_results import CounterfactualResult  # noqa: PLC0415
        from service import examples  # noqa: PLC0415

        document = dict(examples.EXPLANATION["result"])
        found = document["answers"][0]
        best = found["counterfactuals"][0]
        missed = {
            **found,
            "found": False,
            "reason": "no edit within the budget changes the answer",
            "counterfactuals": [],
            "closest_miss": {
                "edits": best["edits"],
                "prediction": found["prediction"],
                "fidelity": 0.1,
                "modification_ratio": 0.1,
            },
        }
        return CounterfactualResult.model_validate({**document, "answers": [found, missed]})


@dataclass
class PredictServer:
    """A GNN behind a URL: class 1 if a graph has more than 6.5 edges."""

    url: str
    posts: int = 0
    received_graphs: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        self.posts += 1
        self.received_graphs += body["graphs"]
        logits = [len(graph["edge_index"][0]) / 2 - 6.5 for graph in body["graphs"]]
        class_1 = [1 / (1 + math.exp(-logit)) for logit in logits]
        return {"probabilities": [[1 - probability, probability] for probability in class_1]}


@pytest.fixture
def predict_server() -> Iterator[Callable[..., PredictServer]]:
    """Starts servers that answer like a black box; over https if `tls` is given."""
    with ExitStack() as running:

        def start(tls: ssl.SSLContext | None = None) -> PredictServer:
            return running.enter_context(_running_predict_server(tls))

        yield start


@contextmanager
def _running_predict_server(tls: ssl.SSLContext | None) -> Iterator[PredictServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            data = json.dumps(predictor.answer(body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            pass  # raised when a client does not trust the certificate

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        # The handler thread does the handshake, so a client that disconnects blocks no others.
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    scheme = "http" if tls is None else "https"
    predictor = PredictServer(f"{scheme}://127.0.0.1:{server.server_address[1]}/predict")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield predictor
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="session")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """A self-signed certificate for 127.0.0.1, and a server context that uses it."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test"
    options = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run([openssl, *command.split(), *options], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context


@pytest.fixture(scope="session")
def _empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file; copying it is ten times faster than migrating again."""
    from store.database.sessions import Database  # noqa: PLC0415

    path = tmp_path_factory.mktemp("template") / "d4explain.sqlite"
    database = Database(f"sqlite:///{path}")
    database.migrate()
    database.close()
    return path


_LOW_LIMITS = {
    "max_body_bytes": 200_000,
    "max_nodes": 20,
    "max_edges": 30,
    "max_graphs_per_request": 4,
    "max_dataset_graphs": 5,
    "max_features": 8,
}


@contextmanager
def _store(
    data_dir: Path, empty_database: Path, changes: Mapping[str, Any] = _LOW_LIMITS
) -> Iterator[Store]:
    from store.settings import Settings  # noqa: PLC0415
    from store.store import Store  # noqa: PLC0415

    settings = Settings(data_dir=data_dir, **changes)
    settings.data_dir.mkdir()
    shutil.copy(empty_database, settings.data_dir / "d4explain.sqlite")
    with Store.open(settings, migrate=False) as opened:
        yield opened


def ask_worker_of(opened: Store) -> AskWorker:
    """Answers calls as the thread of a worker does."""
    answerers: list[CallAnswerer] = []

    async def ask(kind: CallKind, body: str, _: float) -> str:
        if not answerers:
            import torch  # noqa: PLC0415 — only tests that ask

            from worker.calls.listener import CallAnswerer  # noqa: PLC0415

            answerers.append(CallAnswerer(opened, torch.device("cpu"), 2**24))
        return answerers[0].answer(kind, body).model_dump_json()

    return ask


@contextmanager
def _deployment(opened: Store) -> Iterator[Deployment]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Starlette recommends another HTTP library
        from starlette.testclient import TestClient  # noqa: PLC0415

    from service.app import create_app  # noqa: PLC0415

    app = create_app(opened, ask_worker=ask_worker_of(opened))
    with TestClient(app, "http://127.0.0.1", raise_server_exceptions=False) as client:
        yield Deployment(opened, client)


@pytest.fixture
def opened_store(tmp_path: Path, _empty_database: Path) -> Iterator[Store]:
    with _store(tmp_path / "data", _empty_database) as opened:
        yield opened


@pytest.fixture
def api(opened_store: Store) -> Iterator[Deployment]:
    """The API in this process: fast, but a stream arrives only after it has ended."""
    with _deployment(opened_store) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def shared_api(
    tmp_path_factory: pytest.TempPathFactory, _empty_database: Path
) -> Iterator[Deployment]:
    """Like `api`, shared by a module whose tests leave nothing behind."""
    folder = tmp_path_factory.mktemp("shared") / "data"
    with _store(folder, _empty_database) as opened, _deployment(opened) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def deployed(
    tmp_path_factory: pytest.TempPathFactory, _empty_database: Path
) -> Iterator[Callable[..., Deployment]]:
    """Creates APIs with default limits and the given settings."""
    with ExitStack() as resources:

        def deploy(**changes: Any) -> Deployment:
            folder = tmp_path_factory.mktemp("deployed") / "data"
            store = resources.enter_context(_store(folder, _empty_database, changes))
            return resources.enter_context(_deployment(store))

        yield deploy


@pytest.fixture
def served(opened_store: Store) -> Iterator[Deployment]:
    """The API behind a real server and a real socket."""
    import httpx  # noqa: PLC0415
    import uvicorn  # noqa: PLC0415

    from service.app import create_app  # noqa: PLC0415
    from service.http.server_protocol import BoundedHttpProtocol  # noqa: PLC0415

    app = create_app(opened_store, heartbeat_seconds=0.2)
    config = uvicorn.Config(
        app, http=BoundedHttpProtocol, log_config=None, timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=address, timeout=20) as client:
            yield Deployment(opened_store, client)
    finally:
        app.state.context.job_watcher.stop()
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()


@pytest.fixture
def deployment_of() -> type[Deployment]:
    """The class, for tests that act as the worker of an API in another process."""
    return Deployment


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes the entry points of the package in tests/plugins visible, as if it were installed."""
    from d4explain.contracts import plugins  # noqa: PLC0415

    monkeypatch.syspath_prepend(str(Path(__file__).parent / "plugins"))
    plugins.installed_plugins.cache_clear()
    yield
    monkeypatch.undo()
    plugins.installed_plugins.cache_clear()
