"""A GNN behind a URL: a torch module that sends graphs in a POST and receives probabilities."""

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
RESERVED_QUERIES = 128  # the search leaves these to verify its results
_SUM_TOLERANCE = 1e-3
_MIN_PROBABILITY = 1e-30  # log(0) is not finite


class QueryBudgetError(RefusedError):
    def __init__(self, budget: int) -> None:
        super().__init__(
            f"the budget of {budget:,} queries to the black box is used up; "
            "raise `max_queries`, send fewer graphs or use the preset `fast`"
        )


class BlackBox(nn.Module):
    """Returns log-probabilities and caches answers, so that no graph is sent twice.

    It belongs to one job, together with its cache and its budget.
    """

    def __init__(self, _fields: BlackBoxFields, _features: int, outputs: int) -> None:
        super().__init__()
        self._classes = outputs
        self._client: PredictClient | None = None
        self._budget = 0
        self._answers: dict[bytes, list[float]] | None = None
        self.queries = 0

    def open(self, client: PredictClient, budget: int, *, caches_answers: bool = True) -> None:
        self._client = client
        self._budget = budget
        self._answers = {} if caches_answers else None

    @property
    def is_nearly_exhausted(self) -> bool:
        return self.queries + RESERVED_QUERIES >= self._budget

    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        graphs = _documents(values, edge_index, batch)
        keys = [_key(graph) for graph in graphs]
        answers = {} if self._answers is None else self._answers
        new = {key: graph for key, graph in zip(keys, graphs, strict=True) if key not in answers}
        new_keys = list(new)
        for start in range(0, len(new_keys), BATCH):
            chunk = new_keys[start : start + BATCH]
            answers.update(zip(chunk, self._query([new[key] for key in chunk]), strict=True))
        rows = torch.tensor(
            [answers[key] for key in keys], dtype=values.dtype, device=values.device
        )  # [graph, class]
        return rows.clamp(min=_MIN_PROBABILITY).log()

    def _query(self, graphs: Sequence[dict[str, Any]]) -> list[list[float]]:
        assert self._client is not None, "open() comes before the first query"
        if self.queries + len(graphs) > self._budget:
            raise QueryBudgetError(self._budget)
        self.queries += len(graphs)
        answer = self._client.post({"graphs": list(graphs)})
        return check_answer(answer, len(graphs), self._classes)


def check_answer(answer: Any, graphs: int, classes: int) -> list[list[float]]:
    """Returns the probabilities of an answer; raises PredictError if it is malformed."""
    rows = answer.get("probabilities") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise PredictError('the black box\'s answer is not {"probabilities": [[…], …]}')
    if len(rows) != graphs:
        raise PredictError(f"the black box answered for {len(rows)} of {graphs} graphs")
    for position, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != classes or not all(map(_is_probability, row)):
            raise PredictError(
                f"the black box's answer for graph {position} is not {classes} numbers from 0 to 1"
            )
        if abs(sum(row) - 1) > _SUM_TOLERANCE:
            raise PredictError(
                f"the black box's probabilities of graph {position} add up to {sum(row):.6g}, "
                "not to 1"
            )
    return rows


def _is_probability(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= 1


def _documents(values: Tensor, edge_index: Tensor, batch: Tensor) -> list[dict[str, Any]]:
    """PyG dicts with both directions of every edge, sorted."""
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
