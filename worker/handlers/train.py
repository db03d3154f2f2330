"""Trains a denoiser, from the last checkpoint if an earlier attempt left one."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, replace

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from sqlalchemy.orm import Session

from d4explain.contracts.requests import DenoiserConfig
from d4explain.gnn.errors import RefusedError
from models.diffusion.denoiser import Denoiser
from models.diffusion.recipes import Objective, Recipe, recipe_for
from models.training.trainer import NonFiniteGradientError, Trainer, TrainingProgress
from store.catalogue import denoisers
from store.catalogue.black_boxes import is_black_box
from store.errors import ArtifactCorrupt, ArtifactMissing
from worker.execution.control import StopReason
from worker.execution.handler_api import Outcome, Work
from worker.loading.job_inputs import JobInputs, inputs_of
from worker.reporting.documents import figure

log = logging.getLogger(__name__)


_RESUMED = (StopReason.SHUTDOWN, StopReason.YIELDED)


class TrainingDivergedError(RefusedError):
    def __init__(self, step: int) -> None:
        super().__init__(
            f"the training ran away: its gradient was not finite at step {step}; "
            "a smaller alpha, or features of a smaller scale, may help"
        )


def train_denoiser(work: Work) -> Outcome:
    subjects = inputs_of(work)
    trainer = _trainer(work, subjects)
    work.control.progress("training", trainer.step, trainer.steps)
    last = _trained(work, trainer)
    denoiser = trainer.denoiser()
    weights = _weights(denoiser)
    digest = work.store.artifacts.put(weights)
    metrics: dict[str, float | str] = {
        **_metrics(last),
        "seconds": figure(last.seconds),
        "steps": float(last.step),
    }
    if trainer.without_gradient:
        metrics["objective_fallback"] = "score_function"
    if is_black_box(subjects.gnn) and subjects.denoiser.objective == "counterfactual":
        metrics["objective_fallback"] = "distribution"

    def record(session: Session) -> None:
        denoisers.finish(
            session,
            work.claim,
            weights_digest=digest,
            shape=asdict(denoiser.shape),
            metrics=metrics,
        )

    return Outcome(result={"kind": "training", "denoiser": subjects.denoiser.id}, record=record)


def _trained(work: Work, trainer: Trainer) -> TrainingProgress:
    control, settings = work.control, work.store.settings
    seconds = settings.checkpoint_seconds
    started_at = trainer.step
    next_checkpoint = time.monotonic() + seconds
    last = None
    try:
        for last in trainer.run(should_stop=control.should_stop):
            control.progress("training", last.step, last.steps, _metrics(last) | _outlook(last))
            # None at the very end: an attempt that resumes has a step left to report about.
            if time.monotonic() >= next_checkpoint and not trainer.finished:
                control.checkpoint(save_tensors(trainer.state()), trainer.step)
                next_checkpoint = time.monotonic() + seconds
            # Of all attempts together: a training that yields has many.
            if last.seconds >= settings.job_time_limit_seconds and not trainer.finished:
                control.stop(StopReason.TIMED_OUT)
            if control.should_yield() and not trainer.finished:
                control.stop(StopReason.YIELDED)
    except NonFiniteGradientError as error:
        raise TrainingDivergedError(trainer.step) from error
    if last is None or not trainer.finished:
        if control.reason in _RESUMED and trainer.step > started_at:
            control.checkpoint(save_tensors(trainer.state()), trainer.step)
        control.raise_if_stopped()
    assert last is not None, "a training that was not stopped takes at least one step"
    return last


def _trainer(work: Work, subjects: JobInputs) -> Trainer:
    config = DenoiserConfig.model_validate(subjects.denoiser.config)
    recipe = _recipe(subjects.denoiser.objective, config)
    graphs = work.library.training_graphs(subjects.gnn, subjects.dataset)
    if is_black_box(subjects.gnn):  # it would be asked at every step
        recipe = replace(recipe, alpha=0.0, effect_weight=0.0)
    needs_gnn = recipe.objective is Objective.COUNTERFACTUAL and not is_black_box(subjects.gnn)
    gnn = work.library.gnn(subjects.gnn) if needs_gnn else None

    def new() -> Trainer:
        return Trainer(graphs, gnn, recipe, seed=config.seed, device=work.library.device)

    return _resumed(work, new)


def _resumed(work: Work, new: Callable[[], Trainer]) -> Trainer:
    trainer = new()
    checkpoint = work.claim.checkpoint
    if checkpoint is None:
        return trainer
    try:
        trainer.load_state(load_tensors(work.store.artifacts.get(checkpoint["digest"])))
    except (ArtifactMissing, ArtifactCorrupt, SafetensorError, KeyError, RuntimeError):
        # Also what a checkpoint of another release may cause; starting over is always right.
        log.warning("the checkpoint cannot be used; the training starts over", exc_info=True)
        return new()
    log.info("the training goes on at step %d of %d", trainer.step, trainer.steps)
    return trainer


def _recipe(objective: str, config: DenoiserConfig) -> Recipe:
    return recipe_for(
        Objective(objective),
        config.recipe,
        steps=config.steps,
        hidden=config.hidden,
        blocks=config.blocks,
        alpha=config.alpha,
    )


def _weights(denoiser: Denoiser) -> bytes:
    shape = json.dumps(asdict(denoiser.shape), sort_keys=True)
    return save_tensors(denoiser.state_dict(), metadata={"shape": shape})


def _metrics(progress: TrainingProgress) -> dict[str, float]:
    figures = {
        "loss": progress.loss,
        "loss_dist": progress.loss_dist,
        "loss_cf": progress.loss_cf,
        "flip_rate": progress.flip_rate,
        "detection_auc": progress.detection_auc,
        "validity": progress.validity,
    }
    return {name: figure(value) for name, value in figures.items() if value is not None}


def _outlook(progress: TrainingProgress) -> dict[str, float]:
    per_step = progress.seconds / progress.step
    return {
        "seconds": figure(progress.seconds),
        "eta_seconds": figure(per_step * (progress.steps - progress.step)),
    }
