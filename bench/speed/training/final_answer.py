"""Measure the CPU time until the networks of a final answer are trained, with and without stopping.

A question about a new GNN trains a denoiser and witnesses, side by side on two cores.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

import torch

from bench.data.tasks import Task, load_task
from bench.gnns.target_gnns import CACHE, TargetGnn, load_target_gnn
from bench.json_files import write_json
from bench.progress import OnProgress
from bench.report.provenance import code_digest
from bench.speed.section import Figures, Section, Table
from d4explain.gnn.network import Gnn, predict
from models.diffusion.recipes import Objective, recipe_for
from models.training.make_trainer import make_trainer
from models.witnesses.witness_set import Role, WitnessProgress, train_witnesses

_CPU = torch.device("cpu")
# Data sets and the most reference graphs of each.
_SETS = {"mutag": None, "ba3motif": None, "mutagenicity": 800}
_SHORT_SETS = ("mutag",)
_UNSEEN = 300  # graphs that measure the agreement
_CODE = ("models/**/*.py", "d4explain/gnn/**/*.py", "bench/speed/training/final_answer.py")


@dataclass(frozen=True)
class FinalAnswerFigures(Figures):
    mutag_ratio: float  # of CPU times, with stopping over without
    ba3motif_ratio: float | None
    mutagenicity_ratio: float | None


@dataclass(frozen=True)
class WitnessCost:
    seconds: float
    selection: float  # mean agreement with the GNN on unseen graphs
    judges: float


@dataclass(frozen=True)
class TrainingCosts:
    """CPU times of one data set."""

    graphs: int
    steps: int  # of the denoiser
    denoiser: float
    all_steps: float  # of the denoiser without stopping: as long per step
    witnesses: WitnessCost
    all_epochs: WitnessCost

    @property
    def longer(self) -> float:
        return max(self.denoiser, self.witnesses.seconds)

    @property
    def longer_without_stopping(self) -> float:
        return max(self.all_steps, self.all_epochs.seconds)

    @property
    def ratio(self) -> float:
        return self.longer / self.longer_without_stopping


def measure(short: bool, seed: int, on_progress: OnProgress) -> Section[FinalAnswerFigures]:
    """The costs of each data set are cached, so that an interrupted run goes on."""
    names = _SHORT_SETS if short else tuple(_SETS)
    costs = {name: _costs(name, seed, on_progress) for name in names}
    ratios = {name: costs[name].ratio if name in costs else None for name in _SETS}
    figures = FinalAnswerFigures(costs["mutag"].ratio, ratios["ba3motif"], ratios["mutagenicity"])
    return Section(figures, (_table(costs),))


def _table(costs: dict[str, TrainingCosts]) -> Table:
    return Table(
        "CPU seconds of the trainings before a final answer, which run side by side; in brackets "
        "without stopping",
        (
            "data set",
            "reference graphs",
            "steps of the denoiser",
            "denoiser",
            "witnesses",
            "the longer of both",
            "ratio",
            "agreement of selection witnesses",
            "of judges",
        ),
        tuple(
            (
                name,
                float(one.graphs),
                float(one.steps),
                f"{one.denoiser:.0f} ({one.all_steps:.0f})",
                f"{one.witnesses.seconds:.0f} ({one.all_epochs.seconds:.0f})",
                f"{one.longer:.0f} ({one.longer_without_stopping:.0f})",
                one.ratio,
                f"{one.witnesses.selection:.3f} ({one.all_epochs.selection:.3f})",
                f"{one.witnesses.judges:.3f} ({one.all_epochs.judges:.3f})",
            )
            for name, one in costs.items()
        ),
    )


def _costs(name: str, seed: int, on_progress: OnProgress) -> TrainingCosts:
    task, most = load_task(name, seed), _SETS[name]
    if most is not None:
        task = replace(task, train=task.train.select(torch.arange(most)))
    target = load_target_gnn(task, seed, lambda report: None)

    def cached(what: str, compute: Callable[[], dict[str, float]]) -> dict[str, float]:
        file = _cache_folder(target, seed) / f"{what}.json"
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, compute())
        known: dict[str, float] = json.loads(file.read_text())
        return known

    def witnesses(*, stops_early: bool) -> WitnessCost:
        what = "witnesses" if stops_early else "all-epochs"
        return WitnessCost(
            **cached(
                what,
                lambda: asdict(
                    _witnesses(task, target.gnn, seed, on_progress, stops_early=stops_early)
                ),
            )
        )

    denoiser = cached("denoiser", lambda: _denoiser(task, target.gnn, seed, on_progress))
    steps, seconds = int(denoiser["steps"]), denoiser["seconds"]
    return TrainingCosts(
        graphs=len(task.train.graphs),
        steps=steps,
        denoiser=seconds,
        all_steps=seconds * recipe_for(Objective.COUNTERFACTUAL).steps / steps,
        witnesses=witnesses(stops_early=True),
        all_epochs=witnesses(stops_early=False),
    )


def _cache_folder(target: TargetGnn, seed: int) -> Path:
    key = json.dumps([target.folder.name, seed, code_digest(_CODE)])
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    return CACHE / "final_answer" / f"{target.folder.name}-{digest}"


def _witnesses(
    task: Task, gnn: Gnn, seed: int, on_progress: OnProgress, *, stops_early: bool
) -> WitnessCost:
    def show(progress: WitnessProgress) -> None:
        label = f"{task.name}: witness {progress.finished + 1} of {progress.total}"
        on_progress(label, progress.epoch, progress.epochs)

    started = time.process_time()
    trained = train_witnesses(
        gnn,
        task.train.graphs,
        task.train.labels,
        seed=seed,
        device=_CPU,
        stops_early=stops_early,
        on_progress=show,
    )
    seconds = time.process_time() - started
    unseen = [*task.validation.graphs, *task.test.graphs][:_UNSEEN]
    by_gnn = predict(gnn, unseen, _CPU).argmax(dim=1)

    def agreement(role: Role) -> float:
        networks = [one.gnn for one in trained.witnesses if one.plan.role is role]
        answers = [predict(network, unseen, _CPU).argmax(dim=1) for network in networks]
        return fmean(float((own == by_gnn).double().mean()) for own in answers)

    return WitnessCost(seconds, agreement(Role.SELECTION), agreement(Role.JUDGE))


def _denoiser(task: Task, gnn: Gnn, seed: int, on_progress: OnProgress) -> dict[str, float]:
    """The steps and CPU seconds of a training with stopping."""
    recipe = recipe_for(Objective.COUNTERFACTUAL)
    started = time.process_time()
    trainer = make_trainer(task.train.graphs, gnn, recipe, seed=seed, device=_CPU)
    for last in trainer.run():
        on_progress(f"{task.name}: the denoiser", last.step, recipe.steps)
    trainer.denoiser()  # calibrates it
    return {"steps": last.step, "seconds": time.process_time() - started}
