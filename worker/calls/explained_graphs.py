"""The graph of an answer as the GNN reads it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from d4explain.contracts.counterfactual_results import CounterfactualAnswer, CounterfactualResult
from d4explain.contracts.results import NodeId, ResultGraph
from d4explain.contracts.worker_calls import CallFault
from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from store.artifacts.artifact_store import ArtifactStore
from worker.loading.lru_cache import LruCache

_BYTES_PER_BYTE = 10  # of a parsed result, relative to its JSON


class CallError(Exception):
    """A call names something that does not exist."""

    def __init__(self, at: str, detail: str) -> None:
        super().__init__(f"{at} {detail}")
        self.fault = CallFault(at=at, detail=detail)


@dataclass(frozen=True)
class ExplainedGraph:
    graph: Graph
    node_ids: list[NodeId]
    answer: CounterfactualAnswer

    def position(self, node: NodeId, at: str) -> int:
        try:
            return self.node_ids.index(node)
        except ValueError:
            shown = ", ".join(map(repr, self.node_ids[:5]))
            more = ", …" if len(self.node_ids) > 5 else ""
            raise CallError(
                at, f"is {node!r}, which is no node of the graph; its nodes are {shown}{more}"
            ) from None


class Answers:
    """Stored answers by their digest, parsed once."""

    def __init__(self, artifacts: ArtifactStore, cache_bytes: int) -> None:
        self._artifacts = artifacts
        self._cache = LruCache(cache_bytes, keeps_newest=True)

    def explained(
        self, tenant: str, digest: str, number: int, at: str, usual: UsualAttributes | None
    ) -> ExplainedGraph:
        answers = self._result(tenant, digest).answers
        if number >= len(answers):
            allowed = f"0 to {len(answers) - 1}" if len(answers) > 1 else "0"
            raise CallError(at, f"is {number}; the result has the graphs {allowed}")
        answer = answers[number]
        ids = [node.id for node in answer.graph.nodes]
        target = None if answer.node is None else ids.index(answer.node.id)
        return ExplainedGraph(_tensors(answer.graph, target, usual), ids, answer)

    def _result(self, tenant: str, digest: str) -> CounterfactualResult:
        size = 0

        def load() -> CounterfactualResult:
            nonlocal size
            data = self._artifacts.of(tenant).get(digest)
            size = _BYTES_PER_BYTE * len(data)
            return CounterfactualResult.model_validate_json(data)

        return self._cache.get((tenant, digest), load, lambda _: size)


def _tensors(graph: ResultGraph, target: int | None, usual: UsualAttributes | None) -> Graph:
    position = {node.id: number for number, node in enumerate(graph.nodes)}
    ends = [sorted((position[edge.source], position[edge.target])) for edge in graph.edges]
    attributes = None
    if usual is not None:
        rows = [edge.edge_attr for edge in graph.edges]
        attributes = torch.tensor(rows, dtype=torch.float32).reshape(len(rows), usual.rows.shape[1])
    return Graph(
        features=torch.tensor([node.x for node in graph.nodes], dtype=torch.float32),
        edges=torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).T.contiguous(),
        target=target,
        edge_attributes=attributes,
        usual=usual,
    )
