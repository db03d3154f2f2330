"""The gradient of one training step, in several passes if the batch is too large for one.

The loss of a batch is a sum over its graphs. So the gradients of passes over parts of the batch add
up to the gradient of the batch, and memory holds the activations of one pass only.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.device import DeviceUse
from d4explain.gnn.graphs import DenseGraphs
from d4explain.gnn.network import Gnn
from models.diffusion.denoiser import Denoiser
from models.diffusion.gnn_sensitivity import (
    Sensitivity,
    Toggles,
    drawn_toggles,
    effect_loss,
    gnn_sensitivity,
    logit_changes,
)
from models.diffusion.losses import distribution_loss
from models.diffusion.noise import NoiseLevel
from models.diffusion.recipes import Recipe
from models.graphs.neighbourhoods import editable

EFFECT_TOGGLES = 32  # per graph, of edges and of absent pairs each


@dataclass(frozen=True)
class NoisyBatch:
    clean: DenseGraphs
    noisy: DenseGraphs
    noise: NoiseLevel

    def select(self, part: slice) -> NoisyBatch:
        return NoisyBatch(self.clean.select(part), self.noisy.select(part), self.noise.select(part))


@dataclass(frozen=True)
class StepLosses:
    total: float
    dist: float


@dataclass(frozen=True)
class _EffectTargets:
    """Input and targets of the effect head."""

    sensitivity: Sensitivity
    toggles: Toggles
    change: Tensor  # [toggle, class] of the GNN's logits


@dataclass(frozen=True)
class _PassLosses:
    """Sums over the graphs of one pass, without gradient."""

    total: Tensor
    dist: Tensor


def add_gradients(
    model: Denoiser,
    gnn: Gnn | None,
    recipe: Recipe,
    batch: NoisyBatch,
    *,
    use: DeviceUse,
    generator: torch.Generator,
) -> StepLosses:
    """Adds the gradient of L_dist + the effect head's loss to the weights' gradient.

    An ablation leaves out L_dist.
    """
    effect_targets = None
    if gnn is not None and model.shape.classes:
        effect_targets = _effect_targets(gnn, recipe, batch, generator)
    step = _Step(model, batch, effect_targets, use, recipe.learns_distribution)
    nodes = batch.clean.mask.shape[1]
    plane = model.shape.hidden * nodes**2 * batch.clean.adjacency.element_size()
    passes = [step.run(part) for part in use.passes(batch.clean.count, plane)]
    total = float(sum(one.total for one in passes))
    dist = float(sum(one.dist for one in passes))
    return StepLosses(total=total / batch.clean.count, dist=dist / batch.clean.count)


def editable_pairs(gnn: Gnn, graphs: DenseGraphs) -> Tensor:
    """The pairs that explanations may toggle: [batch, node, node] bool."""
    return editable(graphs, gnn.spec.convolutions, gnn.spec.receptive_field)


def _effect_targets(
    gnn: Gnn, recipe: Recipe, batch: NoisyBatch, generator: torch.Generator
) -> _EffectTargets:
    """Toggles single pairs of graphs with little noise, which are close to real graphs."""
    index = (batch.noise.remove <= recipe.effect_noise).nonzero()[:, 0]
    sensitivity = gnn_sensitivity(gnn, batch.noisy)
    if not len(index):
        return _EffectTargets(sensitivity, Toggles(index, index, index), sensitivity.logits[:0])
    nearly_clean = batch.noisy.select(index)
    allowed = editable_pairs(gnn, batch.clean.select(index))
    toggles = drawn_toggles(nearly_clean, allowed, EFFECT_TOGGLES, generator)
    change = logit_changes(gnn, nearly_clean, toggles)
    of_batch = Toggles(index[toggles.graph], toggles.source, toggles.target)
    return _EffectTargets(sensitivity, of_batch, change)


@dataclass(frozen=True)
class _Step:
    model: Denoiser
    batch: NoisyBatch
    effect_targets: _EffectTargets | None
    use: DeviceUse
    learns_distribution: bool

    def run(self, part: slice) -> _PassLosses:
        """A forward and a backward pass over some of the graphs."""
        some = self.batch.select(part)
        logits, effects = self._forward(some, part)
        dist = distribution_loss(logits, some.clean).sum()
        loss = dist if self.learns_distribution else torch.zeros_like(dist)
        if effects is not None:
            loss = loss + self._effect_loss(effects, part)
        (loss / self.batch.clean.count).backward()  # type: ignore[no-untyped-call]
        return _PassLosses(loss.detach(), dist.detach())

    def _forward(self, some: NoisyBatch, part: slice) -> tuple[Tensor, Tensor | None]:
        with self.use.fast_products():
            if self.effect_targets is None:
                return self.model(some.noisy, some.noise), None
            sensitivity = self.effect_targets.sensitivity.select(part)
            return self.model.with_effects(some.noisy, some.noise, sensitivity)

    def _effect_loss(self, effects: Tensor, part: slice) -> Tensor:
        """The effect head's loss, scaled as a sum over the batch."""
        assert self.effect_targets is not None
        toggles, inside = self.effect_targets.toggles.within(part)
        change = self.effect_targets.change
        losses = effect_loss(toggles.of(effects), change[inside], self.model.effect_scale)
        return losses.sum() * (self.batch.clean.count / max(len(change), 1))
