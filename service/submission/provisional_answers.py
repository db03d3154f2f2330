"""Decides whether a request gets a provisional answer while networks are trained."""

from __future__ import annotations

from d4explain.contracts.global_counterfactuals.requests import GlobalRequest
from d4explain.contracts.requests import ClassRequest, CounterfactualRequest
from service.submission.explainers import searches
from store.catalogue.black_boxes import is_black_box
from store.database.tables import Gnn
from store.settings import Settings


def allows_provisional(
    request: CounterfactualRequest | ClassRequest | GlobalRequest, gnn: Gnn, settings: Settings
) -> bool:
    """Whether a quick search without training makes sense.

    It does not for a black box, whose queries are limited, nor for a large graph, whose search
    takes minutes, nor for global counterfactuals, which need no training. A node of a posted graph
    is searched in its neighbourhood, which is small.
    Class explanations refuse large reference graphs.
    """
    if isinstance(request, GlobalRequest) or is_black_box(gnn):
        return False
    if isinstance(request, ClassRequest):
        return request.explainer == "d4"
    if not searches(request.explainer):
        return False
    if not request.graphs:
        return False
    if request.nodes is not None:
        return True
    return all(len(graph.node_ids) <= settings.exact_nodes for graph in request.graphs)
