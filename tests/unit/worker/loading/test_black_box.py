"""GNNs behind a URL: tests with a real server in this process, and its failures."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import torch

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.job_states import GnnState, JobState
from d4explain.contracts.requests import CanonicalGraph, CounterfactualRequest, DenoiserConfig
from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.gnn.graphs import Graph, to_sparse
from service.http.bodies import FormParts
from service.http.faults import InvalidRequestError
from service.schemas import ClassIn, CounterfactualIn
from service.submission.explanation_requests import class_request, counterfactual_request
from service.submission.gnn_registration import read_registration
from store import jobs
from store.artifacts import graph_sets
from store.catalogue import datasets, denoisers, explanations, gnns
from store.catalogue.black_boxes import check_black_box_url
from store.database.tables import Dataset as DatasetRow
from store.database.tables import Gnn as GnnRow
from store.settings import Settings
from store.store import Store
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.loading.black_box import BlackBox, QueryBudgetError, check_answer
from worker.loading.library import Library
from worker.loading.predict_client import PredictClient, PredictError

torch.set_num_threads(1)
CPU = torch.device("cpu")
THRESHOLD = 6.5  # edges


def edges_of(graph: dict[str, Any]) -> int:
    return len(graph["edge_index"][0]) // 2


def classify_by_edges(body: dict[str, Any]) -> dict[str, Any]:
    """Class 1 if a graph has more edges than the threshold, so the flipping edits are known."""
    logits = torch.tensor([edges_of(graph) - THRESHOLD for graph in body["graphs"]])
    class_1 = logits.double().sigmoid()
    return {"probabilities": torch.stack([1 - class_1, class_1], dim=1).tolist()}


@dataclass
class PredictServer:
    url: str
    answer: Callable[[dict[str, Any]], Any] = classify_by_edges
    # Replaces `answer`; gets the number of the request.
    raw: Callable[[int], tuple[int, bytes]] | None = None
    received: list[dict[str, Any]] = field(default_factory=list)  # all graphs
    posts: int = 0


@pytest.fixture
def served() -> Iterator[PredictServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            box.posts += 1
            box.received += body["graphs"]
            status, data = 200, b""
            if box.raw is not None:
                status, data = box.raw(box.posts)
            else:
                data = json.dumps(box.answer(body)).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            pass  # clients that disconnect before the end of the answer

    server = Server(("127.0.0.1", 0), Handler)
    box = PredictServer(f"http://127.0.0.1:{server.server_address[1]}/predict")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield box
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


ALLOWED = Settings(
    black_box=True,
    black_box_hosts="127.0.0.1, gnn.example.org, api.example.org:8443",
    black_box_private_hosts="127.0.0.1",
    black_box_seconds=5.0,
)


def changed(**changes: Any) -> Settings:
    """`ALLOWED` with other values."""
    return Settings(**{**ALLOWED.model_dump(), **changes})


SPEC = parse_spec(
    {"features": 1, "classes": 2, "layers": [{"type": "black_box", "url": "http://x"}]}
)


def open_black_box(served: PredictServer, budget: int = 1000, **changes: Any) -> BlackBox:
    box = BlackBox(None, 1, 2)  # type: ignore[arg-type]
    client = PredictClient(served.url, ALLOWED, pause=lambda seconds: None)
    box.open(client, budget, **changes)
    return box


def ring(nodes: int, features: list[float] | None = None) -> Graph:
    edges = sorted([(i, i + 1) for i in range(nodes - 1)] + [(0, nodes - 1)])
    x = torch.tensor(features)[:, None] if features else torch.ones(nodes, 1)
    return Graph(x, torch.tensor(edges).T.contiguous())


def query(box: BlackBox, graphs: list[Graph]) -> torch.Tensor:
    batch = to_sparse(graphs)
    return box(batch.features, batch.edge_index, batch.graph_of_node)


def test_graphs_are_sent_as_pyg_dicts_and_log_probabilities_returned(served: PredictServer) -> None:
    lone = Graph(torch.tensor([[0.5]]), torch.empty(2, 0, dtype=torch.int64))
    found = query(open_black_box(served), [ring(3, [1.0, 2.0, 3.0]), lone, ring(8)])
    assert served.received[0] == {
        "x": [[1.0], [2.0], [3.0]],
        "edge_index": [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]],
        "num_nodes": 3,
    }
    assert served.received[1] == {"x": [[0.5]], "edge_index": [[], []], "num_nodes": 1}
    above = torch.tensor([3.0, 0.0, 8.0]) - THRESHOLD
    torch.testing.assert_close(found.softmax(1)[:, 1], above.sigmoid())


def test_no_graph_is_sent_twice_and_batches_are_bounded(served: PredictServer) -> None:
    box = open_black_box(served)
    graphs = [ring(5, [float(n)] * 5) for n in range(70)]
    first = query(box, [*graphs, graphs[0]])
    assert (len(served.received), served.posts, box.queries) == (70, 2, 70)
    assert torch.equal(first[0], first[70])
    assert torch.equal(query(box, graphs[:3]), first[:3])
    assert box.queries == 70


def test_without_a_cache_graphs_are_sent_again(served: PredictServer) -> None:
    box = open_black_box(served, caches_answers=False)
    query(box, [ring(5)])
    query(box, [ring(5)])
    assert box.queries == 2


def test_the_query_budget_is_enforced(served: PredictServer) -> None:
    box = open_black_box(served, budget=3)
    query(box, [ring(5), ring(6)])
    with pytest.raises(QueryBudgetError, match="budget of 3 queries"):
        query(box, [ring(7), ring(8)])
    assert len(served.received) == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([[0.5, 0.5]], "is not {"),
        ({"probabilities": "0.5"}, "is not {"),
        ({"probabilities": []}, "answered for 0 of 1 graphs"),
        ({"probabilities": [[0.5, 0.5]] * 2}, "answered for 2 of 1 graphs"),
        ({"probabilities": [[1.0]]}, "not 2 numbers"),
        ({"probabilities": [0.5]}, "not 2 numbers"),
        ({"probabilities": [[0.5, "0.5"]]}, "not 2 numbers"),
        ({"probabilities": [[True, False]]}, "not 2 numbers"),
        ({"probabilities": [[1.5, -0.5]]}, "numbers from 0 to 1"),
        ({"probabilities": [[float("nan"), 1.0]]}, "numbers from 0 to 1"),
        ({"probabilities": [[10**400, 0]]}, "numbers from 0 to 1"),
        ({"probabilities": [[0.5, 0.4]]}, "add up to 0.9, not to 1"),
        ({"probabilities": [[2.0, -1.0]]}, "numbers from 0 to 1"),
    ],
)
def test_a_malformed_answer_is_refused(answer: Any, message: str) -> None:
    with pytest.raises(PredictError) as refused:
        check_answer(answer, 1, 2)
    assert message in str(refused.value)


def test_transient_errors_are_retried(served: PredictServer) -> None:
    good = json.dumps({"probabilities": [[0.25, 0.75]]}).encode()
    served.raw = lambda number: (200, good) if number == 3 else (503, b"later")
    assert query(open_black_box(served), [ring(5)]).exp().tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize(
    ("status", "data", "posts", "message"),
    [
        (500, b"", 3, "did not answer in 3 attempts: status 500"),
        (404, b"", 1, "status 404"),
        (302, b"", 1, "redirects are not followed"),
        (307, b"", 1, "redirects are not followed"),
        (200, b"<html>", 1, "not JSON"),
        (200, b"[" * 100_000, 1, "not JSON"),
        (200, b" " * (4 * 1024 * 1024 + 1), 1, "more than 4,194,304 bytes"),
    ],
)
def test_the_error_says_why_there_is_no_answer(
    served: PredictServer, status: int, data: bytes, posts: int, message: str
) -> None:
    served.raw = lambda _: (status, data)
    with pytest.raises(PredictError, match=message):
        query(open_black_box(served), [ring(5)])
    assert served.posts == posts


def test_a_slow_answer_times_out(served: PredictServer) -> None:
    def slow(_: int) -> tuple[int, bytes]:
        time.sleep(0.5)
        return 200, b"{}"

    served.raw = slow
    box = BlackBox(None, 1, 2)  # type: ignore[arg-type]
    hurried = changed(black_box_seconds=0.1)
    box.open(PredictClient(served.url, hurried, pause=lambda seconds: None), 10)
    with pytest.raises(PredictError, match="did not answer in 3 attempts"):
        query(box, [ring(5)])


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://gnn.example.org/x", "scheme 'ftp'"),
        ("file:///etc/passwd", "scheme 'file'"),
        ("//gnn.example.org/x", "scheme ''"),
        ("https://", "must have a host"),
        ("https://me:secret@gnn.example.org/", "no user name"),
        ("https://gnn.example.org/#part", "no fragment"),
        ("https://gnn.example.org:99999/", "not a URL"),
        ("https://gnn.example.org /x", "characters"),
        ("https://gnn.example.org\\@evil.example/", "characters"),
        ("https://gnn.example.org\r\nX: y/", "characters"),
        ("https://evil.example/", "'evil.example' is not in"),
        ("https://gnn.example.org.evil.example/", "is not in"),
        ("https://gnn.example.org@evil.example/", "no user name"),
        ("https://api.example.org/", "is not in"),  # listed with another port
        ("http://[::1]/", "is not in"),
        ("http://2130706433/", "is not in"),
    ],
)
def test_other_addresses_are_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_black_box_url(url, ALLOWED, "/predict_url")
    assert message in str(refused.value)
    assert refused.value.pointer == "/predict_url"
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["https://gnn.example.org/a?b=c", "http://GNN.example.org:81", "https://api.example.org:8443"],
)
def test_listed_addresses_are_accepted(url: str) -> None:
    check_black_box_url(url, ALLOWED)
    with pytest.raises(InvalidInput, match="set D4_BLACK_BOX=on"):
        check_black_box_url(url, changed(black_box=False))


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["93.184.215.14", "10.0.0.1"]])
def test_an_allowed_name_with_a_private_address_is_refused(addresses: list[str]) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return addresses

    client = PredictClient("http://gnn.example.org/", ALLOWED, resolve=resolve)
    with pytest.raises(PredictError, match="not a public address"):
        client.post({})


def test_the_connection_uses_the_checked_address(served: PredictServer) -> None:
    """The name is resolved only once, so it cannot change to another address."""
    port = int(served.url.split(":")[2].split("/")[0])
    found: list[str] = []

    async def resolve(host: str, _: int) -> list[str]:
        found.append(host)
        return ["127.0.0.1"] if len(found) == 1 else ["192.0.2.1"]

    names = changed(black_box_hosts="rebind.invalid", black_box_private_hosts="rebind.invalid")
    client = PredictClient(f"http://rebind.invalid:{port}/predict", names, resolve=resolve)
    assert client.post({"graphs": []}) == {"probabilities": []}
    assert served.posts == 1
    assert found == ["rebind.invalid"]


# From registration to explanation.


def open_store(folder: Any, **changes: Any) -> Store:
    return Store.open(changed(data_dir=folder, database_url="", artifacts="", **changes))


def run(store: Store, job_id: str) -> Any:
    Runner(store, Library(store.artifacts, CPU), HANDLERS, "test").run(job_id)
    with store.database.reading() as session:
        return jobs.get(session, job_id, tenant=DEFAULT_TENANT)


def canonical(nodes: int) -> CanonicalGraph:
    graph = ring(nodes)
    pairs = [(int(source), int(target)) for source, target in graph.edges.T.tolist()]
    return CanonicalGraph(node_ids=list(range(nodes)), x=[[1.0]] * nodes, edges=pairs)


def registered(store: Store, url: str) -> Any:
    document = {"features": 1, "classes": 2, "layers": [{"type": "black_box", "url": url}]}
    digest = store.artifacts.of("default").put(b"")
    with store.database.transaction() as session:
        gnn, job = gnns.create(
            session,
            name="box",
            spec=parse_spec(document),
            weights_digest=digest,
            tenant=DEFAULT_TENANT,
        )
    assert run(store, job.id).state is JobState.SUCCEEDED
    with store.database.reading() as session:
        return gnns.get(session, gnn.id, tenant=DEFAULT_TENANT)


def run_explanation(store: Store, gnn: Any, request: CounterfactualRequest) -> tuple[Any, str]:
    """Trains a denoiser, runs an explanation, and returns its job and its id."""
    graphs = [canonical(5), canonical(7)] * 3
    figures = graph_sets.describe(graphs)
    with store.database.transaction() as session:
        dataset = datasets.create(
            session,
            name="rings",
            gnn_features=1,
            graphs_digest=store.artifacts.of("default").put(graph_sets.pack(graphs)),
            sha256=graph_sets.canonical_set_hash(graphs),
            graph_count=figures.graph_count,
            label_counts=figures.label_counts,
            max_nodes=figures.max_nodes,
            mean_nodes=figures.mean_nodes,
            mean_edges=figures.mean_edges,
            tenant=DEFAULT_TENANT,
        )
        denoiser, training = denoisers.get_or_create(
            session,
            gnn=gnn,
            dataset=dataset,
            objective="counterfactual",
            config=DenoiserConfig(steps=5, hidden=4, blocks=1),
        )
    assert training is None or run(store, training.id).state is JobState.SUCCEEDED
    with store.database.transaction() as session:
        trained = denoisers.get(session, denoiser.id, tenant=DEFAULT_TENANT)
        assert trained.metrics is not None
        assert trained.metrics["objective_fallback"] == "distribution"
        explanation, job = explanations.create(
            session,
            kind="counterfactual",
            gnn=gnn,
            dataset=dataset,
            denoiser=trained,
            train_job=None,
            request_digest=store.artifacts.of("default").put(request.model_dump_json().encode()),
            seed=0,
        )
    return run(store, job.id), explanation.id


def result_of(store: Store, explanation_id: str) -> CounterfactualResult:
    with store.database.reading() as session:
        digest = explanations.get(session, explanation_id, tenant=DEFAULT_TENANT).result_digest
    return CounterfactualResult.model_validate_json(store.artifacts.of("default").get(digest or ""))


def test_a_black_box_is_probed_and_explained(served: PredictServer, tmp_path: Any) -> None:
    with open_store(tmp_path) as store:
        gnn = registered(store, served.url)
        assert gnn.state is GnnState.READY, gnn.report
        assert gnn.report["dense"] == "absent"
        before = len(served.received)
        job, explanation = run_explanation(store, gnn, CounterfactualRequest(graphs=[canonical(6)]))
        assert job.state is JobState.SUCCEEDED, job.error
        result = result_of(store, explanation)
        answer = result.answers[0]
        assert answer.found
        assert len(answer.counterfactuals[0].edits) == 1  # 7 edges are more than 6.5
        assert answer.counterfactuals[0].edits[0].action == "add"
        receipt = result.receipt
        assert (receipt.gnn_form, receipt.objective_fallback) == ("black_box", "distribution")
        assert receipt.work["queries"] == len(served.received) - before > 0


@pytest.mark.parametrize(("budget", "least"), [(20, 1), (160, 30)])
def test_a_small_query_budget_ends_the_search_with_a_warning(
    served: PredictServer, tmp_path: Any, budget: int, least: int
) -> None:
    """A flip needs four removed edges, and the rules allow three edits."""
    with open_store(tmp_path) as store:
        gnn = registered(store, served.url)
        request = CounterfactualRequest(graphs=[canonical(10)], max_queries=budget)
        job, explanation = run_explanation(store, gnn, request)
        assert job.state is JobState.SUCCEEDED, job.error
        result = result_of(store, explanation)
        assert not result.answers[0].found
        assert "the query budget ended the search" in result.warnings
        assert least <= result.receipt.work["queries"] <= budget


def test_a_black_box_that_stops_answering_fails_the_job(
    served: PredictServer, tmp_path: Any
) -> None:
    with open_store(tmp_path) as store:
        gnn = registered(store, served.url)
        served.answer = lambda body: {"probabilities": [[0.5, 0.4]] * len(body["graphs"])}
        job, _ = run_explanation(store, gnn, CounterfactualRequest(graphs=[canonical(6)]))
        assert job.state is JobState.FAILED
        assert "add up to 0.9, not to 1" in job.error["message"]


def test_a_worker_without_permission_rejects_the_gnn(served: PredictServer, tmp_path: Any) -> None:
    with open_store(tmp_path, black_box_private_hosts="") as store:
        gnn = registered(store, served.url)
        assert gnn.state is GnnState.REJECTED
        assert "not a public address" in gnn.report["checks"][0]["detail"]
    assert not served.received


def form(url: str, **changes: Any) -> dict[str, Any]:
    parts = {
        "name": (None, "box"),
        "spec": (None, '{"features": 1, "classes": 2}', "application/json"),
        "predict_url": (None, url),
    }
    return {name: part for name, part in {**parts, **changes}.items() if part is not None}


@pytest.mark.parametrize(
    ("changes", "pointer", "message"),
    [
        ({}, "/predict_url", "set D4_BLACK_BOX=on"),
        ({"weights": ("w", b"x")}, "/weights", "together with `predict_url`"),
        ({"archive": ("a", b"x")}, "/archive", "together with `predict_url`"),
        ({"spec": None}, "/spec", "`features` and `classes`"),
        (
            {
                "predict_url": None,
                "weights": ("w", b"x"),
                "spec": (None, SPEC.model_dump_json(), "application/json"),
            },
            "/spec/layers/0",
            "by `predict_url`",
        ),
    ],
)
def test_registration_is_refused_unless_the_settings_allow_it(
    shared_api: Any, changes: dict[str, Any], pointer: str, message: str
) -> None:
    answer = shared_api.client.post("/v1/gnns", files=form("https://gnn.example.org/", **changes))
    assert answer.status_code == 422
    assert {error["pointer"] for error in answer.json()["errors"]} == {pointer}
    assert message in answer.text


def sent(spec: object, url: str = "https://gnn.example.org/") -> FormParts:
    texts = {"name": b"box", "spec": json.dumps(spec).encode(), "predict_url": url.encode()}
    return FormParts(texts, {})


def test_registration_is_accepted_if_the_settings_allow_it() -> None:
    read = read_registration(sent({"features": 1, "classes": 3}), ALLOWED)
    (layer,) = read.spec.model_dump()["layers"]
    assert layer == {"type": "black_box", "url": "https://gnn.example.org/"}
    assert (read.spec.classes, read.weights) == (3, b"")


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"features": 1, "classes": 2, "layers": []}, "/spec/layers"),
        ({"features": 1, "classes": 2, "head": "binary"}, "/spec/head"),
        ({"features": 1, "classes": 2, "task": "node"}, "/spec/task"),
        ([], "/spec"),
    ],
)
def test_a_black_box_has_no_other_layers(spec: object, pointer: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_registration(sent(spec), ALLOWED)
    assert [fault.at for fault in refused.value.faults] == [pointer]


@pytest.mark.parametrize("spec", [{"features": 0, "classes": 2}, {"classes": 2}])
def test_features_of_a_black_box_are_validated(spec: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_registration(sent(spec), ALLOWED)
    assert refused.value.pointer == "/spec/features"


def test_class_explanations_are_refused_and_the_budget_is_capped() -> None:
    gnn = GnnRow(id="gnn_box", spec=SPEC.model_dump(mode="json"))
    one = ClassIn(kind="class", gnn="box", dataset="ds_1", target_class=0)
    with pytest.raises(InvalidRequestError, match="behind a URL"):
        class_request(one, gnn)
    other = CounterfactualIn(kind="counterfactual", gnn="box", dataset="ds_1", max_queries=20_001)
    with pytest.raises(InvalidRequestError, match="allows 20,000"):
        counterfactual_request(other, gnn, ALLOWED, DatasetRow(id="ds_1"), [])


def test_black_box_options_are_refused_for_other_gnns(api: Any) -> None:
    common = {"kind": "counterfactual", "gnn": api.gnn(), "dataset": api.dataset()}
    body = {**common, "graph": api.graph(), "max_queries": 5}
    answer = api.client.post("/v1/explanations", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/max_queries"
