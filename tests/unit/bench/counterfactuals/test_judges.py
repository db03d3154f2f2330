"""Judges: training, cache and the data that they see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bench.counterfactuals.judges import load_judges
from bench.data.node_tasks import NodeData
from bench.data.splits import Part
from bench.data.synthetic import ba3motif
from bench.data.tasks import Task, node_task, split
from bench.gnns.recipes import judge_recipes, target_recipe
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict

torch.set_num_threads(1)
CPU = torch.device("cpu")


def small_task() -> Task:
    graphs, labels = ba3motif(60, torch.Generator().manual_seed(0))
    return split("ba3motif", Part(graphs, labels), 0)


def ignore(label: str, done: int, total: int) -> None:
    pass


def never(label: str, done: int, total: int) -> None:
    pytest.fail(f"{label}: {done} of {total}")


def same_weights(one: Gnn, other: Gnn) -> bool:
    return all(
        torch.equal(a, b)
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    )


def test_second_load_uses_the_cache(tmp_path: Path) -> None:
    task = small_task()
    trained = load_judges(task, 0, ignore, cache=tmp_path)
    again = load_judges(task, 0, never, cache=tmp_path)
    assert [judge.architecture for judge in again] == ["GIN"] * 3 + ["GCN"] * 2
    for one, other in zip(trained, again, strict=True):
        assert same_weights(one.gnn, other.gnn)
        assert one.metrics == other.metrics
        assert not other.gnn.training
    assert not same_weights(again[0].gnn, again[1].gnn)
    assert len(list((tmp_path / "judges").iterdir())) == 5  # nothing unfinished is left


def test_judges_see_no_label_outside_the_training_part(tmp_path: Path) -> None:
    task = small_task()
    trained = load_judges(task, 0, ignore, cache=tmp_path / "true")
    wrong = replace(task.validation, labels=(task.validation.labels + 1) % 3)
    others = load_judges(
        replace(task, validation=wrong, test=wrong), 0, ignore, cache=tmp_path / "wrong"
    )
    assert all(
        same_weights(*pair)
        for pair in zip([j.gnn for j in trained], [j.gnn for j in others], strict=True)
    )


def test_target_and_judges_of_motifs_are_trained_with_the_same_noise() -> None:
    judges = judge_recipes("ba3motif", classifies_nodes=False)
    target = target_recipe("ba3motif").training
    assert all(judge.recipe.training == replace(target, epochs=30) for judge in judges)


def ring_with_tails(rings: int = 12) -> NodeData:
    """Rings of five nodes on a path; a node's class is whether it is in a ring."""
    edges = [(node, node + 1) for node in range(rings - 1)]
    for ring in range(rings):
        nodes = [ring, *range(rings + 4 * ring, rings + 4 * ring + 4)]
        edges += [tuple(sorted((a, b))) for a, b in zip(nodes, [*nodes[1:], nodes[0]], strict=True)]
    count = 5 * rings + 20
    edges += [(node - 1 if node > 5 * rings else 0, node) for node in range(5 * rings, count)]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    parts = [part.sort().values for part in order.tensor_split([count * 8 // 10, count * 9 // 10])]
    graph = Graph(torch.ones(count, 2), torch.tensor(sorted(edges)).T.contiguous())
    return NodeData(graph, (torch.arange(count) < 5 * rings).long(), *parts)


@pytest.mark.slow
def test_judges_of_nodes_classify_the_node_of_an_instance(tmp_path: Path) -> None:
    task = node_task("tree_cycle", ring_with_tails())
    judges = load_judges(task, 0, ignore, cache=tmp_path)
    assert [judge.architecture for judge in judges] == ["target's"] * 3 + ["GIN"] * 2
    assert task.whole is not None
    for judge in judges:
        in_parts = predict(judge.gnn, task.test.graphs, CPU)
        targets = task.whole.data.test.tolist()
        whole = [replace(task.whole.data.graph, target=node) for node in targets]
        assert torch.allclose(in_parts, predict(judge.gnn, whole, CPU), atol=1e-5)
