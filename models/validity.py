"""How good a denoiser's foresight is on held-out graphs: what its training is stopped by."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from models.denoiser import Denoiser
from models.edits import EditRules, EditSpace
from models.effects import Toggles, logit_changes, look
from models.flips import FlipGoal, FlipJudge
from models.gnn.network import Gnn
from models.graphs import DenseGraphs, Graph


def foretold_validity(
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
        space = EditSpace.of(graph, EditRules())
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
            margins = goal.margin(gnn.dense(space.dense(prefixes).to(device)))
        flipped.append(bool((margins > 0).any()))
    return sum(flipped) / len(flipped) if flipped else None


def foretold_share(
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


def pool_needed(denoiser: Denoiser, gnn: Gnn, graphs: Sequence[Graph], device: torch.device) -> int:
    """How many of the best foretold pairs hold what matters, on every one of the graphs.

    That is a pair whose toggle flips the GNN, if any does, or the one that moves it most. 0 if no
    graph has a pair to toggle.
    """
    needed = 0
    for graph in graphs:
        space = EditSpace.of(graph, EditRules())
        if not space.count:
            continue
        clean = space.dense([()]).to(device)
        view = look(gnn, clean)
        goal = FlipGoal(int(view.logits[0].argmax()), None)
        effects = denoiser.read(clean, view).effects
        if effects is None:
            return 0
        foretold = goal.margin(view.logits + space.of_pairs(effects[:, 0]).T).cpu()  # [pair]
        judge = FlipJudge(gnn, space, goal, device)
        margins = torch.tensor(judge.margins([(pair,) for pair in range(space.count)]))
        wanted = margins > 0 if bool((margins > 0).any()) else margins == margins.max()
        ranked = wanted[foretold.argsort(descending=True, stable=True)]
        needed = max(needed, 1 + int(ranked.int().argmax()))
    return needed
