"""Training of a denoiser: reports progress at every step and resumes to the same weights."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim.swa_utils import get_ema_multi_avg_fn

from d4explain.gnn.device import DeviceUse
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.diffusion.denoiser import Denoiser
from models.diffusion.noise import add_noise
from models.diffusion.ppgn import KEPT_PER_BLOCK
from models.diffusion.recipes import Objective, Recipe
from models.diffusion.typicality import calibrated
from models.training.batches import Batches, split, training_noise
from models.training.early_stopping import Plateau
from models.training.held_out import HeldOutGraphs
from models.training.progress import SMOOTHING, NonFiniteGradientError, TrainingProgress
from models.training.step import NoisyBatch, StepLosses, add_gradients
from models.training.training_inputs import are_marked, frozen_copy
from models.training.validation import pool_needed

MEASURED_EVERY = 50  # steps between two measurements on held-out graphs
MAX_GRADIENT_NORM = 1.0
EMA = 0.99  # decay of the averaged weights


class Trainer:
    """Trains one denoiser; the seed decides initial weights, batches and noise.

    It draws from its own generator only. `state()` is a flat dict of tensors. A trainer that has
    the same arguments and loads this state ends with bit-identical weights on the same machine.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        gnn: Gnn | None,
        recipe: Recipe,
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        marked = are_marked(graphs, gnn, needs_gnn=recipe.predicts_effects)
        recipe = recipe.fitted(graphs)
        self.step = 0
        self.steps = recipe.steps
        self._recipe = recipe
        self._device = device
        self._gnn = None if gnn is None else frozen_copy(gnn, device)
        self._generator = torch.Generator().manual_seed(seed)
        shape = recipe.shape(
            graphs[0].features.shape[1],
            marked=marked,
            gnn=None if gnn is None else gnn.spec,
        )
        self._model = Denoiser(shape, self._generator)
        self._model.to(device)
        self._device_use = DeviceUse.of(device, KEPT_PER_BLOCK * shape.blocks)
        parts = split(
            graphs,
            recipe.max_nodes,
            self._generator,
            with_typicality=recipe.objective is Objective.COUNTERFACTUAL,
        )
        self._held_out = HeldOutGraphs(parts.held_out, self._gnn, recipe, seed, device)
        self._calibrating = parts.calibrating
        self._typicality_graphs = parts.typicality
        self._batches = Batches(parts.training, recipe, self._generator)
        if shape.classes:
            self._model.effect_scale.data.copy_(self._held_out.effect_scale())
        self._average = {name: value.detach().clone() for name, value in self._parameters()}
        self._optimizer = torch.optim.Adam(
            self._model.parameters(), lr=recipe.learning_rate, fused=True
        )
        self._smoothed: dict[str, float] = {}
        self._seconds = 0.0
        self._plateau = Plateau(recipe.patience)

    @property
    def finished(self) -> bool:
        """Whether all steps are taken or the measurements have reached a plateau."""
        return self.step >= self.steps or self._plateau.reached

    @property
    def without_gradient(self) -> bool:
        """False: this loss has no L_cf."""
        return False

    def run(
        self, *, should_stop: Callable[[], bool] = lambda: False, until: int | None = None
    ) -> Iterator[TrainingProgress]:
        """Takes steps until the training is finished, at step `until`, or stopped."""
        end = math.inf if until is None else until
        while self.step < end and not self.finished and not should_stop():
            started = time.perf_counter()
            losses = self._take_step()
            self._smooth("dist", losses.dist)
            if self._measures_now():
                self._measure()
            self._seconds += time.perf_counter() - started
            yield self._progress()

    def denoiser(self) -> Denoiser:
        """The denoiser with the best averaged weights so far; in eval mode, on the CPU."""
        denoiser = self._denoiser_of(self._plateau.best or self._average)
        if self._gnn is not None and denoiser.shape.classes:
            needed = pool_needed(denoiser, self._gnn, self._calibrating, self._device)
            denoiser.shape = replace(denoiser.shape, pool=needed)
        return calibrated(denoiser, self._typicality_graphs, self._device).cpu()

    def state(self) -> dict[str, Tensor]:
        tensors = {
            "step": torch.tensor(self.step),
            "generator": self._generator.get_state(),
            "seconds": torch.tensor(self._seconds, dtype=torch.float64),
        }
        tensors |= {f"plateau.{name}": value for name, value in self._plateau.state().items()}
        tensors |= {f"batches.{name}": value for name, value in self._batches.state().items()}
        for name, number in self._smoothed.items():
            tensors[f"smoothed.{name}"] = torch.tensor(number, dtype=torch.float64)
        for name, parameter in self._parameters():
            tensors[f"weights.{name}"] = parameter.detach().cpu().clone()
            tensors[f"average.{name}"] = self._average[name].cpu().clone()
            for moment, value in self._optimizer.state[parameter].items():
                tensors[f"adam.{moment}.{name}"] = value.cpu().clone()
        return tensors

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self.step = int(tensors["step"])
        self._seconds = float(tensors["seconds"])
        self._generator.set_state(tensors["generator"].cpu())
        self._batches.load_state(_with_prefix("batches.", tensors))
        self._smoothed = {
            name: float(value) for name, value in _with_prefix("smoothed.", tensors).items()
        }
        self._model.load_state_dict(_with_prefix("weights.", tensors))
        self._plateau.load_state(_with_prefix("plateau.", tensors), self._device)
        self._average = {
            name: value.to(self._device)
            for name, value in _with_prefix("average.", tensors).items()
        }
        named = dict(self._parameters())
        self._optimizer.state.clear()
        for key, value in _with_prefix("adam.", tensors).items():
            moment, name = key.split(".", 1)
            self._optimizer.state[named[name]][moment] = value.to(self._device)

    def _take_step(self) -> StepLosses:
        recipe = self._recipe
        clean = self._batches.draw()
        noise = training_noise(clean, recipe, self._generator)
        noisy = add_noise(clean, noise, self._generator).to(self._device)
        batch = NoisyBatch(clean.to(self._device), noisy, noise.to(self._device))
        self._optimizer.zero_grad()
        losses = add_gradients(
            self._model,
            self._gnn,
            recipe,
            batch,
            use=self._device_use,
            generator=self._generator,
        )
        norm = clip_grad_norm_(self._model.parameters(), MAX_GRADIENT_NORM, foreach=True)
        if not torch.isfinite(norm):
            raise NonFiniteGradientError(self.step, losses.total)
        for group in self._optimizer.param_groups:
            group["lr"] = recipe.learning_rate * self._decay()
        self._optimizer.step()
        self.step += 1
        self._update_average()
        return losses

    def _decay(self) -> float:
        """The factor of the learning rate: cosine decay to 0."""
        return (1 + math.cos(math.pi * self.step / self.steps)) / 2

    def _update_average(self) -> None:
        # Early weights are far from the result, so the average forgets them faster.
        keep = min(EMA, self.step / (self.step + 10))
        named = dict(self._parameters())
        averages = [self._average[name] for name in named]
        average = get_ema_multi_avg_fn(keep)  # type: ignore[no-untyped-call]
        average(averages, list(named.values()), self.step)

    def _measures_now(self) -> bool:
        return self.step == self.steps or self.step % MEASURED_EVERY == 0

    def _measure(self) -> None:
        """Measures the averaged weights on held-out graphs and keeps the best."""
        metrics = self._held_out.measure(self._denoiser_of(self._average))
        if metrics.detection_auc is not None:
            self._smoothed["detection_auc"] = metrics.detection_auc
        if metrics.validity is not None:
            self._smoothed["validity"] = metrics.validity
        if self._gnn is not None and self._model.shape.classes:
            self._plateau.measured(metrics.score, self._average)

    def _smooth(self, name: str, value: float) -> None:
        before = self._smoothed.get(name, value)
        self._smoothed[name] = SMOOTHING * before + (1 - SMOOTHING) * value

    def _progress(self) -> TrainingProgress:
        dist = self._smoothed["dist"]
        return TrainingProgress(
            step=self.step,
            steps=self.steps,
            loss=dist,
            loss_dist=dist,
            loss_cf=None,
            flip_rate=None,
            detection_auc=self._smoothed.get("detection_auc"),
            validity=self._smoothed.get("validity"),
            seconds=self._seconds,
        )

    def _denoiser_of(self, weights: Mapping[str, Tensor]) -> Denoiser:
        denoiser = Denoiser(self._model.shape)
        denoiser.load_state_dict(weights)
        return denoiser.to(self._device).eval()

    def _parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        return list(self._model.named_parameters())


def _with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of the tensors whose names start with the prefix, under names without it."""
    return {
        name.removeprefix(prefix): value.clone()
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
