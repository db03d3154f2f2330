"""Loads stored denoisers, also those that an earlier version stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from d4explain.gnn.errors import RefusedError
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.diffusion.paper.network import PaperDenoiser, PaperShape


class OutdatedDenoiserError(RefusedError):
    """The network of this denoiser no longer exists."""

    def __init__(self) -> None:
        super().__init__(
            "this denoiser was trained with the recipe 'paper' of an earlier version, whose "
            "network no longer exists; train it again"
        )


def load_denoiser(
    shape: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Denoiser | PaperDenoiser:
    """The denoiser of a stored shape with its stored weights, in eval mode.

    Until L_cf left the default recipe, its denoisers had a switch between edges of the data and
    edges of counterfactuals. Predictions never used it, so it is dropped here.
    """
    fields = dict(shape)
    if fields.get("network") == "paper":
        paper = PaperDenoiser(PaperShape(**fields))
        paper.load_state_dict(tensors)
        return paper.eval()
    # Until the paper had its own network, `residual: false` told its denoisers from others.
    if not fields.pop("residual", True):
        raise OutdatedDenoiserError
    fields.pop("steered", None)
    denoiser = Denoiser(DenoiserShape(**fields))
    denoiser.load_state_dict({name: value for name, value in tensors.items() if name != "switch"})
    return denoiser.eval()
