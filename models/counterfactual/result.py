"""The result of a counterfactual explanation, built from edit sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from d4explain.gnn.graphs import Graph
from models.counterfactual.oracle import CounterfactualOracle
from models.explainers.factual import FactualExplanation
from models.graphs.base_edit_space import EditSet
from models.realism.reference_patterns import UnseenPattern
from models.witnesses.transfer import Transfer

Aim = Literal["minimal", "believable", "both"]


@dataclass(frozen=True)
class FoundEdit:
    source: int
    target: int
    added: bool
    plausibility: float | None  # log-odds that the denoiser gives this edit on the input
    # Whether the edit set comes from a denoiser sample or from a pool that the denoiser ranked.
    by_denoiser: bool
    attributes: tuple[float, ...] | None = None  # of the edge, if edges have any


@dataclass(frozen=True)
class AnswerOrder:
    """The quantities by which answers are ordered, and why this one stands where it does."""

    edits: int
    unseen: int | None  # patterns that the reference set lacks; None if nobody looked
    convinced: int | None  # selection witnesses that prefer the new class; None if none was asked
    witnesses: int | None
    statistics_shift: float
    reason: str


@dataclass(frozen=True)
class FoundCounterfactual:
    graph: Graph
    edits: tuple[FoundEdit, ...]
    probabilities: Tensor  # [class], by the sparse GNN
    likelihood: float | None  # mean plausibility of the edits; None without a denoiser
    connected: bool
    by_denoiser: bool
    aim: Literal["minimal", "believable"] = "minimal"
    # None if there are no judges, or if they saw another flip than that in the whole graph
    transfer: Transfer | None = None
    unseen: tuple[UnseenPattern, ...] = ()
    order: AnswerOrder | None = None  # None for a closest miss


@dataclass(frozen=True)
class CounterfactualOutcome:
    """The counterfactuals of one graph, best first, and their cost."""

    probabilities: Tensor  # [class], of the input
    found: tuple[FoundCounterfactual, ...]  # of the requested aim
    closest_miss: FoundCounterfactual | None  # only if nothing was found
    reason: str | None  # only if nothing was found
    gnn_evaluations: int  # graphs in forward passes, dense and sparse
    gnn_gradients: int  # graphs in backward passes, once per differentiated number
    samples: int  # graphs drawn from the denoiser
    depth: int  # number of edits that the search combined
    seconds: float
    candidates: int | None = None  # candidate pairs; None if all allowed pairs were searched
    minimal: tuple[FoundCounterfactual, ...] = ()  # minimal answers beside believable ones
    factual: FactualExplanation | None = None  # of an explainer that scores edges


def describe(
    edit_sets: Sequence[EditSet],
    oracle: CounterfactualOracle,
    plausibility: Tensor | None,  # [pair]; None without a denoiser
    by_denoiser: Sequence[bool],  # of each edit set
) -> tuple[FoundCounterfactual, ...]:
    """The edited graphs with their edits and the sparse GNN's probabilities."""
    if not edit_sets:
        return ()
    space = oracle.space
    answers = []
    for edits, graph, probabilities, components, proposed in zip(
        edit_sets,
        space.apply_all(edit_sets),
        oracle.verify(edit_sets),
        space.component_counts(edit_sets),
        by_denoiser,
        strict=True,
    ):
        described = tuple(
            FoundEdit(
                source=int(space.sources[pair]),
                target=int(space.targets[pair]),
                added=not space.present[pair],
                plausibility=None if plausibility is None else float(plausibility[pair]),
                by_denoiser=proposed,
                attributes=space.attributes_of(pair),
            )
            for pair in edits
        )
        answers.append(
            FoundCounterfactual(
                graph=graph,
                edits=described,
                probabilities=probabilities,
                likelihood=_mean([edit.plausibility for edit in described]),
                connected=components == 1,
                by_denoiser=proposed,
            )
        )
    return tuple(answers)


def _mean(plausibilities: Sequence[float | None]) -> float | None:
    known = [plausibility for plausibility in plausibilities if plausibility is not None]
    return sum(known) / len(known) if known else None
