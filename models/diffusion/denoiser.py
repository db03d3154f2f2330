"""The denoiser: a provably powerful graph network (PPGN) that predicts the clean edges.

Tensors are channel first, [channel, batch, node, node]: a 1×1 map over all pairs is one matrix
product and a block's graph product is one batched one, without a copy in between. No map has a
bias and every activation keeps 0 at 0, so padding stays exactly zero from the first layer to the
last without another mask. The constant input planes replace the bias.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from d4explain.gnn.graphs import DenseGraphs
from models.diffusion.edge_denoiser import (
    CLEAN_FLIP,
    EdgeDenoiser,
    Reading,
    observation,
    symmetric,
    target_mark,
)
from models.diffusion.gnn_sensitivity import Sensitivity
from models.diffusion.noise import NoiseLevel
from models.diffusion.ppgn import PpgnBlock, inverse_rms, normal_weight

NOISE_FEATURES = 6
INPUT_PLANES = 3  # edge, no edge, diagonal


@dataclass(frozen=True)
class DenoiserShape:
    features: int
    hidden: int = 32
    blocks: int = 4
    marked: bool = False  # reads the mark of a graph's target node as one more feature
    classes: int = 0  # of the GNN that the effect head predicts; 0 means no effect head
    clean_flip: float = CLEAN_FLIP  # the noise level at which a clean graph is read
    pool: int | None = 0  # calibrated pool size: pairs to try; None means all
    gnn_width: int = 0  # width of the GNN's node states, for the effect head
    calibration_graphs: int = 0  # held-out graphs that calibrate typicality

    def __post_init__(self) -> None:
        if (
            min(self.features, self.classes, self.gnn_width, self.calibration_graphs) < 0
            or self.hidden < 1
            or self.blocks < 1
        ):
            raise ValueError(f"a denoiser needs channels and blocks, got {self}")


class Denoiser(EdgeDenoiser):
    """Edge logits of G_0 given G_t, node features and the noise level.

    Initial weights come from the generator, or from seed 0.
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
            # Typical change of the GNN's logits, measured before training.
            self.effect_scale = nn.Parameter(torch.ones(()), requires_grad=False)
        if shape.calibration_graphs:  # denoisers of earlier versions have none
            count = shape.calibration_graphs
            self.calibration_scores: Tensor
            self.calibration_sizes: Tensor
            self.register_buffer("calibration_scores", torch.zeros(count))
            self.register_buffer("calibration_sizes", torch.zeros(count, dtype=torch.int64))

    def shape_document(self) -> dict[str, Any]:
        return asdict(self.shape)

    @property
    def hidden(self) -> int:
        return self.shape.hidden

    @property
    def clean_flip(self) -> float:
        return self.shape.clean_flip

    @property
    def predicts_effects(self) -> bool:
        return self.shape.classes > 0

    @property
    def calibrated_pool(self) -> int | None:
        return self.shape.pool

    def forward(self, noisy: DenseGraphs, noise: NoiseLevel) -> Tensor:
        """Symmetric logits of P(edge in G_0 | G_t), 0 off the pairs: [batch, node, node]."""
        return self._logits(self._state(noisy, noise), noisy, noise)

    def with_effects(
        self, noisy: DenseGraphs, noise: NoiseLevel, sensitivity: Sensitivity
    ) -> tuple[Tensor, Tensor]:
        """The logits as `forward` gives them, and the effects in units of `effect_scale`.

        An effect is the change of the GNN's logits, centred over the classes, when the pair is
        toggled in the noisy graph: [class, batch, node, node].
        """
        state = self._state(noisy, noise)
        return self._logits(state, noisy, noise), self._effects(state, noisy, sensitivity)

    def read(self, graphs: DenseGraphs, sensitivity: Sensitivity | None = None) -> Reading:
        """Reads plausibility and effects of all toggles of discrete graphs in one pass.

        Effects are None without the GNN's sensitivity or without an effect head.
        """
        noise = NoiseLevel.symmetric(graphs.adjacency.new_full((graphs.count,), self.clean_flip))
        with torch.inference_mode():
            state = self._state(graphs, noise)
            plausibility = (1 - 2 * graphs.adjacency) * self._edges(state, graphs)
            if sensitivity is None or not self.shape.classes:
                return Reading(plausibility, None)
            effects = self._effects(state, graphs, sensitivity) * self.effect_scale
            return Reading(plausibility, effects)

    def edge_log_odds(self, graphs: DenseGraphs, noise: NoiseLevel) -> Tensor:
        """f: the log-odds of an edge given the rest of the graph, without its own observation."""
        return self._edges(self._state(graphs, noise), graphs)

    def _logits(self, state: Tensor, graphs: DenseGraphs, noise: NoiseLevel) -> Tensor:
        """The network's log-odds f, to which Bayes' rule adds the observed state of the pair."""
        return self._edges(state, graphs) + observation(graphs, noise)

    def _state(self, graphs: DenseGraphs, noise: NoiseLevel) -> Tensor:
        """Output of the blocks, normed over channels: [channel, pair of all graphs]."""
        sizes = graphs.mask.sum(1).clamp(min=1).to(graphs.adjacency.dtype)  # [batch]
        state = self._embed(graphs, self._level(noise))  # [channel, batch, node, node]
        for block in self.blocks:
            state = block(state, sizes)
        flat = state.flatten(1)
        return flat * inverse_rms(flat)

    def _edges(self, state: Tensor, graphs: DenseGraphs) -> Tensor:
        logits = self.head_out @ torch.relu_(self.head_in @ state)
        return symmetric(logits.view(graphs.adjacency.shape), graphs)

    def _effects(self, state: Tensor, graphs: DenseGraphs, sensitivity: Sensitivity) -> Tensor:
        """The GNN's slopes, corrected by the states of each pair and its two ends."""
        slopes = (sensitivity.slopes / self.effect_scale).flatten(1)  # [class, pair of all graphs]
        states = torch.asinh(sensitivity.states)  # [batch, node, width]
        source = torch.einsum("cf,bnf->cbn", self.effect_source, states)
        target = torch.einsum("cf,bnf->cbn", self.effect_target, states)
        known = (source[:, :, :, None] + target[:, :, None, :]).flatten(1)
        known = known + self.effect_in @ torch.cat([state, torch.asinh(slopes)])
        effects = self.effect_out @ torch.relu_(known) + self.slope_gain * slopes
        effects = effects - effects.mean(dim=0)
        return symmetric(effects.view(self.shape.classes, *graphs.adjacency.shape), graphs)

    def _level(self, noise: NoiseLevel) -> Tensor:
        """Graph-level input, a small MLP of the noise: [channel, batch]."""
        hidden = torch.relu(_noise_features(noise) @ self.noise_in.T + self.noise_bias)
        return self.noise_out @ hidden.T

    def _embed(self, graphs: DenseGraphs, level: Tensor) -> Tensor:
        """A linear map of (one-hot noisy adjacency, both ends' features, noise features).

        Written as a sum of maps: concatenating the inputs would copy every feature to each pair.
        """
        batch, nodes = graphs.mask.shape
        real = (graphs.mask[:, :, None] & graphs.mask[:, None, :]).to(graphs.adjacency.dtype)
        diagonal = torch.eye(nodes, dtype=real.dtype, device=real.device) * real
        planes = torch.stack([graphs.adjacency, real - graphs.adjacency - diagonal, diagonal])
        pairs = (self.planes @ planes.flatten(1)).view(-1, batch, nodes, nodes)
        # asinh keeps one-hot and small features and shrinks unscaled measurements.
        features = torch.asinh(graphs.features)  # [batch, node, feature]
        if self.shape.marked:
            features = torch.cat([features, target_mark(graphs)], dim=2)
        source = torch.einsum("cf,bnf->cbn", self.source, features)
        source = source + level[:, :, None]
        target = torch.einsum("cf,bnf->cbn", self.target, features)
        ends = source[:, :, :, None] + target[:, :, None, :]
        return torch.addcmul(pairs.to(real.dtype), ends.to(real.dtype), real)


def _noise_features(noise: NoiseLevel) -> Tensor:
    """Both probabilities, their logs, and the log-likelihood ratios of both states: [batch, 6]."""
    add, remove = noise.add.clamp(1e-3, 0.999), noise.remove.clamp(1e-3, 0.999)
    present, absent = torch.log((1 - remove) / add), torch.log(remove / (1 - add))
    columns = [2 * add, 2 * remove, add.log() / 4, remove.log() / 4, present / 4, absent / 4]
    return torch.stack(columns, dim=1)
