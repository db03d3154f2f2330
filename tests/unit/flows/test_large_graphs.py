"""Large graphs from their upload to the explanation of a node; the worker runs in this process."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load
from safetensors.torch import save

from d4explain import Client
from d4explain.cli.main import main
from d4explain.contracts.requests import CanonicalGraph, CounterfactualRequest
from d4explain.gnn.graphs import Graph
from models.counterfactual.large.patches import local_parts
from service.graph_io import large_graph_reader as large_graphs_in
from service.graph_io.large_graph_reader import LargeForm, read_large
from service.submission.cost_estimates import estimate
from store import jobs
from store.artifacts import large_graphs
from store.artifacts.files import Artifacts
from store.database.tables import Dataset
from store.errors import ArtifactCorrupt, ArtifactMissing
from store.jobs import JobState
from store.settings import Settings
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.loading.library import Library

torch.set_num_threads(1)
NPZ, NDJSON = LargeForm.NPZ.value, LargeForm.NDJSON.value
THRESHOLD = 10.0
GIN = {"type": "gin", "out": 2, "hidden": 2}
SPEC = {
    "task": "node",
    "features": 1,
    "classes": 2,
    "layers": [GIN, GIN, {"type": "linear", "out": 2}],
}


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def ndjson(*lines: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(line).encode() for line in lines)


def small(**changes: Any) -> Settings:
    limits = {"max_large_nodes": 50, "max_large_edges": 60, "max_large_values": 120}
    return Settings(**{**limits, "max_body_bytes": 2000, "max_features": 4, **changes})


@st.composite
def listed(draw: st.DrawFn) -> tuple[nx.Graph, list[tuple[int, int]]]:
    """A graph and its edges as somebody may list them: some in both directions, in any order."""
    nodes = draw(st.integers(2, 20))
    graph = nx.gnm_random_graph(nodes, draw(st.integers(1, 40)), seed=draw(st.integers(0, 99)))
    if not graph.number_of_edges():
        graph.add_edge(0, 1)
    edges = list(graph.edges)
    turned = draw(st.lists(st.sampled_from(edges), unique=True))
    both = [*edges, *((target, source) for source, target in turned)]
    return graph, draw(st.permutations(both))


@settings(max_examples=60, deadline=None)
@given(made=listed(), form=st.sampled_from(list(LargeForm)), cuts=st.integers(1, 5))
def test_rows_are_the_neighbours_that_networkx_finds(
    made: tuple[nx.Graph, list[tuple[int, int]]], form: LargeForm, cuts: int
) -> None:
    graph, edges = made
    x = np.arange(2.0 * len(graph)).reshape(-1, 2)
    index = np.array(edges).T
    if form is LargeForm.NPZ:
        body = npz(edge_index=index, x=np.asfortranarray(x))
    else:
        parts = np.array_split(index, cuts, axis=1)
        rows = np.array_split(x, cuts)
        lines = zip(parts, rows, strict=True)
        body = ndjson(*({"edge_index": p.tolist(), "x": r.tolist()} for p, r in lines))
    read = read_large(io.BytesIO(body), form, Settings())
    assert read.edge_count == graph.number_of_edges()
    assert np.array_equal(read.x, x)
    for node in graph:
        row = read.neighbours[read.starts[node] : read.starts[node + 1]]
        assert row.tolist() == sorted(graph[node])


def test_what_is_written_is_a_safetensors_file_and_is_mapped(tmp_path: Any) -> None:
    edges = np.array([[0, 1, 2], [1, 2, 3]])
    graph = large_graphs.rows_of(np.ones((5, 2), np.float32), *edges)
    artifacts = Artifacts(str(tmp_path / "kept"))
    digest = artifacts.put_large(lambda file: large_graphs.write(graph, file))
    library = load(artifacts.get(digest))  # which also checks the digest
    with artifacts.open_large(digest) as file:
        mapped = large_graphs.mapped(file)
    for name in ("x", "starts", "neighbours"):
        assert np.array_equal(library[name], getattr(graph, name))
        assert np.array_equal(getattr(mapped, name), getattr(graph, name))
        assert isinstance(getattr(mapped, name).base, np.memmap)
    assert [listed.digest for listed in artifacts.listed()] == [digest]


def test_remote_artifacts_are_copied_and_checked() -> None:
    artifacts = Artifacts("memory://large-graphs")
    digest = artifacts.put_large(lambda file: file.write(b"bytes") and None)
    with artifacts.open_large(digest) as file:
        assert file.read() == b"bytes"
    with pytest.raises(ArtifactMissing):
        artifacts.open_large("0" * 64)
    artifacts._files.pipe_file(artifacts._path(digest), b"other")
    with pytest.raises(ArtifactCorrupt):
        artifacts.open_large(digest)


def lying(shape: tuple[int, ...], content: bytes = b"") -> bytes:
    """An npz whose edge_index claims another shape than it has."""
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        array, {"descr": "<i8", "fortran_order": False, "shape": shape}
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("edge_index.npy", array.getvalue() + content)
    return file.getvalue()


def nested(depth: int) -> bytes:
    """An npz whose edge_index has a header of so many brackets, which NumPy parses as Python."""
    header = b"(" * depth
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        magic = np.lib.format.magic(1, 0)
        archive.writestr("edge_index.npy", magic + len(header).to_bytes(2, "little") + header)
    return file.getvalue()


EDGES = [[0, 1], [1, 2]]
ROWS = [[1.0]] * 3
HOSTILE: list[tuple[str, bytes, str, str]] = [
    (NDJSON, b"", "/edge_index", "no edges"),
    (NDJSON, b"{", "/0", "not JSON"),
    (NDJSON, b'{"x": [[1]]}\n[]', "/1", "object"),
    (NDJSON, b'{"x": [[NaN]]}', "/0/x/0/0", "finite"),
    (NDJSON, b'{"x": [["1"]]}', "/0/x/0/0", "number"),
    (NDJSON, ndjson({"x": [[1.0], [1.0, 2.0]]}), "/0/x/1", "2 features"),
    (NDJSON, ndjson({"x": [[1.0]]}, {"x": [[1.0, 2.0]]}), "/1/x/0", "2 features"),
    (NDJSON, ndjson({"x": [[]]}), "/x", "0 features"),
    (NDJSON, ndjson({"x": ROWS, "edge_index": [[0], [3]]}), "/edge_index", "node 3"),
    (NDJSON, ndjson({"x": ROWS, "edge_index": [[0], [-1]]}), "/edge_index", "node -1"),
    (NDJSON, ndjson({"x": ROWS, "edge_index": [[0]]}), "/0/edge_index", "two arrays"),
    (NDJSON, ndjson({"x": ROWS, "edge_index": [[1], [1]]}), "/edge_index", "self-loop of node 1"),
    (NDJSON, ndjson({"edge_index": [[0, 0], [1, 1]]}), "/edge_index", "0 to 1 is listed twice"),
    (NDJSON, ndjson({"edge_index": [[0], [50]]}), "/edge_index", "51 nodes"),
    (NDJSON, ndjson({"edge_index": [[0] * 121, [1] * 121]}), "/0/edge_index", "121 listed edges"),
    (NDJSON, ndjson({"x": [[1.0] * 4] * 31}), "/x", "124 feature values"),
    (NDJSON, ndjson({"x": [[1.0]] * 400}), "/0", "longer than"),
    (NPZ, b"PK", "", "cannot be read"),
    (NPZ, nested(100), "/edge_index", "not a .npy array"),
    (NPZ, nested(9_000), "/edge_index", "not a .npy array"),
    (NPZ, lying((2, -3)), "/edge_index", "must not be negative"),
    (NPZ, lying((2, 3), b"12345678"), "/edge_index", "has 8 bytes; expected 48"),
    (NPZ, npz(x=np.ones((3, 1))), "/edge_index", "is required"),
    (NPZ, npz(edge_index=np.array(EDGES, object)), "/edge_index", "object"),
    (NPZ, npz(edge_index=np.array(EDGES, float)), "/edge_index", "integers"),
    (NPZ, npz(edge_index=np.array([[0, 1]])), "/edge_index", "[1, 2]"),
    (NPZ, npz(edge_index=np.array([[2**63], [0]], np.uint64)), "/edge_index", "63 bits"),
    (NPZ, npz(edge_index=np.zeros((2, 10**6), np.int8)), "/edge_index", "1,000,000 listed"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.ones((10**5, 4))), "/x", "100,000 nodes"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.full((3, 1), 1e39)), "/x", "not finite"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.full((3, 1), np.inf)), "/x", "not finite"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.ones(3)), "/x", "[node, feature]"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.ones((3, 1), np.longdouble)), "/x", "64 bits"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.ones((3, 1), bool)), "/x", "integers or floats"),
]


@pytest.mark.parametrize("number", ["<f2", "<f4", ">f8", "i1", "<u4", ">i8", "<u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_of_any_width_are_read_piece_by_piece(
    number: str, order: Literal["C", "F"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_graphs_in, "_CHUNK_BYTES", 24)
    x = np.arange(40).reshape(20, 2).astype(number, order=order)
    edges = np.array([range(19), range(1, 20)]).astype("i2", order=order)
    read = read_large(io.BytesIO(npz(edge_index=edges, x=x)), LargeForm.NPZ, Settings())
    assert np.array_equal(read.x, x)
    assert read.x.dtype == np.float32
    assert read.edge_count == 19


def test_memory_is_that_of_what_is_kept() -> None:
    x = np.zeros((1_000_000, 8))
    body = npz(edge_index=np.array(EDGES), x=x)
    assert len(body) < 100_000
    tracemalloc.start()
    try:
        read = read_large(io.BytesIO(body), LargeForm.NPZ, Settings())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read.x.nbytes == x.nbytes / 2
    assert peak < x.nbytes


@pytest.fixture(scope="module")
def road(shared_api: Any) -> Road:
    return Road(shared_api)


class Road:
    """The API with limits for small large graphs, and a worker that runs what is queued."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.store = api.store
        cpu = torch.device("cpu")
        library = Library(self.store.artifacts, cpu, neighbourhood_nodes=12, exact_nodes=16)
        self.runner = Runner(self.store, library, HANDLERS, "test")

    def upload(self, body: bytes | Iterator[bytes], form: str = NDJSON, **headers: str) -> Any:
        return self.api.client.post(
            "/v1/datasets/large?name=web",
            content=body,
            headers={"Content-Type": form, **headers},
        )

    def work(self) -> None:
        while True:
            with self.store.database.reading() as session:
                queued = jobs.page(session, state=JobState.QUEUED).items
            ready = [job.id for job in queued if job.waiting_for is None]
            if not ready:
                return
            self.runner.run(ready[-1])

    def gnn(self) -> str:
        """Class 1 if more than THRESHOLD walks of two steps start at the node; a step may stay."""
        tensors = {
            "layers.0.conv.nn.0.weight": torch.ones(2, 1),
            "layers.1.conv.nn.0.weight": torch.eye(2),
            "layers.2.linear.weight": torch.tensor([[0.0, 0.0], [0.5, 0.5]]),
            "layers.2.linear.bias": torch.tensor([0.0, -THRESHOLD]),
        }
        for layer in (0, 1):
            tensors[f"layers.{layer}.conv.eps"] = torch.zeros(1)
            tensors[f"layers.{layer}.conv.nn.0.bias"] = torch.zeros(2)
            tensors[f"layers.{layer}.conv.nn.2.weight"] = torch.eye(2)
            tensors[f"layers.{layer}.conv.nn.2.bias"] = torch.zeros(2)
        answer = self.api.client.post(
            "/v1/gnns",
            data={"name": "walks", "spec": json.dumps(SPEC)},
            files={"weights": ("w", save(tensors))},
            headers={"Prefer": "respond-async"},
        )
        assert answer.status_code == 202, answer.text
        self.work()
        found: dict[str, Any] = self.api.client.get(answer.headers["location"]).json()
        assert found["state"] == "ready"
        return str(found["id"])

    def ask(self, gnn: str, dataset: str, **body: Any) -> Any:
        known: dict[str, Any] = {"kind": "counterfactual", "gnn": gnn, "dataset": dataset}
        if body.get("explainer") != "search":
            known["denoiser"] = {"steps": 12, "hidden": 4, "blocks": 1}
        return self.api.client.post("/v1/explanations", json={**known, **body})


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case[3])
def test_a_broken_upload_is_refused_with_its_place(case: tuple[str, bytes, str, str]) -> None:
    from service.http.faults import InvalidRequestError  # noqa: PLC0415

    form, body, at, said = case
    with pytest.raises(InvalidRequestError) as refused:
        read_large(io.BytesIO(body), LargeForm(form), small())
    assert refused.value.faults[0].at == at
    assert said in refused.value.faults[0].detail


def test_an_upload_comes_in_chunks_and_is_stored_once_per_key(road: Road) -> None:
    lines = [b'{"x": [[1.0], [2.0]], ', b'"edge_index": [[0], [1]]}\n', b'{"x": [[3.0]]}']
    key = {"Idempotency-Key": "large-1"}
    answer = road.upload(iter(lines), **key)
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert (found["large"], found["graph_count"], found["features"]) == (True, 1, 1)
    assert (found["max_nodes"], found["mean_edges"]) == (3, 1.0)
    again = road.upload(b"".join(lines), **key)
    assert again.json()["id"] == found["id"]
    assert again.headers["idempotency-replayed"] == "true"
    assert road.upload(b"other", **key).status_code == 422
    assert road.api.client.get(answer.headers["location"]).json() == found


def test_other_bodies_are_refused_and_nothing_is_left(road: Road) -> None:
    before = road.api.written()
    assert road.upload(b"{}", "application/json").status_code == 415
    parquet = road.upload(b"PAR1", "application/vnd.apache.parquet")
    assert parquet.status_code == 415
    assert "d4explain upload" in parquet.json()["detail"]
    described = road.api.client.get("/openapi.json").json()["paths"]["/v1/datasets/large"]["post"]
    assert "d4explain upload" in described["description"]
    compressed = road.upload(b"{}", NDJSON, **{"Content-Encoding": "gzip"})
    assert "Parquet" not in compressed.json()["detail"]
    nameless = road.api.client.post(
        "/v1/datasets/large", content=b"{}", headers={"Content-Type": NDJSON}
    )
    assert nameless.status_code == 422
    assert road.upload(b'{"edge_index": [[0], [0]]}').status_code == 422
    assert road.api.written() == before


def hub() -> nx.Graph:
    """Node 0 has 40 neighbours; a path of 10 nodes hangs at one of them and a ring at its end."""
    graph = nx.star_graph(40)
    graph.add_edges_from(pairwise([40, *range(41, 51)]))
    graph.add_edges_from([*pairwise(range(50, 56)), (55, 50)])
    return graph


def walks(graph: nx.Graph) -> dict[int, float]:
    """The truth about every node, by powers of the adjacency."""
    steps = nx.to_numpy_array(graph, nodelist=range(len(graph))) + np.eye(len(graph))
    return dict(enumerate((steps @ steps).sum(axis=1).tolist()))


@pytest.mark.parametrize("explainer", ["d4", "search"])
def test_nodes_of_a_large_graph_are_explained_by_their_numbers(road: Road, explainer: str) -> None:
    gnn, graph = road.gnn(), hub()
    index = np.array(graph.edges).T
    answer = road.upload(npz(edge_index=index, x=np.ones((len(graph), 1))), NPZ)
    assert answer.status_code == 201, answer.text
    dataset = answer.json()["id"]
    nodes = [46, 50, 20]
    asked = road.ask(gnn, dataset, nodes=nodes, constraints={"max_ratio": 1.0}, explainer=explainer)
    assert asked.status_code == 202, asked.text
    road.work()
    found = road.api.client.get(asked.headers["location"]).json()
    assert found["state"] == "succeeded", found["job"]["error"]
    result = found["result"]
    truth = walks(graph)
    for node, one in zip(nodes, result["answers"], strict=True):
        assert one["node"]["id"] == node
        assert one["graph"]["nodes"][0]["id"] == node
        probability = 1 / (1 + np.exp(THRESHOLD - truth[node]))
        assert one["prediction"]["probabilities"][1] == pytest.approx(probability, rel=1e-4)
        for counterfactual in one["counterfactuals"]:
            edited = graph.copy()
            for edit in counterfactual["edits"]:
                change = edited.add_edge if edit["action"] == "add" else edited.remove_edge
                change(edit["source"], edit["target"])
            after = walks(edited)[node] > THRESHOLD
            assert after == (counterfactual["prediction"]["predicted_class"] == 1)
            assert after != (truth[node] > THRESHOLD)
    path, ring, leaf = (one["node"] for one in result["answers"])
    assert (path["node_count"], path["edge_count"]) == (5, 4)
    assert (path["complete"], path["exact"]) == (True, True)
    assert ring["complete"]
    # of the hub's 41 neighbours the nearest are edited, and the verdict is the whole graph's
    assert (leaf["node_count"], leaf["complete"], leaf["exact"]) == (12, False, True)
    assert any("1 of 3 nodes are too large" in warning for warning in result["warnings"])
    assert result["receipt"]["dataset_sha256"] == answer.json()["sha256"]
    assert any(one["found"] for one in result["answers"])


def test_nodes_and_gnns_that_do_not_fit_are_refused(road: Road) -> None:
    dataset = road.upload(b'{"edge_index": [[0, 1], [1, 2]]}').json()["id"]
    gnn = road.gnn()
    for body, at in (
        ({"node": 3}, "/node"),
        ({"node": "0"}, "/node"),
        ({"nodes": [0, 0]}, "/nodes/1"),
        ({"nodes": [0, 1, 2, 0, 1]}, "/nodes"),
        ({}, "/node"),
        ({"node": 0, "constraints": {"frozen_nodes": [9]}}, "/constraints/frozen_nodes/0"),
        ({"node": 0, "constraints": {"valid_molecule": True}}, "/constraints/valid_molecule"),
    ):
        answer = road.ask(gnn, dataset, **body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["pointer"] == at
    of_graphs = road.ask(road.api.gnn(), dataset, node=0)
    assert of_graphs.status_code == 422
    assert "one large graph" in of_graphs.json()["detail"]
    small_set = road.api.dataset()
    assert road.ask(gnn, small_set, node=0).json()["errors"][0]["pointer"] == "/graph"


def test_the_command_line_uploads_by_the_files_name(
    served: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "web.npz", edge_index=np.array(EDGES))
    url = str(served.client.base_url)
    with pytest.raises(SystemExit) as ended:
        main(("upload", str(tmp_path / "web.npz"), "--name", "web", "--url", url))
    assert not ended.value.code
    assert "3 nodes, 2 edges" in capsys.readouterr().out
    with Client(url) as client:
        (dataset,) = client.datasets()
        assert (dataset.name, dataset.large, dataset.max_nodes) == ("web", True, 3)


def posted(nodes: int) -> dict[str, Any]:
    return {"edge_index": np.array(nx.path_graph(nodes).edges).T.tolist(), "x": [[1.0]] * nodes}


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(road: Road) -> None:
    gnn, dataset = road.api.gnn(), road.api.dataset()
    before = road.api.written()
    body = {"kind": "counterfactual", "gnn": gnn, "dataset": dataset, "graph": posted(20)}
    answer = road.api.client.post("/v1/explanations?dry_run=true", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["dry_run"], found["trains_denoiser"]) == (True, True)
    (case,) = found["cases"]
    assert case == {**case, "mode": "exact", "node_count": 20, "edge_count": 19, "pair_count": 190}
    assert road.api.written() == before
    known = road.ask(gnn, dataset, graph=posted(20), denoiser={"steps": 5})
    road.api.finish(known.json()["job"]["waiting_for"])
    config = {"denoiser": {"steps": 5}}
    again = road.api.client.post("/v1/explanations?dry_run=true", json={**body, **config})
    assert again.json()["trains_denoiser"] is False
    search = road.api.client.post(
        "/v1/explanations?dry_run=true", json={**body, "explainer": "search"}
    )
    assert search.json() == {**found, "trains_denoiser": False}
    of_class = {"kind": "class", "gnn": gnn, "dataset": dataset, "target_class": 0}
    refused = road.api.client.post("/v1/explanations?dry_run=true", json=of_class)
    assert refused.status_code == 422


def test_estimates_know_the_modes(road: Road) -> None:
    limits = Settings(exact_nodes=10, max_neighbourhood_nodes=30)
    row = Dataset(max_nodes=1_000_000, large=True)
    request = CounterfactualRequest(graphs=[], nodes=[1, 2])
    around = estimate(request, row, limits, trains=False)
    assert [(case.mode, case.node_count) for case in around.cases] == [("neighbourhood", 30)] * 2
    graph = CanonicalGraph(
        node_ids=list(range(50)), x=[[1.0]] * 50, edges=list(pairwise(range(50)))
    )
    (case,) = estimate(CounterfactualRequest(graphs=[graph]), row, limits, trains=False).cases
    assert (case.mode, case.pair_count) == ("restricted", 8 * 49)


def test_what_is_too_large_is_refused_with_an_estimate(road: Road) -> None:
    answer = road.ask(road.api.gnn(), road.api.dataset(), graph=posted(21))
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/graph/x"
    assert "21 nodes; this deployment accepts at most 20" in error["detail"]
    assert "MB and" in error["detail"]


@pytest.mark.parametrize("explainer", ["d4", "search"])
def test_a_graph_above_the_limit_is_edited_at_candidates_and_says_so(
    road: Road, explainer: str
) -> None:
    graph = nx.barabasi_albert_graph(20, 1, seed=0)
    body = {"edge_index": np.array(graph.edges).T.tolist(), "x": [[1.0]] * 20}
    references = {"name": "large ones", "graphs": [body, posted(20), posted(18)]}
    answer = road.api.client.post("/v1/datasets", json=references)
    dataset = answer.json()["id"]
    asked = road.ask(road.api.gnn(), dataset, graph=body, explainer=explainer)
    assert asked.status_code == 202, asked.text
    road.work()
    found = road.api.client.get(asked.headers["location"]).json()
    assert found["state"] == "succeeded", found["job"]["error"]
    (one,) = found["result"]["answers"]
    assert one["restricted"]["pair_count"] == 190
    assert 19 <= one["restricted"]["candidate_count"] <= 8 * 19
    assert any("1 of 1 graphs are too large" in said for said in found["result"]["warnings"])
    assert found["result"]["receipt"]["config"]["candidates"]["above_nodes"] == 16
    small = road.ask(road.api.gnn(), dataset, graph=posted(16), explainer=explainer)
    road.work()
    found = road.api.client.get(small.headers["location"]).json()
    assert found["result"]["answers"][0]["restricted"] is None


def test_denoisers_of_large_graphs_learn_from_their_parts() -> None:
    graph = nx.barabasi_albert_graph(400, 2, seed=0)
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in graph.edges)).T.contiguous()
    features = torch.arange(400.0)[:, None]
    parts = local_parts(Graph(features, edges), 64, 100)
    assert len(parts) == 13
    known = set(map(tuple, edges.T.tolist()))
    for part in parts:
        assert part.node_count <= 64
        names = part.features[:, 0].long()
        named = {tuple(sorted(names[pair].tolist())) for pair in part.edges.T}
        inside = {pair for pair in known if set(pair) <= set(names.tolist())}
        assert named == inside
        assert nx.is_connected(nx.Graph(list(named)))
