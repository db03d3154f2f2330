"""Labelled graphs of a data set, and what can be wrong with the files they come from."""

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
    skipped: int = 0  # rows of the file that are no graph

    def select(self, index: Tensor | Sequence[int]) -> Part:
        chosen = torch.as_tensor(index)
        return Part([self.graphs[i] for i in chosen.tolist()], self.labels[chosen])


class DataError(Exception):
    """A data set cannot be used; the message says why and what was found."""


class DataMissingError(DataError):
    """The files are not where D4_DATA or the given path says."""


class DataFormatError(DataError):
    """The files are there but do not hold what their format promises."""
