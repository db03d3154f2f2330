"""Evaluate a method's answers: the numbers in one row of the counterfactual table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from bench.counterfactuals.instances import CPU, EXHAUSTIVE_EDITS, EditableInstance
from bench.counterfactuals.methods import Edits, Step
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.metrics.mmd import MmdScore, mmd, statistics
from models.metrics.scores import (
    CurveRule,
    Instance,
    ceiling,
    cf_acc_auc,
    cf_acc_curve,
    fidelity,
    is_connected,
)

SMALL_NODES = 60


@dataclass(frozen=True)
class MethodResult:
    """The answers of one method for one instance."""

    instance: EditableInstance
    found: tuple[Edits, ...]
    gnn_evaluations: int
    gnn_gradients: int
    cpu_seconds: float
    refuted: int = 0  # answers for a node that do not flip it in the whole graph; not in `found`
    steps: tuple[Step, ...] = ()  # the curve of an explainer that returns more than flips

    @property
    def edits(self) -> int | None:
        return len(self.found[0]) if self.found else None


@dataclass(frozen=True)
class CounterfactualRow:
    """The figures of a saved row; provenance is added separately."""

    dataset: str
    method: str
    n: int
    auc_strict: float
    ceiling: float
    auc_possible: float  # upper bound for any method, from exhaustive search
    auc_one_edit: float
    fidelity_auc: float  # of flips only; differs from the paper's, see `_fidelity_auc`
    fidelity_any_auc: float  # as the paper's, see `_fidelity_any_auc`
    mean_edits: float | None
    mean_ratio: float | None  # modification ratio of the flipped instances
    flip_rate: float
    flip_rate_005: float
    flip_rate_01: float
    mmd_sum: float | None
    mmd_heldout: float | None
    mmd_floor: float
    alternatives: float
    alternatives3: float
    share_not_minimal: float | None
    gnn_evaluations: float
    gnn_gradients: float
    cpu_seconds: float
    cpu_seconds_n60: float | None  # instances of at most 60 nodes
    share_covered: float  # by exhaustive search
    refuted_on_whole: int
    train_seconds: float
    curve: list[float]  # strict CF-ACC at r = 0, 1/30, …, 0.3


@dataclass(frozen=True)
class EditDetail:
    """Printed but not saved: kinds of edits and the components of the held-out MMD."""

    added: int
    removed: int
    connected: float | None  # share of edited graphs that are connected
    connected_before: float | None  # the same for the unedited graphs
    mmd: MmdScore | None


def toggle_pairs(graph: Graph, edits: Edits) -> Graph:
    """Toggle the pairs and return the graph with sorted edges."""
    edges = set(map(tuple, graph.edges.T.tolist())).symmetric_difference(edits)
    sorted_edges = torch.tensor(sorted(edges), dtype=torch.int64).view(-1, 2).T.contiguous()
    return replace(graph, edges=sorted_edges)


def counterfactual_row(
    dataset: str,
    method: str,
    gnn: Gnn,
    *,
    answers: Sequence[MethodResult],
    held_out: Sequence[Graph],
    fewest: Sequence[int | None],
    covered: Sequence[bool],
    train_seconds: float,
) -> tuple[CounterfactualRow, EditDetail]:
    """Evaluate the answers of one method.

    For each instance, `covered` says whether exhaustive search is affordable, and `fewest` is the
    number of edits that it found.
    """
    originals = [answer.instance.graph for answer in answers]
    flips = [answer for answer in answers if answer.found]
    edited = [toggle_pairs(answer.instance.graph, answer.found[0]) for answer in flips]
    instances = [Instance(answer.instance.graph.edge_count, answer.edits) for answer in answers]
    curve = cf_acc_curve(instances)
    reference, untouched = statistics(held_out), statistics(originals)
    changed = statistics(edited) if edited else None
    against_held_out = mmd(changed, reference) if changed else None
    is_larger = [
        minimum is not None and (answer.edits is None or answer.edits > minimum)
        for answer, minimum, is_covered in zip(answers, fewest, covered, strict=True)
        if is_covered
    ]
    small_graph_seconds = [
        answer.cpu_seconds for answer in answers if answer.instance.graph.node_count <= SMALL_NODES
    ]
    figures = CounterfactualRow(
        dataset=dataset,
        method=method,
        n=len(answers),
        auc_strict=cf_acc_auc(curve),
        ceiling=ceiling([graph.edge_count for graph in originals]),
        auc_possible=_best_possible_auc(originals, fewest, covered),
        auc_one_edit=cf_acc_auc(cf_acc_curve(instances, CurveRule.ONE_EDIT)),
        fidelity_auc=_fidelity_auc(gnn, answers),
        fidelity_any_auc=_fidelity_any_auc(gnn, answers),
        mean_edits=_mean([len(answer.found[0]) for answer in flips]) if flips else None,
        mean_ratio=_mean_modification_ratio(flips) if flips else None,
        flip_rate=_share_within(instances, 0.3),
        flip_rate_005=_share_within(instances, 0.05),
        flip_rate_01=_share_within(instances, 0.1),
        mmd_sum=mmd(changed, untouched).sum if changed else None,
        mmd_heldout=against_held_out.sum if against_held_out else None,
        mmd_floor=mmd(untouched, reference).sum,
        alternatives=_mean([len(answer.found) for answer in answers]),
        alternatives3=_mean([len(answer.found) >= 3 for answer in flips]) if flips else 0.0,
        share_not_minimal=_mean(is_larger) if is_larger else None,
        gnn_evaluations=_mean([answer.gnn_evaluations for answer in answers]),
        gnn_gradients=_mean([answer.gnn_gradients for answer in answers]),
        cpu_seconds=_mean([answer.cpu_seconds for answer in answers]),
        cpu_seconds_n60=_mean(small_graph_seconds) if small_graph_seconds else None,
        share_covered=_mean(covered),
        refuted_on_whole=sum(answer.refuted for answer in answers),
        train_seconds=train_seconds,
        curve=curve.tolist(),
    )
    return figures, _detail(flips, edited, against_held_out)


@dataclass(frozen=True)
class SharedFlips:
    """Held-out MMD on the instances that both methods flip.

    The choice of flipped instances itself changes the MMD, so a fair comparison uses shared ones.
    """

    shared: int
    mmd_shared: float
    mmd_shared_other: float
    mmd_shared_floor: float  # unedited instances


def shared_mmd(
    ours: Sequence[MethodResult], others: Sequence[MethodResult], held_out: Sequence[Graph]
) -> SharedFlips | None:
    """None if the methods share no flipped instance."""
    shared = [
        (our, other) for our, other in zip(ours, others, strict=True) if our.found and other.found
    ]
    if not shared:
        return None
    reference = statistics(held_out)
    groups = (
        [toggle_pairs(our.instance.graph, our.found[0]) for our, _ in shared],
        [toggle_pairs(other.instance.graph, other.found[0]) for _, other in shared],
        [our.instance.graph for our, _ in shared],
    )
    return SharedFlips(len(shared), *(mmd(statistics(graphs), reference).sum for graphs in groups))


def _detail(
    flips: Sequence[MethodResult], edited: Sequence[Graph], against_held_out: MmdScore | None
) -> EditDetail:
    removed = 0
    for answer in flips:
        edges = set(map(tuple, answer.instance.graph.edges.T.tolist()))
        removed += len(edges.intersection(answer.found[0]))
    return EditDetail(
        added=sum(len(answer.found[0]) for answer in flips) - removed,
        removed=removed,
        connected=_mean([is_connected(graph) for graph in edited]) if flips else None,
        connected_before=(
            _mean([is_connected(answer.instance.graph) for answer in flips]) if flips else None
        ),
        mmd=against_held_out,
    )


def _mean_modification_ratio(flips: Sequence[MethodResult]) -> float:
    return _mean([len(answer.found[0]) / answer.instance.graph.edge_count for answer in flips])


def _best_possible_auc(
    graphs: Sequence[Graph], fewest: Sequence[int | None], covered: Sequence[bool]
) -> float:
    """Strict AUC at the fewest edits per graph that exhaustive search does not rule out."""
    edits = [
        minimum if minimum is not None else EXHAUSTIVE_EDITS + 1 if is_covered else 1
        for minimum, is_covered in zip(fewest, covered, strict=True)
    ]
    best = [Instance(graph.edge_count, count) for graph, count in zip(graphs, edits, strict=True)]
    return cf_acc_auc(cf_acc_curve(best))


def _share_within(instances: Sequence[Instance], ratio: float) -> float:
    return _mean(
        [
            instance.edits is not None and instance.edits <= ratio * instance.edges + 1e-9
            for instance in instances
        ]
    )


def _fidelity_auc(gnn: Gnn, answers: Sequence[MethodResult]) -> float:
    """Area under the mean fidelity of flips at r = 0 … 0.3; no flip within r counts as 0.

    The paper's fidelity AUC differs: it has an explanation of every graph at every r and counts its
    fidelity whether or not the class flips. Our answers are smallest flips, at a single r.
    """
    return _area([_fidelities(gnn, replace(answer, steps=())) for answer in answers])


def _fidelity_any_auc(gnn: Gnn, answers: Sequence[MethodResult]) -> float:
    """The same, but without a flip within r the explainer's last graph within r counts.

    Methods that return flips only have no such graph, and 0 counts.
    """
    return _area([_fidelities(gnn, answer) for answer in answers])


def _fidelities(gnn: Gnn, answer: MethodResult) -> list[float]:
    """The fidelity of the answer within r = 0, 1/30, …, 0.3."""
    graph, flip = answer.instance.graph, answer.edits
    gain = 0.0
    if answer.found:
        before, after = predict(gnn, [graph, toggle_pairs(graph, answer.found[0])], CPU)
        gain = fidelity(before, after)
    points = []
    for ratio in range(10):
        if flip is not None and flip * 30 <= ratio * graph.edge_count:
            points.append(gain)
            continue
        within = [one for one in answer.steps if one.edits * 30 <= ratio * graph.edge_count]
        points.append(within[-1].fidelity if within else 0.0)
    return points


def _area(points: Sequence[Sequence[float]]) -> float:
    return cf_acc_auc(torch.tensor(points, dtype=torch.float64).mean(dim=0))


def _mean(values: Sequence[float | int | bool]) -> float:
    return float(sum(values) / len(values))
