"""Builds the network of a stored shape, also of a shape that an earlier version stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def denoiser_of(shape: Mapping[str, Any]) -> Denoiser | PaperDenoiser:
    """A network of the stored shape, for weights to be loaded."""
    fields = dict(shape)
    if fields.get("network") == "paper":
        return PaperDenoiser(PaperShape(**fields))
    # Until the paper had its own network, `residual: false` told its denoisers from others.
    if not fields.pop("residual", True):
        raise OutdatedDenoiserError
    return Denoiser(DenoiserShape(**fields))
