"""Converts explanations to result documents, with the caller's node ids."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from d4explain.contracts.counterfactual_results import (
    AnswerOrder,
    ClosestMiss,
    Counterfactual,
    CounterfactualAnswer,
    ExplainedNode,
    Restriction,
    Transfers,
    UnseenPattern,
)
from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.requests import CanonicalGraph
from d4explain.contracts.results import (
    Edit,
    Prediction,
    ResultEdge,
    ResultGraph,
    ResultNode,
)
from d4explain.gnn.errors import RefusedError
from d4explain.gnn.graphs import Graph
from models.counterfactual import result as models_result
from models.counterfactual.explain import CounterfactualOutcome, FoundCounterfactual, FoundEdit
from models.metrics.scores import fidelity, mean_jaccard_distance
from models.witnesses.transfer import Transfer
from worker.cases.editable_molecules import EditableMolecule


def rounded(value: float) -> float:
    """Rounds to seven significant digits, the precision of a 32-bit float."""
    return float(f"{value:.7g}")


class NonFiniteAnswerError(RefusedError):
    def __init__(self) -> None:
        super().__init__(
            "the GNN's output is not finite for one of the graphs; "
            "its features or edge attributes are probably far outside the range the GNN was "
            "trained on, or weights of edges that it computes from them are negative"
        )


UNNAMED = GnnNames()


def prediction(probabilities: Tensor, names: GnnNames = UNNAMED) -> Prediction:
    if not bool(torch.isfinite(probabilities).all()):
        raise NonFiniteAnswerError
    predicted = int(probabilities.argmax())
    return Prediction(
        predicted_class=predicted,
        class_name=names.class_name(predicted),
        probabilities=[rounded(value) for value in probabilities.tolist()],
    )


def result_graph(
    document: CanonicalGraph,
    edges: Sequence[tuple[int, int]],
    attributes: Sequence[list[float]] | None,
) -> ResultGraph:
    """The posted nodes with these edges, which are pairs of node positions."""
    ids = document.node_ids
    edge_rows = [None] * len(edges) if attributes is None else attributes
    return ResultGraph(
        nodes=[ResultNode(id=id_, x=x) for id_, x in zip(ids, document.x, strict=True)],
        edges=[
            ResultEdge(source=ids[source], target=ids[target], edge_attr=row)
            for (source, target), row in zip(edges, edge_rows, strict=True)
        ],
    )


def counterfactual_answer(
    document: CanonicalGraph,
    outcome: CounterfactualOutcome,
    node: ExplainedNode | None = None,
    molecule: EditableMolecule | None = None,
    *,
    names: GnnNames = UNNAMED,
) -> CounterfactualAnswer:
    """`document` is the edited graph: the posted one, or the neighbourhood of a node in it."""
    before = outcome.probabilities
    miss = outcome.closest_miss
    edit_sets = [{(edit.source, edit.target) for edit in found.edits} for found in outcome.found]
    diversity = mean_jaccard_distance(edit_sets)
    return CounterfactualAnswer(
        graph=result_graph(document, document.edges, document.edge_attr),
        molecule=None if molecule is None else molecule.document,
        node=node,
        restricted=_restriction(document, outcome),
        prediction=prediction(before, names),
        found=bool(outcome.found),
        reason=outcome.reason,
        counterfactuals=[
            _counterfactual(document, before, found, molecule, names) for found in outcome.found
        ],
        minimal=[
            _counterfactual(document, before, found, molecule, names) for found in outcome.minimal
        ],
        closest_miss=None
        if miss is None
        else _closest_miss(document, before, miss, molecule, names),
        diversity=rounded_if_known(diversity),
        gnn_evaluations=outcome.gnn_evaluations,
        gnn_gradients=outcome.gnn_gradients,
        seconds=rounded(outcome.seconds),
    )


def _restriction(document: CanonicalGraph, outcome: CounterfactualOutcome) -> Restriction | None:
    if outcome.candidates is None:
        return None
    nodes = len(document.node_ids)
    return Restriction(candidate_count=outcome.candidates, pair_count=nodes * (nodes - 1) // 2)


def _counterfactual(
    document: CanonicalGraph,
    before: Tensor,
    found: FoundCounterfactual,
    molecule: EditableMolecule | None,
    names: GnnNames,
) -> Counterfactual:
    after = prediction(found.probabilities, names)
    return Counterfactual(
        graph=result_graph(document, edges_of(found.graph), edge_rows(found.graph)),
        edits=[_edit(document, edit, names) for edit in found.edits],
        prediction=after,
        confidence=after.probabilities[after.predicted_class],
        denoiser_likelihood=rounded_if_known(found.likelihood),
        fidelity=rounded(fidelity(before, found.probabilities)),
        modification_ratio=_ratio(document, found),
        connected=found.connected,
        found_by="denoiser" if found.by_denoiser else "search",
        molecule=None if molecule is None else molecule.edited(found),
        aim=found.aim,
        verdict="unjudged" if found.transfer is None else found.transfer.verdict.value,
        transfers=_transfers(found.transfer),
        unseen=[
            UnseenPattern(
                kind=pattern.kind,
                nodes=[document.node_ids[node] for node in pattern.nodes],
                detail=pattern.detail,
            )
            for pattern in found.unseen
        ],
        order=_order(found.order),
    )


def _transfers(transfer: Transfer | None) -> Transfers | None:
    if transfer is None:
        return None
    return Transfers(shared=transfer.shared, agreeing=transfer.agreeing, asked=transfer.asked)


def _order(order: models_result.AnswerOrder | None) -> AnswerOrder | None:
    if order is None:
        return None
    return AnswerOrder(
        edits=order.edits,
        unseen=order.unseen,
        convinced=order.convinced,
        witnesses=order.witnesses,
        statistics_shift=rounded(order.statistics_shift),
        reason=order.reason,
    )


def _closest_miss(
    document: CanonicalGraph,
    before: Tensor,
    miss: FoundCounterfactual,
    molecule: EditableMolecule | None,
    names: GnnNames,
) -> ClosestMiss:
    return ClosestMiss(
        edits=[_edit(document, edit, names) for edit in miss.edits],
        prediction=prediction(miss.probabilities, names),
        fidelity=rounded(fidelity(before, miss.probabilities)),
        modification_ratio=_ratio(document, miss),
        molecule=None if molecule is None else molecule.edited(miss),
    )


def _edit(document: CanonicalGraph, edit: FoundEdit, names: GnnNames) -> Edit:
    return Edit(
        action="add" if edit.added else "remove",
        source=document.node_ids[edit.source],
        target=document.node_ids[edit.target],
        source_type=names.type_name(document.x[edit.source]),
        target_type=names.type_name(document.x[edit.target]),
        plausibility=rounded_if_known(edit.plausibility),
        proposed_by="denoiser" if edit.by_denoiser else "search",
        edge_attr=None if edit.attributes is None else rounded_all(edit.attributes),
    )


def _ratio(document: CanonicalGraph, found: FoundCounterfactual) -> float:
    """Edits over edges; a graph without edges counts as one edge."""
    return rounded(len(found.edits) / max(len(document.edges), 1))


def edges_of(graph: Graph) -> list[tuple[int, int]]:
    sources, targets = graph.edges.tolist()
    return list(zip(sources, targets, strict=True))


def edge_rows(graph: Graph) -> list[list[float]] | None:
    if graph.edge_attributes is None:
        return None
    return [rounded_all(row) for row in graph.edge_attributes.tolist()]


def rounded_if_known(value: float | None) -> float | None:
    return None if value is None else rounded(value)


def rounded_all(values: Sequence[float]) -> list[float]:
    return [rounded(value) for value in values]
