"""Node types, compared with a search over all runs of columns."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from d4explain.gnn.graphs import Graph
from models.realism.node_types import NodeTypes, TypeSource

torch.set_num_threads(1)

NO_EDGES = torch.empty(2, 0, dtype=torch.int64)


def types_of(features: Tensor) -> NodeTypes:
    return NodeTypes.of([Graph(features, NO_EDGES)])


def longest_one_hot_run(rows: list[list[float]]) -> tuple[int, int] | None:
    width = len(rows[0])
    runs = [
        (first, end)
        for first in range(width)
        for end in range(first + 2, width + 1)
        if all(set(row[first:end]) <= {0, 1} and sum(row[first:end]) == 1 for row in rows)
    ]
    return min(runs, key=lambda run: (run[0] - run[1], run[0]), default=None)


@st.composite
def matrices(draw: st.DrawFn) -> list[list[float]]:
    """Rows with a one-hot part in the middle, so that runs are frequent."""
    values = st.sampled_from([0.0, 1.0, 1.0e8, 0.3])
    before, size, after = draw(st.integers(0, 3)), draw(st.integers(1, 4)), draw(st.integers(0, 3))
    rows = []
    for _ in range(draw(st.integers(1, 40))):
        code = [0.0] * size
        code[draw(st.integers(0, size - 1))] = 1.0
        left = draw(st.lists(values, min_size=before, max_size=before))
        rows.append([*left, *code, *draw(st.lists(values, min_size=after, max_size=after))])
    return rows


@settings(max_examples=150, deadline=None)
@given(matrices())
def test_the_longest_one_hot_run_is_found(rows: list[list[float]]) -> None:
    types = types_of(torch.tensor(rows))
    expected = longest_one_hot_run(rows)
    assert (types.columns if types.source is TypeSource.ONE_HOT else None) == expected


def test_a_one_hot_group_between_measurements_and_flags_gives_the_types() -> None:
    rng = torch.Generator().manual_seed(0)
    kinds = torch.randint(5, (200,), generator=rng)
    measured = torch.rand(200, 2, generator=rng) * torch.tensor([1e4, 1.0])
    flag = torch.randint(2, (200, 1), generator=rng).float()
    features = torch.cat([measured, torch.eye(5)[kinds], flag, flag], dim=1)
    types = types_of(features)
    assert (types.source, types.columns, types.count) == (TypeSource.ONE_HOT, (2, 7), 6)
    assert types.types(features).tolist() == kinds.tolist()
    assert types.ignores_features(Graph(features, NO_EDGES))
    unknown = features[:3].clone()
    unknown[0, 2:7] = 0
    unknown[1, 2:7] = 0.2
    unknown[2, 2:7] = torch.tensor([1.0, 1.0, -1.0, 0.0, 0.0])  # the sum is 1, but it is no code
    assert types.types(unknown).tolist() == [types.unknown] * 3


def test_a_code_that_only_late_nodes_break_is_not_one_hot() -> None:
    features = torch.eye(2)[torch.arange(200) % 2]
    features[-1] = 1
    assert types_of(features).source is TypeSource.ROWS


def test_few_distinct_rows_are_types() -> None:
    rows = torch.tensor([[0.5, 2.0], [0.5, 3.0], [7.0, 2.0]])
    kinds = torch.arange(600) % 3
    types = types_of(rows[kinds])
    assert (types.source, types.count) == (TypeSource.ROWS, 4)
    named = types.types(rows[kinds])
    assert [len(set(named[kinds == kind].tolist())) for kind in range(3)] == [1, 1, 1]
    assert sorted(set(named.tolist())) == [0, 1, 2]
    assert types.types(torch.tensor([[0.5, 2.5]])).tolist() == [types.unknown]
    assert not types.ignores_features(Graph(rows[kinds], NO_EDGES))


def test_measurements_are_no_types() -> None:
    features = torch.rand(100, 3, generator=torch.Generator().manual_seed(0))
    types = types_of(features)
    assert (types.source, types.count) == (TypeSource.NONE, 1)
    assert types.types(features).tolist() == [0] * 100
    assert types.ignores_features(Graph(features, NO_EDGES))


def test_equal_features_are_no_types_and_nothing_is_ignored() -> None:
    types = types_of(torch.ones(100, 1))
    assert types.source is TypeSource.NONE
    assert not types.ignores_features(Graph(torch.ones(3, 1), NO_EDGES))


def atoms(graphs: int) -> list[Graph]:
    """Random trees of 20 nodes with the columns element (four values), degree and a constant."""
    rng = torch.Generator().manual_seed(0)
    result = []
    for _ in range(graphs):
        parents = torch.stack([torch.randint(node, (), generator=rng) for node in range(1, 20)])
        edges = torch.stack([parents, torch.arange(1, 20)])
        element = torch.randint(4, (20,), generator=rng)
        degree = torch.bincount(edges.flatten(), minlength=20)
        result.append(Graph(torch.stack([element, degree, degree * 0], 1).float(), edges))
    return result


def test_rows_that_fix_the_degree_give_way_to_the_column_with_most_values() -> None:
    graphs = atoms(150)
    by_row, by_element = NodeTypes.of(graphs), NodeTypes.of(graphs, free_of_degree=True)
    assert (by_row.source, by_row.columns) == (TypeSource.ROWS, (0, 3))
    assert by_row.count > 15
    assert (by_element.source, by_element.columns, by_element.count) == (TypeSource.ROWS, (0, 1), 5)
    features = graphs[0].features
    assert by_element.types(features).tolist() == features[:, 0].tolist()
    assert by_element.ignores_features(graphs[0])
    assert not by_row.ignores_features(graphs[0])
    unknown = torch.tensor([[9.0, 1.0, 0.0]])
    assert by_element.types(unknown).tolist() == [by_element.unknown]


def test_rows_of_nodes_with_several_degrees_stay_types() -> None:
    graphs = [
        Graph(graph.features[:, [0, 2]] + torch.tensor([0.0, 0.5]), graph.edges)
        for graph in atoms(150)
    ]
    types = NodeTypes.of(graphs, free_of_degree=True)
    assert (types.source, types.columns, types.count) == (TypeSource.ROWS, (0, 2), 5)
