"""A long training of the paper's denoiser in pieces; each piece ends with a point of the curve."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bench.counterfactuals.figures import MethodResult
from bench.counterfactuals.instances import CPU, EditableInstance, select_instances
from bench.counterfactuals.methods import diffusion_method, paper_config
from bench.counterfactuals.runs import valid_on_whole_graph
from bench.data.tasks import Task
from bench.gnns.target_gnns import CACHE, TargetGnn
from bench.progress import OnProgress
from bench.report.provenance import provenance
from models.counterfactual.config import CounterfactualConfig
from models.counterfactual.edit_ranking import EffectSource
from models.counterfactual.paper.proposals import Decision, PaperSampling
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.paper.recipe import PaperRecipe
from models.metrics.scores import CurveRule, Instance, ceiling, cf_acc_auc, cf_acc_curve
from models.training.paper_trainer import PaperTrainer
from models.training.progress import TrainingProgress

_CHECKPOINT_SECONDS = 60.0


# How A_0' becomes explanations. The paper prints one sample; `sample` verifies a hundred and keeps
# the smallest flips. `scattered` puts the edits of these samples on random pairs: what it reaches
# is due to the number of verified graphs, not to the denoiser.
CONFIGS = {
    "one_sample": paper_config(PaperSampling(draws=1)),
    "sample": paper_config(PaperSampling()),
    "scattered": replace(paper_config(PaperSampling()), effect_source=EffectSource.NONE),
    "threshold": paper_config(PaperSampling(decision=Decision.THRESHOLD)),
    "ranked": paper_config(PaperSampling(decision=Decision.RANKED)),
}


@dataclass(frozen=True)
class TrainedPiece:
    denoiser: EdgeDenoiser
    steps: int
    epochs: float
    cpu_seconds: float  # of training, over all pieces
    progress: TrainingProgress | None  # None before the first step


@dataclass(frozen=True)
class LongRun:
    """One training on the CPU that any number of processes continue, one after the other.

    The checkpoint's name covers GNN, recipe, seed and reference set. It does not cover the code: a
    run of days survives a refactoring, and every point names the commit that measured it.
    """

    task: Task
    target: TargetGnn
    recipe: PaperRecipe
    seed: int
    cache: Path = CACHE

    @property
    def checkpoint(self) -> Path:
        key = json.dumps([repr(self.recipe), self.seed, self.task.digest])
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        return self.cache / "paper" / f"{self.target.folder.name}-{digest}.safetensors"

    def train(self, minutes: float, on_progress: OnProgress) -> TrainedPiece:
        """Continue for that many CPU minutes, or to the end of the recipe."""
        graphs = self.task.train.graphs
        trainer = PaperTrainer(graphs, self.target.gnn, self.recipe, seed=self.seed, device=CPU)
        before = self._load(trainer)
        started = time.process_time()
        first_step, saved = trainer.step, started
        piece = 60 * minutes
        for _ in trainer.run(should_stop=lambda: time.process_time() - started >= piece):
            now = time.process_time()
            if now - saved >= _CHECKPOINT_SECONDS:
                self._save(trainer, before + now - started)
                saved = now
            on_progress("CPU seconds of training", int(now - started), int(piece))
        cpu_seconds = before + time.process_time() - started
        if trainer.step > first_step:
            self._save(trainer, cpu_seconds)
        return TrainedPiece(
            trainer.denoiser(),
            trainer.step,
            trainer.step / self.recipe.steps_per_epoch(len(graphs)),
            cpu_seconds,
            trainer.progress() if trainer.step else None,
        )

    def _load(self, trainer: PaperTrainer) -> float:
        """Continue from the checkpoint, if there is one; the CPU seconds so far."""
        if not self.checkpoint.is_file():
            return 0.0
        trainer.load_state(load_file(self.checkpoint))
        with safe_open(self.checkpoint, framework="pt") as opened:
            return float(opened.metadata()["cpu_seconds"])

    def _save(self, trainer: PaperTrainer, cpu_seconds: float) -> None:
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        partial = self.checkpoint.with_suffix(".partial")
        save_file(trainer.state(), partial, metadata={"cpu_seconds": str(cpu_seconds)})
        partial.replace(self.checkpoint)


def measure_point(
    run: LongRun,
    piece: TrainedPiece,
    configs: Mapping[str, CounterfactualConfig],
    *,
    test: int,
    on_progress: OnProgress,
) -> list[dict[str, Any]]:
    """CF-ACC of each way to sample, as rows of the curve."""
    instances = select_instances(run.task, test, run.seed)
    rows: list[dict[str, Any]] = []
    for name, config in configs.items():
        started = time.process_time()
        results = explain_all(run, piece.denoiser, instances, config)
        on_progress("explaining", len(rows) + 1, len(configs))
        scored = [Instance(one.instance.graph.edge_count, one.edits) for one in results]
        edits = [one.edits for one in results if one.edits is not None]
        progress = piece.progress
        rows.append(
            {
                "dataset": run.task.name,
                "sampling": name,
                "steps": piece.steps,
                "epochs": piece.epochs,
                "cpu_seconds": piece.cpu_seconds,
                "auc_strict": cf_acc_auc(cf_acc_curve(scored)),
                "auc_one_edit": cf_acc_auc(cf_acc_curve(scored, CurveRule.ONE_EDIT)),
                "ceiling": ceiling([one.edges for one in scored]),
                "flip_rate": len(edits) / len(scored),
                "mean_edits": sum(edits) / len(edits) if edits else None,
                "n": len(scored),
                "explain_seconds": (time.process_time() - started) / len(scored),
                "loss_dist": None if progress is None else progress.loss_dist,
                "loss_cf": None if progress is None else progress.loss_cf,
                "training_flip_rate": None if progress is None else progress.flip_rate,
                "hidden": run.recipe.hidden,
                "blocks": run.recipe.blocks,
                "batch_graphs": run.recipe.batch_graphs,
                "alpha": run.recipe.alpha,
                "noise_levels": run.recipe.noise_levels,
                **provenance(run.seed),
            }
        )
    return rows


def explain_all(
    run: LongRun,
    denoiser: EdgeDenoiser,
    instances: Sequence[EditableInstance],
    config: CounterfactualConfig,
) -> list[MethodResult]:
    """Verified answers; an answer for a node must also flip it in the whole graph."""
    gnn = run.target.gnn
    whole = None if run.task.whole is None else run.task.whole.data.graph
    method = diffusion_method(gnn, denoiser, config)
    results = []
    for index, instance in enumerate(instances):
        started = time.process_time()
        answer = method(instance, run.seed + index)
        valid = valid_on_whole_graph(gnn, whole, instance, answer.found)
        results.append(
            MethodResult(
                instance,
                tuple(valid),
                answer.gnn_evaluations,
                answer.gnn_gradients,
                time.process_time() - started,
                len(answer.found) - len(valid),
            )
        )
    return results
