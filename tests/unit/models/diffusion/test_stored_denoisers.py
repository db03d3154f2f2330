"""Stored denoisers: shapes of this version and of earlier ones."""

from __future__ import annotations

import json

import pytest
import torch

from d4explain.gnn.graphs import Graph, to_dense
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.diffusion.paper.network import PaperDenoiser, PaperShape
from models.diffusion.stored_denoisers import OutdatedDenoiserError, load_denoiser


@pytest.mark.parametrize(
    "denoiser",
    [
        Denoiser(DenoiserShape(3, hidden=4, blocks=1, classes=2, gnn_width=2)),
        PaperDenoiser(PaperShape(3, hidden=4, blocks=2, marked=True)),
    ],
)
def test_a_stored_denoiser_is_the_same_again(denoiser: Denoiser | PaperDenoiser) -> None:
    shape = json.loads(json.dumps(denoiser.shape_document()))
    again = load_denoiser(shape, denoiser.state_dict())
    assert type(again) is type(denoiser)
    assert again.shape == denoiser.shape
    assert all(
        torch.equal(value, again.state_dict()[name])
        for name, value in denoiser.state_dict().items()
    )


def test_shapes_of_earlier_versions_load_or_say_what_to_do() -> None:
    """With the switch and the shape's fields of earlier versions, plausibilities are the same."""
    denoiser = Denoiser(DenoiserShape(3, hidden=4, blocks=1), torch.Generator().manual_seed(1))
    with torch.no_grad():
        denoiser.head_out.fill_(1.0)
    shape = {"features": 3, "hidden": 4, "blocks": 1, "residual": True, "steered": True}
    tensors = {**denoiser.state_dict(), "switch": torch.ones(4)}
    loaded = load_denoiser(shape, tensors)
    graphs = to_dense([Graph(torch.ones(4, 3), torch.tensor([[0, 1], [1, 2]]))])
    assert torch.equal(loaded.read(graphs).plausibility, denoiser.read(graphs).plausibility)
    assert loaded.read(graphs).plausibility.any()
    with pytest.raises(OutdatedDenoiserError, match=r"earlier version.*train it again"):
        load_denoiser({**shape, "residual": False}, tensors)
