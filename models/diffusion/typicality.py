"""Typicality of one graph: its likelihood under a denoiser, ranked among held-out graphs.

The score of a graph is the log-likelihood of its least likely node i, min_i Σ_j log P(A_ij | rest);
the denoiser gives the log-odds of each edge given the rest of the graph. Few edits make few nodes
unlikely, and a sum over all nodes hides them. On validation graphs of Mutagenicity and NCI1 with
one random edit per 100 edges, this score detected .96 and .66 (AUC), the sum over all pairs .94
and .60.

Large graphs have lower scores, so each graph is compared with graphs of like size: its standard
score is (score - mean) / deviation of the graphs nearest in node count. Typicality is a conformal
p-value: the share of the calibration graphs with a standard score that is no higher. The new graph
takes part in theirs as they do in its own. All graphs are then treated alike, so typicality is
exactly uniform if the new graph is one more graph of the data. The rank among the nearest graphs
alone is not: all graphs that are near the largest are smaller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from d4explain.gnn.graphs import DenseGraphs, Graph, like_sized, to_dense
from models.diffusion.denoiser import Denoiser
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.noise import NoiseLevel

MIN_CALIBRATION_GRAPHS = 100  # no figure with fewer
LIKE_SIZED_GRAPHS = 30  # graphs, nearest in node count, that a score is compared with
LOW = 0.05
# Standard scores this close are equal: float32 sums depend on the order of nodes and on the batch.
_ROUNDING = 1e-3
_MIN_DEVIATION = 0.1  # in nats; keeps rounding errors of equal scores below _ROUNDING
_PAIRS_PER_PASS = 40_000


@dataclass(frozen=True)
class Typicality:
    value: float  # in (0, 1]; uniform for graphs of the data
    calibration_graphs: int

    @property
    def low(self) -> bool:
        return self.value < LOW


@dataclass(frozen=True)
class NoTypicality:
    reason: str


@dataclass(frozen=True)
class Calibration:
    """Scores and node counts of graphs that nothing else in the training uses."""

    scores: Tensor  # [graph]
    sizes: Tensor  # [graph] int64

    @staticmethod
    def stored_in(denoiser: EdgeDenoiser) -> Calibration:
        """The calibration of a denoiser; without graphs if it is the paper's or an old one."""
        if not isinstance(denoiser, Denoiser) or not denoiser.shape.calibration_graphs:
            return Calibration(torch.empty(0), torch.empty(0, dtype=torch.int64))
        return Calibration(denoiser.calibration_scores.cpu(), denoiser.calibration_sizes.cpu())

    def fault(self, nodes: int) -> NoTypicality | None:
        """Why graphs with that many nodes have no typicality; None if they have one."""
        count = len(self.sizes)
        if count < MIN_CALIBRATION_GRAPHS:
            return NoTypicality(
                f"the denoiser has {count} calibration graphs and needs {MIN_CALIBRATION_GRAPHS}"
            )
        smallest, largest = int(self.sizes.min()), int(self.sizes.max())
        if not smallest <= nodes <= largest:
            return NoTypicality(
                f"the calibration graphs have {smallest} to {largest} nodes, the graph has {nodes}"
            )
        return None

    def rank(self, scores: Tensor, nodes: int) -> Tensor:
        """The typicality of graphs with these scores and that many nodes: [graph] → [graph].

        (1 + calibration graphs with no higher standard score) / (1 + calibration graphs): the new
        graph counts as one of them. Each new graph is ranked by itself.
        """
        standard = self._standard_scores(scores, nodes)  # [graph, calibration graph and itself]
        no_higher = (standard[:, :-1] <= standard[:, -1:] + _ROUNDING).sum(1)
        return (1 + no_higher).double() / (1 + len(self.sizes))

    def _standard_scores(self, scores: Tensor, nodes: int) -> Tensor:
        """Scores relative to those of like size: [graph, calibration graph and the graph itself].

        Graphs as near in size as the last of the nearest count too.
        """
        everyone = torch.cat([self.scores.expand(len(scores), -1), scores[:, None]], 1).double()
        sizes = torch.cat([self.sizes, torch.tensor([nodes])]).double()
        distance = (sizes[:, None] - sizes).abs().fill_diagonal_(math.inf)
        farthest = distance.kthvalue(LIKE_SIZED_GRAPHS, dim=1, keepdim=True).values
        near = (distance <= farthest).double()
        near = near / near.sum(1, keepdim=True)
        mean = everyone @ near.T
        variance = (everyone.square() @ near.T - mean.square()).clamp(min=_MIN_DEVIATION**2)
        return (everyone - mean) / variance.sqrt()


def calibrated(denoiser: Denoiser, graphs: Sequence[Graph], device: torch.device) -> Denoiser:
    """The denoiser, which is on `device`, with the scores and sizes of its calibration graphs."""
    if not graphs:
        return denoiser
    state = denoiser.state_dict() | {
        "calibration_scores": typicality_scores(denoiser, graphs, device),
        "calibration_sizes": torch.tensor([graph.node_count for graph in graphs]),
    }
    result = Denoiser(replace(denoiser.shape, calibration_graphs=len(graphs)))
    result.load_state_dict(state)
    return result.to(device).train(denoiser.training)


def typicalities(
    denoiser: EdgeDenoiser, graphs: Sequence[Graph], device: torch.device
) -> list[Typicality | NoTypicality]:
    """The typicality of each graph by the denoiser's own calibration."""
    calibration = Calibration.stored_in(denoiser)
    faults = [calibration.fault(graph.node_count) for graph in graphs]
    ranked = [graph for graph, fault in zip(graphs, faults, strict=True) if fault is None]
    scores = iter(typicality_scores(denoiser, ranked, device).unbind())
    return [
        Typicality(
            float(calibration.rank(next(scores)[None], graph.node_count)), len(calibration.sizes)
        )
        if fault is None
        else fault
        for graph, fault in zip(graphs, faults, strict=True)
    ]


def typicality_scores(
    denoiser: EdgeDenoiser, graphs: Sequence[Graph], device: torch.device
) -> Tensor:
    """The log-likelihood of each graph's least likely node, in any order of the nodes: [graph]."""
    scores = torch.zeros(len(graphs))
    for indices in like_sized([graph.node_count for graph in graphs], _PAIRS_PER_PASS):
        # A denoiser reads no edge attributes, and dense ones are large.
        plain = [replace(graphs[i], edge_attributes=None, usual=None) for i in indices]
        scores[indices] = least_likely_node(denoiser, to_dense(plain).to(device)).cpu()
    return scores


def least_likely_node(denoiser: EdgeDenoiser, graphs: DenseGraphs) -> Tensor:
    """The log-likelihood of the least likely node of each graph: [batch]."""
    flip = graphs.adjacency.new_full((graphs.count,), denoiser.clean_flip)
    with torch.inference_mode():
        log_odds = denoiser.edge_log_odds(graphs, NoiseLevel.symmetric(flip))
        pairs = logsigmoid((2 * graphs.adjacency - 1) * log_odds) * graphs.pair_mask
        nodes = pairs.sum(2).masked_fill(~graphs.mask, math.inf)  # [batch, node]
        return nodes.min(1).values
