"""The counterfactuals of one graph or node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from d4explain.client.graph_formats.answer_graphs import AnswerGraph
from d4explain.contracts.counterfactual_results import Counterfactual, CounterfactualAnswer
from d4explain.contracts.results import NodeId
from d4explain.errors import D4Error


class NoCounterfactualError(D4Error, LookupError):
    """The explanation has no such counterfactual; the message says why."""


@dataclass(frozen=True)
class Answer:
    """The original graph and its counterfactuals, best first; `document` has all fields."""

    document: CounterfactualAnswer

    @property
    def found(self) -> bool:
        return self.document.found

    @property
    def reason(self) -> str | None:
        """Why nothing was found; None if something was."""
        return self.document.reason

    @property
    def node(self) -> NodeId | None:
        """The explained node; None if the GNN classifies graphs."""
        return None if self.document.node is None else self.document.node.id

    @cached_property
    def original(self) -> AnswerGraph:
        """The graph as posted; for a node, its neighbourhood."""
        document = self.document
        return AnswerGraph(document.graph, document.prediction, molecule=document.molecule)

    @cached_property
    def counterfactuals(self) -> list[AnswerGraph]:
        """Of the requested aim, best first."""
        return [_graph(found) for found in self.document.counterfactuals]

    @cached_property
    def minimal(self) -> list[AnswerGraph]:
        """The smallest flips; only beside believable counterfactuals."""
        return [_graph(found) for found in self.document.minimal]

    @property
    def verdicts(self) -> list[str]:
        """What the judges say about each counterfactual."""
        return [found.verdict for found in self.document.counterfactuals]

    def counterfactual(self, alternative: int = 0) -> AnswerGraph:
        """The counterfactual with this rank, from 0; raises `NoCounterfactualError`."""
        count = len(self.counterfactuals)
        if 0 <= alternative < count:
            return self.counterfactuals[alternative]
        if count:
            raise NoCounterfactualError(
                f"alternative is {alternative}; the answer has {count}, numbered from 0"
            )
        reason = self.reason or "no reason given"
        hint = "; `minimal` has the smallest flip" if self.minimal else ""
        raise NoCounterfactualError(f"no counterfactual: {reason}{hint}")

    def to_pyg(self, alternative: int = 0) -> Any:
        """The counterfactual as a PyG `Data`."""
        return self.counterfactual(alternative).to_pyg()

    def to_networkx(self, alternative: int = 0) -> Any:
        """The counterfactual as a `networkx.Graph`."""
        return self.counterfactual(alternative).to_networkx()

    def to_smiles(self, alternative: int = 0) -> str:
        """The counterfactual as SMILES, if the graph was posted as SMILES."""
        return self.counterfactual(alternative).to_smiles()


def _graph(found: Counterfactual) -> AnswerGraph:
    return AnswerGraph(found.graph, found.prediction, tuple(found.edits), found.molecule)
