"""Counterfactuals by several methods on the same GNN and the same held-out graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.baselines import BaselineOutcome, greedy, random_edits
from models.counterfactual import CounterfactualConfig, explain
from models.denoiser import Denoiser
from models.edits import EditRules
from models.gnn.network import Gnn, predict
from models.graphs import Graph
from models.mmd import mmd, statistics
from models.recipes import Objective, recipe_for
from models.scores import (
    CurveRule,
    Instance,
    ceiling,
    cf_acc_auc,
    cf_acc_curve,
    fidelity,
)
from models.training import Trainer

CPU = torch.device("cpu")
RULES = EditRules(max_ratio=0.3)
DELETE_RULES = EditRules(max_ratio=0.3, add=False)
ALTERNATIVES = 5
_TIMED_STEPS = 5


@dataclass(frozen=True)
class Answer:
    """What one method says about one graph; `after` is verified by the sparse GNN."""

    before: Graph
    after: Graph | None
    edits: int
    alternatives: int
    gnn_evaluations: int


Method = Callable[[Graph, int], Answer]  # graph, seed


@dataclass(frozen=True)
class Row:
    dataset: str
    method: str
    n: int
    auc_strict: float
    ceiling: float
    auc_one_edit: float
    fidelity_auc: float
    mean_edits: float | None
    flip_rate: float
    flip_rate_005: float
    flip_rate_01: float
    mmd_sum: float | None
    mmd_heldout: float | None
    mmd_floor: float
    alternatives: float
    alternatives3: float
    gnn_evaluations: float
    cpu_seconds: float
    train_seconds: float


def trained(
    graphs: Sequence[Graph], gnn: Gnn, recipe_name: str, seconds: float, seed: int
) -> tuple[Denoiser, float]:
    """A denoiser whose steps are chosen so that the training takes about `seconds`."""
    trial = Trainer(
        graphs, gnn, recipe_for(Objective.COUNTERFACTUAL, recipe_name), seed=seed, device=CPU
    )
    *_, last = trial.run(until=_TIMED_STEPS)
    steps = max(1, round(seconds * _TIMED_STEPS / last.seconds))
    recipe = recipe_for(Objective.COUNTERFACTUAL, recipe_name, steps=steps)
    trainer = Trainer(graphs, gnn, recipe, seed=seed, device=CPU)
    *_, last = trainer.run()
    return trainer.denoiser(), last.seconds


def diffusion_method(gnn: Gnn, denoiser: Denoiser, config: CounterfactualConfig) -> Method:
    def method(graph: Graph, seed: int) -> Answer:
        outcome = explain(gnn, denoiser, graph, RULES, config, seed=seed, device=CPU)
        best = outcome.found[0] if outcome.found else None
        return Answer(
            before=graph,
            after=best.graph if best else None,
            edits=len(best.edits) if best else 0,
            alternatives=len(outcome.found),
            gnn_evaluations=outcome.gnn_evaluations,
        )

    return method


def baseline_method(run: Callable[[Graph, int], BaselineOutcome]) -> Method:
    def method(graph: Graph, seed: int) -> Answer:
        outcome = run(graph, seed)
        return Answer(
            before=graph,
            after=outcome.graph,
            edits=outcome.edits,
            alternatives=int(outcome.graph is not None),
            gnn_evaluations=outcome.gnn_evaluations,
        )

    return method


def baselines(gnn: Gnn) -> dict[str, Method]:
    return {
        "greedy": baseline_method(lambda graph, _: greedy(gnn, graph, RULES, device=CPU)),
        "greedy_delete": baseline_method(
            lambda graph, _: greedy(gnn, graph, DELETE_RULES, device=CPU)
        ),
        "random": baseline_method(
            lambda graph, seed: random_edits(
                gnn, graph, RULES, generator=torch.Generator().manual_seed(seed), device=CPU
            )
        ),
    }


def answers(method: Method, graphs: Sequence[Graph], seed: int) -> Iterator[tuple[Answer, float]]:
    """Each graph's answer with the CPU seconds of this process that it took."""
    for position, graph in enumerate(graphs):
        started = time.process_time()
        answer = method(graph, seed + position)
        yield answer, time.process_time() - started


def row(
    dataset: str,
    name: str,
    gnn: Gnn,
    *,
    found: Sequence[tuple[Answer, float]],
    held_out: Sequence[Graph],
    train_seconds: float,
) -> Row:
    given = [answer for answer, _ in found]
    originals = [answer.before for answer in given]
    edited = [answer.after for answer in given if answer.after is not None]
    instances = [
        Instance(answer.before.edge_count, answer.edits if answer.after is not None else None)
        for answer in given
    ]
    reference, untouched = statistics(held_out), statistics(originals)
    changed = statistics(edited) if edited else None
    flips = [answer for answer in given if answer.after is not None]
    return Row(
        dataset=dataset,
        method=name,
        n=len(given),
        auc_strict=cf_acc_auc(cf_acc_curve(instances)),
        ceiling=ceiling([graph.edge_count for graph in originals]),
        auc_one_edit=cf_acc_auc(cf_acc_curve(instances, CurveRule.ONE_EDIT)),
        fidelity_auc=_fidelity_auc(gnn, given),
        mean_edits=_mean([answer.edits for answer in flips]) if flips else None,
        flip_rate=_share_within(given, 0.3),
        flip_rate_005=_share_within(given, 0.05),
        flip_rate_01=_share_within(given, 0.1),
        mmd_sum=mmd(changed, untouched).sum if changed else None,
        mmd_heldout=mmd(changed, reference).sum if changed else None,
        mmd_floor=mmd(untouched, reference).sum,
        alternatives=_mean([answer.alternatives for answer in given]),
        alternatives3=_mean([answer.alternatives >= 3 for answer in flips]) if flips else 0.0,
        gnn_evaluations=_mean([answer.gnn_evaluations for answer in given]),
        cpu_seconds=_mean([seconds for _, seconds in found]),
        train_seconds=train_seconds,
    )


def _share_within(given: Sequence[Answer], ratio: float) -> float:
    return _mean(
        [
            answer.after is not None and answer.edits <= ratio * answer.before.edge_count + 1e-9
            for answer in given
        ]
    )


def _fidelity_auc(gnn: Gnn, given: Sequence[Answer]) -> float:
    """Area under mean fidelity at r = 0 … 0.3: what was not found within r counts as 0."""
    before = predict(gnn, [answer.before for answer in given], CPU)
    gained: list[tuple[float, int, int]] = []
    for position, answer in enumerate(given):
        if answer.after is not None:
            (after,) = predict(gnn, [answer.after], CPU)
            gained.append(
                (fidelity(before[position], after), answer.edits, answer.before.edge_count)
            )
    points = [
        sum(gain for gain, edits, edges in gained if edits * 30 <= step * edges) / len(given)
        for step in range(10)
    ]
    return cf_acc_auc(torch.tensor(points, dtype=torch.float64))


def _mean(values: Sequence[float | int | bool] | Tensor) -> float:
    return float(sum(values) / len(values))
