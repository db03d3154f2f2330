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
_BELIEVABLE_TIMES = 10  # of a minimal search; an order of magnitude, from 24 BA-3Motif graphs

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
    cases: list[CaseEstimate] = Field(
        description="One per graph or node; empty for global counterfactuals, whose graphs are "
        "searched together."
    )
    memory_bytes: int = Field(description="Memory of the largest case, besides a worker's own.")
    seconds: float = Field(description="Time of all cases, without any training.")
    trains_denoiser: bool = Field(description="Whether a denoiser has to be trained first.")
    trains_witnesses: bool = Field(description="Whether witnesses have to be trained first.")
    denoiser_seconds: float = Field(
        description="Time that the training of the denoiser still needs at most; it often stops "
        "early."
    )
    witness_seconds: float = Field(description="The same for the witnesses.")
    total_seconds: float = Field(
        description="Time until the final answer: both trainings, one after the other, and all "
        "cases. Other jobs may come first."
    )
    provisional: bool = Field(
        description="Whether a provisional answer comes first, within seconds."
    )


def estimate(
    request: CounterfactualRequest,
    dataset: Dataset,
    settings: Settings,
    *,
    denoiser_seconds: float | None,  # None if it needs no training
    witness_seconds: float | None,
    provisional: bool,
) -> Estimate:
    cases = case_estimates(request, dataset, settings)
    seconds = sum(case.seconds for case in cases)
    training = (denoiser_seconds or 0.0) + (witness_seconds or 0.0)
    waits = denoiser_seconds is not None or witness_seconds is not None
    return Estimate(
        cases=cases,
        memory_bytes=max(case.memory_bytes for case in cases),
        seconds=rounded_seconds(seconds),
        trains_denoiser=denoiser_seconds is not None,
        trains_witnesses=witness_seconds is not None,
        denoiser_seconds=rounded_seconds(denoiser_seconds or 0.0),
        witness_seconds=rounded_seconds(witness_seconds or 0.0),
        total_seconds=rounded_seconds(training + seconds),
        provisional=provisional and waits,
    )


def case_estimates(
    request: CounterfactualRequest, dataset: Dataset, settings: Settings
) -> list[CaseEstimate]:
    """One per graph or node; large graphs have no believable search."""
    cases = _searches(request, dataset, settings)
    if request.aim == "minimal":
        return cases
    return [
        case
        if case.mode == "restricted"
        else case.model_copy(update={"seconds": rounded_seconds(_BELIEVABLE_TIMES * case.seconds)})
        for case in cases
    ]


def _searches(
    request: CounterfactualRequest, dataset: Dataset, settings: Settings
) -> list[CaseEstimate]:
    sizes = [(len(graph.node_ids), len(graph.edges)) for graph in request.graphs]
    if not request.graphs:
        most = min(settings.max_neighbourhood_nodes, dataset.max_nodes)
        return [_dense(most, None, "neighbourhood") for _ in request.nodes or []]
    if request.nodes is not None:
        most = min(settings.exact_nodes, sizes[0][0])
        return [_dense(most, None, "neighbourhood") for _ in request.nodes]
    return [of_graph(*size, settings) for size in sizes]


def of_graph(nodes: int, edges: int, settings: Settings) -> CaseEstimate:
    if nodes <= settings.exact_nodes:
        return _dense(nodes, edges, "exact")
    return CaseEstimate(
        mode="restricted",
        node_count=nodes,
        edge_count=edges,
        pair_count=min(_CANDIDATES_PER_EDGE * edges, nodes * (nodes - 1) // 2),
        memory_bytes=_MIN_BYTES + _BYTES_PER_PART * (nodes + edges),
        seconds=rounded_seconds(_MIN_SECONDS + _SECONDS_PER_PART * (nodes + edges)),
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
        seconds=rounded_seconds(_MIN_SECONDS + _SECONDS_PER_CELL * nodes**2),
    )


def rounded_seconds(seconds: float) -> float:
    return float(f"{seconds:.2g}")
