"""Principal neighbourhood aggregation (PyG's PNAConv)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.nn import PNAConv

from d4explain.gnn.graphs import DenseGraphs
from d4explain.gnn.layers.aggregation import aggregate
from d4explain.gnn.layers.forms import Convolution
from d4explain.gnn.spec import PnaAggregator, PnaLayer, PnaScaler

_SMALLEST_VARIANCE = 1e-5  # at or below it, the standard deviation is 0, as in PyG
_NO_DEGREE = 1e-12  # avoids 0 / 0 without neighbours


class Pna(Convolution):
    def __init__(self, width: int, layer: PnaLayer) -> None:
        super().__init__()
        self.layer = layer
        self.conv = PNAConv(
            width,
            layer.out,
            list(layer.aggregators),
            list(layer.scalers),
            torch.tensor([0, 1]),  # a placeholder: the weights contain the mean degrees
            towers=layer.towers,
            divide_input=layer.divide_input,
        )

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """W [all towers]; a tower is W_post [x_i, all scaled aggregations of its messages].

        The message from j to i, W_pre [x_i, x_j] + b, is the sum of a term of i and a term of j.
        """
        neighbours = _Neighbours.of(graphs.adjacency)
        scales = [self._scale(scaler, neighbours.degree) for scaler in self.layer.scalers]
        outs = []
        for own, before, after in self._towers(values):
            target_weight, source_weight = before.weight.chunk(2, dim=1)
            target = nn.functional.linear(own, target_weight, before.bias)
            source = nn.functional.linear(own, source_weight)
            kinds = self.layer.aggregators
            messages = torch.cat([neighbours.aggregated(k, target, source) for k in kinds], dim=2)
            scaled = [messages * scale for scale in scales]
            outs.append(after(torch.cat([own, *scaled], dim=2)))
        result: Tensor = self.conv.lin(torch.cat(outs, dim=2))
        return result

    def _towers(self, values: Tensor) -> Iterator[tuple[Tensor, nn.Linear, nn.Linear]]:
        """Each tower's input, its linear layer before the aggregation and the one after it."""
        towers, divided = self.layer.towers, self.layer.divide_input
        parts = values.chunk(towers, dim=2) if divided else [values] * towers
        for part, before, after in zip(parts, self.conv.pre_nns, self.conv.post_nns, strict=True):
            yield part, before[0], after[0]

    def _scale(self, scaler: PnaScaler, degree: Tensor) -> Tensor:
        """One factor per node: [batch, node, 1]."""
        mean = self.conv.aggr_module
        match scaler:
            case "identity":
                factor = torch.ones_like(degree)
            case "amplification":
                factor = (degree + 1).log() / mean.avg_deg_log
            case "attenuation":
                factor = mean.avg_deg_log / (degree.clamp(min=1) + 1).log()
            case "linear":
                factor = degree / mean.avg_deg_lin
            case "inverse_linear":
                factor = mean.avg_deg_lin / degree.clamp(min=1)
        return factor


@dataclass(frozen=True)
class _Neighbours:
    """Soft neighbours; the message from j to i is target_i + source_j."""

    adjacency: Tensor  # [batch, node, node]
    degree: Tensor  # [batch, node, 1]
    any_neighbour: Tensor  # [batch, node, 1], probability of at least one neighbour

    @classmethod
    def of(cls, adjacency: Tensor) -> _Neighbours:
        any_neighbour = 1 - (1 - adjacency).prod(dim=2, keepdim=True)
        return cls(adjacency, adjacency.sum(dim=2, keepdim=True), any_neighbour)

    def aggregated(self, aggregator: PnaAggregator, target: Tensor, source: Tensor) -> Tensor:
        """[batch, node, width]; max and min are expected values, 0 without neighbours."""
        match aggregator:
            case "sum":
                result = self.adjacency @ source + self.degree * target
            case "mean":
                mean = aggregate("mean", source, self.adjacency)
                result = mean + self.degree.clamp(max=1) * target
            case "max":
                result = aggregate("max", source, self.adjacency) + self.any_neighbour * target
            case "min":
                result = self.any_neighbour * target - aggregate("max", -source, self.adjacency)
            case "std":
                result = self._deviation(source)
        return result

    def _deviation(self, source: Tensor) -> Tensor:
        """The root of the weighted variance of the messages; target_i does not change it."""
        total = self.adjacency @ source
        square = total.square() / self.degree.clamp(min=_NO_DEGREE)
        variance = (self.adjacency @ source.square() - square) / self.degree.clamp(min=1)
        root = variance.clamp(min=_SMALLEST_VARIANCE).sqrt()
        return root.masked_fill(variance <= _SMALLEST_VARIANCE, 0)
