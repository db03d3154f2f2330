"""Computes the result of an evaluation from all its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import torch

from d4explain.contracts.counterfactual_results import Judge
from d4explain.contracts.evaluations import results
from d4explain.contracts.evaluations.requests import EvaluationRequest
from d4explain.contracts.evaluations.rows import EvaluationRow
from d4explain.contracts.features.gnn_names import GnnNames, gnn_names
from d4explain.contracts.receipts.receipt import Receipt
from d4explain.contracts.results import Mmd
from d4explain.gnn.graphs import Graph
from models.evaluation.answers import InstanceAnswer, edited_graph
from models.evaluation.bootstrap import Figure, ratio_figure, resampled_shares
from models.evaluation.c2st import distinguishability
from models.evaluation.curves import RATIOS
from models.evaluation.edit_patterns import RecurringEdit, recurring_edits
from models.evaluation.figures import ExplainerFigures, explainer_figures
from models.realism.node_types import NodeTypes
from worker.evaluating.row_answers import answer_of, rows_sha256
from worker.loading.job_inputs import JobInputs
from worker.loading.library import Library
from worker.reporting.documents import rounded
from worker.reporting.reference_distances import distance_to_reference


def evaluation_result(
    library: Library,
    request: EvaluationRequest,
    inputs: JobInputs,
    graphs: Sequence[Graph],  # the instances
    rows: Sequence[EvaluationRow],  # of all instances and explainers
    *,
    judges: Sequence[Judge],
    unjudged_reason: str | None,
    receipt: Receipt,
    warnings: Sequence[str],
    on_progress: Callable[[int], None] = lambda done: None,
) -> results.EvaluationResult:
    """A function of the rows, the instances, the reference set and the seed; times aside."""
    names = gnn_names(inputs.gnn.spec)
    one_explainer = [row for row in rows if row.explainer == request.explainers[0]]
    doubts: list[str] = []
    explained = []
    for place, name in enumerate(request.explainers):
        mine = [row for row in rows if row.explainer == name]
        explained.append(
            _explainer(library, request, inputs, graphs, mine, names=names, doubts=doubts)
        )
        on_progress(place + 1)
    classes = sorted({row.predicted_class for row in one_explainer})
    return results.EvaluationResult(
        instances=len(graphs),
        test=request.test,
        metrics=request.metrics,
        predicted_classes=_counted(row.predicted_class for row in one_explainer),
        class_names={str(one): names.class_name(one) or str(one) for one in classes},
        accuracy=_accuracy(one_explainer, request.seed),
        explainers=explained,
        judges=list(judges),
        unjudged_reason=unjudged_reason,
        rows_sha256=rows_sha256(rows),
        receipt=receipt,
        warnings=list(dict.fromkeys([*warnings, *_test_warnings(request), *doubts])),
    )


def _explainer(
    library: Library,
    request: EvaluationRequest,
    inputs: JobInputs,
    graphs: Sequence[Graph],
    rows: Sequence[EvaluationRow],
    *,
    names: GnnNames,
    doubts: list[str],
) -> results.ExplainerResult:
    name = rows[0].explainer
    answers = [answer_of(row) for row in rows]
    figures = explainer_figures(answers, seed=request.seed)
    originals = [graph for graph, answer in zip(graphs, answers, strict=True) if answer.found]
    edited = [
        edited_graph(graph, answer)
        for graph, answer in zip(graphs, answers, strict=True)
        if answer.found
    ]
    distances: list[Mmd | None] = [None, None]
    if "mmd" in request.metrics:
        for place, compared in enumerate((edited, originals)):
            distances[place], found = _mmd(library, inputs, compared, request.seed)
            if place == 0:
                doubts += [f"{name}: {doubt}" for doubt in found]
    return _document(
        name,
        figures,
        names,
        mmd=distances[0],
        mmd_before=distances[1],
        c2st=_c2st(originals, edited, request.seed) if "c2st" in request.metrics else None,
        recurring=_recurring(library, inputs, graphs, answers, names),
    )


def _document(
    name: str,
    figures: ExplainerFigures,
    names: GnnNames,
    *,
    mmd: Mmd | None,
    mmd_before: Mmd | None,
    c2st: results.Distinguishability | None,
    recurring: list[results.RecurringEdit],
) -> results.ExplainerResult:
    transfer = figures.transfer
    return results.ExplainerResult(
        explainer=name,
        validity=_figure(figures.validity),
        one_edit_share=_figure(figures.one_edit_share),
        cf_acc_auc=_figure(figures.cf_acc_auc),
        ceiling=rounded(figures.ceiling.value),
        of_ceiling=_optional(figures.of_ceiling),
        cf_acc_auc_one_edit=_figure(figures.cf_acc_auc_one_edit),
        fidelity_auc=_figure(figures.fidelity_auc),
        fidelity=_optional(figures.fidelity),
        edits=_optional(figures.edits),
        modification_ratio=_optional(figures.ratio),
        connected=_optional(figures.connected),
        answers=_figure(figures.answers),
        diversity=_optional(figures.diversity),
        brittle_share=_optional(figures.brittle_share),
        na=None if transfer is None else _interval(transfer.na, transfer.na_low, transfer.na_high),
        nafr=None
        if transfer is None
        else _interval(transfer.nafr, transfer.nafr_low, transfer.nafr_high),
        verdicts=figures.verdicts,
        typicality_before=_optional(figures.typicality_before),
        typicality=_optional(figures.typicality),
        low_typicality_before=_optional(figures.low_typicality_before),
        low_typicality=_optional(figures.low_typicality),
        robustness_before=_optional(figures.robustness_before),
        robustness=_optional(figures.robustness),
        stability=_optional(figures.stability),
        mmd=mmd,
        mmd_before=mmd_before,
        c2st=c2st,
        gnn_evaluations=_figure(figures.gnn_evaluations),
        gnn_gradients=_figure(figures.gnn_gradients),
        cpu_seconds=_figure(figures.cpu_seconds),
        seconds=_figure(figures.seconds),
        curve=[
            results.CurvePoint(
                ratio=rounded(ratio),
                strict=rounded(strict),
                one_edit=rounded(one_edit),
                ceiling=rounded(ceiling),
                fidelity=rounded(gain),
            )
            for ratio, strict, one_edit, ceiling, gain in zip(
                RATIOS,
                figures.curves.strict.tolist(),
                figures.curves.one_edit.tolist(),
                figures.curves.ceiling.tolist(),
                figures.curves.fidelity.tolist(),
                strict=True,
            )
        ],
        edit_histogram={str(edits): count for edits, count in figures.edit_histogram.items()},
        flips=[
            results.Flip(old_class=old, new_class=new, count=count)
            for (old, new), count in figures.flips.items()
        ],
        classes=[
            results.ClassFigures(
                predicted_class=one, class_name=names.class_name(one), validity=_figure(figure)
            )
            for one, figure in figures.classes.items()
        ],
        recurring_edits=recurring,
    )


def _mmd(
    library: Library, inputs: JobInputs, graphs: Sequence[Graph], seed: int
) -> tuple[Mmd | None, Sequence[str]]:
    limit = library.exact_nodes
    largest = max([inputs.dataset.max_nodes, *(graph.node_count for graph in graphs)])
    if largest > limit:
        return None, [f"no MMD: spectra of graphs with more than {limit:,} nodes take too long"]
    reference = library.reference_statistics(inputs.gnn, inputs.dataset)
    distance = distance_to_reference(graphs, reference, seed=seed)
    return distance.mmd, distance.warnings


def _c2st(
    originals: Sequence[Graph], edited: Sequence[Graph], seed: int
) -> results.Distinguishability | None:
    plain = [edited_graph(graph, _UNCHANGED) for graph in originals]
    measured = distinguishability(plain, edited, seed=seed)
    if measured is None:
        return None
    return results.Distinguishability(
        auc=rounded(measured.auc),
        low=rounded(measured.low),
        high=rounded(measured.high),
        pairs=len(edited),
        constant_folds=measured.constant_folds,
    )


_UNCHANGED = InstanceAnswer(position=0, nodes=0, edges=0, old_class=0)


def _recurring(
    library: Library,
    inputs: JobInputs,
    graphs: Sequence[Graph],
    answers: Sequence[InstanceAnswer],
    names: GnnNames,
) -> list[results.RecurringEdit]:
    patterns = library.patterns(inputs.gnn, inputs.dataset)
    types = NodeTypes.of(graphs, free_of_degree=True) if patterns is None else patterns.types
    type_of = [types.types(graph.features) for graph in graphs]
    name_of: dict[int, str] = {}
    for graph, of_nodes in zip(graphs, type_of, strict=True):
        for node, one in enumerate(of_nodes.tolist()):
            if one not in name_of:
                name = names.type_name(graph.features[node].tolist())
                name_of[one] = name or f"type {one}"
    found = recurring_edits(graphs, type_of, answers)
    return [_recurring_edit(pattern, name_of) for pattern in found]


def _recurring_edit(pattern: RecurringEdit, names: dict[int, str]) -> results.RecurringEdit:
    shared = pattern.shared_type
    return results.RecurringEdit(
        edits=[
            results.TypedEdit(action=action, types=(names[one], names[other]))
            for action, one, other in pattern.edits
        ],
        shared_type=None if shared is None else names[shared],
        instances=pattern.instances,
        share=rounded(pattern.share),
        base_share=None if pattern.base_share is None else rounded(pattern.base_share),
    )


def _accuracy(rows: Sequence[EvaluationRow], seed: int) -> results.Figure | None:
    """Over the instances with a label."""
    correct = [row.label is not None and row.label == row.predicted_class for row in rows]
    labelled = [row.label is not None for row in rows]
    shares = resampled_shares(len(rows), seed)
    return _optional(ratio_figure(torch.tensor(correct), torch.tensor(labelled), shares))


def _test_warnings(request: EvaluationRequest) -> list[str]:
    if request.test.part == "held_out":
        return [
            "the instances are held out from every training of this service; whether the GNN was "
            "trained on them is not known"
        ]
    return ["whether the GNN, or the reference set, contains graphs of the test set is not known"]


def _counted(classes: Iterable[int]) -> dict[str, int]:
    return {str(one): count for one, count in sorted(Counter(classes).items())}


def _interval(
    value: float | None, low: float | None, high: float | None
) -> results.Interval | None:
    if value is None or low is None or high is None:
        return None
    return results.Interval(value=rounded(value), low=rounded(low), high=rounded(high))


def _figure(figure: Figure) -> results.Figure:
    return results.Figure(
        value=rounded(figure.value),
        low=rounded(figure.low),
        high=rounded(figure.high),
        count=figure.count,
    )


def _optional(figure: Figure | None) -> results.Figure | None:
    return None if figure is None else _figure(figure)
