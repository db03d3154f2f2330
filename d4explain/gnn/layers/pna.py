"""Principal neighbourhood aggregation: PyG's PNAConv, and the same of a soft adjacency."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.nn import PNAConv

from d4explain.gnn.graphs import DenseGraphs, SparseGraphs
from d4explain.gnn.layers.aggregation import gathered
from d4explain.gnn.layers.forms import GraphLayer
from d4explain.gnn.spec import PnaAggregator, PnaLayer, PnaScaler

_SMALLEST_VARIANCE = 1e-5  # PyG calls the deviation 0 from here down
_NO_DEGREE = 1e-12  # keeps 0 / 0 out of the mean of no neighbours


class Pna(GraphLayer):
    def __init__(self, width: int, layer: PnaLayer) -> None:
        super().__init__()
        self.layer = layer
        self.conv = PNAConv(
            width,
            layer.out,
            list(layer.aggregators),
            list(layer.scalers),
            torch.tensor([0, 1]),  # degrees of the training set: their means are among the weights
            towers=layer.towers,
            divide_input=layer.divide_input,
        )

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.conv(values, graphs.edge_index)
        return result

    def dense(self, values: Tensor, graphs: DenseGraphs) -> Tensor:
        """Per tower W_post [x_i, all scaled aggregations of all messages]; then W over the towers.

        The message from j to i, W_pre [x_i, x_j] + b, is the sum of a part of i and a part of j.
        """
        neighbours = _Neighbours.of(graphs.adjacency)
        scales = [self._scale(scaler, neighbours.degree) for scaler in self.layer.scalers]
        outs = []
        for own, before, behind in self._towers(values):
            of_target, of_source = before.weight.chunk(2, dim=1)
            target = nn.functional.linear(own, of_target, before.bias)
            source = nn.functional.linear(own, of_source)
            kinds = self.layer.aggregators
            around = torch.cat([neighbours.aggregated(k, target, source) for k in kinds], dim=2)
            outs.append(behind(torch.cat([own, *(around * scale for scale in scales)], dim=2)))
        result: Tensor = self.conv.lin(torch.cat(outs, dim=2))
        return result

    def _towers(self, values: Tensor) -> Iterator[tuple[Tensor, nn.Linear, nn.Linear]]:
        """What each tower reads, its layer before the aggregation and the one behind."""
        towers, divided = self.layer.towers, self.layer.divide_input
        parts = values.chunk(towers, dim=2) if divided else [values] * towers
        for part, before, behind in zip(parts, self.conv.pre_nns, self.conv.post_nns, strict=True):
            yield part, before[0], behind[0]

    def _scale(self, scaler: PnaScaler, degree: Tensor) -> Tensor:
        """A factor for every node: [batch, node, 1]."""
        usual = self.conv.aggr_module
        match scaler:
            case "identity":
                factor = torch.ones_like(degree)
            case "amplification":
                factor = (degree + 1).log() / usual.avg_deg_log
            case "attenuation":
                factor = usual.avg_deg_log / (degree.clamp(min=1) + 1).log()
            case "linear":
                factor = degree / usual.avg_deg_lin
            case "inverse_linear":
                factor = usual.avg_deg_lin / degree.clamp(min=1)
        return factor


@dataclass(frozen=True)
class _Neighbours:
    """Soft neighbours, whose messages are summed parts of both ends: target_i + source_j."""

    adjacency: Tensor  # [batch, node, node]
    degree: Tensor  # [batch, node, 1]
    anyone: Tensor  # [batch, node, 1], the probability that there is a neighbour at all

    @classmethod
    def of(cls, adjacency: Tensor) -> _Neighbours:
        anyone = 1 - (1 - adjacency).prod(dim=2, keepdim=True)
        return cls(adjacency, adjacency.sum(dim=2, keepdim=True), anyone)

    def aggregated(self, aggregator: PnaAggregator, target: Tensor, source: Tensor) -> Tensor:
        """[batch, node, width]; the largest and smallest are expected ones, 0 where none is."""
        match aggregator:
            case "sum":
                result = self.adjacency @ source + self.degree * target
            case "mean":
                around = gathered("mean", source, self.adjacency)
                result = around + self.degree.clamp(max=1) * target
            case "max":
                result = gathered("max", source, self.adjacency) + self.anyone * target
            case "min":
                result = self.anyone * target - gathered("max", -source, self.adjacency)
            case "std":
                result = self._deviation(source)
        return result

    def _deviation(self, source: Tensor) -> Tensor:
        """The root of the weighted variance, to which target_i adds nothing; fades as the mean."""
        total = self.adjacency @ source
        square = total.square() / self.degree.clamp(min=_NO_DEGREE)
        variance = (self.adjacency @ source.square() - square) / self.degree.clamp(min=1)
        root = variance.clamp(min=_SMALLEST_VARIANCE).sqrt()
        return root.masked_fill(variance <= _SMALLEST_VARIANCE, 0)
