"""Ranks the candidate edits of a large graph in overlapping local patches.

A patch is an induced subgraph of at most 64 nodes. The denoiser reads plausibility and predicted
effects of its pairs as it does for the small graphs of its training. Without a denoiser the GNN's
slopes are the effects. The effect in a patch differs
from the effect in the whole graph: a mean over nodes dilutes it, and the rest of the graph is
missing. The effects therefore give a ranking, and measured effects of some edits give the scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from models.counterfactual.edit_ranking import EditRanker
from models.counterfactual.large.candidate_space import CandidateConfig, CandidateSpace
from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle
from models.diffusion.edge_denoiser import Reading
from models.diffusion.gnn_sensitivity import Sensitivity
from models.graphs.base_edit_space import EditSet
from models.graphs.csr_graph import CsrGraph, rows_of

_PATCHES_PER_PASS = 8
_CONTEXT_DIVISOR = 4  # a quarter of a patch is the surroundings of its first pair
_PART_HOPS = 64  # more than a part needs, unless its component is long
_MIN_SCALE = 1e-3  # positive, so that the ranking stays if measurements contradict it


class PatchReader(Protocol):
    """Reads plausibility and effects of all toggles of patches; a denoiser is one."""

    def read(self, graphs: DenseGraphs, sensitivity: Sensitivity | None = None) -> Reading: ...


@dataclass(frozen=True)
class Patch:
    nodes: list[int]
    pairs: list[int]  # positions of the candidates inside


class PatchEditRanker(EditRanker):
    """Ranks the candidate edits of one large graph.

    An edit has the same predicted gain in every state. Measured gains of single edits replace
    predicted ones.
    """

    predicts_effects = True
    calibrated_pool = 0

    def __init__(
        self,
        reader: PatchReader,
        oracle: CounterfactualOracle,
        space: CandidateSpace,
        config: CandidateConfig,
        *,
        device: torch.device,
        generator: torch.Generator,
    ) -> None:
        self._reader = reader
        self._oracle = oracle
        self._space = space
        self._device = device
        self._generator = generator
        patches = list(patches_of(space, config))
        self.plausibility, self._predicted = self._read(patches, config.patch_nodes)
        if len(patches) > 1 or len(patches[0].nodes) < space.graph.node_count:
            self._predicted *= self._scale(config.probes)

    @property
    def unedited_margin(self) -> float:
        return self._oracle.margins([()])[0]

    @property
    def gains(self) -> Tensor:
        gains = self._predicted.clone()
        known = self._oracle.single_gains()
        gains[list(known)] = torch.tensor(list(known.values()))
        ledger = self._space.ledger
        if ledger is None:
            return gains
        return gains.masked_fill(~ledger.affordable([()])[0], FORBIDDEN)

    def gains_at(self, states: Sequence[EditSet]) -> Tensor:
        return self.gains.expand(len(states), -1)

    def _read(self, patches: Iterable[Patch], patch_nodes: int) -> tuple[Tensor, Tensor]:
        """Plausibility and predicted gain of every candidate: [pair] each."""
        plausibility = torch.zeros(self._space.count)
        gains = torch.zeros(self._space.count)
        whole = self._oracle.logits()  # [class]
        remaining = iter(patches)
        while batch := list(islice(remaining, _PATCHES_PER_PASS)):
            self._oracle.check_stop()
            graphs = self._dense(batch, patch_nodes).to(self._device)
            sensitivity = None
            if self._oracle.gnn.has_dense:  # otherwise there are no slopes
                sensitivity = self._oracle.sensitivity(graphs)
            reading = self._reader.read(graphs, sensitivity)
            effects = reading.effects
            if effects is None and sensitivity is not None:
                effects = sensitivity.slopes
            for index, patch in enumerate(batch):
                local = {node: position for position, node in enumerate(patch.nodes)}
                pairs = torch.tensor(patch.pairs, dtype=torch.long)
                ends = [
                    torch.tensor([local[node] for node in side[pairs].tolist()], dtype=torch.long)
                    for side in (self._space.sources, self._space.targets)
                ]
                plausibility[pairs] = reading.plausibility[index].cpu()[ends[0], ends[1]]
                if effects is not None:
                    changes = effects[:, index].cpu()[:, ends[0], ends[1]].T  # [pair, class]
                    before = self._oracle.goal.margin(whole[None])
                    gains[pairs] = self._oracle.goal.margin(whole + changes) - before
        return plausibility, gains

    def _dense(self, patches: Sequence[Patch], patch_nodes: int) -> DenseGraphs:
        graph = self._space.graph
        parts = []
        for patch in patches:
            nodes = torch.tensor(patch.nodes)
            inside = self._space.rows.inside(nodes.numpy())
            parts.append(_part(graph, nodes, torch.from_numpy(inside.edges)))
        return to_dense(parts, min(patch_nodes, graph.node_count))

    def _scale(self, probes: int) -> float:
        """Least-squares factor from predicted to true gains, over random and best candidates."""
        drawn = torch.randperm(self._space.count, generator=self._generator)[:probes]
        best = self._predicted.argsort(descending=True, stable=True)[:probes]
        probed = sorted({*drawn.tolist(), *best.tolist()})
        self._oracle.margins([(pair,) for pair in probed])
        known = self._oracle.single_gains()
        pairs = [pair for pair in probed if pair in known]
        true = torch.tensor([known[pair] for pair in pairs])
        predicted = self._predicted[pairs]
        size = float(predicted.square().sum())
        return max(float(true @ predicted) / size, _MIN_SCALE) if size else 1.0


def patches_of(space: CandidateSpace, config: CandidateConfig) -> Iterator[Patch]:
    """Few patches that together contain every candidate exactly once.

    The patches of far pairs come first. Then each remaining candidate gets a patch around its two
    ends, which is filled with the ends of other remaining candidates.
    """
    nodes = space.graph.node_count
    if nodes <= config.patch_nodes:
        yield Patch(list(range(nodes)), list(range(space.count)))
        return
    uncovered = _Uncovered(space)
    for far in space.far_patches:
        patch = uncovered.take(far.tolist())
        if patch.pairs:
            yield patch
    ends = zip(space.sources.tolist(), space.targets.tolist(), strict=True)
    for one, other in ends:
        if uncovered.contains(one, other):
            yield uncovered.take(uncovered.grown(one, other, config.patch_nodes))


def local_parts(graph: Graph, most: int, count: int) -> list[Graph]:
    """Connected parts of a large graph with at most `most` nodes, around fixed random nodes.

    Their number would cover the graph twice, but is at most `count`. Nodes get random numbers
    first, because a part takes the first neighbours of a hub.
    """
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(graph.node_count, generator=generator)  # [node], by new number
    number = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
    rows = rows_of(graph.features[order].numpy(), number[graph.edges].numpy())
    parts = []
    for centre in range(min(count, -(-2 * graph.node_count // most))):
        nodes = rows.ball(centre, _PART_HOPS, most).nodes
        edges = torch.from_numpy(rows.inside(nodes).edges)
        parts.append(_part(graph, order[nodes], edges))
    return parts


def _part(graph: Graph, nodes: Tensor, edges: Tensor) -> Graph:
    """A subgraph of the given nodes with [2, edge] edges, by position in `nodes`."""
    ends = nodes[edges].sort(dim=0).values
    carried = graph.with_edges(ends).edge_attributes
    return Graph(graph.features[nodes], edges, edge_attributes=carried, usual=graph.usual)


class _Uncovered:
    """Candidates that are in no patch yet."""

    def __init__(self, space: CandidateSpace) -> None:
        self._rows = space.rows
        # node → other end → position
        self._left: list[dict[int, int]] = [{} for _ in range(space.graph.node_count)]
        ends = zip(space.sources.tolist(), space.targets.tolist(), strict=True)
        for position, (one, other) in enumerate(ends):
            self._left[one][other] = position
            self._left[other][one] = position

    def contains(self, one: int, other: int) -> bool:
        return other in self._left[one]

    def take(self, nodes: list[int]) -> Patch:
        members = set(nodes)
        pairs = []
        for node in nodes:
            row = self._left[node]
            for other in sorted(row.keys() & members):
                pairs.append(row.pop(other))
                del self._left[other][node]
        return Patch(nodes, pairs)

    def grown(self, one: int, other: int, most: int) -> list[int]:
        """Both ends, some of their surroundings, then ends of remaining candidates."""
        found = dict.fromkeys([one, other])
        _add(found, self._surroundings(one, other), max(2, most // _CONTEXT_DIVISOR))
        for node in list(found):
            _add(found, self._left[node], most)
        for node in list(found):
            if len(found) >= most:
                break
            _add(found, self._left[node], most)
        for node in list(found):
            if len(found) >= most:
                break
            _add(found, _first_neighbours(self._rows, node, most), most)
        return list(found)

    def _surroundings(self, one: int, other: int) -> Iterator[int]:
        """Common neighbours, then neighbours of both ends alternately; of hubs only the first."""
        sides = [_first_neighbours(self._rows, end, 4096) for end in (one, other)]
        common = set(sides[0]) & set(sides[1])
        yield from sorted(common)
        for pair in zip(*sides, strict=False):
            yield from pair
        yield from max(sides, key=len)


def _add(found: dict[int, None], nodes: Iterable[int], most: int) -> None:
    for node in nodes:
        if len(found) >= most:
            return
        found[node] = None


def _first_neighbours(rows: CsrGraph, node: int, most: int) -> list[int]:
    row: list[int] = rows.row(node)[:most].tolist()
    return row
