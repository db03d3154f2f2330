from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save

from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.contracts.gnn_tensors import expected_tensors
from d4explain.contracts.requests import CanonicalGraph
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import (
    ActivationLayer,
    AddLayer,
    BatchNormLayer,
    DropoutLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GineLayer,
    GineSumLayer,
    GinLayer,
    GraphConvLayer,
    GraphNormLayer,
    JumpLayer,
    KeepLayer,
    Layer,
    LayerNormLayer,
    LinearLayer,
    PoolLayer,
    SageLayer,
)
from store.artifacts import graph_sets, large_graphs
from store.artifacts.files import Artifacts
from store.catalogue import datasets, gnns
from store.database.tables import Dataset
from store.settings import Settings
from store.store import Store
from worker.loading.library import Library, fixed_sample, graph_of, layers_of
from worker.loading.lru_cache import LruCache

torch.set_num_threads(1)
CPU = torch.device("cpu")

LAYERS: list[tuple[dict[str, object], Layer]] = [
    ({"type": "gcn", "out": 5}, GcnLayer(out=5)),
    ({"type": "gin", "out": 5, "hidden": 7}, GinLayer(out=5, hidden=7)),
    (
        {"type": "gin", "out": 5, "hidden": 7, "train_eps": True},
        GinLayer(out=5, hidden=7, train_eps=True),
    ),
    ({"type": "gine", "out": 5, "hidden": 7}, GineLayer(out=5, hidden=7)),
    ({"type": "gine_sum", "train_eps": True}, GineSumLayer(train_eps=True)),
    ({"type": "gat", "out": 6, "edges": True}, GatLayer(out=6, edges=True)),
    ({"type": "sage", "out": 6}, SageLayer(out=6)),
    ({"type": "sage", "out": 6, "bias": False}, SageLayer(out=6, bias=False)),
    ({"type": "sage", "out": 6, "aggr": "max"}, SageLayer(out=6, aggr="max")),
    ({"type": "graph_conv", "out": 6}, GraphConvLayer(out=6)),
    (
        {"type": "graph_conv", "out": 6, "bias": False, "aggr": "mean"},
        GraphConvLayer(out=6, bias=False, aggr="mean"),
    ),
    ({"type": "gat", "out": 6}, GatLayer(out=6)),
    (
        {"type": "gatv2", "out": 6, "heads": 2, "concat": False, "negative_slope": 0.1},
        GatV2Layer(out=6, heads=2, concat=False, negative_slope=0.1),
    ),
    ({"type": "linear", "out": 6}, LinearLayer(out=6)),
    ({"type": "linear", "out": 6, "bias": False}, LinearLayer(out=6, bias=False)),
    ({"type": "dropout", "p": 0.5}, DropoutLayer(p=0.5)),
    ({"type": "batch_norm"}, BatchNormLayer()),
    ({"type": "layer_norm", "mode": "node"}, LayerNormLayer(mode="node")),
    ({"type": "layer_norm", "mode": "graph"}, LayerNormLayer(mode="graph")),
    ({"type": "graph_norm"}, GraphNormLayer()),
    ({"type": "activation", "kind": "relu"}, ActivationLayer(kind="relu")),
    ({"type": "activation", "kind": "leaky_relu"}, ActivationLayer(kind="leaky_relu")),
    (
        {"type": "activation", "kind": "leaky_relu", "slope": 0.2},
        ActivationLayer(kind="leaky_relu", slope=0.2),
    ),
    ({"type": "activation", "kind": "selu"}, ActivationLayer(kind="selu")),
    ({"type": "activation", "kind": "silu"}, ActivationLayer(kind="silu")),
    ({"type": "activation", "kind": "softplus"}, ActivationLayer(kind="softplus")),
    ({"type": "activation", "kind": "elu"}, ActivationLayer(kind="elu")),
    ({"type": "activation", "kind": "gelu"}, ActivationLayer(kind="gelu")),
    ({"type": "activation", "kind": "tanh"}, ActivationLayer(kind="tanh")),
    ({"type": "activation", "kind": "sigmoid"}, ActivationLayer(kind="sigmoid")),
]


def document(*layers: dict[str, object], pool: str = "mean", **rest: object) -> GnnSpecDocument:
    return GnnSpecDocument.model_validate(
        {
            "features": 3,
            "classes": 2,
            "layers": [*layers, {"type": "pool", "op": pool}, {"type": "linear", "out": 2}],
            **rest,
        }
    )


@pytest.mark.parametrize(("layer", "expected"), LAYERS, ids=[str(layer) for layer, _ in LAYERS])
def test_every_layer_is_mapped_and_has_the_tensors_the_gate_expects(
    layer: dict[str, object], expected: Layer
) -> None:
    edges = {"edge_features": 2} if "gine" in str(layer["type"]) or layer.get("edges") else {}
    spec = layers_of(document(layer, **edges))
    assert spec.layers[0] == expected
    tensors = {
        name: (tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        for name, tensor in Gnn(spec).state_dict().items()
    }
    assert tensors == {
        name: (tensor.shape, tensor.dtype)
        for name, tensor in expected_tensors(document(layer, **edges)).items()
    }


@pytest.mark.parametrize("op", ["mean", "sum", "max", "attention"])
def test_pools_are_mapped(op: str) -> None:
    assert layers_of(document(pool=op)).layers[0] == PoolLayer(op=op)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["cat", "max"])
def test_jumping_knowledge_is_mapped(mode: str) -> None:
    spec = layers_of(document({"type": "keep"}, {"type": "jump", "mode": mode}))
    assert spec.layers[:2] == (KeepLayer(), JumpLayer(mode=mode))  # type: ignore[arg-type]


def test_residual_connections_are_mapped() -> None:
    spec = layers_of(document({"type": "keep"}, {"type": "gcn", "out": 3}, {"type": "add"}))
    assert spec.layers[:3] == (KeepLayer(), GcnLayer(3), AddLayer())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(Settings(data_dir=tmp_path)) as opened:
        yield opened


def graph(nodes: int, label: int | None) -> CanonicalGraph:
    return CanonicalGraph(
        node_ids=[f"n{i}" for i in range(nodes)],
        x=[[float(i), 0.5, -1.0] for i in range(nodes)],
        edges=[(i, i + 1) for i in range(nodes - 1)],
        label=label,
    )


def test_reference_sets_come_back_as_they_were_packed(store: Store) -> None:
    graphs = [graph(4, 0), graph(1, None), graph(3, 1)]
    digest = store.artifacts.put(graph_sets.pack(graphs))
    with store.database.transaction() as session:
        row = datasets.create(
            session,
            name="three",
            gnn_features=3,
            graphs_digest=digest,
            sha256=graph_sets.canonical_set_hash(graphs),
            graph_count=3,
            label_counts={"0": 1, "1": 1},
            max_nodes=4,
            mean_nodes=8 / 3,
            mean_edges=5 / 3,
        )
        gnn, _ = gnns.create(session, name="tiny", spec=document(), weights_digest=digest)
    library = Library(store.artifacts, CPU)
    reference = library.reference(gnn, row)
    assert reference.labels == [0, None, 1]
    for loaded, posted in zip(reference.graphs, graphs, strict=True):
        assert torch.equal(loaded.features, graph_of(posted).features)
        assert torch.equal(loaded.edges, graph_of(posted).edges)
    assert library.reference(gnn, row) is reference  # kept warm
    assert library.reference_statistics(gnn, row).count == 3


def attributed(rows: list[list[float]], x: list[list[float]]) -> CanonicalGraph:
    return CanonicalGraph(
        node_ids=list(range(len(x))),
        x=x,
        edges=[(i, i + 1) for i in range(len(x) - 1)],
        edge_attr=rows,
    )


def test_edges_have_attributes_for_gnns_that_read_them(store: Store) -> None:
    one, other = [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]
    graphs = [
        attributed([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [one, one, other, one]),
        attributed([[1.0, 0.0], [1.0, 0.0]], [one, one, one]),
    ]
    digest = store.artifacts.put(graph_sets.pack(graphs))
    plain, reading = document(), document({"type": "gine_sum"}, edge_features=2)
    atoms = {"kind": "smiles", "atoms": ["C", "N", "O"], "bonds": ["double", "single"]}
    chemical = document({"type": "gine_sum"}, edge_features=2, featuriser=atoms)
    figures = asdict(graph_sets.describe(graphs))
    with store.database.transaction() as session:
        row = datasets.create(
            session,
            name="two",
            gnn_features=figures.pop("features"),
            graphs_digest=digest,
            sha256=graph_sets.canonical_set_hash(graphs),
            **figures,
        )
        rows = [
            gnns.create(session, name="tiny", spec=spec, weights_digest=digest)[0]
            for spec in (plain, reading, chemical)
        ]
    library = Library(store.artifacts, CPU)
    without, found, molecules = (library.reference(gnn, row).graphs for gnn in rows)
    assert [graph.edge_attributes for graph in without] == [None, None]
    assert [graph.edge_attributes.tolist() for graph in found] == [
        graph.edge_attr for graph in graphs
    ]
    types = torch.tensor([one, other, [0.0, 0.0, 1.0]])
    first, second = [1.0, 0.0], [0.0, 1.0]
    expected = [[first, second, first], [second, first, first], [first] * 3]  # first overall
    assert found[0].usual.between(types).tolist() == expected
    # an added bond is single, whatever is frequent
    assert molecules[0].usual.between(types).tolist() == [[second] * 3] * 3


def test_a_gnn_is_loaded_in_eval_mode_with_its_weights(store: Store) -> None:
    spec = document({"type": "gin", "out": 4, "hidden": 4}, {"type": "dropout", "p": 0.9})
    original = Gnn(layers_of(spec)).eval()
    digest = store.artifacts.put(save(original.state_dict()))
    with store.database.transaction() as session:
        row, _ = gnns.create(session, name="tiny", spec=spec, weights_digest=digest)
    library = Library(store.artifacts, CPU)
    loaded = library.gnn(row)
    assert not loaded.training
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    for name, tensor in original.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    assert library.gnn(row) is loaded
    library.forget()
    assert library.gnn(row) is not loaded


def test_the_shelf_lets_the_least_recently_used_go() -> None:
    shelf = LruCache(10)
    made: list[str] = []

    def get(name: str, size: int) -> str:
        def make() -> str:
            made.append(name)
            return name

        return shelf.get(name, make, lambda _: size)

    get("a", 4)
    get("b", 4)
    get("a", 4)  # now b is the older one
    get("c", 4)
    assert shelf.used_bytes == 8
    get("a", 4)
    get("b", 4)
    assert made == ["a", "b", "c", "b"]
    get("too large", 11)
    get("too large", 11)
    assert made[-2:] == ["too large", "too large"]
    assert shelf.used_bytes == 8


def test_a_large_set_is_sampled_the_same_way_every_time() -> None:
    graphs = [graph_of(graph(2, i)) for i in range(50)]
    sample = fixed_sample(graphs, 10, 10**9)
    assert [id(kept) for kept in sample] == [id(kept) for kept in fixed_sample(graphs, 10, 10**9)]
    assert len({id(kept) for kept in sample}) == 10
    assert fixed_sample(graphs, 50, 10**9) == graphs
    # Large graphs cost more: 2³ each, 80 in all.
    assert len(fixed_sample(graphs, 50, 80)) == 10
    assert len(fixed_sample(graphs, 50, 1)) == 2


def mapped_copies() -> int:
    """Files without a name that this process has mapped: copies of remote artifacts."""
    with open("/proc/self/maps") as maps:
        files = {line.split()[4] for line in maps if line.rstrip().endswith("(deleted)")}
    return len(files)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc")
def test_copies_of_large_graphs_are_counted_and_go() -> None:
    artifacts = Artifacts("memory://copies-of-large-graphs")
    rows = []
    for number in range(4):
        x = np.full((1000, 8), number, np.float32)  # 32 kB, and 8 kB of starts
        graph = large_graphs.rows_of(x, np.array([0]), np.array([1]))
        digest = artifacts.put_large(partial(large_graphs.write, graph))
        rows.append(Dataset(graphs_digest=digest, large=True))
    before = mapped_copies()

    library = Library(artifacts, torch.device("cpu"), warm_bytes=100_000)
    for row in rows:
        library.large_graph(row)
    assert mapped_copies() - before == 2  # as many as fit
    assert float(library.large_graph(rows[-1]).features[0, 0]) == 3.0

    library.forget()
    assert mapped_copies() == before

    small = Library(artifacts, torch.device("cpu"), warm_bytes=1000)
    for row in rows:
        assert small.large_graph(row) is small.large_graph(row)  # the newest is not fetched again
    assert mapped_copies() - before == 1
