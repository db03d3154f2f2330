"""One block of the provably powerful graph network, with its gradient written out by hand.

Apart from its matrix products, a PPGN spends its time on memory traffic. Written by hand,
activations and their gradients work in place, the gradients of maps with a shared input are one
product, and the sum with the block's input needs no extra pass. The tests compare it with automatic
differentiation, `python -m bench speed --part steps` with the bare products. Automatic
differentiation takes 1.12 to 1.16 times as long (decision 15).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

# Activations [channel, pair] that a block keeps for its gradient: its input, three maps of it and
# the paths. Memory planning uses this number.
KEPT_PER_BLOCK = 5


class PpgnBlock(nn.Module):
    """state + W_o·relu(W_p·(P·Q)/√n + W_s·y), P = relu(W_1·y), Q = relu(W_2·y), y = norm(state).

    P·Q is the matrix product over nodes, channel by channel: it sums over all paths i → k → j.
    Nothing here has a bias, so that zero padding stays zero.
    """

    def __init__(self, hidden: int, depth: int, generator: torch.Generator) -> None:
        super().__init__()
        # [W_1; W_2; W_s], one product since all three read y
        self.maps = normal_weight(3 * hidden, hidden, generator)
        self.product = normal_weight(hidden, hidden, generator)
        # Initially the sum over all blocks is about as large as one block.
        self.out = normal_weight(hidden, hidden, generator, scale=depth**-0.5)

    def forward(self, state: Tensor, sizes: Tensor) -> Tensor:
        """state is [channel, batch, node, node]; sizes [batch] are the real node counts.

        Under autocast, the products and stored activations have its dtype; the state keeps its own.
        """
        kind = state.device.type
        cast = torch.is_autocast_enabled(kind)
        dtype = torch.get_autocast_dtype(kind) if cast else state.dtype
        weights = [weight.to(dtype) for weight in (self.maps, self.product, self.out)]
        with torch.autocast(kind, enabled=False):
            result: Tensor = _Block.apply(state, *weights, sizes.rsqrt().to(dtype))  # type: ignore[no-untyped-call]
        return result


class _Block(torch.autograd.Function):
    """The block's formula in the type of its weights; scale [batch] is 1/√n."""

    @staticmethod
    def forward(  # noqa: PLR0917 — autograd gives no names
        ctx: Any, state: Tensor, maps: Tensor, product: Tensor, out: Tensor, scale: Tensor
    ) -> Tensor:
        channels, batch, nodes, _ = state.shape
        flat = state.flatten(1)  # [channel, pair of all graphs]
        inverse = inverse_rms(flat)
        normed = (flat * inverse).to(maps.dtype)
        mapped = maps @ normed  # [3·channel, pair]
        factors, mixed = mapped[: 2 * channels].relu_(), mapped[2 * channels :]
        left, right = factors.view(2, -1, nodes, nodes)  # [channel·batch, node, node]
        paths = torch.bmm(left, right).view(channels, batch, -1).mul_(scale[:, None]).flatten(1)
        mixed.addmm_(product, paths).relu_()
        ctx.save_for_backward(normed, inverse, mapped, paths, maps, product, out, scale)
        ctx.shape = state.shape
        if mixed.dtype == flat.dtype:
            return torch.addmm(flat, out, mixed).view_as(state)
        return (flat + out @ mixed).view_as(state)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        normed, inverse, mapped, paths, maps, product, out, scale = ctx.saved_tensors
        channels, batch, nodes, _ = ctx.shape
        factors, mixed = mapped[: 2 * channels], mapped[2 * channels :]
        left, right = factors.view(2, -1, nodes, nodes)
        flat = gradient.flatten(1)
        of_sum = flat.to(maps.dtype)

        of_mapped = torch.empty_like(mapped)
        of_factors, of_mixed = of_mapped[: 2 * channels], of_mapped[2 * channels :]
        of_left, of_right = of_factors.view(2, -1, nodes, nodes)
        torch.mm(out.T, of_sum, out=of_mixed)
        _relu_backward(of_mixed, mixed)
        of_paths = (product.T @ of_mixed).view(channels, batch, -1).mul_(scale[:, None])
        of_paths = of_paths.view(-1, nodes, nodes)
        torch.bmm(of_paths, right.mT, out=of_left)
        torch.bmm(left.mT, of_paths, out=of_right)
        _relu_backward(of_factors, factors)

        of_normed = (maps.T @ of_mapped).to(flat.dtype)
        along = (of_normed * normed).mean(0)  # the part of the gradient that the norm removes
        across = of_normed.addcmul_(normed.to(flat.dtype), along, value=-1)
        return (
            torch.addcmul(flat, across, inverse).view(ctx.shape),
            of_mapped @ normed.T,
            of_mixed @ paths.T,
            of_sum @ mixed.T,
            None,
        )


def inverse_rms(values: Tensor) -> Tensor:
    """1 / root mean square over the channels, finite where all channels are zero: [pair]."""
    return (values.square().mean(0) + 1e-6).rsqrt()


def normal_weight(
    out: int, inputs: int, generator: torch.Generator, scale: float = 1.0
) -> nn.Parameter:
    """Normal weights whose map keeps the mean square of its inputs."""
    drawn = torch.randn(out, inputs, generator=generator)
    return nn.Parameter(drawn * (scale * max(inputs, 1) ** -0.5))


def _relu_backward(gradient: Tensor, activated: Tensor) -> None:
    """The gradient where the activation was positive, zero elsewhere; in place."""
    torch.ops.aten.threshold_backward.grad_input(gradient, activated, 0, grad_input=gradient)
