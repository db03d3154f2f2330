"""Layers that store node values and use stored ones; the network holds the list of kept values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from d4explain.gnn.spec import AddLayer, JumpLayer, KeepLayer


class Keep(nn.Module):
    """Marks where the network stores its node values; it has no weights."""

    def __init__(self, _width: int, _layer: KeepLayer) -> None:
        super().__init__()


class Add(nn.Module):
    """Marks where the network adds the last kept values; it has no weights."""

    def __init__(self, _width: int, _layer: AddLayer) -> None:
        super().__init__()


class Jump(nn.Module):
    """PyG's JumpingKnowledge over the kept values; the same in both forms."""

    def __init__(self, _width: int, layer: JumpLayer) -> None:
        super().__init__()
        self._layer = layer

    def joined(self, kept: Sequence[Tensor]) -> Tensor:
        """All kept […, width] in order → […, sum of widths], or […, width] for the maximum."""
        values = self._layer.joined(kept)
        if self._layer.mode == "cat":
            return torch.cat(values, dim=-1)
        return torch.stack(values).amax(dim=0)
