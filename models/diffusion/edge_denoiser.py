"""The interface that explanations need of a denoiser, and Bayes' rule for one observed pair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from d4explain.gnn.errors import NoMarkedNodeError
from d4explain.gnn.graphs import DenseGraphs
from models.diffusion.gnn_sensitivity import Sensitivity
from models.diffusion.noise import NoiseLevel

# At this bound the closed-form residual still decides every pair, and it stays finite.
SMALLEST_PROBABILITY = 1e-6
# The noise level at which a clean graph is read for log-odds of its edges.
CLEAN_FLIP = 0.02


class Reading(NamedTuple):
    """Plausibility and effects of toggling each pair of a clean graph."""

    plausibility: Tensor  # [batch, node, node] how much likelier the graph becomes: (1 - 2A)·f
    # [class, batch, node, node] how the GNN's logits change, mean 0; None without an effect head
    effects: Tensor | None


class EdgeDenoiser(nn.Module, ABC):
    """Edge logits of G_0 given G_t, node features and the noise level."""

    @abstractmethod
    def shape_document(self) -> dict[str, Any]:
        """The shape to store beside the weights; `stored_denoisers.load_denoiser` reads it."""

    @property
    @abstractmethod
    def hidden(self) -> int:
        """Channels per node pair, for memory planning."""

    @property
    @abstractmethod
    def clean_flip(self) -> float:
        """The noise level at which a clean graph is read."""

    @property
    @abstractmethod
    def predicts_effects(self) -> bool:
        """Whether `read` returns effects if it gets the GNN's sensitivity."""

    @property
    @abstractmethod
    def calibrated_pool(self) -> int | None:
        """Pairs to try, from the calibration of the effects; 0 if uncalibrated, None for all."""

    @abstractmethod
    def forward(self, noisy: DenseGraphs, noise: NoiseLevel) -> Tensor:
        """Symmetric logits of P(edge in G_0 | G_t), 0 off the pairs: [batch, node, node]."""

    @abstractmethod
    def edge_log_odds(self, graphs: DenseGraphs, noise: NoiseLevel) -> Tensor:
        """f: the log-odds of an edge given the rest of the graph, without its own observation."""

    @abstractmethod
    def read(self, graphs: DenseGraphs, sensitivity: Sensitivity | None = None) -> Reading:
        """Reads plausibility and effects of all toggles of discrete graphs in one pass."""


def symmetric(values: Tensor, graphs: DenseGraphs) -> Tensor:
    """Symmetric […, batch, node, node] values, 0 off the pairs."""
    values = values.to(graphs.adjacency.dtype)  # products under autocast have less precision
    return (values + values.mT) / 2 * graphs.pair_mask


def observation(noisy: DenseGraphs, noise: NoiseLevel) -> Tensor:
    """Log-likelihood ratio of a pair's noisy state, for Bayes' rule; 0 off the pairs.

    [A_t = 1]·log((1 - b)/a) + [A_t = 0]·log(b/(1 - a)): the log of P(A_t | 1) / P(A_t | 0).
    """
    add, remove = _bounded(noise.add), _bounded(noise.remove)
    present = torch.log((1 - remove) / add)[:, None, None]
    absent = torch.log(remove / (1 - add))[:, None, None]
    return (absent + noisy.adjacency * (present - absent)) * noisy.pair_mask


def target_mark(graphs: DenseGraphs) -> Tensor:
    """1 at each graph's marked node: [batch, node, 1]."""
    if graphs.targets is None:
        raise NoMarkedNodeError("this denoiser was made for node classifiers and")
    mark = graphs.features.new_zeros(graphs.mask.shape)
    return mark.scatter(1, graphs.targets[:, None], 1)[:, :, None]


def _bounded(probability: Tensor) -> Tensor:
    return probability.clamp(SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
