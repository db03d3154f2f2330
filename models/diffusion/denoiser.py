"""The denoiser: a provably powerful graph network (PPGN) that predicts the clean edges.

Tensors are channel first, [channel, batch, node, node]: a 1×1 map over all pairs is one matrix
product and a block's graph product is one batched one, without a copy in between. No map has a
bias and every activation keeps 0 at 0, so padding stays exactly zero from the first layer to the
last without being masked again; what a bias would do is done by the constant input planes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from d4explain.gnn.errors import NoMarkedNodeError
from d4explain.gnn.graphs import DenseGraphs
from models.diffusion.gnn_sensitivity import Sensitivity
from models.diffusion.noise import NoiseLevel
from models.diffusion.ppgn import PpgnBlock, inverse_rms, normal_weight

# Beyond this the closed-form residual is large enough to decide every pair, and stays finite.
SMALLEST_PROBABILITY = 1e-6
# The noise level at which the log-odds of an edge given the rest are read off a clean graph.
CLEAN_FLIP = 0.02
NOISE_FEATURES = 6
# The switch starts at zero and has only the end of the training to set the two answers apart.
SWITCH_GAIN = 40.0
INPUT_PLANES = 3  # edge, no edge, diagonal


@dataclass(frozen=True)
class DenoiserShape:
    features: int
    hidden: int = 32
    blocks: int = 4
    residual: bool = True
    steered: bool = False  # has a switch between the data's edges and counterfactual ones
    marked: bool = False  # sees which node of each graph is marked, as one more feature
    classes: int = 0  # of the GNN whose answers the effect head foretells; 0: there is no such head
    clean_flip: float = CLEAN_FLIP  # the noise level at which a clean graph is read
    pool: int | None = 0  # best foretold pairs to try, so that what matters is there; None: all
    gnn_width: int = 0  # numbers that the GNN's convolutions say about a node, for that head

    def __post_init__(self) -> None:
        if (
            min(self.features, self.classes, self.gnn_width) < 0
            or self.hidden < 1
            or self.blocks < 1
        ):
            raise ValueError(f"a denoiser needs channels and blocks, got {self}")


class Reading(NamedTuple):
    """What a denoiser says about toggling each pair of a graph as it is."""

    plausibility: Tensor  # [batch, node, node] how much likelier the graph becomes: (1 - 2A)·f
    # [class, batch, node, node] how the GNN's logits change, mean 0; None without an effect head
    effects: Tensor | None


class Denoiser(nn.Module):
    """Edge logits of G_0 given G_t, node features and the noise level.

    A steered denoiser learns two answers with the same weights: with the switch on it proposes
    counterfactuals (trained with L_dist + alpha·L_cf), with the switch off it knows the data alone
    (trained with L_dist), so that plausibility is never bent towards what the GNN wants to see.
    Initial weights come from the generator alone; without one they are those of seed 0.
    """

    def __init__(self, shape: DenoiserShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape = shape
        rng = torch.Generator().manual_seed(0) if generator is None else generator
        hidden = shape.hidden
        self.planes = normal_weight(hidden, INPUT_PLANES, rng)
        inputs = shape.features + shape.marked
        self.source = normal_weight(hidden, inputs, rng)
        self.target = normal_weight(hidden, inputs, rng)
        self.noise_in = normal_weight(hidden, NOISE_FEATURES, rng)
        self.noise_bias = nn.Parameter(torch.zeros(hidden))
        self.noise_out = normal_weight(hidden, hidden, rng)
        self.switch = nn.Parameter(torch.zeros(hidden if shape.steered else 0))
        self.blocks = nn.ModuleList(
            PpgnBlock(hidden, shape.blocks, rng) for _ in range(shape.blocks)
        )
        self.head_in = normal_weight(hidden, hidden, rng)
        self.head_out = nn.Parameter(torch.zeros(1, hidden))
        if shape.classes:
            self.effect_in = normal_weight(hidden, hidden + shape.classes, rng)
            self.effect_source = normal_weight(hidden, shape.gnn_width, rng)
            self.effect_target = normal_weight(hidden, shape.gnn_width, rng)
            self.effect_out = nn.Parameter(torch.zeros(shape.classes, hidden))
            self.slope_gain = nn.Parameter(torch.ones(()))
            # the size of a usual change of the GNN's logits: measured before training, not learnt
            self.effect_scale = nn.Parameter(torch.ones(()), requires_grad=False)

    def forward(
        self, noisy: DenseGraphs, noise: NoiseLevel, steered: Tensor | None = None
    ) -> Tensor:
        """Symmetric logits of P(edge in G_0 | G_t), 0 off the pairs: [batch, node, node].

        `steered` [batch] says which graphs have the switch on, all of them by default; it means
        nothing to a denoiser without the switch.
        """
        on = torch.ones_like(noise.add) if steered is None else steered.to(noise.add.dtype)
        return self._logits(self._state(noisy, noise, on), noisy, noise)

    def with_effects(
        self, noisy: DenseGraphs, noise: NoiseLevel, steered: Tensor, view: Sensitivity
    ) -> tuple[Tensor, Tensor]:
        """The logits as `forward` gives them, and the effects in units of `effect_scale`.

        An effect is what toggling the pair in the noisy graph does to the GNN's logits, whose mean
        over classes stays 0: [class, batch, node, node]. `view` is the GNN's own of that graph.
        """
        state = self._state(noisy, noise, steered.to(noise.add.dtype))
        return self._logits(state, noisy, noise), self._effects(state, noisy, view)

    def read(self, graphs: DenseGraphs, view: Sensitivity | None = None) -> Reading:
        """What one pass says about toggling each pair of discrete graphs.

        Without the GNN's view, or without an effect head, it says nothing about effects.
        """
        noise = NoiseLevel.symmetric(
            graphs.adjacency.new_full((graphs.count,), self.shape.clean_flip)
        )
        with torch.inference_mode():
            state = self._state(graphs, noise, torch.zeros_like(noise.add))
            plausibility = (1 - 2 * graphs.adjacency) * self._log_odds(state, graphs, noise)
            if view is None or not self.shape.classes:
                return Reading(plausibility, None)
            effects = self._effects(state, graphs, view) * self.effect_scale
            return Reading(plausibility, effects)

    def edge_log_odds(self, graphs: DenseGraphs, noise: NoiseLevel) -> Tensor:
        """f: the log-odds of an edge given the rest of the graph, without its own observation."""
        state = self._state(graphs, noise, torch.zeros_like(noise.add))
        return self._log_odds(state, graphs, noise)

    def _logits(self, state: Tensor, graphs: DenseGraphs, noise: NoiseLevel) -> Tensor:
        logits = self._edges(state, graphs)
        return logits + _observation(graphs, noise) if self.shape.residual else logits

    def _log_odds(self, state: Tensor, graphs: DenseGraphs, noise: NoiseLevel) -> Tensor:
        logits = self._edges(state, graphs)
        return logits if self.shape.residual else logits - _observation(graphs, noise)

    def _state(self, graphs: DenseGraphs, noise: NoiseLevel, steered: Tensor) -> Tensor:
        """What the blocks make of the graphs, normed over channels: [channel, pair of all]."""
        sizes = graphs.mask.sum(1).clamp(min=1).to(graphs.adjacency.dtype)  # [batch]
        state = self._embed(graphs, self._level(noise, steered))  # [channel, batch, node, node]
        for block in self.blocks:
            state = block(state, sizes)
        flat = state.flatten(1)
        return flat * inverse_rms(flat)

    def _edges(self, state: Tensor, graphs: DenseGraphs) -> Tensor:
        logits = self.head_out @ torch.relu_(self.head_in @ state)
        return _symmetric(logits.view(graphs.adjacency.shape), graphs)

    def _effects(self, state: Tensor, graphs: DenseGraphs, view: Sensitivity) -> Tensor:
        """The GNN's slopes, corrected by what is known about each pair and its two ends."""
        slopes = (view.slopes / self.effect_scale).flatten(1)  # [class, pair of all graphs]
        states = torch.asinh(view.states)  # [batch, node, width]
        source = torch.einsum("cf,bnf->cbn", self.effect_source, states)
        target = torch.einsum("cf,bnf->cbn", self.effect_target, states)
        known = (source[:, :, :, None] + target[:, :, None, :]).flatten(1)
        known = known + self.effect_in @ torch.cat([state, torch.asinh(slopes)])
        effects = self.effect_out @ torch.relu_(known) + self.slope_gain * slopes
        effects = effects - effects.mean(dim=0)
        return _symmetric(effects.view(self.shape.classes, *graphs.adjacency.shape), graphs)

    def _level(self, noise: NoiseLevel, steered: Tensor) -> Tensor:
        """What is known of the whole graph: a small MLP of the noise, and the switch."""
        hidden = torch.relu(_noise_features(noise) @ self.noise_in.T + self.noise_bias)
        level = self.noise_out @ hidden.T  # [channel, batch]
        if self.shape.steered:
            level = torch.addcmul(level, self.switch[:, None], steered, value=SWITCH_GAIN)
        return level

    def _embed(self, graphs: DenseGraphs, level: Tensor) -> Tensor:
        """A linear map of (one-hot noisy adjacency, both ends' features, noise features).

        Committed as a sum of maps: concatenating the inputs would copy every feature to each pair.
        """
        batch, nodes = graphs.mask.shape
        real = (graphs.mask[:, :, None] & graphs.mask[:, None, :]).to(graphs.adjacency.dtype)
        diagonal = torch.eye(nodes, dtype=real.dtype, device=real.device) * real
        planes = torch.stack([graphs.adjacency, real - graphs.adjacency - diagonal, diagonal])
        pairs = (self.planes @ planes.flatten(1)).view(-1, batch, nodes, nodes)
        # asinh leaves one-hot and small features as they are and tames unscaled measurements
        features = torch.asinh(graphs.features)  # [batch, node, feature]
        if self.shape.marked:
            features = torch.cat([features, _mark(graphs)], dim=2)
        source = torch.einsum("cf,bnf->cbn", self.source, features)
        source = source + level[:, :, None]
        target = torch.einsum("cf,bnf->cbn", self.target, features)
        ends = source[:, :, :, None] + target[:, :, None, :]
        return torch.addcmul(pairs.to(real.dtype), ends.to(real.dtype), real)


def _symmetric(values: Tensor, graphs: DenseGraphs) -> Tensor:
    """[…, batch, node, node] values, the same whichever end comes first, 0 off the pairs."""
    values = values.to(graphs.adjacency.dtype)  # products under autocast have less precision
    return (values + values.mT) / 2 * graphs.pair_mask


def _observation(noisy: DenseGraphs, noise: NoiseLevel) -> Tensor:
    """What the noisy state of a pair says about its clean state, by Bayes' rule, 0 off the pairs.

    [A_t = 1]·log((1 - b)/a) + [A_t = 0]·log(b/(1 - a)): the log of P(A_t | 1) / P(A_t | 0).
    """
    add, remove = _bounded(noise.add), _bounded(noise.remove)
    present = torch.log((1 - remove) / add)[:, None, None]
    absent = torch.log(remove / (1 - add))[:, None, None]
    return (absent + noisy.adjacency * (present - absent)) * noisy.pair_mask


def _mark(graphs: DenseGraphs) -> Tensor:
    """1 at each graph's marked node: [batch, node, 1]."""
    if graphs.targets is None:
        raise NoMarkedNodeError("this denoiser was made for node classifiers and")
    mark = graphs.features.new_zeros(graphs.mask.shape)
    return mark.scatter(1, graphs.targets[:, None], 1)[:, :, None]


def _noise_features(noise: NoiseLevel) -> Tensor:
    """Both probabilities, their logs, and what a present and an absent edge tell: [batch, 6]."""
    add, remove = noise.add.clamp(1e-3, 0.999), noise.remove.clamp(1e-3, 0.999)
    present, absent = torch.log((1 - remove) / add), torch.log(remove / (1 - add))
    columns = [2 * add, 2 * remove, add.log() / 4, remove.log() / 4, present / 4, absent / 4]
    return torch.stack(columns, dim=1)


def _bounded(probability: Tensor) -> Tensor:
    return probability.clamp(SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
