"""How good a denoiser's foresight is on held-out graphs: what its training is stopped by."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from d4explain.gnn.graphs import DenseGraphs, Graph
from d4explain.gnn.network import Gnn
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal
from models.diffusion.denoiser import Denoiser
from models.diffusion.gnn_sensitivity import Toggles, logit_changes, look
from models.graphs.edits import EditSpace
from models.graphs.neighbourhoods import usual_rules

NEARLY = 0.8  # of the farthest that one toggle moves the GNN
COVERED = 0.98  # of new graphs, that a pool of pairs has to serve as well as all pairs would
_PORTION = 64  # pairs judged before it is asked whether one of them flips


def predicted_validity(
    denoiser: Denoiser,
    gnn: Gnn,
    graphs: Sequence[Graph],
    *,
    ratio: float,
    device: torch.device,
) -> float | None:
    """Share of the graphs that the foretold edits flip, as discrete graphs, within the ratio.

    Tried are the best foretold pair, the best two, … up to ratio·|E| of them, at least one.
    `None` if no graph has a pair to toggle.
    """
    flipped: list[bool] = []
    for graph in graphs:
        space = _space(gnn, graph)
        if not space.count:
            continue
        clean = space.dense([()]).to(device)
        view = look(gnn, clean)
        goal = FlipGoal(int(view.logits[0].argmax()), None)
        effects = denoiser.read(clean, view).effects
        if effects is None:
            return None
        foretold = view.logits + space.of_pairs(effects[:, 0]).T  # [pair, class]
        most = min(space.count, max(1, int(ratio * graph.edge_count)))
        best = goal.margin(foretold).argsort(descending=True, stable=True)[:most].tolist()
        prefixes = [tuple(sorted(best[: length + 1])) for length in range(most)]
        with torch.inference_mode():
            margins = goal.margin(gnn.answers(space.dense(prefixes).to(device)))
        flipped.append(bool((margins > 0).any()))
    return sum(flipped) / len(flipped) if flipped else None


def predicted_share(
    denoiser: Denoiser, gnn: Gnn, graphs: DenseGraphs, toggles: Toggles
) -> float | None:
    """How much of what toggles do to the GNN's logits is foretold: 1 - Σ|missed| / Σ|change|."""
    effects = denoiser.read(graphs, look(gnn, graphs)).effects
    if effects is None:
        return None
    change = logit_changes(gnn, graphs, toggles)
    size = change.abs().sum()
    missed = (toggles.of(effects) - change).abs().sum()
    return float(1 - missed / size) if size > 0 else None


def pool_needed(
    denoiser: Denoiser, gnn: Gnn, graphs: Sequence[Graph], device: torch.device
) -> int | None:
    """How many of the best foretold pairs hold what matters, on a new graph like these.

    That is a pair whose toggle flips the GNN; if none does, one that moves it nearly as far as the
    best: what takes several edits has more than one way. So many that it is there for a share of
    COVERED of new graphs: the conformal quantile of what each of these graphs needed. `None` if
    they are too few to say: then no pair can be left out.
    """
    if _quantile_place(len(graphs)) > len(graphs):
        return None
    ranks = sorted(
        rank for graph in graphs if (rank := _rank_needed(denoiser, gnn, graph, device)) is not None
    )
    place = _quantile_place(len(ranks))
    return ranks[place - 1] if place <= len(ranks) else None


def _quantile_place(count: int) -> int:
    return math.ceil(COVERED * (count + 1))


def _rank_needed(denoiser: Denoiser, gnn: Gnn, graph: Graph, device: torch.device) -> int | None:
    """The place, from 1, of the first pair that matters; None if there is no pair to toggle."""
    space = _space(gnn, graph)
    if not space.count:
        return None
    clean = space.dense([()]).to(device)
    view = look(gnn, clean)
    goal = FlipGoal(int(view.logits[0].argmax()), None)
    effects = denoiser.read(clean, view).effects
    assert effects is not None
    foretold = goal.margin(view.logits + space.of_pairs(effects[:, 0]).T).cpu()  # [pair]
    judge = CounterfactualOracle(gnn, space, goal, device)
    order = foretold.argsort(descending=True, stable=True).tolist()
    margins: list[float] = []
    for start in range(0, len(order), _PORTION):
        margins += judge.margins([(pair,) for pair in order[start : start + _PORTION]])
        if max(margins) > 0:
            return 1 + next(rank for rank, margin in enumerate(margins) if margin > 0)
    farthest = max(margins)
    short = (1 - NEARLY) * abs(farthest - float(goal.margin(view.logits)))
    return 1 + next(rank for rank, margin in enumerate(margins) if margin >= farthest - short)


def _space(gnn: Gnn, graph: Graph) -> EditSpace:
    """What explanations of this graph may toggle."""
    spec = gnn.spec
    return EditSpace.of(graph, usual_rules(graph, spec.convolutions, spec.sight))
