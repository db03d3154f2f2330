"""Whole data sets as GCFExplainer uses them: node types alone, no graph with a rare type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from bench.data.splits import DataError, Part
from bench.data.tasks import Task
from d4explain.gnn.graphs import Graph
from models.realism.node_types import NodeTypes, TypeSource

_RARE = 50  # nodes of a type in the whole data set; graphs with rarer types are left out


def typed_task(task: Task) -> Task:
    """The task with one-hot node types as only features."""
    parts = [task.train, task.validation, task.test]
    graphs = [graph for part in parts for graph in part.graphs]
    types = NodeTypes.of(graphs)
    if types.source is not TypeSource.ONE_HOT:
        raise DataError(f"{task.name} has no one-hot node types; edit paths change node types")
    counts = torch.cat([types.types(graph.features) for graph in graphs]).bincount()
    kept = (counts > _RARE).nonzero()[:, 0]
    train, validation, test = (_typed(part, types, kept.tolist()) for part in parts)
    return replace(task, train=train, validation=validation, test=test)


def _typed(part: Part, types: NodeTypes, kept: Sequence[int]) -> Part:
    new_number = {kind: number for number, kind in enumerate(kept)}
    graphs, rows = [], []
    for row, graph in enumerate(part.graphs):
        kinds = types.types(graph.features).tolist()
        if all(kind in new_number for kind in kinds):
            numbers = torch.tensor([new_number[kind] for kind in kinds])
            features = torch.nn.functional.one_hot(numbers, len(kept)).float()
            graphs.append(Graph(features, graph.edges))
            rows.append(row)
    return Part(graphs, part.labels[rows], skipped=part.skipped + len(part.graphs) - len(graphs))
