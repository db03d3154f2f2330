"""Labelled graphs of a data set, and errors of its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph


@dataclass(frozen=True)
class Part:
    graphs: list[Graph]
    labels: Tensor  # [graph] int64
    skipped: int = 0  # rows of the file that are not graphs

    def select(self, index: Tensor | Sequence[int]) -> Part:
        positions = torch.as_tensor(index)
        return Part([self.graphs[i] for i in positions.tolist()], self.labels[positions])


class DataError(Exception):
    """A data set cannot be used."""


class DataMissingError(DataError):
    """The files do not exist under D4_DATA or the given path."""


class DataFormatError(DataError):
    """The files do not follow their format."""
