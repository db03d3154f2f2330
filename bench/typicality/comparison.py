"""Measure typicality on one data set: uniformity over random splits, and detection of edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean, median
from typing import Any

import torch

from bench.counterfactuals.instances import CPU
from bench.counterfactuals.methods import DenoiserKind
from bench.counterfactuals.runs import CounterfactualRun
from bench.data.noise import add_noise
from bench.data.splits import DataError
from bench.data.tasks import Task
from bench.gnns.target_gnns import TargetGnn
from bench.progress import OnProgress
from bench.report.provenance import provenance
from bench.typicality.splits import UNIFORM_P, Scored, SplitFigures, split_figures
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.recipes import Objective, recipe_for
from models.diffusion.typicality import (
    MIN_CALIBRATION_GRAPHS,
    Calibration,
    typicality_scores,
)

DATASETS = ("mutagenicity", "nci1")
EDIT_SHARES = (0.01, 0.02, 0.1)  # of the edges; at least one edit
_MIN_THIRD = 20  # graphs to rank
_FURTHER_SPLITS = 200


@dataclass(frozen=True)
class TypicalityRow:
    """The figures of a saved row; provenance is added separately. Means are over the splits."""

    dataset: str
    splits: int
    uniform_splits: int  # with p ≥ .05 of the Kolmogorov-Smirnov test
    uniform_share: float  # the same as a share of many further splits: a right test has .95
    median_p: float
    smallest_p: float
    calibration: int  # graphs of each split, as many as the denoiser's own
    ranked: float  # graphs of the third part
    unranked: float  # graphs of a size that the calibration lacks
    low: float  # share of the third part that is flagged
    auc_1: float  # detection of 1 % random edits among test graphs
    auc_2: float
    auc_10: float
    detected_1: float  # share that is flagged
    detected_2: float
    detected_10: float


def measure_typicality(
    task: Task,
    target: TargetGnn,
    *,
    budget: float,
    splits: int,
    seed: int,
    on_progress: OnProgress,
) -> dict[str, Any]:
    """A `TypicalityRow` with its provenance."""
    run = CounterfactualRun(
        target, task.train.graphs, [], budget=budget, seed=seed, on_progress=on_progress
    )
    denoiser, _ = run.denoiser(DenoiserKind.OURS)
    largest = recipe_for(Objective.COUNTERFACTUAL).max_nodes
    scored = score_unseen(denoiser, task, largest, torch.Generator().manual_seed(seed))
    count = len(Calibration.stored_in(denoiser).sizes)
    if count < MIN_CALIBRATION_GRAPHS or len(scored.sizes) < count + _MIN_THIRD:
        raise DataError(
            f"{task.name}: the denoiser has {count} calibration graphs, and {len(scored.sizes)} "
            f"other graphs are unseen; typicality needs {MIN_CALIBRATION_GRAPHS} of the former "
            f"and {_MIN_THIRD} more of the latter."
        )
    generator = torch.Generator().manual_seed(seed)
    figures = []
    for index in range(splits):
        figures.append(split_figures(scored, count, generator))
        on_progress("random splits", index + 1, splits)
    without_edits = replace(scored, edited={})
    further = []
    for index in range(_FURTHER_SPLITS):
        further.append(split_figures(without_edits, count, generator))
        on_progress("further splits", index + 1, _FURTHER_SPLITS)
    row = typicality_row(task.name, count, figures, further)
    return {**asdict(row), "budget": budget, **provenance(seed)}


def score_unseen(
    denoiser: EdgeDenoiser, task: Task, largest: int, generator: torch.Generator
) -> Scored:
    """Scores test and validation graphs up to the size that a denoiser learns from as a whole."""
    parts = [(graph, True) for graph in task.test.graphs]
    parts += [(graph, False) for graph in task.validation.graphs]
    parts = [(graph, test) for graph, test in parts if 1 < graph.node_count <= largest]
    graphs = [graph for graph, _ in parts]
    edited = {
        share: [add_noise(graph, share, generator) for graph in graphs] for share in EDIT_SHARES
    }
    return Scored(
        scores=typicality_scores(denoiser, graphs, CPU),
        edited={
            share: typicality_scores(denoiser, versions, CPU) for share, versions in edited.items()
        },
        sizes=torch.tensor([graph.node_count for graph in graphs]),
        from_test=torch.tensor([test for _, test in parts]),
    )


def typicality_row(
    dataset: str,
    calibration: int,
    splits: Sequence[SplitFigures],
    further: Sequence[SplitFigures],
) -> TypicalityRow:
    p_values = [split.p for split in splits]
    auc_1, auc_2, auc_10 = (fmean(split.auc[share] for split in splits) for share in EDIT_SHARES)
    detected_1, detected_2, detected_10 = (
        fmean(split.detected[share] for split in splits) for share in EDIT_SHARES
    )
    return TypicalityRow(
        dataset=dataset,
        splits=len(splits),
        uniform_splits=sum(p >= UNIFORM_P for p in p_values),
        uniform_share=fmean(split.p >= UNIFORM_P for split in further),
        median_p=median(p_values),
        smallest_p=min(p_values),
        calibration=calibration,
        ranked=fmean(split.ranked for split in splits),
        unranked=fmean(split.unranked for split in splits),
        low=fmean(split.low for split in splits),
        auc_1=auc_1,
        auc_2=auc_2,
        auc_10=auc_10,
        detected_1=detected_1,
        detected_2=detected_2,
        detected_10=detected_10,
    )
