"""The paper's denoiser: PPGN(M_in) = L_out ∘ Concat(B_d∘…∘B_1, …, B_1)(M_in) (appendix D.1).

M_in is the concatenation of the one-hot noisy adjacency, the features of both ends and
MLP(\\bar\\beta_t·I), the noise level on the diagonal. Tensors are channel first, [channel, batch,
node, node]. No map of a powerful layer has a bias: padding stays exactly zero, and the one-hot
input, whose two channels sum to 1 at every real pair, replaces the bias.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

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
from models.diffusion.ppgn import normal_weight

_EPSILON = 1e-5  # of the norm
INPUT_PLANES = 3  # no edge, edge, noise level
# Activations [channel, pair] that a layer keeps for its gradient: for memory planning.
KEPT_PER_LAYER = 12


@dataclass(frozen=True)
class PaperShape:
    features: int
    hidden: int = 64  # h
    blocks: int = 6  # d, "num layers in PPGN"
    marked: bool = False  # reads the mark of a graph's target node as one more feature
    network: Literal["paper"] = "paper"  # tells stored shapes from those of other networks

    def __post_init__(self) -> None:
        if self.features < 0 or self.hidden < 1 or self.blocks < 1:
            raise ValueError(f"a denoiser needs channels and blocks, got {self}")


class PaperDenoiser(EdgeDenoiser):
    """A_0' = σ(logits) given A_t, node features and \\bar\\beta_t.

    Initial weights come from the generator, or from seed 0.
    """

    def __init__(self, shape: PaperShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape = shape
        rng = torch.Generator().manual_seed(0) if generator is None else generator
        hidden = shape.hidden
        self.noise = NoiseMlp(hidden, rng)
        self.inputs = PairInput(shape.features + shape.marked, 3 * hidden, rng)
        self.maps = nn.ParameterList(
            normal_weight(3 * hidden, hidden, rng) for _ in range(shape.blocks - 1)
        )
        self.layers = nn.ModuleList(PowerfulLayer(hidden, rng) for _ in range(shape.blocks))
        self.head_in = normal_weight(hidden, shape.blocks * hidden, rng)
        self.head_bias = nn.Parameter(torch.zeros(hidden, 1))
        self.head_out = normal_weight(1, hidden, rng)
        self.out_bias = nn.Parameter(torch.zeros(()))

    def shape_document(self) -> dict[str, Any]:
        return asdict(self.shape)

    @property
    def hidden(self) -> int:
        return self.shape.hidden

    @property
    def clean_flip(self) -> float:
        return CLEAN_FLIP

    @property
    def predicts_effects(self) -> bool:
        return False

    @property
    def calibrated_pool(self) -> int | None:
        return 0

    def forward(self, noisy: DenseGraphs, noise: NoiseLevel) -> Tensor:
        real = _real_pairs(noisy)
        features = noisy.features
        if self.shape.marked:
            features = torch.cat([features, target_mark(noisy)], dim=2)
        flip = (noise.add + noise.remove) / 2
        mapped = self.inputs(noisy, features, self.noise(flip, noisy))
        # L_out's first map of the concatenation is the sum of its parts' maps of the layers.
        parts = torch.split(self.head_in, self.shape.hidden, dim=1)
        hidden = self.head_bias
        for number, (layer, part) in enumerate(zip(self.layers, parts, strict=True)):
            state = layer(mapped, real)  # [channel, pair of all graphs]
            hidden = hidden + part @ state
            if number < len(self.maps):
                mapped = (self.maps[number] @ state).view(-1, *noisy.adjacency.shape)
        logits = self.head_out @ torch.relu(hidden) + self.out_bias
        return symmetric(logits.view(noisy.adjacency.shape), noisy)

    def edge_log_odds(self, graphs: DenseGraphs, noise: NoiseLevel) -> Tensor:
        logits: Tensor = self(graphs, noise)
        return logits - observation(graphs, noise)

    def read(self, graphs: DenseGraphs, sensitivity: Sensitivity | None = None) -> Reading:
        del sensitivity  # this network predicts no effects
        flip = graphs.adjacency.new_full((graphs.count,), self.clean_flip)
        with torch.inference_mode():
            log_odds = self.edge_log_odds(graphs, NoiseLevel.symmetric(flip))
        return Reading((1 - 2 * graphs.adjacency) * log_odds, None)


class PowerfulLayer(nn.Module):
    """norm(W·[x; m_1(x)·m_2(x)]): Maron et al.'s layer, m_1 and m_2 with two maps and ReLU.

    The product is the matrix product over nodes, channel by channel, divided by √n. The norm is
    over the pairs of a graph, channel by channel; of the norms tried, it learned fastest with L_cf
    (decision 13). The layer gets the maps that read x as one tensor, because all three are one
    product.
    """

    def __init__(self, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.left = normal_weight(hidden, hidden, generator)
        self.right = normal_weight(hidden, hidden, generator)
        self.paths = normal_weight(hidden, hidden, generator)

    def forward(self, mapped: Tensor, real: Tensor) -> Tensor:
        """mapped is [3·channel, batch, node, node]; real [batch, node, node] is 0 at padding."""
        stacked, batch, nodes, _ = mapped.shape
        channels = stacked // 3
        flat = mapped.flatten(1)
        left = torch.relu(self.left @ torch.relu(flat[:channels]))
        right = torch.relu(self.right @ torch.relu(flat[channels : 2 * channels]))
        paths = torch.bmm(left.view(-1, nodes, nodes), right.view(-1, nodes, nodes))
        pairs = real.sum((1, 2)).clamp(min=1)[:, None]  # [batch, 1], n² of each graph
        scaled = paths.view(channels, batch, -1) * pairs**-0.25
        state = torch.addmm(flat[2 * channels :], self.paths, scaled.flatten(1))
        state = state.view(channels, batch, -1)
        centred = (state - state.sum(2, keepdim=True) / pairs) * real.flatten(1)
        variance = centred.square().sum(2, keepdim=True) / pairs
        return (centred * (variance + _EPSILON).rsqrt()).flatten(1)


class NoiseMlp(nn.Module):
    """MLP(\\bar\\beta_t·I), applied to each pair: the noise level on the diagonal, 0 elsewhere."""

    def __init__(self, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight_in = normal_weight(hidden, 1, generator)
        self.bias_in = nn.Parameter(torch.randn(hidden, generator=generator))
        self.weight_out = normal_weight(1, hidden, generator)

    def forward(self, flip: Tensor, graphs: DenseGraphs) -> Tensor:
        """The plane of real pairs for flip [batch]: [batch, node, node]."""
        on, off = self._value(flip), self._value(torch.zeros_like(flip))
        real = _real_pairs(graphs)
        diagonal = torch.eye(real.shape[1], dtype=real.dtype, device=real.device) * real
        return off[:, None, None] * real + (on - off)[:, None, None] * diagonal

    def _value(self, flip: Tensor) -> Tensor:
        hidden = torch.relu(flip[:, None] * self.weight_in[:, 0] + self.bias_in)
        return (hidden @ self.weight_out.T)[:, 0]


class PairInput(nn.Module):
    """A linear map of M_in = Cat(A_t, X, noise): [channel, batch, node, node].

    Written as a sum of maps: the concatenation would copy every feature to each pair.
    """

    def __init__(self, features: int, out: int, generator: torch.Generator) -> None:
        super().__init__()
        self.planes = normal_weight(out, INPUT_PLANES, generator)
        self.source = normal_weight(out, features, generator)
        self.target = normal_weight(out, features, generator)

    def forward(self, graphs: DenseGraphs, features: Tensor, noise: Tensor) -> Tensor:
        real = _real_pairs(graphs)
        planes = torch.stack([real - graphs.adjacency, graphs.adjacency, noise])
        pairs = (self.planes @ planes.flatten(1)).view(-1, *real.shape)
        source = torch.einsum("cf,bnf->cbn", self.source, features)
        target = torch.einsum("cf,bnf->cbn", self.target, features)
        ends = source[:, :, :, None] + target[:, :, None, :]
        return torch.addcmul(pairs.to(real.dtype), ends.to(real.dtype), real)


def _real_pairs(graphs: DenseGraphs) -> Tensor:
    """1 where both nodes are real, the diagonal included: [batch, node, node]."""
    return (graphs.mask[:, :, None] & graphs.mask[:, None, :]).to(graphs.adjacency.dtype)
