"""The measurement of global counterfactuals, on a small made-up data set."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench.data.splits import DataError, Part
from bench.data.tasks import Task, split
from bench.global_counterfactuals.comparison import TRAINING, measure_global
from bench.global_counterfactuals.data import typed_task
from d4explain.gnn.graphs import Graph
from models.global_counterfactuals.config import GlobalConfig


def ring(nodes: int, kinds: list[int], *, measured: bool = False) -> Graph:
    ends = sorted(tuple(sorted((node, (node + 1) % nodes))) for node in range(nodes))
    features = torch.nn.functional.one_hot(torch.tensor(kinds), 3).float()
    if measured:
        features = torch.cat([torch.rand(nodes, 1), features], dim=1)
    return Graph(features, torch.tensor(ends).T.contiguous())


def task(*, measured: bool = False) -> Task:
    """Rings whose class is whether they have a node of type 1; two graphs have a rare type."""
    graphs = []
    for number in range(90):
        nodes = 6 + number % 3
        kinds = [0] * nodes
        if number % 2:
            kinds[0] = 1
            kinds[2] = 1
        if number < 2:
            kinds[1] = 2
        graphs.append(ring(nodes, kinds, measured=measured))
    return split("rings", Part(graphs, torch.arange(90) % 2), seed=0)


def test_only_node_types_stay_and_rare_types_leave() -> None:
    typed = typed_task(task(measured=True))
    parts = (typed.train, typed.validation, typed.test)
    graphs = [graph for part in parts for graph in part.graphs]
    assert len(graphs) == 88
    assert sum(part.skipped for part in parts) == 2
    assert {graph.features.shape[1] for graph in graphs} == {2}
    assert all((graph.features.sum(dim=1) == 1).all() for graph in graphs)
    assert all(len(part.graphs) == len(part.labels) for part in parts)


def test_features_without_types_are_refused() -> None:
    graphs = [Graph(torch.rand(4, 2), torch.tensor([[0, 1, 2], [1, 2, 3]])) for _ in range(9)]
    with pytest.raises(DataError, match="no one-hot node types"):
        typed_task(split("noise", Part(graphs, torch.arange(9) % 2), seed=0))


def test_the_row_says_what_was_found() -> None:
    config = GlobalConfig(source_class=0, count=3, seeds=2, rounds=3)
    row = measure_global(
        task(),
        config,
        seed=0,
        on_progress=lambda name, step, steps: None,
        training=replace(TRAINING, epochs=30),
    )
    assert row["test_accuracy"] == 1.0
    assert row["asked"] == 44  # of 45 even numbers, the first has a rare type
    assert row["coverage"] == row["curve"][-1] == row["by_radius"]["0.1"]
    # For each size of ring, one or two nodes become another type: 1/12 of its nodes and edges.
    assert row["coverage"] == 1.0
    assert row["cpu_seconds"] > 0
