"""Counterfactuals of one node: search in its neighbourhood, verification on the whole graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.explain import CounterfactualConfig, CounterfactualOutcome, explain
from models.counterfactual.judging import with_reasons
from models.counterfactual.oracle import FlipGoal
from models.counterfactual.panel import Panel
from models.counterfactual.result import FoundCounterfactual
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.explainers.interface import Explainer
from models.graphs.edits import EditRules, EditSpace
from models.graphs.neighbourhoods import NodeInstance, edited_whole

_REFUTED = "the edits flip the node in its neighbourhood but not in the whole graph"


def explain_node(
    gnn: Gnn,
    denoiser: EdgeDenoiser | None,
    part: NodeInstance,
    rules: EditRules,
    config: CounterfactualConfig,
    *,
    whole: Graph,
    seed: int,
    device: torch.device,
    panel: Panel | None = None,
    explainer: Explainer | None = None,
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
        panel=panel,
        explainer=explainer,
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
    claimed = [*outcome.found, *outcome.minimal, *([] if miss is None else [miss])]
    edited = [part.graph, *(answer.graph for answer in claimed)]
    verified = predict(gnn, [edited_whole(whole, part, graph) for graph in edited], device)
    before, after = verified[0], verified[1:]  # [class], [claimed, class]
    goal = FlipGoal(int(before.argmax()), target_class)
    same_class = int(before.argmax()) == int(outcome.probabilities.argmax())
    checked = [
        _on_whole(answer, probabilities, same_class=same_class)
        for answer, probabilities in zip(claimed, after, strict=True)
    ]
    count, beside = len(outcome.found), len(outcome.minimal)
    found = with_reasons([one for one in checked[:count] if _flips(goal, one.probabilities)])
    minimal = with_reasons(
        [one for one in checked[count : count + beside] if _flips(goal, one.probabilities)]
    )
    refuted = bool(outcome.found) or (beside > 0 and not minimal)
    nearest = next((replace(one, order=None, transfer=None) for one in checked), None)
    return replace(
        outcome,
        probabilities=before,
        found=found,
        minimal=minimal,
        closest_miss=None if found or minimal else nearest,
        reason=None if found else _REFUTED if refuted else outcome.reason,
        gnn_evaluations=outcome.gnn_evaluations + len(edited),
    )


def frozen_pairs(part: NodeInstance) -> int:
    """Number of node pairs of the instance that its own rules freeze."""
    nodes = part.graph.node_count
    return nodes * (nodes - 1) // 2 - EditSpace.of(part.graph, part.rules(EditRules())).count


def _on_whole(
    answer: FoundCounterfactual, probabilities: Tensor, *, same_class: bool
) -> FoundCounterfactual:
    """The answer with its probabilities in the whole graph.

    Judges saw the neighbourhood, so they judged this flip only if it has the same classes there.
    """
    same_class &= int(probabilities.argmax()) == int(answer.probabilities.argmax())
    transfer = answer.transfer if same_class else None
    return replace(answer, probabilities=probabilities, transfer=transfer)


def _flips(goal: FlipGoal, probabilities: Tensor) -> bool:
    return bool(goal.margin(probabilities[None])[0] > 0)
