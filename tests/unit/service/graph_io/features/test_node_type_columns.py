"""The service and the method agree on which features are node types."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.gnn.graphs import Graph
from models.realism.node_types import NodeTypes, TypeSource
from service.graph_io.features.node_type_columns import have_node_types


def by_the_method(x: np.ndarray, starts: np.ndarray) -> bool:
    """Types exist, or nothing that types lack differs within a graph."""
    features = torch.from_numpy(x)
    bounds = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    nothing = torch.zeros(2, 0, dtype=torch.long)
    graphs = [Graph(features[first:end], nothing) for first, end in bounds]
    types = NodeTypes.of(graphs)
    return types.source is not TypeSource.NONE or not any(map(types.ignores_features, graphs))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_the_service_and_the_method_agree(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=6))
    width, seed = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 10_000))
    kind = data.draw(st.sampled_from(["codes", "binary", "few", "measured", "per graph", "both"]))
    generator = np.random.default_rng(seed)
    total = sum(sizes)
    x = np.eye(width)[generator.integers(0, width, total)]
    if kind == "binary":
        x = generator.integers(0, 2, (total, width))
    elif kind == "few":
        x = generator.normal(size=(3, width))[generator.integers(0, 3, total)]
    elif kind == "measured":
        x = generator.normal(size=(total, width))
    elif kind == "per graph":
        x = np.repeat(generator.normal(size=(len(sizes), width)), sizes, axis=0)
    elif kind == "both":
        x = np.hstack([generator.normal(size=(total, 1)), x])
    x = np.ascontiguousarray(x, dtype=np.float32)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    assert have_node_types(x, starts) == by_the_method(x, starts)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[1, 0], [0, 1], [1, 0]], True),  # a one-hot code
        ([[1, 0.5], [0, 1], [1, 0]], False),  # measurements
        ([[7.5], [7.5], [7.5]], True),  # equal: no edit can change a type
        ([[0.2, 1, 0], [0.7, 0, 1], [0.1, 1, 0]], True),  # a code beside a measurement
    ],
)
def test_known_cases(rows: list[list[float]], expected: bool) -> None:
    x = np.array(rows, dtype=np.float32)
    assert have_node_types(x, np.array([0, 3])) is expected
