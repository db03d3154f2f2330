"""Prepares what answers are held against: witnesses, named judges and reference patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from d4explain.contracts.counterfactual_results import Judge
from d4explain.contracts.requests import Aim, CounterfactualRequest
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.counterfactual.panel import Panel
from models.witnesses.witness_set import MIN_AGREEMENT, MIN_GRAPHS, Role, WitnessSet
from store.catalogue import gnns
from store.catalogue.black_boxes import is_black_box
from store.database import tables
from worker.loading.job_inputs import JobInputs
from worker.loading.library import Library
from worker.loading.spec_conversion import spec_of

_NO_JUDGES = "the request asks for no judges"
_DISAGREE = f"no judge agrees with the GNN on at least {MIN_AGREEMENT:.0%} of the reference set"


@dataclass(frozen=True)
class AnswerPanel:
    panel: Panel
    aim: Aim  # `minimal` if nothing could make an answer believable
    judges: tuple[Judge, ...]
    unjudged_reason: str | None  # None if there are judges
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Candidate:
    """A network that may judge."""

    network: Gnn
    report: Judge


def answer_panel(
    library: Library,
    request: CounterfactualRequest,
    inputs: JobInputs,
) -> AnswerPanel:
    witnesses, reason = _witnesses(library, request, inputs)
    patterns = library.patterns(inputs.gnn, inputs.dataset)
    named = inputs.judges
    selection = () if witnesses is None else witnesses.usable(Role.SELECTION)
    candidates = [] if request.judges == "none" else _candidates(library, inputs, witnesses, named)
    used = tuple(each.network for each in candidates if each.report.used)
    if request.judges == "none":
        reason = _NO_JUDGES
    elif candidates:
        reason = _DISAGREE
    aim = request.aim
    warnings = _judge_warnings(request, inputs.gnn, named)
    if aim != "minimal" and not selection and not (patterns and request.constraints.only_seen):
        aim = "minimal"
        warnings.append(_no_believable(request, witnesses, reason))
    return AnswerPanel(
        panel=Panel(
            selection=selection,
            judges=used,
            patterns=patterns,
            only_seen=request.constraints.only_seen,
        ),
        aim=aim,
        judges=tuple(each.report for each in candidates),
        unjudged_reason=None if used else reason,
        warnings=tuple(warnings),
    )


def _witnesses(
    library: Library, request: CounterfactualRequest, inputs: JobInputs
) -> tuple[WitnessSet | None, str]:
    """The trained witnesses, or the reason why there are none."""
    row = inputs.witness_set
    if row is None:
        return None, request.no_witnesses or "no witnesses were requested"
    if inputs.witness_failure is not None:
        return None, f"the witnesses are not trained: {inputs.witness_failure}"
    return library.witnesses(inputs.gnn, row), ""


def _candidates(
    library: Library,
    inputs: JobInputs,
    witnesses: WitnessSet | None,
    named: Sequence[tables.Gnn],
) -> list[_Candidate]:
    judging = [
        _Candidate(
            judge.gnn,
            Judge(
                architecture=judge.plan.architecture.value,
                gnn=None,
                labels=judge.labels,
                agreement=judge.agreement,
                used=judge.is_usable,
            ),
        )
        for judge in (witnesses.witnesses if witnesses else ())
        if judge.plan.role is Role.JUDGE
    ]
    for row in named:
        agreement = _agreement(library, inputs, row)
        report = Judge(
            architecture=None,
            gnn=row.id,
            labels=None,
            agreement=agreement,
            used=(agreement is None or agreement >= MIN_AGREEMENT)
            and not _reads_farther(row, inputs.gnn),
        )
        judging.append(_Candidate(library.gnn(row), report))
    return judging


def _agreement(library: Library, inputs: JobInputs, judge: tables.Gnn) -> float | None:
    """How often the judge gives a reference graph the GNN's class.

    None for a black box: asking it about the whole reference set would use up its query budget.
    """
    if is_black_box(inputs.gnn):
        return None
    return library.agreement(inputs.gnn, judge, inputs.dataset)


def _reads_farther(judge: tables.Gnn, gnn: tables.Gnn) -> bool:
    """Whether a node's neighbourhood is too small for a judge; whole graphs never are."""
    if not gnns.classifies_nodes(gnn):
        return False
    return spec_of(judge).receptive_field > spec_of(gnn).receptive_field


def type_warnings(panel: Panel, graphs: Sequence[Graph]) -> list[str]:
    """Warns if patterns were compared by a part of the node features only."""
    if panel.patterns is None:
        return []
    types = panel.patterns.types
    if not any(types.ignores_features(graph) for graph in graphs):
        return []
    what = "no features" if types.count == 1 else "one group of features"
    return [
        f"patterns of the reference set were compared by {what}: the other features are not node "
        "types"
    ]


def _judge_warnings(
    request: CounterfactualRequest, gnn: tables.Gnn, named: Sequence[tables.Gnn]
) -> list[str]:
    found = {row.id for row in named}
    asked = [] if request.judges == "none" else request.judges
    deleted = [f"the judge {id_} was deleted" for id_ in asked if id_ not in found]
    return deleted + [
        f"the judge {row.id} reads more hops than the GNN, so it cannot judge neighbourhoods"
        for row in named
        if _reads_farther(row, gnn)
    ]


def _no_believable(
    request: CounterfactualRequest, witnesses: WitnessSet | None, reason: str
) -> str:
    """Why minimal answers stand in for believable ones."""
    if witnesses is not None:
        why = "no witness agrees often enough with the GNN"
    else:
        why = f"there are no witnesses ({request.no_witnesses or reason})"
    rule = (
        f"the reference set has fewer than {MIN_GRAPHS} graphs or nodes"
        if request.constraints.only_seen
        else "`only_seen` is off"
    )
    return f"the answers are minimal: {why} and {rule}"
