"""A GNN that can only be asked: a module whose forward pass is a POST."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from d4explain.contracts.plugins import BlackBoxFields
from d4explain.gnn.errors import RefusedError
from worker.loading.predict_client import PredictClient, PredictError

BATCH = 64  # graphs per POST
RESERVED = 128  # queries that a search leaves for the verification of what it found
_SUM_TOLERANCE = 1e-3
_LEAST = 1e-30  # a probability of 0 has no logarithm


class QueryBudgetError(RefusedError):
    def __init__(self, budget: int) -> None:
        super().__init__(
            f"the budget of {budget:,} queries to the black box is used up; a larger "
            "`max_queries`, fewer graphs or the preset `fast` may help"
        )


class BlackBox(nn.Module):
    """Log-probabilities of graphs; answers are remembered, so that no graph is asked twice.

    It belongs to one job, and so do its memory and its budget.
    """

    def __init__(self, _fields: BlackBoxFields, _features: int, outputs: int) -> None:
        super().__init__()
        self._classes = outputs
        self._client: PredictClient | None = None
        self._budget = 0
        self._known: dict[bytes, list[float]] | None = None
        self.queries = 0

    def open(self, client: PredictClient, budget: int, *, remembers: bool = True) -> None:
        self._client = client
        self._budget = budget
        self._known = {} if remembers else None

    @property
    def nearly_used_up(self) -> bool:
        return self.queries + RESERVED >= self._budget

    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        graphs = _documents(values, edge_index, batch)
        keys = [_key(graph) for graph in graphs]
        known = {} if self._known is None else self._known
        new = {key: graph for key, graph in zip(keys, graphs, strict=True) if key not in known}
        waiting = list(new)
        for start in range(0, len(waiting), BATCH):
            some = waiting[start : start + BATCH]
            known.update(zip(some, self._asked([new[key] for key in some]), strict=True))
        rows = torch.tensor([known[key] for key in keys], dtype=values.dtype, device=values.device)
        return rows.clamp(min=_LEAST).log()

    def _asked(self, graphs: Sequence[dict[str, Any]]) -> list[list[float]]:
        assert self._client is not None, "a black box is opened before it is asked"
        if self.queries + len(graphs) > self._budget:
            raise QueryBudgetError(self._budget)
        self.queries += len(graphs)
        answer = self._client.ask({"graphs": list(graphs)})
        return checked(answer, len(graphs), self._classes)


def checked(answer: Any, graphs: int, classes: int) -> list[list[float]]:
    """The probabilities of an answer, which must be exactly what was asked for."""
    rows = answer.get("probabilities") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise PredictError('the black box\'s answer is not {"probabilities": [[…], …]}')
    if len(rows) != graphs:
        raise PredictError(f"the black box answered for {len(rows)} of {graphs} graphs")
    for place, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != classes or not all(map(_is_share, row)):
            raise PredictError(
                f"the black box's answer for graph {place} is not {classes} numbers from 0 to 1"
            )
        if abs(sum(row) - 1) > _SUM_TOLERANCE:
            said = f"the black box's probabilities of graph {place} add up to {sum(row):.6g}"
            raise PredictError(f"{said}, not to 1")
    return rows


def _is_share(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= 1


def _documents(values: Tensor, edge_index: Tensor, batch: Tensor) -> list[dict[str, Any]]:
    """PyG dicts: both directions of every edge, sorted."""
    count = int(batch.max()) + 1
    sizes = torch.bincount(batch, minlength=count)
    starts = (sizes.cumsum(0) - sizes).tolist()
    edges: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    owners = batch[edge_index[0]].tolist()
    for graph, source, target in zip(owners, *edge_index.tolist(), strict=True):
        edges[graph].append((source - starts[graph], target - starts[graph]))
    return [
        {
            "x": x.tolist(),
            "edge_index": [list(ends) for ends in zip(*sorted(own), strict=True)] or [[], []],
            "num_nodes": len(x),
        }
        for x, own in zip(torch.split(values.cpu(), sizes.tolist()), edges, strict=True)
    ]


def _key(graph: dict[str, Any]) -> bytes:
    return hashlib.sha256(repr((graph["x"], graph["edge_index"])).encode()).digest()
