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
from d4explain.contracts.requests import CanonicalGraph
from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.gnn.network import Gnn
from store.artifacts import graph_sets, large_graphs
from store.artifacts.artifact_store import ArtifactStore
from store.catalogue import datasets, gnns
from store.database.tables import Dataset
from store.settings import Settings
from store.store import Store
from worker.loading.graph_conversion import graph_of
from worker.loading.library import Library
from worker.loading.spec_conversion import spec_from_document

torch.set_num_threads(1)
CPU = torch.device("cpu")


def document(*layers: dict[str, object], pool: str = "mean", **rest: object) -> GnnSpecDocument:
    return GnnSpecDocument.model_validate(
        {
            "features": 3,
            "classes": 2,
            "layers": [*layers, {"type": "pool", "op": pool}, {"type": "linear", "out": 2}],
            **rest,
        }
    )


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


def test_packed_reference_sets_are_loaded_unchanged(store: Store) -> None:
    graphs = [graph(4, 0), graph(1, None), graph(3, 1)]
    digest = store.artifacts.of("default").put(graph_sets.pack(graphs))
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
            tenant=DEFAULT_TENANT,
        )
        gnn, _ = gnns.create(
            session, name="tiny", spec=document(), weights_digest=digest, tenant=DEFAULT_TENANT
        )
    library = Library(store.artifacts, CPU)
    reference = library.reference(gnn, row)
    assert reference.labels == [0, None, 1]
    for loaded, posted in zip(reference.graphs, graphs, strict=True):
        assert torch.equal(loaded.features, graph_of(posted).features)
        assert torch.equal(loaded.edges, graph_of(posted).edges)
    assert library.reference(gnn, row) is reference  # cached
    assert library.reference_statistics(gnn, row).count == 3


def attributed(rows: list[list[float]], x: list[list[float]]) -> CanonicalGraph:
    return CanonicalGraph(
        node_ids=list(range(len(x))),
        x=x,
        edges=[(i, i + 1) for i in range(len(x) - 1)],
        edge_attr=rows,
    )


def test_edges_have_attributes_only_for_gnns_that_read_them(store: Store) -> None:
    one, other = [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]
    graphs = [
        attributed([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [one, one, other, one]),
        attributed([[1.0, 0.0], [1.0, 0.0]], [one, one, one]),
    ]
    digest = store.artifacts.of("default").put(graph_sets.pack(graphs))
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
            tenant=DEFAULT_TENANT,
            **figures,
        )
        rows = [
            gnns.create(
                session, name="tiny", spec=spec, weights_digest=digest, tenant=DEFAULT_TENANT
            )[0]
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
    # An added bond is single, even if another type is more frequent.
    assert molecules[0].usual.between(types).tolist() == [[second] * 3] * 3


def test_a_gnn_is_loaded_in_eval_mode_with_its_weights(store: Store) -> None:
    spec = document({"type": "gin", "out": 4, "hidden": 4}, {"type": "dropout", "p": 0.9})
    original = Gnn(spec_from_document(spec)).eval()
    digest = store.artifacts.of("default").put(save(original.state_dict()))
    with store.database.transaction() as session:
        row, _ = gnns.create(
            session, name="tiny", spec=spec, weights_digest=digest, tenant=DEFAULT_TENANT
        )
    library = Library(store.artifacts, CPU)
    loaded = library.gnn(row)
    assert not loaded.training
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    for name, tensor in original.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    assert library.gnn(row) is loaded
    library.clear()
    assert library.gnn(row) is not loaded


def mapped_copies() -> int:
    """Counts mapped files that are already deleted: temporary copies of remote artifacts."""
    with open("/proc/self/maps") as maps:
        files = {line.split()[4] for line in maps if line.rstrip().endswith("(deleted)")}
    return len(files)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc")
def test_eviction_frees_the_copies_of_large_graphs() -> None:
    artifacts = ArtifactStore("memory://copies-of-large-graphs")
    rows = []
    for number in range(4):
        x = np.full((1000, 8), number, np.float32)  # 32 kB of features and 8 kB of offsets
        graph = large_graphs.rows_of(x, np.array([0]), np.array([1]))
        digest = artifacts.of("default").put_large(partial(large_graphs.write, graph))
        rows.append(Dataset(tenant_id=DEFAULT_TENANT, graphs_digest=digest, large=True))
    before = mapped_copies()

    library = Library(artifacts, CPU, cache_bytes=100_000)
    for row in rows:
        library.large_graph(row)
    assert mapped_copies() - before == 2  # as many as fit
    assert float(library.large_graph(rows[-1]).features[0, 0]) == 3.0

    library.clear()
    assert mapped_copies() == before

    small = Library(artifacts, CPU, cache_bytes=1000)
    for row in rows:
        assert small.large_graph(row) is small.large_graph(row)  # the newest is not fetched again
    assert mapped_copies() - before == 1
