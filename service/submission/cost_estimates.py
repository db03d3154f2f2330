"""Estimates the time and memory of an explanation, as an order of magnitude.

The estimates are for one CPU core, the default denoiser and a search that finds nothing. Their
constants are fitted to the output of `python -m bench speed --part large`.
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
_MIN_BYTES = 40_000_000
_BYTES_PER_CELL = 1_500  # per entry of [node, node], if all pairs are searched
_BYTES_PER_PART = 1_500  # per node and per edge, if candidate pairs are searched
_MIN_SECONDS = 0.2
_SECONDS_PER_CELL = 1.2e-4
_SECONDS_PER_PART = 1.8e-3

Mode = Literal["exact", "restricted", "neighbourhood"]


class CaseEstimate(Resource):
    """Estimated cost of explaining one graph or one node."""

    mode: Mode = Field(
        description="`exact`: searches all node pairs. `restricted`: searches candidate pairs of a "
        "large graph. `neighbourhood`: searches the neighbourhood of a node; the sizes are upper "
        "bounds."
    )
    node_count: int
    edge_count: int | None = Field(description="Null if it is known only after the search.")
    pair_count: int = Field(description="Largest number of node pairs that may be edited.")
    memory_bytes: int
    seconds: float


class Estimate(Resource):
    """Estimated cost of a request; nothing was queued."""

    dry_run: Literal[True] = True
    cases: list[CaseEstimate]
    memory_bytes: int = Field(description="Memory of the largest case, besides a worker's own.")
    seconds: float = Field(description="Time of all cases, without any training.")
    trains_denoiser: bool = Field(description="Whether a denoiser has to be trained first.")
    trains_witnesses: bool = Field(
        description="Whether witnesses have to be trained first, which takes about one to five "
        "minutes of a CPU core."
    )


def estimate(
    request: CounterfactualRequest,
    dataset: Dataset,
    settings: Settings,
    *,
    trains: bool,
    trains_witnesses: bool = False,
) -> Estimate:
    sizes = [(len(graph.node_ids), len(graph.edges)) for graph in request.graphs]
    if not request.graphs:
        most = min(settings.max_neighbourhood_nodes, dataset.max_nodes)
        cases = [_dense(most, None, "neighbourhood") for _ in request.nodes or []]
    elif request.nodes is not None:
        most = min(settings.exact_nodes, sizes[0][0])
        cases = [_dense(most, None, "neighbourhood") for _ in request.nodes]
    else:
        cases = [of_graph(*size, settings) for size in sizes]
    return Estimate(
        cases=cases,
        memory_bytes=max(case.memory_bytes for case in cases),
        seconds=_rounded(sum(case.seconds for case in cases)),
        trains_denoiser=trains,
        trains_witnesses=trains_witnesses,
    )


def of_graph(nodes: int, edges: int, settings: Settings) -> CaseEstimate:
    if nodes <= settings.exact_nodes:
        return _dense(nodes, edges, "exact")
    return CaseEstimate(
        mode="restricted",
        node_count=nodes,
        edge_count=edges,
        pair_count=min(_CANDIDATES_PER_EDGE * edges, nodes * (nodes - 1) // 2),
        memory_bytes=_MIN_BYTES + _BYTES_PER_PART * (nodes + edges),
        seconds=_rounded(_MIN_SECONDS + _SECONDS_PER_PART * (nodes + edges)),
    )


def check_affordable(raw: object, at: str, settings: Settings) -> None:
    """Rejects a graph with too many nodes or edges; the message contains the estimated cost."""
    if not isinstance(raw, dict):
        return
    nodes_at, nodes = _longest(raw, ("nodes", "x", "node_ids"))
    edges_at, edges = _longest(raw, ("edges", "links"))
    index = raw.get("edge_index")
    if isinstance(index, list):
        rows = [len(row) if isinstance(row, list) else 0 for row in index[:2]]
        edges_at, edges = f"edge_index/{rows.index(max(rows))}" if rows else "", max([0, *rows])
    cost = of_graph(nodes, edges, settings)
    for field, sent, what, allowed in (
        (nodes_at, nodes, "nodes", settings.max_nodes),
        (edges_at, edges, "listed edges", 2 * settings.max_edges),
    ):
        if sent > allowed:
            reject(
                f"{at}/{field}",
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
        memory_bytes=_MIN_BYTES + _BYTES_PER_CELL * nodes**2,
        seconds=_rounded(_MIN_SECONDS + _SECONDS_PER_CELL * nodes**2),
    )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.2g}")
