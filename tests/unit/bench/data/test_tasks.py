"""Benchmark data: published counts and file formats."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch

from bench.data.splits import DataFormatError, DataMissingError, Part
from bench.data.tasks import Task, data_folder, load_task

torch.set_num_threads(1)

needs_data = pytest.mark.skipif(
    not data_folder().is_dir(), reason=f"no benchmark data in {data_folder()}; set D4_DATA"
)


def parts_of(task: Task) -> list[Part]:
    return [task.train, task.validation, task.test]


def class_counts(task: Task) -> list[int]:
    labels = torch.cat([part.labels for part in parts_of(task)])
    return torch.bincount(labels, minlength=task.classes).tolist()


@needs_data
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes"),
    [
        ("mutag", 17.93, 19.79, 7, [63, 125]),
        ("mutagenicity", 30.32, 30.77, 14, [2401, 1936]),
        ("nci1", 29.87, 32.30, 37, [2053, 2057]),
        ("bbbp", 24.06, 25.95, 9, [479, 1560]),
    ],
)
def test_counts_match_the_readme(
    name: str, nodes: float, edges: float, features: int, classes: list[int]
) -> None:
    if name == "bbbp":
        pytest.importorskip("rdkit", reason="molecules need the molecules extra")
    task = load_task(name)
    graphs = [graph for part in parts_of(task) for graph in part.graphs]
    mean_nodes = sum(graph.node_count for graph in graphs) / len(graphs)
    mean_edges = sum(graph.edge_count for graph in graphs) / len(graphs)
    assert mean_nodes == pytest.approx(nodes, abs=0.005)
    assert mean_edges == pytest.approx(edges, abs=0.005)
    assert task.features == features
    assert class_counts(task) == classes
    assert task.skipped == (11 if name == "bbbp" else 0)


@needs_data
def test_ba3motif_tests_on_the_published_testing_part() -> None:
    plain, roles = load_task("ba3motif", seed=1), load_task("ba3motif_roles", seed=2)
    assert [len(part.graphs) for part in parts_of(plain)] == [2340, 260, 400]
    for one, other in zip(plain.test.graphs, roles.test.graphs, strict=True):
        assert torch.equal(one.edges, other.edges)
    assert plain.features == 1
    assert roles.features == 4


@needs_data
def test_published_role_features_do_not_depend_on_the_seed() -> None:
    first, second = load_task("ba3motif_roles", seed=0), load_task("ba3motif_roles", seed=1)
    for one, other in zip(first.test.graphs, second.test.graphs, strict=True):
        assert torch.equal(one.features, other.features)
    values = torch.cat([graph.features for graph in first.test.graphs])
    assert 0 <= float(values.min()) < float(values.max()) <= 1
    # Every node has exactly one role, which adds 0.25 to one column.
    assert float(values.sum(dim=1).mean()) == pytest.approx(0.25 + 4 * 0.375, abs=0.02)


@pytest.mark.parametrize("name", ["ba3motif", "ba3motif_roles"])
def test_without_the_published_file_ba3motif_is_generated(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("D4_DATA", str(tmp_path))
    task = load_task(name)
    assert [len(part.graphs) for part in parts_of(task)] == [2400, 300, 300]
    assert class_counts(task) == [1000, 1000, 1000]


# Three graphs: a triangle with a self-loop, an edge stored in one direction, an isolated node.
TU_FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n1, 1\n4, 5\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "-1\n1\n1\n",
    "node_labels": "3\n3\n7\n3\n7\n7\n",
}


def tu_zip(folder: Path, **changes: str | None) -> Path:
    path = folder / "Tiny.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for ending, text in {**TU_FILES, **changes}.items():
            if text is not None:
                archive.writestr(f"Tiny/Tiny_{ending}.txt", text)
    return path


def by_size(task: Task) -> dict[int, tuple[list[list[float]], list[list[int]], int]]:
    return {
        graph.node_count: (graph.features.tolist(), graph.edges.T.tolist(), label)
        for part in parts_of(task)
        for graph, label in zip(part.graphs, part.labels.tolist(), strict=True)
    }


def test_tu_zip(tmp_path: Path) -> None:
    task = load_task(str(tu_zip(tmp_path)))
    assert (task.name, task.classes) == ("tiny", 2)
    assert by_size(task) == {
        3: ([[1, 0], [1, 0], [0, 1]], [[0, 1], [0, 2], [1, 2]], 0),
        2: ([[1, 0], [0, 1]], [[0, 1]], 1),
        1: ([[0, 1]], [], 1),
    }


def test_tu_folder_equals_tu_zip(tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(tu_zip(tmp_path)) as archive:
        archive.extractall(folder)
    assert by_size(load_task(str(folder))) == by_size(load_task(str(tmp_path / "Tiny.zip")))


def test_tu_attributes_come_first_and_default_to_ones(tmp_path: Path) -> None:
    attributes = "".join(f"{node}.5\n" for node in range(6))
    task = load_task(str(tu_zip(tmp_path, node_attributes=attributes)))
    assert by_size(task)[1][0] == [[5.5, 0, 1]]
    assert by_size(load_task(str(tu_zip(tmp_path, node_labels=None))))[1][0] == [[1]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": None}, "_A.txt"),
        ({"A": "1, 5\n"}, "1 edges join nodes of two graphs"),
        ({"A": "1, 9\n"}, "nodes 1 to 9, there are 6"),
        ({"A": "1\n"}, "1 columns, not 2"),
        ({"graph_labels": "one\n"}, "not a table of numbers"),
        ({"graph_indicator": "1\n2\n1\n2\n2\n3\n"}, "must ascend"),
        ({"node_labels": "1\n2\n"}, "features of 2 nodes for 6"),
    ],
)
def test_broken_tu_zip_raises_a_clear_error(
    tmp_path: Path, changes: dict[str, str | None], message: str
) -> None:
    with pytest.raises(DataFormatError, match=message):
        load_task(str(tu_zip(tmp_path, **changes)))


def test_smiles_csv_counts_skipped_rows(tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="molecules need the molecules extra")
    path = tmp_path / "Few.csv"
    path.write_text("SMILES,label\nCCO,1\nnonsense,1\nC,0\nCC,\n,0\nC1CC1.[Na+],0\n")
    task = load_task(str(path))
    assert (task.name, task.skipped, task.features) == ("few", 3, 9)
    graphs = by_size(task)
    assert {size: (edges, label) for size, (_, edges, label) in graphs.items()} == {
        3: ([[0, 1], [1, 2]], 1),
        1: ([], 0),
        4: ([[0, 1], [0, 2], [1, 2]], 0),  # the sodium ion has no bond
    }
    assert [row[0] for row in graphs[3][0]] == [6, 6, 8]  # C, C, O by atomic number


def test_csv_without_required_columns_lists_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("smiles,weight\nC,1\n")
    with pytest.raises(DataFormatError, match="its columns are smiles, weight"):
        load_task(str(path))


def test_unknown_data_set_lists_the_known_ones() -> None:
    with pytest.raises(
        DataMissingError, match="ba3motif, ba3motif_roles, ba_shapes, bbbp, cornell"
    ):
        load_task("no-such-set")
