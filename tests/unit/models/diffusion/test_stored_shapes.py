"""Stored denoisers: shapes of this version and of earlier ones."""

from __future__ import annotations

import json

import pytest
import torch

from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.diffusion.paper.network import PaperDenoiser, PaperShape
from models.diffusion.stored_shapes import OutdatedDenoiserError, denoiser_of


@pytest.mark.parametrize(
    "denoiser",
    [
        Denoiser(DenoiserShape(3, hidden=4, blocks=1, classes=2, gnn_width=2)),
        PaperDenoiser(PaperShape(3, hidden=4, blocks=2, marked=True)),
    ],
)
def test_a_stored_denoiser_is_the_same_again(denoiser: Denoiser | PaperDenoiser) -> None:
    again = denoiser_of(json.loads(json.dumps(denoiser.shape_document())))
    again.load_state_dict(denoiser.state_dict())
    assert type(again) is type(denoiser)
    assert again.shape == denoiser.shape
    assert all(
        torch.equal(value, again.state_dict()[name])
        for name, value in denoiser.state_dict().items()
    )


def test_shapes_of_earlier_versions_load_or_say_what_to_do() -> None:
    shape = {"features": 3, "hidden": 4, "blocks": 1, "residual": True, "steered": False}
    assert isinstance(denoiser_of(shape), Denoiser)
    with pytest.raises(OutdatedDenoiserError, match=r"earlier version.*train it again"):
        denoiser_of({**shape, "residual": False})
