"""Quality of the effects that a denoiser predicts for held-out graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from d4explain.gnn.graphs import DenseGraphs, Graph
from d4explain.gnn.network import Gnn
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal
from models.diffusion.denoiser import Denoiser
from models.diffusion.gnn_sensitivity import Toggles, gnn_sensitivity, logit_changes
from models.graphs.edits import EditSpace
from models.graphs.neighbourhoods import usual_rules

NEARLY_BEST = 0.8  # share of the best toggle's effect that counts as nearly as good
COVERAGE = 0.98  # share of new graphs for which a pool must be as good as all pairs
_BATCH_SIZE = 64  # pairs evaluated between two checks for a flip


def predicted_validity(
    denoiser: Denoiser,
    gnn: Gnn,
    graphs: Sequence[Graph],
    *,
    ratio: float,
    device: torch.device,
) -> float | None:
    """Share of the graphs that the best predicted edits flip, as discrete graphs.

    It tries the best pair, the best two, … up to ratio·|E| pairs, at least one. None if no graph
    has a pair to toggle.
    """
    flipped: list[bool] = []
    for graph in graphs:
        space = _space(gnn, graph)
        if not space.count:
            continue
        clean = space.dense([()]).to(device)
        sensitivity = gnn_sensitivity(gnn, clean)
        goal = FlipGoal(int(sensitivity.logits[0].argmax()), None)
        effects = denoiser.read(clean, sensitivity).effects
        if effects is None:
            return None
        predicted = sensitivity.logits + space.of_pairs(effects[:, 0]).T  # [pair, class]
        max_edits = min(space.count, max(1, int(ratio * graph.edge_count)))
        best = goal.margin(predicted).argsort(descending=True, stable=True)[:max_edits].tolist()
        prefixes = [tuple(sorted(best[: length + 1])) for length in range(max_edits)]
        with torch.inference_mode():
            margins = goal.margin(gnn.answers(space.dense(prefixes).to(device)))
        flipped.append(bool((margins > 0).any()))
    return sum(flipped) / len(flipped) if flipped else None


def predicted_share(
    denoiser: Denoiser, gnn: Gnn, graphs: DenseGraphs, toggles: Toggles
) -> float | None:
    """Share of the toggles' effects on the logits that is predicted: 1 - Σ|missed| / Σ|change|."""
    effects = denoiser.read(graphs, gnn_sensitivity(gnn, graphs)).effects
    if effects is None:
        return None
    change = logit_changes(gnn, graphs, toggles)
    size = change.abs().sum()
    missed = (toggles.of(effects) - change).abs().sum()
    return float(1 - missed / size) if size > 0 else None


def pool_needed(
    denoiser: Denoiser, gnn: Gnn, graphs: Sequence[Graph], device: torch.device
) -> int | None:
    """The pool size that contains a decisive pair for a share COVERAGE of new graphs.

    A pair is decisive if its toggle flips the GNN. If no pair does, a pair that moves the margin
    nearly as far as the best one is decisive. The size is the conformal quantile of the ranks of
    the first decisive pairs. None if there are too few graphs; then no pair can be omitted.
    """
    if _quantile_place(len(graphs)) > len(graphs):
        return None
    ranks = sorted(
        rank for graph in graphs if (rank := _rank_needed(denoiser, gnn, graph, device)) is not None
    )
    place = _quantile_place(len(ranks))
    return ranks[place - 1] if place <= len(ranks) else None


def _quantile_place(count: int) -> int:
    """The rank, from 1, of the conformal quantile among `count` values."""
    return math.ceil(COVERAGE * (count + 1))


def _rank_needed(denoiser: Denoiser, gnn: Gnn, graph: Graph, device: torch.device) -> int | None:
    """The rank, from 1, of the first decisive pair; None if there is no pair to toggle."""
    space = _space(gnn, graph)
    if not space.count:
        return None
    clean = space.dense([()]).to(device)
    sensitivity = gnn_sensitivity(gnn, clean)
    goal = FlipGoal(int(sensitivity.logits[0].argmax()), None)
    effects = denoiser.read(clean, sensitivity).effects
    assert effects is not None
    predicted = goal.margin(sensitivity.logits + space.of_pairs(effects[:, 0]).T).cpu()  # [pair]
    oracle = CounterfactualOracle(gnn, space, goal, device)
    order = predicted.argsort(descending=True, stable=True).tolist()
    margins: list[float] = []
    for start in range(0, len(order), _BATCH_SIZE):
        margins += oracle.margins([(pair,) for pair in order[start : start + _BATCH_SIZE]])
        if max(margins) > 0:
            return 1 + next(rank for rank, margin in enumerate(margins) if margin > 0)
    best = max(margins)
    tolerance = (1 - NEARLY_BEST) * abs(best - float(goal.margin(sensitivity.logits)))
    return 1 + next(rank for rank, margin in enumerate(margins) if margin >= best - tolerance)


def _space(gnn: Gnn, graph: Graph) -> EditSpace:
    """The pairs that explanations of this graph may toggle."""
    spec = gnn.spec
    return EditSpace.of(graph, usual_rules(graph, spec.convolutions, spec.receptive_field))
