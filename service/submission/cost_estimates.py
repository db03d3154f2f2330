"""What an explanation will take, as an order of magnitude, before anything is done for it.

Seconds and bytes are those of one CPU core, the default denoiser and a search that finds nothing,
fitted to what `python -m bench speed --part large` prints: enough to know whether to wait for a
moment or for an hour.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from d4explain.contracts.requests import CounterfactualRequest
from service.http.faults import reject
from service.resources import Resource
from store.database.tables import Dataset
from store.settings import Settings

_CANDIDATES_PER_EDGE = 8
_BYTES_AT_LEAST = 40_000_000
_BYTES_PER_CELL = 1_500  # of [node, node], where all pairs are looked at
_BYTES_PER_PART = 1_500  # of a node or an edge, where the graph is read in patches
_SECONDS_AT_LEAST = 0.2
_SECONDS_PER_CELL = 1.2e-4
_SECONDS_PER_PART = 1.8e-3

Mode = Literal["exact", "restricted", "neighbourhood"]


class CaseEstimate(Resource):
    """Of one graph, or one node."""

    mode: Mode = Field(
        description="`exact`: all node pairs are looked at. `restricted`: candidates in a large "
        "graph. `neighbourhood`: what a node's class depends on, at most so much of it."
    )
    node_count: int
    edge_count: int | None = Field(description="Null if only the search itself can tell.")
    pair_count: int = Field(description="Node pairs that may be edited, at most.")
    memory_bytes: int
    seconds: float


class Estimate(Resource):
    """What the question would take; nothing was queued."""

    dry_run: Literal[True] = True
    cases: list[CaseEstimate]
    memory_bytes: int = Field(description="Of the largest, besides what a worker needs anyway.")
    seconds: float = Field(description="Of all, without the training of a denoiser.")
    trains_denoiser: bool = Field(description="Whether there is none yet, so one is trained first.")


def estimate(
    question: CounterfactualRequest, dataset: Dataset, settings: Settings, *, trains: bool
) -> Estimate:
    sizes = [(len(graph.node_ids), len(graph.edges)) for graph in question.graphs]
    if not question.graphs:
        most = min(settings.max_neighbourhood_nodes, dataset.max_nodes)
        cases = [_dense(most, None, "neighbourhood") for _ in question.nodes or []]
    elif question.nodes is not None:
        most = min(settings.exact_nodes, sizes[0][0])
        cases = [_dense(most, None, "neighbourhood") for _ in question.nodes]
    else:
        cases = [of_graph(*size, settings) for size in sizes]
    return Estimate(
        cases=cases,
        memory_bytes=max(case.memory_bytes for case in cases),
        seconds=_rounded(sum(case.seconds for case in cases)),
        trains_denoiser=trains,
    )


def of_graph(nodes: int, edges: int, settings: Settings) -> CaseEstimate:
    if nodes <= settings.exact_nodes:
        return _dense(nodes, edges, "exact")
    return CaseEstimate(
        mode="restricted",
        node_count=nodes,
        edge_count=edges,
        pair_count=min(_CANDIDATES_PER_EDGE * edges, nodes * (nodes - 1) // 2),
        memory_bytes=_BYTES_AT_LEAST + _BYTES_PER_PART * (nodes + edges),
        seconds=_rounded(_SECONDS_AT_LEAST + _SECONDS_PER_PART * (nodes + edges)),
    )


def check_affordable(raw: object, at: str, settings: Settings) -> None:
    """Refuses a graph that lists too much to be explained, with what it would have taken."""
    if not isinstance(raw, dict):
        return
    nodes_at, nodes = _longest(raw, ("nodes", "x", "node_ids"))
    edges_at, edges = _longest(raw, ("edges", "links"))
    index = raw.get("edge_index")
    if isinstance(index, list):
        rows = [len(row) if isinstance(row, list) else 0 for row in index[:2]]
        edges_at, edges = f"edge_index/{rows.index(max(rows))}" if rows else "", max([0, *rows])
    cost = of_graph(nodes, edges, settings)
    for place, sent, what, allowed in (
        (nodes_at, nodes, "nodes", settings.max_nodes),
        (edges_at, edges, "listed edges", 2 * settings.max_edges),
    ):
        if sent > allowed:
            reject(
                f"{at}/{place}",
                f"the graph has {sent:,} {what}; this deployment accepts at most {allowed:,}. "
                f"Explaining it would take about {cost.memory_bytes / 1e6:,.0f} MB and "
                f"{cost.seconds:,.0f} s",
            )


def _longest(raw: dict[str, object], keys: tuple[str, ...]) -> tuple[str, int]:
    lengths = {key: len(value) for key in keys if isinstance(value := raw.get(key), list)}
    return max(lengths.items(), key=lambda item: item[1], default=("", 0))


def _dense(nodes: int, edges: int | None, mode: Mode) -> CaseEstimate:
    return CaseEstimate(
        mode=mode,
        node_count=nodes,
        edge_count=edges,
        pair_count=nodes * (nodes - 1) // 2,
        memory_bytes=_BYTES_AT_LEAST + _BYTES_PER_CELL * nodes**2,
        seconds=_rounded(_SECONDS_AT_LEAST + _SECONDS_PER_CELL * nodes**2),
    )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.2g}")
