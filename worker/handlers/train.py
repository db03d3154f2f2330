"""Trains a denoiser; resumes from the last checkpoint if an earlier attempt left one."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from sqlalchemy.orm import Session

from d4explain.contracts.requests import DenoiserConfig, has_unknown_loss
from d4explain.gnn.errors import RefusedError
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.recipes import Objective, PaperRecipe, Recipe, recipe_for
from models.training.make_trainer import make_trainer
from models.training.progress import DenoiserTrainer, NonFiniteGradientError, TrainingProgress
from store.catalogue import denoisers
from store.catalogue.black_boxes import is_black_box
from store.errors import ArtifactCorrupt, ArtifactMissing
from worker.execution.control import StopReason
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.loading.job_inputs import JobInputs, read_inputs
from worker.reporting.documents import rounded

log = logging.getLogger(__name__)

_RESUMABLE = (StopReason.SHUTDOWN, StopReason.YIELDED)


class TrainingDivergedError(RefusedError):
    def __init__(self, step: int) -> None:
        super().__init__(
            f"Training diverged (gradient is not finite at step {step}); "
            "try features of a smaller scale or, for the recipe 'paper', a smaller alpha."
        )


class UnknownLossError(RefusedError):
    def __init__(self, alpha: float | None) -> None:
        super().__init__(
            f"this training was submitted to an earlier version with alpha {alpha}; the recipe "
            "'default' no longer has a counterfactual loss. Train another denoiser without alpha."
        )


def handle_training(context: HandlerContext) -> HandlerOutput:
    context.phases.enter("load")
    inputs = read_inputs(context.store, context.claim)
    trainer = _make_trainer(context, inputs)
    context.control.progress("training", trainer.step, trainer.steps)
    context.phases.enter("training")
    last = _run_training(context, trainer)
    context.phases.replace("training", last.seconds)
    denoiser = trainer.denoiser()
    weights = _weights(denoiser)
    digest = context.store.artifacts.of(context.claim.tenant).put(weights)
    metrics: dict[str, float | str] = {
        **_metrics(last),
        "seconds": rounded(last.seconds),
        "steps": float(last.step),
    }
    if trainer.without_gradient:
        metrics["objective_fallback"] = "score_function"
    if is_black_box(inputs.gnn) and inputs.required_denoiser.objective == "counterfactual":
        metrics["objective_fallback"] = "distribution"

    def record(session: Session) -> None:
        denoisers.finish(
            session,
            context.claim,
            weights_digest=digest,
            shape=denoiser.shape_document(),
            metrics=metrics,
        )

    return HandlerOutput(
        result={"kind": "training", "denoiser": inputs.required_denoiser.id}, record=record
    )


def _run_training(context: HandlerContext, trainer: DenoiserTrainer) -> TrainingProgress:
    control, settings = context.control, context.store.settings
    interval = settings.checkpoint_seconds
    first_step = trainer.step
    next_checkpoint = time.monotonic() + interval
    last = None
    try:
        for last in trainer.run(should_stop=control.should_stop):
            control.progress("training", last.step, last.steps, _metrics(last) | _timing(last))
            # Not after the last step: a resumed attempt needs at least one step to report.
            if time.monotonic() >= next_checkpoint and not trainer.finished:
                control.checkpoint(save_tensors(trainer.state()), trainer.step)
                next_checkpoint = time.monotonic() + interval
            # The limit covers all attempts together: a training that yields has many.
            if last.seconds >= settings.job_time_limit_seconds and not trainer.finished:
                control.stop(StopReason.TIMED_OUT)
            if control.should_yield() and not trainer.finished:
                control.stop(StopReason.YIELDED)
    except NonFiniteGradientError as error:
        raise TrainingDivergedError(trainer.step) from error
    if last is None or not trainer.finished:
        if control.reason in _RESUMABLE and trainer.step > first_step:
            control.checkpoint(save_tensors(trainer.state()), trainer.step)
        control.raise_if_stopped()
    assert last is not None, "a training that is not stopped makes at least one step"
    return last


def _make_trainer(context: HandlerContext, inputs: JobInputs) -> DenoiserTrainer:
    config = DenoiserConfig.model_validate(inputs.required_denoiser.config)
    recipe = _recipe(inputs.required_denoiser.objective, config)
    graphs = context.library.training_graphs(inputs.gnn, inputs.dataset)
    if is_black_box(inputs.gnn):  # a loss with the GNN would query it at every step
        recipe = _without_gnn(recipe)
    needs_gnn = recipe.objective is Objective.COUNTERFACTUAL and not is_black_box(inputs.gnn)
    gnn = context.library.gnn(inputs.gnn) if needs_gnn else None

    def new_trainer() -> DenoiserTrainer:
        return make_trainer(graphs, gnn, recipe, seed=config.seed, device=context.library.device)

    return _resume(context, new_trainer)


def _without_gnn(recipe: Recipe | PaperRecipe) -> Recipe | PaperRecipe:
    if isinstance(recipe, PaperRecipe):
        return replace(recipe, alpha=0.0)
    return replace(recipe, predicts_effects=False)


def _resume(context: HandlerContext, new_trainer: Callable[[], DenoiserTrainer]) -> DenoiserTrainer:
    trainer = new_trainer()
    checkpoint = context.claim.checkpoint
    if checkpoint is None:
        return trainer
    try:
        trainer.load_state(
            load_tensors(context.store.artifacts.of(context.claim.tenant).get(checkpoint["digest"]))
        )
    except (ArtifactMissing, ArtifactCorrupt, SafetensorError, KeyError, RuntimeError):
        # A checkpoint of another release may also raise these; a fresh start is always correct.
        log.warning("Cannot use the checkpoint; training starts from step 0", exc_info=True)
        return new_trainer()
    log.info("Training resumes at step %d of %d", trainer.step, trainer.steps)
    return trainer


def _recipe(objective: str, config: DenoiserConfig) -> Recipe | PaperRecipe:
    if has_unknown_loss(config):  # submitted to an earlier version
        raise UnknownLossError(config.alpha)
    return recipe_for(
        Objective(objective),
        config.recipe,
        steps=config.steps,
        hidden=config.hidden,
        blocks=config.blocks,
        alpha=config.alpha if config.recipe == "paper" else None,
    )


def _weights(denoiser: EdgeDenoiser) -> bytes:
    shape = json.dumps(denoiser.shape_document(), sort_keys=True)
    return save_tensors(denoiser.state_dict(), metadata={"shape": shape})


def _metrics(progress: TrainingProgress) -> dict[str, float]:
    values = {
        "loss": progress.loss,
        "loss_dist": progress.loss_dist,
        "loss_cf": progress.loss_cf,
        "flip_rate": progress.flip_rate,
        "detection_auc": progress.detection_auc,
        "validity": progress.validity,
    }
    return {name: rounded(value) for name, value in values.items() if value is not None}


def _timing(progress: TrainingProgress) -> dict[str, float]:
    per_step = progress.seconds / progress.step
    return {
        "seconds": rounded(progress.seconds),
        "eta_seconds": rounded(per_step * (progress.steps - progress.step)),
    }
