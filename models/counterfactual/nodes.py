"""Counterfactuals of one node: search in its neighbourhood, verification on the whole graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.explain import CounterfactualConfig, CounterfactualOutcome, explain
from models.counterfactual.oracle import FlipGoal
from models.diffusion.denoiser import Denoiser
from models.graphs.edits import EditRules, EditSpace
from models.graphs.neighbourhoods import NodeInstance, edited_whole

_REFUTED = "the edits flip the node in its neighbourhood but not in the whole graph"


def explain_node(
    gnn: Gnn,
    denoiser: Denoiser | None,
    part: NodeInstance,
    rules: EditRules,
    config: CounterfactualConfig,
    *,
    whole: Graph,
    seed: int,
    device: torch.device,
    should_stop: Callable[[], bool] = lambda: False,
) -> CounterfactualOutcome:
    """Explains a node as `explain` does, in the node's instance; the rules refer to its nodes.

    Probabilities are those in the whole graph. Answers that do not flip the node there are dropped.
    """
    outcome = explain(
        gnn,
        denoiser,
        part.graph,
        part.rules(rules),
        config,
        seed=seed,
        device=device,
        should_stop=should_stop,
    )
    return held_on_whole(
        gnn, part, outcome, whole=whole, target_class=config.target_class, device=device
    )


def held_on_whole(
    gnn: Gnn,
    part: NodeInstance,
    outcome: CounterfactualOutcome,
    *,
    whole: Graph,
    target_class: int | None,
    device: torch.device,
) -> CounterfactualOutcome:
    """The outcome verified by the sparse GNN on the whole graph; refuted answers are misses."""
    miss = outcome.closest_miss
    claimed = [*outcome.found, *([] if miss is None else [miss])]
    edited = [part.graph, *(answer.graph for answer in claimed)]
    verified = predict(gnn, [edited_whole(whole, part, graph) for graph in edited], device)
    before, after = verified[0], verified[1:]  # [class], [claimed, class]
    goal = FlipGoal(int(before.argmax()), target_class)
    checked = [
        replace(answer, probabilities=probabilities)
        for answer, probabilities in zip(claimed, after, strict=True)
    ]
    found = tuple(answer for answer in checked if _flips(goal, answer.probabilities))
    reason = _REFUTED if outcome.found else outcome.reason
    return replace(
        outcome,
        probabilities=before,
        found=found,
        closest_miss=None if found else next(iter(checked), None),
        reason=None if found else reason,
        gnn_evaluations=outcome.gnn_evaluations + len(edited),
    )


def frozen_pairs(part: NodeInstance) -> int:
    """Number of node pairs of the instance that its own rules freeze."""
    nodes = part.graph.node_count
    return nodes * (nodes - 1) // 2 - EditSpace.of(part.graph, part.rules(EditRules())).count


def _flips(goal: FlipGoal, probabilities: Tensor) -> bool:
    return bool(goal.margin(probabilities[None])[0] > 0)
