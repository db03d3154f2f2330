"""Node data sets: files, instances, training and a whole comparison."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from bench.__main__ import app
from bench.counterfactuals.figures import toggle_pairs
from bench.counterfactuals.instances import (
    NEAR_TARGET,
    EditableInstance,
    fewest_edits,
    is_covered,
    pairs_near_target,
    select_instances,
)
from bench.counterfactuals.runs import CounterfactualRun
from bench.data.node_tasks import NodeData, nodes_of, read_node_npz, read_webkb
from bench.data.splits import DataFormatError, DataMissingError
from bench.data.synthetic import ba_shapes, tree_cycle
from bench.data.tasks import Task, data_folder, load_task, node_task
from bench.gnns.node_training import node_accuracy, train_node_classifier
from bench.gnns.recipes import target_recipe
from bench.gnns.target_gnns import TargetGnn, TargetMetrics
from bench.report.provenance import provenance
from d4explain.gnn.graphs import Graph, to_dense, to_sparse
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import GinLayer, GnnSpec, Layer, LinearLayer, SageLayer
from models.graphs.edits import EditRules, EditSpace
from models.graphs.neighbourhoods import NodeInstance, instance, verify_on_whole

torch.set_num_threads(1)
CPU = torch.device("cpu")
NODE_SETS = ("ba_shapes", "tree_cycle", "tree_grids", "cornell")

needs_data = pytest.mark.skipif(
    not data_folder().is_dir(), reason=f"no benchmark data in {data_folder()}; set D4_DATA"
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def split_nodes(graph: Graph, labels: torch.Tensor, seed: int = 0) -> NodeData:
    """80 % of the nodes train, 10 % validate, 10 % test."""
    order = torch.randperm(graph.node_count, generator=rng(seed))
    tenth = graph.node_count // 10
    parts = (order[2 * tenth :], order[tenth : 2 * tenth], order[:tenth])
    train, validation, test = (part.sort().values for part in parts)
    return NodeData(graph, labels, train, validation, test)


def small_tree_with_cycles() -> NodeData:
    """A binary tree of 63 nodes with a six-ring on every fourth node."""
    network = nx.balanced_tree(2, 5)
    for tree_node in range(3, 63, 4):
        ring = range(len(network), len(network) + 6)
        nx.add_cycle(network, ring)
        network.add_edge(tree_node, ring[0])
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in network.edges)).T
    labels = (torch.arange(len(network)) >= 63).long()
    return split_nodes(Graph(torch.ones(len(network), 10), edges.contiguous()), labels)


def write_masked(path: Path, data: NodeData) -> None:
    nodes = data.graph.node_count
    masks = {}
    for name, part in (("train", data.train), ("val", data.validation), ("test", data.test)):
        mask = np.zeros(nodes, dtype=bool)
        mask[part.numpy()] = True
        masks[f"{name}_mask"] = mask
    edges = torch.cat([data.graph.edges, data.graph.edges.flip(0)], dim=1).numpy()
    np.savez(
        path,
        edge_index=edges.astype(np.int32),
        x=data.graph.features.numpy(),
        y=data.labels.numpy(),
        **masks,
    )


@needs_data
@pytest.mark.parametrize(
    ("name", "counts", "classes", "parts"),
    [
        ("ba_shapes", (700, 2055, 10), [300, 160, 160, 80], [560, 70, 70]),
        ("tree_cycle", (871, 971, 10), [511, 360], [696, 87, 88]),
        ("tree_grids", (1231, 1565, 10), [511, 720], [984, 123, 124]),
        ("cornell", (183, 277, 1703), [38, 16, 30, 82, 17], [87, 59, 37]),
    ],
)
def test_counts_match_the_readme(
    name: str, counts: tuple[int, int, int], classes: list[int], parts: list[int]
) -> None:
    task = load_task(name)
    assert task.whole is not None
    data = task.whole.data
    assert (data.graph.node_count, data.graph.edge_count, task.features) == counts
    assert torch.bincount(data.labels).tolist() == classes
    task_parts = [task.train, task.validation, task.test]
    assert [len(part.graphs) for part in task_parts] == parts
    in_whole = (task.whole.train, task.whole.validation, task.whole.test)
    for part, instances in zip(task_parts, in_whole, strict=True):
        assert torch.equal(part.labels, data.labels[nodes_of(instances)])
        assert all(graph.target == 0 for graph in part.graphs)
        assert all(instance.exact for instance in instances)


@pytest.mark.parametrize("name", NODE_SETS)
def test_missing_file_error_names_the_path(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("D4_DATA", str(tmp_path))
    with pytest.raises(DataMissingError, match=f"{tmp_path}.* does not exist; set D4_DATA"):
        load_task(name)


def test_npz_round_trip(tmp_path: Path) -> None:
    data = small_tree_with_cycles()
    write_masked(tmp_path / "tree.npz", data)
    read = read_node_npz(tmp_path / "tree.npz")
    assert torch.equal(read.graph.edges, data.graph.edges)
    assert torch.equal(read.graph.features, data.graph.features)
    for field in ("labels", "train", "validation", "test"):
        assert torch.equal(getattr(read, field), getattr(data, field))


def test_broken_npz_raises_a_clear_error(tmp_path: Path) -> None:
    path, data = tmp_path / "broken.npz", small_tree_with_cycles()
    write_masked(path, replace(data, validation=data.train[:2]))
    with pytest.raises(DataFormatError, match="a node is in two parts"):
        read_node_npz(path)
    write_masked(path, replace(data, test=data.test[:0]))
    with pytest.raises(DataFormatError, match="has no node"):
        read_node_npz(path)
    write_masked(path, replace(data, labels=data.labels[:5]))
    with pytest.raises(
        DataFormatError, match=r"labels and masks have \[5, 153\] entries for 153 nodes"
    ):
        read_node_npz(path)
    write_masked(path, replace(data, graph=Graph(data.graph.features, data.graph.edges + 9)))
    with pytest.raises(DataFormatError, match="nodes 9 to 161, there are 153"):
        read_node_npz(path)
    np.savez(path, x=np.ones(3))
    with pytest.raises(DataFormatError, match="edge_index"):
        read_node_npz(path)
    path.write_text("no zip")
    with pytest.raises(DataFormatError, match="is not a node data set"):
        read_node_npz(path)


def webkb_zip(path: Path) -> Path:
    """Four pages with a two-way link and a self-loop; split k tests node k."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "cornell/out1_node_feature_label.txt",
            "node_id\tfeature\tlabel\n2\t1,1,0\t1\n0\t1,0,0\t0\n1\t0,1,0\t1\n3\t0,0,0\t2\n",
        )
        archive.writestr("cornell/out1_graph_edges.txt", "a\tb\n1\t0\n0\t1\n2\t2\n3\t1\n")
        for split in range(4):
            part_of = (np.arange(4) - split) % 4  # 0 is test, 1 is validation
            with archive.open(f"cornell/cornell_split_0.6_0.2_{split}.npz", "w") as file:
                np.savez(
                    file, train_mask=part_of > 1, val_mask=part_of == 1, test_mask=part_of == 0
                )
    return path


def test_webkb_is_undirected_without_self_loops_and_its_rows_have_length_one(
    tmp_path: Path,
) -> None:
    data = read_webkb(webkb_zip(tmp_path / "cornell.zip"), 2)
    assert data.graph.edges.T.tolist() == [[0, 1], [1, 3]]
    half = 0.5**0.5
    expected = torch.tensor([[1, 0, 0], [0, 1, 0], [half, half, 0], [0, 0, 0]])
    torch.testing.assert_close(data.graph.features, expected)
    assert data.labels.tolist() == [0, 1, 1, 2]
    parts = (data.train, data.validation, data.test)
    assert [part.tolist() for part in parts] == [[0, 1], [3], [2]]


def test_seed_selects_the_split_of_cornell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D4_DATA", str(tmp_path))
    webkb_zip(tmp_path / "cornell.zip")
    for seed, node in ((1, 1), (12, 2)):
        task = load_task("cornell", seed)
        assert task.whole is not None
        assert task.whole.data.test.tolist() == [node]
    with pytest.raises(DataFormatError, match=r"_7\.npz"):
        load_task("cornell", 7)


@pytest.mark.parametrize("name", NODE_SETS)
def test_instances_have_the_logits_of_the_whole_graph(name: str) -> None:
    """Uses the data set's GNN layers with untrained weights."""
    source = ba_shapes(rng()) if name == "ba_shapes" else tree_cycle(rng())
    features = torch.randn(source.graph.node_count, 6, generator=rng(1))
    data = split_nodes(Graph(features, source.graph.edges), source.labels)
    task = node_task(name, data)
    gnn = Gnn(target_recipe(name).spec(task.features, task.classes)).eval()
    with torch.no_grad():
        for parameter in gnn.parameters():
            parameter.normal_(std=0.3, generator=rng(2))
        whole = gnn.node_logits(to_sparse([data.graph]))[data.test]
        small = [graph for graph in task.test.graphs if graph.node_count <= 100]
        torch.testing.assert_close(gnn(to_sparse(task.test.graphs)), whole, rtol=1e-4, atol=1e-4)
        sparse = gnn(to_sparse(small))
        torch.testing.assert_close(gnn.dense(to_dense(small)), sparse, rtol=1e-4, atol=1e-4)


def test_training_on_the_whole_graph_learns_tree_cycle_and_is_repeatable() -> None:
    source = tree_cycle(rng())
    data = split_nodes(source.graph, source.labels)
    recipe = target_recipe("tree_cycle")
    training = replace(recipe.training, epochs=150)
    spec = recipe.spec(10, data.classes)
    best: list[float | None] = []
    gnn, epochs = train_node_classifier(
        spec, data, training, 0, lambda report: best.append(report.best_validation)
    )
    assert epochs == len(best) == 150
    assert node_accuracy(gnn, data, data.validation) == best[-1]
    assert not gnn.training
    assert node_accuracy(gnn, data, data.test) > 0.9
    short = replace(training, epochs=3)
    first, again = (
        train_node_classifier(spec, data, short, 1, lambda _: None).gnn for _ in range(2)
    )
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])


def test_labels_outside_training_and_validation_do_not_matter() -> None:
    data = small_tree_with_cycles()
    other = data.labels.clone()
    other[data.test] = 1 - other[data.test]
    recipe = target_recipe("tree_cycle")
    short = replace(recipe.training, epochs=3)
    first, second = (
        train_node_classifier(recipe.spec(10, 2), nodes, short, 0, lambda _: None).gnn.state_dict()
        for nodes in (data, replace(data, labels=other))
    )
    assert all(torch.equal(first[name], second[name]) for name in first)


def large_instance(node: int = 0) -> NodeInstance:
    """A node of a random graph in which three hops reach thousands of pairs."""
    network = nx.gnm_random_graph(160, 700, seed=3)
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in network.edges)).T.contiguous()
    return instance(Graph(torch.ones(160, 10), edges), node, 3, receptive_field=3)


def test_candidates_of_large_node_instances_are_edges_and_pairs_near_the_target() -> None:
    part = large_instance()
    space = EditSpace.of(part.graph, part.rules(EditRules()))
    assert space.count > 2000
    hops = part.hops.tolist()
    kept = pairs_near_target(space, part.hops, 2000, rng())
    edges = set(map(tuple, part.graph.edges.T.tolist()))
    allowed = set(zip(space.sources.tolist(), space.targets.tolist(), strict=True))
    removed, added = kept[: len(edges & allowed)], kept[len(edges & allowed) :]
    assert set(removed) == edges & allowed
    assert len(set(kept)) == len(kept) <= 2000
    assert set(kept) <= allowed
    near = {pair for pair in allowed - edges if min(hops[end] for end in pair) <= NEAR_TARGET}
    assert set(added) <= near
    for pairs in (removed, added):
        distances = [hops[source] + hops[target] for source, target in pairs]
        assert distances == sorted(distances)
    farthest = max(hops[source] + hops[target] for source, target in added)
    left_out = near.difference(added)
    assert len(kept) == 2000 or not left_out
    assert all(hops[source] + hops[target] >= farthest for source, target in left_out)
    # A limit below the number of edges returns the edges nearest to the target.
    assert pairs_near_target(space, part.hops, 5, rng()) == removed[:5]
    assert pairs_near_target(space, part.hops, 900, rng(1)) != kept[:900]


def ring_task() -> Task:
    return node_task("tree_cycle", small_tree_with_cycles())


def test_test_nodes_come_first_then_validation_nodes_and_never_training_nodes() -> None:
    task = ring_task()
    assert task.whole is not None
    few = select_instances(task, 5, 0)
    assert not any(selected.from_validation for selected in few)
    every = select_instances(task, 1000, 0)
    assert [selected.from_validation for selected in every] == [False] * 15 + [True] * 15
    nodes = [int(selected.node.nodes[0]) for selected in every if selected.node]
    assert sorted(nodes[:15]) == task.whole.data.test.tolist()
    assert sorted(nodes[15:]) == task.whole.data.validation.tolist()
    assert nodes[:5] == [int(selected.node.nodes[0]) for selected in few if selected.node]
    for selected in every:
        assert selected.node is not None
        assert selected.rules == selected.node.rules(EditRules(max_ratio=0.3))


def test_large_node_instances_are_restricted_to_2000_pairs() -> None:
    network = nx.gnm_random_graph(160, 700, seed=3)
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in network.edges)).T.contiguous()
    task = node_task(
        "ba_shapes", split_nodes(Graph(torch.ones(160, 10), edges), torch.arange(160) % 4)
    )
    instances = select_instances(task, 10, 0)
    assert any(selected.restricted for selected in instances)
    for selected in instances:
        assert selected.node is not None
        unrestricted = EditSpace.of(selected.graph, selected.node.rules(EditRules())).count
        count = EditSpace.of(selected.graph, selected.rules).count
        assert selected.restricted == (unrestricted > 2000)
        assert count <= 2000
        assert count == unrestricted or selected.restricted
        assert is_covered(selected) == (count <= 600)


def test_toggling_pairs_keeps_the_target() -> None:
    graph = Graph(torch.ones(3, 1), torch.tensor([[0], [1]]), target=2)
    assert toggle_pairs(graph, ((0, 1), (1, 2))).target == 2
    assert toggle_pairs(graph, ((0, 1),)).edges.shape == (2, 0)
    assert toggle_pairs(graph, ((0, 1),)).edges.dtype == torch.int64


def undecided_gnn(convolutions: tuple[Layer, ...], whole: Graph, seed: int = 0) -> Gnn:
    """An untrained GNN whose bias splits the nodes evenly between the classes."""
    spec = GnnSpec(whole.features.shape[1], 2, (*convolutions, LinearLayer(2)))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        gnn = Gnn(spec).eval()
    with torch.no_grad():
        logits = gnn.node_logits(to_sparse([whole]))
        gnn.layers[-1].linear.bias[0] -= (logits[:, 0] - logits[:, 1]).median()
    return gnn


@pytest.mark.parametrize("seed", range(4))
def test_fewest_edits_of_a_node_agrees_with_brute_force_on_the_whole_graph(seed: int) -> None:
    data = small_tree_with_cycles()
    features = torch.randn(data.graph.node_count, 3, generator=rng(seed))
    whole = Graph(features, data.graph.edges)
    gnn = undecided_gnn((SageLayer(6), GinLayer(6, 6)), whole, seed)
    checked = set()
    for node in range(0, 60, 7):
        part = instance(whole, node, 2, receptive_field=2)
        explained = EditableInstance(part.graph, part.rules(EditRules(max_ratio=0.5)), False, part)
        space = EditSpace.of(explained.graph, explained.rules)
        before = int(verify_on_whole(gnn, whole, part, part.graph, CPU).argmax())
        expected = None
        for size in (2, 1):
            sets = list(combinations(range(space.count), size))
            if size > space.budget or not sets:
                continue
            after = predict(gnn, space.apply_all(sets), CPU).argmax(dim=1)
            if (after != before).any():
                expected = size
        assert fewest_edits(gnn, explained) == expected
        checked.add(expected)
    assert len(checked) > 1


def target_of(gnn: Gnn, folder: Path) -> TargetGnn:
    metrics = TargetMetrics(0, 0, None, "nodes", 0, 0, 0, 0, 0, 0, provenance(0))
    return TargetGnn(gnn, metrics, folder, cached=False)


def test_answers_refuted_on_the_whole_graph_are_dropped_and_counted(
    tmp_path: Path,
) -> None:
    data = small_tree_with_cycles()
    features = torch.randn(data.graph.node_count, 3, generator=rng(0))
    whole = Graph(features, data.graph.edges)
    target = target_of(undecided_gnn((GinLayer(6, 6), GinLayer(6, 6)), whole), tmp_path)

    def count_answers(max_nodes: int | None) -> tuple[int, int]:
        """Numbers of valid and refuted answers."""
        nodes = [
            instance(whole, node, 2, receptive_field=2, max_nodes=max_nodes) for node in range(40)
        ]
        rules = EditRules(max_ratio=1.0)
        explained = [EditableInstance(part.graph, part.rules(rules), False, part) for part in nodes]
        run = CounterfactualRun(
            target,
            [],
            explained,
            budget=0,
            seed=max_nodes or 0,
            on_progress=lambda *_: None,
            whole=whole,
            cache=tmp_path,
        )
        answers, _, _ = run.answers("greedy")
        for answer in answers:
            part = answer.instance.node
            assert part is not None
            before = verify_on_whole(target.gnn, whole, part, part.graph, CPU).argmax()
            for edits in answer.found:
                after = verify_on_whole(
                    target.gnn, whole, part, toggle_pairs(part.graph, edits), CPU
                )
                assert int(after.argmax()) != int(before)
        valid = sum(len(answer.found) for answer in answers)
        return valid, sum(answer.refuted for answer in answers)

    valid, refuted = count_answers(None)
    assert valid
    assert refuted == 0
    # An instance cut to 4 nodes differs from the whole graph.
    valid, refuted = count_answers(4)
    assert valid
    assert refuted


@pytest.mark.slow
def test_whole_comparison_on_a_small_node_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("D4_DATA", str(tmp_path))
    data = small_tree_with_cycles()
    write_masked(tmp_path / "Tree_Cycle.npz", data)
    arguments = ["counterfactual", "--dataset", "tree_cycle", "--budget", "1", "--test", "18"]
    arguments += ["--method", "d4", "--method", "greedy", "--json", "rows.json", "--dump", "dump"]
    compared = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert compared.exit_code == 0, compared.output
    assert "15 test nodes and 3 validation nodes; 0 answers do not flip" in compared.output
    rows = json.loads(Path("rows.json").read_text())
    assert [row["method"] for row in rows] == ["d4", "greedy"]
    for row in rows:
        assert (row["n"], row["from_validation"], row["refuted_on_whole"]) == (18, 3, 0)
        assert row["flip_rate"] > 0
    assert rows[0]["auc_strict"] >= rows[1]["auc_strict"]
    instances = json.loads(Path("dump/instances.json").read_text())
    assert [document["target"] for document in instances] == [0] * 18
    spec = json.loads(Path("dump/spec.json").read_text())
    assert "pool" not in {layer["type"] for layer in spec["layers"]}

    listed = CliRunner().invoke(
        app, ["gnns", "--dataset", "tree_cycle", "--json", "gnns.json"], catch_exceptions=False
    )
    assert listed.exit_code == 0, listed.output
    (row,) = json.loads(Path("gnns.json").read_text())
    assert (row["counted"], row["train_count"], row["test_count"]) == ("nodes", 123, 15)
    assert (row["paper_accuracy"], row["cached"]) == (0.98, True)
