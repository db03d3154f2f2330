"""Counterfactual explanation: the denoiser proposes, the search completes, the sparse GNN decides.

`guided` is ours: denoiser samples and a short search, both pruned. `paper` is D4Explainer as
printed: noise, denoise, draw, verify.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.answer_search import STOPPED, Sampling
from models.counterfactual.config import CounterfactualConfig
from models.counterfactual.large.candidate_space import CandidateSpace
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal, StoppedError
from models.counterfactual.result import CounterfactualOutcome, FoundCounterfactual, FoundEdit
from models.diffusion.denoiser import Denoiser
from models.errors import TooLargeError, UnknownClassError
from models.graphs.edits import EditRules, EditSpace

__all__ = [
    "CounterfactualConfig",
    "CounterfactualOutcome",
    "EditRules",
    "FoundCounterfactual",
    "FoundEdit",
    "explain",
]


def explain(
    gnn: Gnn,
    denoiser: Denoiser,
    graph: Graph,
    rules: EditRules,
    config: CounterfactualConfig,
    *,
    seed: int,
    device: torch.device,
    should_stop: Callable[[], bool] = lambda: False,
) -> CounterfactualOutcome:
    """Edited graphs that the GNN gives another class, as few edits away as can be found.

    Depends on the arguments and the seed alone, unless it is stopped.
    """
    if config.target_class is not None and not 0 <= config.target_class < gnn.spec.classes:
        raise UnknownClassError(config.target_class, gnn.spec.classes)
    started = time.perf_counter()
    gnn.eval()
    denoiser.eval()
    space = _space(graph.cpu(), rules, config, seed)
    before = predict(gnn, [space.graph], device)[0]  # [class]
    goal = FlipGoal(int(before.argmax()), config.target_class)
    judge = CounterfactualOracle(gnn, space, goal, device, should_stop)
    reason = _why_impossible(space, goal, rules)
    if reason is None and should_stop():
        reason = STOPPED
    if reason is not None:
        seconds = time.perf_counter() - started
        return CounterfactualOutcome(before, (), None, reason, 1, 0, 0, 0, seconds)
    try:
        run = Sampling(denoiser, judge, config, torch.Generator().manual_seed(seed), device)
    except StoppedError:  # while a large graph was read
        judged, seconds = judge.evaluations + 1, time.perf_counter() - started
        return CounterfactualOutcome(
            before, (), None, STOPPED, judged, judge.gradient_count, 0, 0, seconds
        )
    run.sample()
    reason = None if run.chosen else run.why_nothing()
    return CounterfactualOutcome(
        probabilities=before,
        found=tuple(run.described(run.chosen)),
        closest_miss=next(iter(run.described(run.nearest)), None),
        reason=reason,
        gnn_evaluations=judge.evaluations + 1,  # and the input itself
        gnn_gradients=judge.gradient_count,
        samples=run.samples,
        depth=run.depth,
        seconds=time.perf_counter() - started,
        candidates=space.count if isinstance(space, CandidateSpace) else None,
    )


def _space(graph: Graph, rules: EditRules, config: CounterfactualConfig, seed: int) -> EditSpace:
    if not config.candidates.restricts(graph):
        return EditSpace.of(graph, rules)
    if config.sampler == "paper":
        raise TooLargeError(graph.node_count, config.candidates.above_nodes)
    return CandidateSpace.restricted(graph, rules, config.candidates, seed)


def _why_impossible(space: EditSpace, goal: FlipGoal, rules: EditRules) -> str | None:
    if goal.target == goal.before:
        return f"the GNN already gives this graph the target class, {goal.target}"
    if space.count == 0:
        return "the rules leave no node pair that may be edited"
    if space.budget == 0:
        return (
            f"the rules allow no edit: max_edits is {rules.max_edits} and max_ratio "
            f"{rules.max_ratio:g} of {space.graph.edge_count} edges is less than one edit"
        )
    return None
