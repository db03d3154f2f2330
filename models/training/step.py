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
from models.diffusion.paper.counterfactual_loss import sampled_counterfactual_loss
from models.diffusion.recipes import Recipe
from models.graphs.neighbourhoods import editable


@dataclass(frozen=True)
class NoisyBatch:
    clean: DenseGraphs
    noisy: DenseGraphs
    noise: NoiseLevel
    conditioned: Tensor  # [batch] bool, True for graphs with the switch and L_cf on

    def select(self, part: slice) -> NoisyBatch:
        return NoisyBatch(
            self.clean.select(part),
            self.noisy.select(part),
            self.noise.select(part),
            self.conditioned[part],
        )


@dataclass(frozen=True)
class StepLosses:
    total: float
    dist: float
    cf: float | None
    flip_rate: float | None


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
    cf: Tensor
    flips: float


def add_gradients(
    model: Denoiser,
    gnn: Gnn | None,
    recipe: Recipe,
    batch: NoisyBatch,
    *,
    alpha: float | None,
    use: DeviceUse,
    generator: torch.Generator,
) -> StepLosses:
    """Adds the gradient of L_dist + alpha·L_cf + the effect head's loss to the weights' gradient.

    If alpha is None, the loss has no L_cf.
    """
    effect_targets = None
    if gnn is not None and model.shape.classes:
        effect_targets = _effect_targets(gnn, recipe, batch, generator)
    step = _Step(model, gnn, recipe, batch, effect_targets, alpha, use, generator)
    nodes = batch.clean.mask.shape[1]
    plane = model.shape.hidden * nodes**2 * batch.clean.adjacency.element_size()
    passes = [step.run(part) for part in use.passes(batch.clean.count, plane)]
    total, dist, cf = (
        float(sum(getattr(one, name) for one in passes)) for name in ("total", "dist", "cf")
    )
    conditioned = int(batch.conditioned.sum()) if alpha is not None else 0
    return StepLosses(
        total=total / batch.clean.count,
        dist=dist / batch.clean.count,
        cf=cf / conditioned if conditioned else None,
        flip_rate=sum(one.flips for one in passes) / conditioned if conditioned else None,
    )


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
    toggles = drawn_toggles(nearly_clean, allowed, recipe.effect_toggles, generator)
    change = logit_changes(gnn, nearly_clean, toggles)
    of_batch = Toggles(index[toggles.graph], toggles.source, toggles.target)
    return _EffectTargets(sensitivity, of_batch, change)


@dataclass(frozen=True)
class _Step:
    model: Denoiser
    gnn: Gnn | None
    recipe: Recipe
    batch: NoisyBatch
    effect_targets: _EffectTargets | None
    alpha: float | None
    use: DeviceUse
    generator: torch.Generator

    def run(self, part: slice) -> _PassLosses:
        """A forward and a backward pass over some of the graphs."""
        some, recipe = self.batch.select(part), self.recipe
        logits, effects = self._forward(some, part)
        dist = distribution_loss(logits, some.clean).sum()
        loss, cf, flips = dist, torch.zeros_like(dist), 0.0
        index = some.conditioned.nonzero()[:, 0]
        if self.gnn is not None and self.alpha is not None and len(index):
            per_graph, flip_rate = sampled_counterfactual_loss(
                self.gnn,
                logits[index],
                some.clean.select(index),
                temperature=recipe.temperature,
                generator=self.generator,
            )
            cf, flips = per_graph.sum(), flip_rate * len(index)
            loss = loss + self.alpha * cf
        if effects is not None:
            loss = loss + recipe.effect_weight * self._effect_loss(effects, part)
        (loss / self.batch.clean.count).backward()  # type: ignore[no-untyped-call]
        return _PassLosses(loss.detach(), dist.detach(), cf.detach(), flips)

    def _forward(self, some: NoisyBatch, part: slice) -> tuple[Tensor, Tensor | None]:
        with self.use.fast_products():
            if self.effect_targets is None:
                return self.model(some.noisy, some.noise, some.conditioned), None
            sensitivity = self.effect_targets.sensitivity.select(part)
            return self.model.with_effects(some.noisy, some.noise, some.conditioned, sensitivity)

    def _effect_loss(self, effects: Tensor, part: slice) -> Tensor:
        """The effect head's loss, scaled as a sum over the batch."""
        assert self.effect_targets is not None
        toggles, inside = self.effect_targets.toggles.within(part)
        change = self.effect_targets.change
        losses = effect_loss(toggles.of(effects), change[inside], self.model.effect_scale)
        return losses.sum() * (self.batch.clean.count / max(len(change), 1))
