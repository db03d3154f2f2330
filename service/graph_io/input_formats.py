"""The input formats with nodes and edges: converts node-link and PyG dicts to `ParsedGraph`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from d4explain.contracts.results import NodeId
from d4explain.contracts.spec_checks.supported import DIRECTED, HETEROGENEOUS
from service.graph_io.schemas import NodeLinkGraph, PygGraph
from service.http.faults import Faults, shown, too_many
from store.settings import Settings

EdgeEnd = Literal["source", "target"]

_HETEROGENEOUS_KEYS = ("x_dict", "edge_index_dict", "node_types", "edge_types", "_global_store")


@dataclass(frozen=True)
class GraphPointers:
    """JSON pointers to the parts of a posted graph, in the form that the caller chose."""

    at: str
    edges_key: Literal["edges", "links", "edge_index"]

    @property
    def edges(self) -> str:
        return f"{self.at}/{self.edges_key}"

    def node_id(self, node: int) -> str:
        return f"{self.at}/node_ids/{node}" if self._is_pyg else f"{self.at}/nodes/{node}/id"

    def features(self, node: int) -> str:
        return f"{self.at}/x/{node}" if self._is_pyg else f"{self.at}/nodes/{node}/x"

    def edge(self, edge: int) -> str:
        return self.edge_end(edge, "source") if self._is_pyg else f"{self.edges}/{edge}"

    def edge_end(self, edge: int, end: EdgeEnd) -> str:
        if self._is_pyg:
            return f"{self.edges}/{int(end == 'target')}/{edge}"
        return f"{self.edges}/{edge}/{end}"

    def edge_attributes(self, edge: int) -> str:
        if self._is_pyg:
            return f"{self.at}/edge_attr/{edge}"
        return f"{self.edges}/{edge}/edge_attr"

    @property
    def _is_pyg(self) -> bool:
        return self.edges_key == "edge_index"


@dataclass(frozen=True)
class ParsedGraph:
    """A posted graph whose types are valid; ids, edges and features are not checked yet."""

    node_ids: Sequence[NodeId]
    x: Sequence[list[float] | None]
    edges: Sequence[tuple[NodeId, NodeId]]  # as posted: each once, or once per direction
    edge_attr: Sequence[list[float] | None]
    label: int | None
    pointers: GraphPointers


def from_node_link(graph: NodeLinkGraph, at: str, faults: Faults) -> ParsedGraph | None:
    if (graph.edges is None) == (graph.links is None):
        faults.add(f"{at}/edges", "give the edges once, as `edges` or as `links`")
        return None
    edges = graph.edges or graph.links or []
    return ParsedGraph(
        node_ids=[node.id for node in graph.nodes],
        x=[node.x for node in graph.nodes],
        edges=[(edge.source, edge.target) for edge in edges],
        edge_attr=[edge.edge_attr for edge in edges],
        label=graph.label,
        pointers=GraphPointers(at, "edges" if graph.edges is not None else "links"),
    )


def from_pyg(graph: PygGraph, at: str, limits: Settings, faults: Faults) -> ParsedGraph | None:
    before = len(faults)
    _check_edge_lists(graph, at, faults)
    if len(faults) > before:
        return None
    node_count = _node_count(graph, at, limits, faults)
    if node_count is None:
        return None
    pointers = GraphPointers(at, "edge_index")
    _check_edge_ends(graph, node_count, pointers, faults)
    if len(faults) > before:
        return None
    label = _graph_label(graph, node_count, at, faults)
    if len(faults) > before:
        return None
    sources, targets = graph.edge_index
    ids: Sequence[NodeId] = graph.node_ids if graph.node_ids is not None else range(node_count)
    return ParsedGraph(
        node_ids=ids,
        x=graph.x if graph.x is not None else [None] * node_count,
        edges=[(ids[s], ids[t]) for s, t in zip(sources, targets, strict=True)],
        edge_attr=graph.edge_attr if graph.edge_attr is not None else [None] * len(sources),
        label=label,
        pointers=pointers,
    )


def _check_edge_lists(graph: PygGraph, at: str, faults: Faults) -> None:
    sources, targets = (len(ends) for ends in graph.edge_index)
    if sources != targets:
        faults.add(f"{at}/edge_index", f"its two rows have {sources:,} and {targets:,} entries")
    elif graph.edge_attr is not None and len(graph.edge_attr) != sources:
        rows = len(graph.edge_attr)
        faults.add(f"{at}/edge_attr", f"has {rows:,} rows; edge_index has {sources:,} edges")


def _node_count(graph: PygGraph, at: str, limits: Settings, faults: Faults) -> int | None:
    posted = {
        "x": None if graph.x is None else len(graph.x),
        "node_ids": None if graph.node_ids is None else len(graph.node_ids),
        "num_nodes": graph.num_nodes,
    }
    counts = {name: count for name, count in posted.items() if count is not None}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {shown(count)}" for name, count in counts.items())
        faults.add(at, f"the numbers of nodes differ ({listed})")
        return None
    # PyG's own rule for data without x and num_nodes: the largest index plus 1.
    sources, targets = graph.edge_index
    count = next(iter(counts.values()), 1 + max((*sources, *targets), default=-1))
    if 1 <= count <= limits.max_nodes:
        return count
    problem = "the graph has no nodes" if count < 1 else too_many(count, "nodes", limits.max_nodes)
    faults.add(f"{at}/{next(iter(counts), 'edge_index')}", problem)
    return None


def _check_edge_ends(
    graph: PygGraph, node_count: int, pointers: GraphPointers, faults: Faults
) -> None:
    """Reports the first index that is not a node."""
    ends: tuple[EdgeEnd, EdgeEnd] = ("source", "target")
    for end, positions in zip(ends, graph.edge_index, strict=True):
        for edge, position in enumerate(positions):
            if not 0 <= position < node_count:
                faults.add(
                    pointers.edge_end(edge, end),
                    f"the {end} is {shown(position)}; the nodes are 0 to {node_count - 1}",
                )
                return


def _graph_label(graph: PygGraph, node_count: int, at: str, faults: Faults) -> int | None:
    """`label`, or else `y`; a list with one entry per node holds the labels of nodes."""
    if isinstance(graph.y, list) and len(graph.y) not in (1, node_count):
        faults.add(
            f"{at}/y",
            f"has {len(graph.y):,} entries; expected one label for the graph, or one for each of "
            f"its {node_count:,} nodes",
        )
        return None
    if graph.label is not None or graph.y is None:
        return graph.label
    if isinstance(graph.y, int):
        return graph.y
    return graph.y[0] if len(graph.y) == 1 else None


def check_supported(raw: Mapping[str, object], at: str, faults: Faults) -> None:
    """Reports a graph that is directed or heterogeneous, or whose edge list is transposed."""
    if raw.get("directed") is True:
        faults.add(f"{at}/directed", f"is true; {DIRECTED}")
    for key in _HETEROGENEOUS_KEYS:
        if key in raw:
            faults.add(f"{at}/{key}", HETEROGENEOUS)
            return
    index = raw.get("edge_index")
    if isinstance(index, list) and len(index) > 2 and _is_list_of_pairs(index):
        faults.add(
            f"{at}/edge_index",
            f"has {len(index):,} rows of 2 entries; it should have 2 rows, the sources and the "
            "targets of all edges. Is it transposed?",
        )
    for key in ("edge_index", "x", "nodes"):
        if isinstance(raw.get(key), dict):
            faults.add(f"{at}/{key}", f"is an object; {HETEROGENEOUS}")
            return


def _is_list_of_pairs(rows: list[object]) -> bool:
    return all(isinstance(row, list) and len(row) == 2 for row in rows)


def check_symmetric(edges: Sequence[tuple[NodeId, NodeId]], pointer: str, faults: Faults) -> None:
    """Reports an `edge_index` that lists some edges in both directions and some in one."""
    listed = set(edges)
    single = [pair for pair in listed if pair[::-1] not in listed]
    if single and len(single) < len(listed):
        faults.add(
            pointer,
            f"lists {len(single):,} of its {len(listed):,} entries in one direction only; "
            f"{DIRECTED}. List every edge once, or every edge in both directions",
        )
