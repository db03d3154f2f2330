"""Converts factual explanations to documents, with the caller's node ids."""

from __future__ import annotations

from d4explain.contracts.counterfactual_results import (
    CounterfactualAnswer,
    EdgeImportance,
    FactualExplanation,
    NodeImportance,
)
from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.requests import CanonicalGraph
from models.explainers import factual
from worker.reporting.documents import prediction, rounded, rounded_all


def with_factual(
    answer: CounterfactualAnswer,
    document: CanonicalGraph,
    found: factual.FactualExplanation | None,
    names: GnnNames,
) -> CounterfactualAnswer:
    """The answer with the factual explanation of the edited graph, if the explainer gave one."""
    if found is None:
        return answer
    return answer.model_copy(update={"factual": _factual(document, found, names)})


def _factual(
    document: CanonicalGraph, found: factual.FactualExplanation, names: GnnNames
) -> FactualExplanation:
    ids, scores, kept = document.node_ids, found.edges.tolist(), found.kept.tolist()
    order = found.edges.argsort(descending=True, stable=True).tolist()
    ends = [document.edges[edge] for edge in order]
    return FactualExplanation(
        edges=[
            EdgeImportance(
                source=ids[source],
                target=ids[target],
                importance=rounded(scores[edge]),
                kept=kept[edge],
            )
            for edge, (source, target) in zip(order, ends, strict=True)
        ],
        nodes=[
            NodeImportance(id=id_, importance=score)
            for id_, score in zip(ids, rounded_all(found.nodes.tolist()), strict=True)
        ],
        prediction_kept=prediction(found.probabilities_kept, names),
        prediction_without=prediction(found.probabilities_without, names),
        fidelity_plus=found.fidelity_plus,
        fidelity_minus=found.fidelity_minus,
        characterization=rounded(found.characterization),
        unfaithfulness=rounded(found.unfaithfulness),
    )
