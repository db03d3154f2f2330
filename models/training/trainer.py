"""Training of a denoiser: reports progress at every step and resumes to the same weights."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim.swa_utils import get_ema_multi_avg_fn

from d4explain.gnn.device import DeviceUse
from d4explain.gnn.errors import NoMarkedNodeError
from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from d4explain.gnn.network import Gnn
from models.diffusion.denoiser import Denoiser
from models.diffusion.gnn_sensitivity import Toggles, drawn_toggles, logit_changes
from models.diffusion.noise import NoiseLevel, add_noise, density_noise, uniform_noise
from models.diffusion.ppgn import KEPT_PER_BLOCK
from models.diffusion.recipes import Recipe
from models.training.batches import Batches, split
from models.training.detection import detection_auc
from models.training.early_stopping import Plateau
from models.training.step import NoisyBatch, StepLosses, add_gradients, editable_pairs
from models.training.validation import pool_needed, predicted_share, predicted_validity

MEASUREMENTS = 10  # on held-out graphs, per training
SHORTEST = 20  # least number of steps between two measurements
SMOOTHING = 0.95
GRADIENT_NORM = 1.0
MEASURED_GRAPHS = 16  # held-out graphs for the scale of single toggles' effects
RESTART = 0.5  # factor of the learning rate when L_cf starts


class NonFiniteGradientError(ArithmeticError):
    """The gradient of a step is infinite or NaN, for example because the GNN overflows."""

    def __init__(self, step: int, loss: float) -> None:
        super().__init__(f"the gradient of step {step} is not finite; its loss is {loss}")


@dataclass(frozen=True)
class TrainingProgress:
    step: int
    steps: int
    loss: float  # without the effect head's loss; this and the next three are smoothed
    loss_dist: float
    loss_cf: float | None  # None while the loss has no L_cf
    flip_rate: float | None  # share of the denoiser's samples that change the GNN's class
    detection_auc: float | None  # last measurement on held-out graphs, like validity
    validity: float | None  # share of the graphs that the predicted edits flip
    seconds: float  # of training, over all attempts


class Trainer:
    """Trains one denoiser; the seed decides initial weights, batches and noise.

    Draws from its own generator only. `state()` is a flat dict of tensors; a trainer built from
    the same arguments that loads it ends with bit-identical weights on the same machine.
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
        if not graphs:
            raise ValueError("a denoiser needs at least one reference graph")
        if recipe.counterfactual_start < recipe.steps:
            if gnn is None:
                raise ValueError("the counterfactual loss needs the GNN")
            if gnn.spec.classes < 2:
                raise ValueError(f"a counterfactual needs 2 classes, got {gnn.spec.classes}")
        marked = graphs[0].target is not None
        if any((graph.target is not None) != marked for graph in graphs):
            raise ValueError("either all reference graphs have a marked node or none has one")
        if gnn is not None and gnn.spec.classifies_nodes and not marked:
            raise NoMarkedNodeError("a denoiser for a node classifier")
        recipe = recipe.fitted(graphs)
        self.step = 0
        self.steps = recipe.steps
        self._recipe = recipe
        self._seed = seed
        self._device = device
        # A copy, because the caller's GNN keeps its mode and its gradients.
        self._gnn = None if gnn is None else _frozen(gnn, device)
        self._generator = torch.Generator().manual_seed(seed)
        shape = recipe.shape(
            graphs[0].features.shape[1],
            marked=marked,
            gnn=None if gnn is None else gnn.spec,
        )
        self._model = Denoiser(shape, self._generator)
        self._model.to(device)
        self._use = DeviceUse.of(device, KEPT_PER_BLOCK * shape.blocks)
        parts = split(graphs, recipe.max_nodes, self._generator)
        self._held_out = parts.held_out
        self._calibrating = parts.calibrating
        self._batches = Batches(parts.training, recipe, self._generator)
        if shape.classes:
            self._measure_effects()
        self._average = {name: value.detach().clone() for name, value in self._parameters()}
        self._optimizer = torch.optim.Adam(
            self._model.parameters(), lr=recipe.learning_rate, fused=True
        )
        self._smoothed: dict[str, float] = {}
        self._seconds = 0.0
        self._start = recipe.counterfactual_start  # earlier if the first stage reaches a plateau
        self._plateau = Plateau(recipe.patience)

    @property
    def finished(self) -> bool:
        """Whether all steps are taken or the measurements have reached a plateau."""
        return self.step >= self.steps or self._plateau.reached

    @property
    def without_gradient(self) -> bool:
        """Whether L_cf is trained without the GNN's gradient."""
        has_loss = self._recipe.counterfactual_start < self._recipe.steps
        return has_loss and self._gnn is not None and not self._gnn.has_dense

    def run(
        self, *, should_stop: Callable[[], bool] = lambda: False, until: int | None = None
    ) -> Iterator[TrainingProgress]:
        """Takes steps until it is finished, reaches step `until` or is told to stop."""
        end = math.inf if until is None else until
        while self.step < end and not self.finished and not should_stop():
            started = time.perf_counter()
            losses = self._take_step()
            self._smooth("dist", losses.dist)
            if losses.cf is not None and losses.flip_rate is not None:
                self._smooth("cf", losses.cf)
                self._smooth("flip_rate", losses.flip_rate)
            if self._is_measured():
                self._measure()
            self._begin_last_stage()
            self._seconds += time.perf_counter() - started
            yield self._progress()

    def denoiser(self) -> Denoiser:
        """The best measured averaged weights, or the current ones; in eval mode, on the CPU."""
        denoiser = self._with(self._plateau.best or self._average)
        if self._gnn is not None and denoiser.shape.classes:
            needed = pool_needed(denoiser, self._gnn, self._calibrating, self._device)
            denoiser.shape = replace(denoiser.shape, pool=needed)
        return denoiser.cpu()

    def state(self) -> dict[str, Tensor]:
        tensors = {
            "step": torch.tensor(self.step),
            "generator": self._generator.get_state(),
            "seconds": torch.tensor(self._seconds, dtype=torch.float64),
            "start": torch.tensor(self._start),
            "steps": torch.tensor(self.steps),
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
        self._batches.load_state(_under("batches.", tensors))
        self._smoothed = {
            name: float(value) for name, value in _under("smoothed.", tensors).items()
        }
        self._model.load_state_dict(_under("weights.", tensors))
        self._start, self.steps = int(tensors["start"]), int(tensors["steps"])
        self._plateau.load_state(_under("plateau.", tensors), self._device)
        self._average = {
            name: value.to(self._device) for name, value in _under("average.", tensors).items()
        }
        named = dict(self._parameters())
        self._optimizer.state.clear()
        for key, value in _under("adam.", tensors).items():
            moment, name = key.split(".", 1)
            self._optimizer.state[named[name]][moment] = value.to(self._device)

    def _take_step(self) -> StepLosses:
        recipe = self._recipe
        clean = self._batches.draw()
        noise = self._draw_noise(clean)
        noisy = add_noise(clean, noise, self._generator).to(self._device)
        batch = NoisyBatch(
            clean.to(self._device), noisy, noise.to(self._device), self._conditioned(clean.count)
        )
        self._optimizer.zero_grad()
        losses = add_gradients(
            self._model,
            self._gnn,
            recipe,
            batch,
            alpha=self._alpha() if self.step >= self._start else None,
            use=self._use,
            generator=self._generator,
        )
        norm = clip_grad_norm_(self._model.parameters(), GRADIENT_NORM, foreach=True)
        if not torch.isfinite(norm):
            raise NonFiniteGradientError(self.step, losses.total)
        for group in self._optimizer.param_groups:
            group["lr"] = recipe.learning_rate * self._decay()
        self._optimizer.step()
        self.step += 1
        self._update_average()
        return losses

    def _alpha(self) -> float:
        """The weight of L_cf, divided by the scale of single toggles' effects.

        L_cf is in units of the GNN's logits; unscaled, large logits would dominate the loss.
        """
        if not self._model.shape.classes:
            return self._recipe.alpha
        return self._recipe.alpha / max(1.0, float(self._model.effect_scale))

    def _begin_last_stage(self) -> None:
        """Starts L_cf, earlier than planned if the first stage has reached a plateau."""
        if self._start >= self.steps or self.step > self._start:
            return
        if self._plateau.reached:
            self.steps -= self._start - self.step
            self._start = self.step
        if self.step == self._start:
            self._plateau.forget()

    def _decay(self) -> float:
        """The factor of the learning rate.

        Cosine decay restarts at a lower rate when L_cf starts: at the end of the first decay the
        weights hardly move.
        """
        if self._recipe.decay == "exponential":
            return float(0.01 ** (self.step / self.steps))
        if self.step < self._start:
            return (1 + math.cos(math.pi * self.step / self._start)) / 2
        left = (self.step - self._start) / (self.steps - self._start)
        return RESTART * (1 + math.cos(math.pi * left)) / 2

    def _measure_effects(self) -> None:
        """Sets the scale of the effect head to the root mean square of single toggles' effects."""
        assert self._gnn is not None
        size = logit_changes(self._gnn, *self._measured_toggles()).square().mean().sqrt()
        # The scale must not be 0 if no toggle moves the logits.
        self._model.effect_scale.data.copy_(size if size > 0 else torch.ones(()))

    def _measured_toggles(self) -> tuple[DenseGraphs, Toggles]:
        """Single toggles of held-out graphs, the same at every call."""
        generator = torch.Generator().manual_seed(self._seed)
        graphs = to_dense(self._held_out[:MEASURED_GRAPHS]).to(self._device)
        wanted = self._recipe.effect_toggles
        assert self._gnn is not None
        allowed = editable_pairs(self._gnn, graphs)
        return graphs, drawn_toggles(graphs, allowed, wanted, generator)

    def _conditioned(self, count: int) -> Tensor:
        """The graphs of a batch with the switch and L_cf on: [batch] bool."""
        if self.step < self._start:
            return torch.zeros(count, dtype=torch.bool, device=self._device)
        every = 2 if self._recipe.conditioned else 1
        return torch.arange(count, device=self._device) % every == 0

    def _draw_noise(self, clean: DenseGraphs) -> NoiseLevel:
        recipe = self._recipe
        if recipe.noise == "paper":
            return uniform_noise(clean.count, self._generator)
        pairs = clean.pair_mask.sum((1, 2)).clamp(min=1)
        density = clean.adjacency.sum((1, 2)) / pairs
        return density_noise(
            density,
            low=recipe.noise_low,
            high=recipe.noise_high,
            symmetric_share=recipe.symmetric_share,
            generator=self._generator,
        )

    def _update_average(self) -> None:
        # The average forgets early weights faster, because they are far from the result.
        keep = min(self._recipe.ema, self.step / (self.step + 10))
        named = dict(self._parameters())
        averages = [self._average[name] for name in named]
        average = get_ema_multi_avg_fn(keep)  # type: ignore[no-untyped-call]
        average(averages, list(named.values()), self.step)

    def _is_measured(self) -> bool:
        every = max(SHORTEST, self._recipe.steps // MEASUREMENTS)
        return self.step == self.steps or self.step % every == 0

    def _measure(self) -> None:
        """Measures the averaged weights on held-out graphs and keeps the best."""
        denoiser = self._with(self._average)
        # Its own generator gives the same noise every time and leaves the training's draws alone.
        auc = detection_auc(
            denoiser,
            self._held_out,
            torch.Generator().manual_seed(self._seed),
            device=self._device,
            pair_budget=self._recipe.pair_budget,
        )
        if auc is not None:
            self._smoothed["detection_auc"] = auc
        if self._gnn is None or not self._model.shape.classes:
            return
        validity = predicted_validity(
            denoiser,
            self._gnn,
            self._held_out,
            ratio=self._recipe.validity_ratio,
            device=self._device,
        )
        share = predicted_share(denoiser, self._gnn, *self._measured_toggles())
        if validity is not None:
            self._smoothed["validity"] = validity
        # Few graphs are held out, so validity alone is too coarse to show progress.
        score = sum(value for value in (validity, auc, share) if value is not None)
        self._plateau.measured(score, self._average)

    def _smooth(self, name: str, value: float) -> None:
        before = self._smoothed.get(name, value)
        self._smoothed[name] = SMOOTHING * before + (1 - SMOOTHING) * value

    def _progress(self) -> TrainingProgress:
        dist, cf = self._smoothed["dist"], self._smoothed.get("cf")
        return TrainingProgress(
            step=self.step,
            steps=self.steps,
            loss=dist if cf is None else dist + self._alpha() * cf,
            loss_dist=dist,
            loss_cf=cf,
            flip_rate=self._smoothed.get("flip_rate"),
            detection_auc=self._smoothed.get("detection_auc"),
            validity=self._smoothed.get("validity"),
            seconds=self._seconds,
        )

    def _with(self, weights: Mapping[str, Tensor]) -> Denoiser:
        denoiser = Denoiser(self._model.shape)
        denoiser.load_state_dict(weights)
        return denoiser.to(self._device).eval()

    def _parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        return list(self._model.named_parameters())


def _frozen(gnn: Gnn, device: torch.device) -> Gnn:
    return copy.deepcopy(gnn).to(device).eval().requires_grad_(False)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value.clone()
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
