"""Resolves the aim and the judges of a request, and decides whether it needs witnesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sqlalchemy.orm import Session

from d4explain.contracts.requests import Aim
from service.http.faults import reject, shown
from service.schemas import ClassIn, CounterfactualIn, GlobalIn
from service.submission.explainers import searches
from service.submission.resource_ids import report_at
from store.catalogue import gnns
from store.catalogue.black_boxes import is_black_box
from store.database.tables import Dataset, Gnn

MIN_GRAPHS = 100  # as in `models.witnesses`, which needs torch


def resolved_aim(body: CounterfactualIn) -> Aim:
    """The requested aim, or the default of the explainer."""
    if searches(body.explainer):
        return body.aim or "believable"
    if body.aim not in (None, "minimal"):
        reject(
            "/aim",
            f"is {shown(body.aim)}; the explainer '{body.explainer}' accepts 'minimal' only. "
            "Use 'd4' or "
            "'search' for believable answers",
        )
    return "minimal"


def resolved_judges(
    session: Session, body: CounterfactualIn, gnn: Gnn
) -> list[str] | Literal["none"]:
    """The ids of the named judges, which must fit the GNN."""
    if body.judges == "none":
        return "none"
    if body.judges and not searches(body.explainer):
        reject("/judges", f"the explainer '{body.explainer}' has no judges")
    return judge_ids(session, body.judges, gnn)


def judge_ids(
    session: Session, judges: Sequence[str] | Literal["none"] | None, gnn: Gnn
) -> list[str]:
    """The ids of the named judges, which must fit the GNN."""
    ids: list[str] = []
    for position, reference in enumerate([] if judges == "none" else judges or []):
        at = f"/judges/{position}"
        with report_at(at):
            judge = gnns.require_ready(session, reference, gnn.tenant_id, lock=False)
        _check_judge(judge, gnn, at)
        if judge.id in ids:
            reject(at, f"the judge {judge.id} is already listed")
        ids.append(judge.id)
    return ids


def why_no_witnesses(
    body: CounterfactualIn | ClassIn | GlobalIn, gnn: Gnn, dataset: Dataset
) -> str | None:
    """Why a request has no witnesses; None if they are to be trained."""
    if not isinstance(body, CounterfactualIn):
        return "only counterfactual explanations have witnesses"
    if not searches(body.explainer):
        return f"the explainer '{body.explainer}' has no witnesses"
    if body.judges == "none" and body.aim == "minimal":
        return "the request asks for no judges and minimal answers"
    if is_black_box(gnn):
        return "the GNN is a black box"
    unit, count = "graphs", dataset.graph_count
    if gnns.classifies_nodes(gnn):
        unit, count = "nodes", round(dataset.graph_count * dataset.mean_nodes)
    if count < MIN_GRAPHS:
        return f"witnesses need {MIN_GRAPHS} reference {unit}; {dataset.id} has {count}"
    return None


def _check_judge(judge: Gnn, gnn: Gnn, at: str) -> None:
    if is_black_box(judge):
        reject(at, f"{judge.id} is behind a URL; judges need weights")
    if judge.sha256 == gnn.sha256:
        reject(at, f"{judge.id} is the GNN that is explained; it cannot judge itself")
    check_same_task(judge, gnn, at)
    if gnns.edge_features(judge) not in (0, gnns.edge_features(gnn)):
        reject(
            at,
            f"{judge.id} takes {gnns.edge_features(judge)} attributes per edge; "
            f"the GNN {gnn.id} takes {gnns.edge_features(gnn) or 'none'}",
        )


def check_same_task(other: Gnn, gnn: Gnn, at: str) -> None:
    """Raises a fault unless both GNNs classify the same things with the same features."""
    for name, what in (("features", "features per node"), ("classes", "classes")):
        if other.spec[name] != gnn.spec[name]:
            reject(
                at,
                f"{other.id} has {other.spec[name]:,} {what}; "
                f"the GNN {gnn.id} has {gnn.spec[name]:,}",
            )
    if gnns.classifies_nodes(other) != gnns.classifies_nodes(gnn):
        classified = "nodes" if gnns.classifies_nodes(gnn) else "graphs"
        reject(at, f"{other.id} does not classify {classified}, as the GNN {gnn.id} does")
