"""Ablation of the search: our method against variants that lack one part or change a setting.

All variants explain the same validation instances, so that test instances stay unseen when a part
is judged. They take turns at every instance, so that other load on the machine slows all of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from bench.counterfactuals.c2st import Discriminator
from bench.counterfactuals.figures import MethodResult, counterfactual_row
from bench.counterfactuals.instances import InstancePart, held_out_graphs, select_instances
from bench.counterfactuals.intervals import mmd_gain
from bench.counterfactuals.judges import load_judges
from bench.counterfactuals.methods import (
    ALTERNATIVES,
    DenoiserKind,
    Method,
    diffusion_method,
)
from bench.counterfactuals.realism import measure_realism
from bench.counterfactuals.runs import CounterfactualRun, valid_on_whole_graph
from bench.counterfactuals.transfer import judge_votes
from bench.data.tasks import Task
from bench.gnns.target_gnns import TargetGnn
from bench.progress import OnProgress
from bench.report.provenance import provenance
from d4explain.gnn.graphs import Graph
from models.counterfactual.config import CounterfactualConfig
from models.counterfactual.search.search_config import SearchConfig
from models.evaluation.bootstrap import Interval, percentile_interval, resampled_shares
from models.evaluation.transfer import transfer_figures
from models.metrics.scores import Instance, cf_acc_auc, cf_acc_curve

DATASETS = ("ba3motif", "mutagenicity", "nci1", "tree_cycle")
# The method since decision 15, which the variants are compared with. Saved rows of variants that
# are not listed here belong to parts that decision 15 removed; they were compared with `full`.
REDUCED = "reduced"
VARIANTS = {
    REDUCED: SearchConfig(),
    "no_stale_limit": SearchConfig(stale_limit=None),
    "pool_16": SearchConfig(calibrated=False, pool=16),
    "pool_32": SearchConfig(calibrated=False, pool=32),
    "pool_64": SearchConfig(calibrated=False, pool=64),
    "all_pairs": SearchConfig(pool=None),
    "batch_16": SearchConfig(batch_size=16),
    "no_min_flips": SearchConfig(min_flips=1),
    "no_wide_depth": SearchConfig(wide_depth=1000),
    "no_all_sets": SearchConfig(all_sets=1),
}
KEYS = ("variant", "seed", "n")  # of a saved row
_SAVED_FIGURES = (
    *("auc_strict", "flip_rate", "mean_edits", "mmd_heldout", "mmd_floor", "alternatives"),
    *("gnn_evaluations", "gnn_gradients", "cpu_seconds", "train_seconds"),
)


def measure_ablation(
    task: Task,
    target: TargetGnn,
    variants: Mapping[str, SearchConfig],
    *,
    budget: float,
    count: int,
    seed: int,
    with_believability: bool,
    on_progress: OnProgress,
) -> list[dict[str, Any]]:
    """One row per variant: its figures, and its differences from `reduced` if that is measured.

    NA and C2ST take minutes; the other figures take seconds per variant.
    """
    instances = select_instances(task, count, seed, InstancePart.VALIDATION)
    held_out = held_out_graphs(task, instances, InstancePart.VALIDATION)
    whole = None if task.whole is None else task.whole.data.graph
    run = CounterfactualRun(
        target,
        task.train.graphs,
        instances,
        budget=budget,
        seed=seed,
        dataset=task.name,
        on_progress=on_progress,
        whole=whole,
    )
    denoiser, train_seconds = run.denoiser(DenoiserKind.OURS)
    methods: dict[str, Method] = {
        name: diffusion_method(
            target.gnn, denoiser, CounterfactualConfig(alternatives=ALTERNATIVES, search=search)
        )
        for name, search in variants.items()
    }
    answers: dict[str, list[MethodResult]] = {name: [] for name in variants}
    for index, instance in enumerate(instances):
        for name, method in methods.items():
            started = time.process_time()
            answer = method(instance, seed + index)
            seconds = time.process_time() - started
            valid = valid_on_whole_graph(target.gnn, whole, instance, answer.found)
            answers[name].append(
                MethodResult(
                    instance,
                    tuple(valid),
                    answer.gnn_evaluations,
                    answer.gnn_gradients,
                    seconds,
                    len(answer.found) - len(valid),
                )
            )
        on_progress(f"ablation on {task.name}", index + 1, len(instances))
    believability: dict[str, dict[str, float | None]] = {name: {} for name in variants}
    if with_believability:
        believability = _believability(
            task, target, answers, held_out, seed=seed, on_progress=on_progress
        )
    rows = []
    for name in variants:
        figures, _ = counterfactual_row(
            task.name,
            name,
            target.gnn,
            answers=answers[name],
            held_out=held_out,
            fewest=[None] * len(instances),
            covered=[False] * len(instances),
            train_seconds=train_seconds,
        )
        row = {key: value for key, value in asdict(figures).items() if key in _SAVED_FIGURES}
        compared = answers.get(REDUCED)
        rows.append(
            {
                "dataset": task.name,
                "variant": name,
                "compared_with": REDUCED,
                "instances": InstancePart.VALIDATION.value,
                "n": len(instances),
                **row,
                **believability[name],
                **(
                    {} if compared is None else differences(answers[name], compared, held_out, seed)
                ),
                "budget": budget,
                **provenance(seed),
            }
        )
    return rows


def _believability(
    task: Task,
    target: TargetGnn,
    answers: Mapping[str, list[MethodResult]],
    held_out: Sequence[Graph],
    *,
    seed: int,
    on_progress: OnProgress,
) -> dict[str, dict[str, float | None]]:
    """NA and, for sets of graphs, C2ST of every variant."""
    judges = [judge.gnn for judge in load_judges(task, seed, on_progress)]
    c2st: dict[str, float | None] = dict.fromkeys(answers)
    if task.whole is None:
        discriminator = Discriminator(seed=seed, on_progress=on_progress)
        realism = measure_realism(answers, held_out, discriminator, seed=seed)
        c2st = {name: figures.c2st for name, figures in realism.by_method.items()}
    return {
        name: {
            "na": transfer_figures(judge_votes(target.gnn, judges, own), seed=seed).na,
            "c2st": c2st[name],
        }
        for name, own in answers.items()
    }


def differences(
    ours: Sequence[MethodResult],
    others: Sequence[MethodResult],
    held_out: Sequence[Graph],
    seed: int,
) -> dict[str, Any]:
    """Paired differences from another variant, with 95 % bootstrap intervals over instances.

    `mmd_change` is the change of the held-out MMD on the instances that both flip. An interval
    above 0 means that the answers look less like the data.
    """
    gaps = torch.tensor(
        [_auc(our) - _auc(other) for our, other in zip(ours, others, strict=True)],
        dtype=torch.float64,
    )
    auc = percentile_interval(resampled_shares(len(gaps), seed) @ gaps)
    gain = mmd_gain(ours, others, held_out, seed=seed) or Interval(float("nan"), float("nan"))
    changed = [our.found[:1] != other.found[:1] for our, other in zip(ours, others, strict=True)]
    return {
        "auc_change": float(gaps.mean()),
        "auc_change_low": auc.low,
        "auc_change_high": auc.high,
        "mmd_change_low": -gain.high,
        "mmd_change_high": -gain.low,
        "share_changed": sum(changed) / len(changed),
    }


def _auc(answer: MethodResult) -> float:
    """The strict AUC of one instance; the AUC of a method is the mean over its instances."""
    return cf_acc_auc(cf_acc_curve([Instance(answer.instance.graph.edge_count, answer.edits)]))
