"""Search modes: all pairs of a small graph, or candidate pairs of a large graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from d4explain.gnn.graphs import Graph
from models.counterfactual.config import CounterfactualConfig, search_of_large_graphs
from models.counterfactual.edit_ranking import EditRanker
from models.counterfactual.large.candidate_space import CandidateSpace
from models.counterfactual.large.patches import PatchEditRanker
from models.counterfactual.oracle import CounterfactualOracle
from models.counterfactual.proposers import EditProposer
from models.counterfactual.search.search_config import SearchConfig
from models.errors import TooLargeError
from models.graphs.edits import BaseEditSpace, EditRules, EditSpace


class SearchMode(Protocol):
    """The stages that depend on the size of the graph."""

    @property
    def config(self) -> CounterfactualConfig: ...

    @property
    def space(self) -> BaseEditSpace: ...

    @property
    def search(self) -> SearchConfig: ...

    @property
    def max_depth(self) -> int:
        """The largest number of edits that the beam combines."""

    @property
    def candidates(self) -> int | None:
        """Number of candidate pairs; None if all allowed pairs are searched."""

    def rank_edits(
        self,
        proposer: EditProposer,
        oracle: CounterfactualOracle,
        generator: torch.Generator,
        device: torch.device,
    ) -> EditRanker: ...


@dataclass(frozen=True)
class AllPairs:
    """Every allowed pair of a small graph, in dense form."""

    space: EditSpace
    config: CounterfactualConfig

    @property
    def search(self) -> SearchConfig:
        return self.config.search

    @property
    def max_depth(self) -> int:
        return self.space.budget

    @property
    def candidates(self) -> None:
        return None

    def rank_edits(
        self,
        proposer: EditProposer,
        oracle: CounterfactualOracle,
        generator: torch.Generator,
        device: torch.device,
    ) -> EditRanker:
        return proposer.rank_edits(oracle, generator, device)


@dataclass(frozen=True)
class CandidatePairs:
    """A sample of the pairs of a large graph, evaluated by the sparse GNN."""

    space: CandidateSpace
    config: CounterfactualConfig

    @property
    def search(self) -> SearchConfig:
        return search_of_large_graphs(self.config)

    @property
    def max_depth(self) -> int:
        return min(self.space.budget, self.search.wide_depth)

    @property
    def candidates(self) -> int:
        return self.space.count

    def rank_edits(
        self,
        proposer: EditProposer,
        oracle: CounterfactualOracle,
        generator: torch.Generator,
        device: torch.device,
    ) -> EditRanker:
        return PatchEditRanker(
            proposer,
            oracle,
            self.space,
            self.config.candidates,
            device=device,
            generator=generator,
        )


def search_mode(
    graph: Graph, rules: EditRules, config: CounterfactualConfig, seed: int
) -> SearchMode:
    """The mode for the size of the graph; the seed draws the candidate pairs."""
    if not config.candidates.restricts(graph):
        return AllPairs(EditSpace.of(graph, rules), config)
    if config.sampler != "guided":
        raise TooLargeError(graph.node_count, config.candidates.above_nodes, config.sampler)
    return CandidatePairs(CandidateSpace.restricted(graph, rules, config.candidates, seed), config)
