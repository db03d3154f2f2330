"""What each explainer needs and accepts."""

from __future__ import annotations

from d4explain.contracts.requests import (
    NO_GRADIENTS,
    PLAIN_EXPLAINERS,
    ClassExplainer,
    Explainer,
)
from service.http.faults import reject, shown
from service.schemas import ClassIn, CounterfactualIn
from store.catalogue.black_boxes import is_black_box
from store.catalogue.gnns import edge_features
from store.database.tables import Gnn

_ADDS = ("greedy", "random")  # of the plain explainers; the others remove edges only


def searches(explainer: Explainer) -> bool:
    """Whether our search finds the answers, with presets, aims and judges."""
    return explainer in ("d4", "search")


def needs_denoiser(explainer: Explainer | ClassExplainer) -> bool:
    return explainer in ("d4", "d4-paper")


def check_explainer(body: CounterfactualIn, gnn: Gnn) -> None:
    """Rejects what the explainer does not support."""
    name = body.explainer
    if not searches(name) and body.preset != "balanced":
        reject(
            "/preset",
            f"is {shown(body.preset)}; the explainer '{name}' does not search and accepts "
            "'balanced' only",
        )
    if name not in PLAIN_EXPLAINERS:
        return
    if is_black_box(gnn) and name not in NO_GRADIENTS:
        usable = ", ".join(f"'{one}'" for one in ("search", *NO_GRADIENTS))
        reject(
            "/explainer",
            f"is '{name}', which needs the gradients of the GNN; {gnn.id} is behind a URL. "
            f"Use one of {usable}",
        )
    if body.constraints.actions == "add" and name not in _ADDS:
        reject(
            "/constraints/actions",
            f"is 'add'; the explainer '{name}' only removes edges",
        )


def check_class_explainer(body: ClassIn, gnn: Gnn) -> None:
    """Rejects settings of the denoiser's chains for explainers without one."""
    name = body.explainer
    if needs_denoiser(name):
        return
    settings = {"regularisers": body.regularisers, "candidates": body.candidates}
    if name != "hill-climbing":
        settings["steps"] = body.steps
    for field, value in settings.items():
        if value:
            reject(
                f"/{field}",
                f"is for chains of a denoiser; the explainer '{name}' has none. Omit it, or set "
                "`explainer` to 'd4' or 'd4-paper'",
            )
    if name in ("xgnn", "hill-climbing") and edge_features(gnn):
        reject(
            "/explainer",
            f"is '{name}', which builds edges without attributes; {gnn.id} reads "
            f"{edge_features(gnn)} per edge. Use 'd4' or 'mined'",
        )
