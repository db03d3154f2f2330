"""Draws the graphs that a GNN is probed with."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from d4explain.gnn.spec import GnnSpec
from d4explain.layer_graph import EDGE_ATTRIBUTES, FEATURES

_SIZES = (2, 3, 4, 6, 9, 14, 20)
_DENSITIES = (0.15, 0.5)


def draw_graphs(spec: GnnSpec, generator: torch.Generator) -> list[Graph]:
    """Draws graphs of varied sizes and densities, with one-hot, real and constant features.

    Edge attributes are real numbers, if the GNN reads them; weights are not negative. Columns that
    the GNN embeds hold whole numbers.
    """
    features = spec.features
    graphs = [_draw_graph(torch.ones(3, features), torch.zeros(3, 3), spec, generator)]
    for size in _SIZES:
        for density in _DENSITIES:
            hot = torch.randint(features, (size,), generator=generator)
            for x in (
                torch.nn.functional.one_hot(hot, features).float(),
                torch.randn(size, features, generator=generator),
                torch.ones(size, features),
            ):
                chosen = torch.rand(size, size, generator=generator) < density
                graphs.append(_draw_graph(x, chosen, spec, generator))
    return graphs


def usual_attributes(spec: GnnSpec) -> UsualAttributes | None:
    """The attributes of toggled edges in the probe, which has no reference set."""
    if not spec.edge_features:
        return None
    attributes = torch.ones(spec.edge_features)
    for column, count in spec.embedded(EDGE_ATTRIBUTES).items():
        attributes[column] = min(1, count - 1)
    return UsualAttributes.always(attributes)


def _draw_graph(x: Tensor, chosen: Tensor, spec: GnnSpec, generator: torch.Generator) -> Graph:
    edges = torch.triu(chosen, diagonal=1).nonzero().T.contiguous()
    _draw_whole_numbers(x, spec.embedded(FEATURES), generator)
    if not spec.edge_features:
        return Graph(x, edges)
    attributes = torch.randn(edges.shape[1], spec.edge_features, generator=generator)
    if spec.weighs_edges:
        attributes = attributes.abs()
    _draw_whole_numbers(attributes, spec.embedded(EDGE_ATTRIBUTES), generator)
    return Graph(x, edges, edge_attributes=attributes, usual=usual_attributes(spec))


def _draw_whole_numbers(
    values: Tensor, counts: Mapping[int, int], generator: torch.Generator
) -> None:
    """Replaces the columns that the GNN embeds by numbers below their counts."""
    for column, count in counts.items():
        values[:, column] = torch.randint(count, (len(values),), generator=generator).float()
