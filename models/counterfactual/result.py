"""What an explanation of one graph holds."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from d4explain.gnn.graphs import Graph


@dataclass(frozen=True)
class FoundEdit:
    source: int
    target: int
    added: bool
    plausibility: float  # log-odds that the denoiser gives this edit on the input
    # The denoiser put the edit set forward: it is a sample's, or the search tried the pairs that
    # it foretold to matter. Otherwise it left none out, except where a flip was out of reach, or of
    # very many pairs the most promising were tried.
    by_denoiser: bool
    attributes: tuple[float, ...] | None = None  # of the edge, where edges have some


@dataclass(frozen=True)
class FoundCounterfactual:
    graph: Graph
    edits: tuple[FoundEdit, ...]
    probabilities: Tensor  # [class], by the sparse GNN
    likelihood: float  # mean plausibility of the edits
    connected: bool
    by_denoiser: bool


@dataclass(frozen=True)
class CounterfactualOutcome:
    """What was found for one graph, best first, and the work it took."""

    probabilities: Tensor  # [class], of the input
    found: tuple[FoundCounterfactual, ...]
    closest_miss: FoundCounterfactual | None  # only if nothing was found
    reason: str | None  # only if nothing was found
    gnn_evaluations: int  # graphs judged by a forward pass, dense and sparse
    gnn_gradients: int  # graphs that went backward, once per number differentiated
    samples: int  # graphs drawn from the denoiser
    depth: int  # edits that the search tried to combine
    seconds: float
    candidates: int | None = None  # node pairs that were looked at; None: all that may be edited
