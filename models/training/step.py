"""The gradient of one training step: pass by pass where a batch is too large for one.

A batch's loss is a sum over its graphs, so that passes over some of its graphs at a time add up to
the same gradient while memory holds the activations of a single pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.device import DeviceUse
from d4explain.gnn.graphs import DenseGraphs
from d4explain.gnn.network import Gnn
from models.diffusion.counterfactual_loss import steering
from models.diffusion.denoiser import Denoiser
from models.diffusion.gnn_sensitivity import (
    Sensitivity,
    Toggles,
    drawn_toggles,
    effect_loss,
    logit_changes,
    look,
)
from models.diffusion.losses import distribution_loss, noise_weight
from models.diffusion.noise import NoiseLevel
from models.diffusion.recipes import Recipe
from models.graphs.neighbourhoods import editable


@dataclass(frozen=True)
class NoisyBatch:
    clean: DenseGraphs
    noisy: DenseGraphs
    noise: NoiseLevel
    steered: Tensor  # [batch] bool, which graphs have the switch on, and with it L_cf

    def select(self, part: slice) -> NoisyBatch:
        return NoisyBatch(
            self.clean.select(part),
            self.noisy.select(part),
            self.noise.select(part),
            self.steered[part],
        )


@dataclass(frozen=True)
class StepLosses:
    total: float  # of all that the gradient is of
    dist: float
    cf: float | None
    flip_rate: float | None


@dataclass(frozen=True)
class _Foresight:
    """What the effect head is given and has to estimate_cost."""

    view: Sensitivity
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
    """Adds the gradient of L_dist + alpha·L_cf + the effect head's loss to that of the weights.

    Without an alpha there is no L_cf.
    """
    foresight = None
    if gnn is not None and model.shape.classes:
        foresight = _foresight(gnn, recipe, batch, generator)
    step = _Step(model, gnn, recipe, batch, foresight, alpha, use, generator)
    nodes = batch.clean.mask.shape[1]
    plane = model.shape.hidden * nodes**2 * batch.clean.adjacency.element_size()
    passes = [step.taken(part) for part in use.passes(batch.clean.count, plane)]
    total, dist, cf = (
        float(sum(getattr(one, name) for one in passes)) for name in ("total", "dist", "cf")
    )
    steered = int(batch.steered.sum()) if alpha is not None else 0
    return StepLosses(
        total=total / batch.clean.count,
        dist=dist / batch.clean.count,
        cf=cf / steered if steered else None,
        flip_rate=sum(one.flips for one in passes) / steered if steered else None,
    )


def editable_pairs(gnn: Gnn, graphs: DenseGraphs) -> Tensor:
    """Which pairs explanations will toggle: [batch, node, node] bool."""
    return editable(graphs, gnn.spec.convolutions, gnn.spec.sight)


def _foresight(
    gnn: Gnn, recipe: Recipe, batch: NoisyBatch, generator: torch.Generator
) -> _Foresight:
    """Single toggles of the graphs that are hardly noisy: near what will be explained."""
    index = (batch.noise.remove <= recipe.effect_noise).nonzero()[:, 0]
    view = look(gnn, batch.noisy)
    if not len(index):
        return _Foresight(view, Toggles(index, index, index), view.logits[:0])
    near = batch.noisy.select(index)
    allowed = editable_pairs(gnn, batch.clean.select(index))
    toggles = drawn_toggles(near, allowed, recipe.effect_toggles, generator)
    change = logit_changes(gnn, near, toggles)
    whole = Toggles(index[toggles.graph], toggles.source, toggles.target)
    return _Foresight(view, whole, change)


@dataclass(frozen=True)
class _Step:
    model: Denoiser
    gnn: Gnn | None
    recipe: Recipe
    batch: NoisyBatch
    foresight: _Foresight | None
    alpha: float | None
    use: DeviceUse
    generator: torch.Generator

    def taken(self, part: slice) -> _PassLosses:
        """A forward and a backward pass over some of the graphs."""
        some, recipe = self.batch.select(part), self.recipe
        logits, effects = self._forward(some, part)
        weight = noise_weight(some.noise, recipe.weighting, recipe.diffusion_steps)
        dist = (weight * distribution_loss(logits, some.clean, recipe.normalisation)).sum()
        loss, cf, flips = dist, torch.zeros_like(dist), 0.0
        index = some.steered.nonzero()[:, 0]
        if self.gnn is not None and self.alpha is not None and len(index):
            per_graph, flip_rate = steering(
                self.gnn,
                logits[index],
                some.clean.select(index),
                temperature=recipe.temperature,
                generator=self.generator,
            )
            cf, flips = per_graph.sum(), flip_rate * len(index)
            loss = loss + self.alpha * cf
        if effects is not None:
            loss = loss + recipe.effect_weight * self._missed(effects, part)
        (loss / self.batch.clean.count).backward()  # type: ignore[no-untyped-call]
        return _PassLosses(loss.detach(), dist.detach(), cf.detach(), flips)

    def _forward(self, some: NoisyBatch, part: slice) -> tuple[Tensor, Tensor | None]:
        with self.use.fast_products():
            if self.foresight is None:
                return self.model(some.noisy, some.noise, some.steered), None
            view = self.foresight.view.select(part)
            return self.model.with_effects(some.noisy, some.noise, some.steered, view)

    def _missed(self, effects: Tensor, part: slice) -> Tensor:
        """The effect head's loss, as all of a batch's losses are before the sum is divided."""
        assert self.foresight is not None
        toggles, inside = self.foresight.toggles.within(part)
        change = self.foresight.change
        missed = effect_loss(toggles.of(effects), change[inside], self.model.effect_scale)
        return missed.sum() * (self.batch.clean.count / max(len(change), 1))
