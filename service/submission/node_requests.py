"""Checks the nodes that a request names: known, distinct, not too many."""

from __future__ import annotations

from collections.abc import Sequence

from d4explain.contracts.requests import CanonicalGraph
from d4explain.contracts.results import NodeId
from service.http.faults import Faults, reject, shown
from service.schemas import CounterfactualIn, PredictionsIn
from store.catalogue import gnns
from store.database.tables import Dataset, Gnn
from store.settings import Settings

_BYTES_PER_VALUE = 4  # of a feature in JSON, at the least
_MOST_PROBABILITIES = 1_000_000  # of one answer, which the job's row holds


def check_explained(asked: CounterfactualIn, gnn: Gnn) -> None:
    named = "/node" if asked.node is not None else "/nodes" if asked.nodes is not None else None
    if not gnns.classifies_nodes(gnn):
        if named is not None:
            reject(named, _only_for_nodes(gnn))
        return
    if asked.graphs is not None:
        reject("/graphs", f"the GNN {gnn.id} classifies nodes; give one `graph` and its `nodes`")
    if named is None:
        reject("/node", f"is required, or `nodes`: the GNN {gnn.id} classifies nodes")
    if asked.node is not None and asked.nodes is not None:
        reject("/nodes", "give either `node` or `nodes`")


def explained_nodes(
    asked: CounterfactualIn, graphs: Sequence[CanonicalGraph], settings: Settings
) -> list[int] | None:
    """Positions of the nodes to explain, None if graphs are explained."""
    if asked.node is not None:
        return _positions(graphs[0], {"/node": asked.node})
    if asked.nodes is None:
        return None
    values = len(graphs[0].x) * len(graphs[0].x[0])
    # An answer repeats the node's part of the graph: as much as a body may hold, all together.
    affordable = max(1, settings.max_body_bytes // _BYTES_PER_VALUE // values)
    most = min(settings.max_graphs_per_request, affordable)
    if len(asked.nodes) > most:
        reject(
            "/nodes",
            f"the request has {len(asked.nodes):,} nodes; of a graph with {values:,} feature "
            f"values, this deployment accepts at most {most:,} at once",
        )
    return _positions(graphs[0], _listed(asked.nodes))


def asks_large(asked: CounterfactualIn, dataset: Dataset | None) -> bool:
    """Whether the nodes are those of the data set itself, which is one large graph."""
    return dataset is not None and dataset.large and asked.graph is None and asked.graphs is None


def large_nodes(asked: CounterfactualIn, dataset: Dataset, settings: Settings) -> list[int]:
    """Numbers of the nodes of a large graph to explain."""
    numbered = NumberedNodes(dataset.max_nodes)
    if asked.node is not None:
        return _listed_positions(numbered, {"/node": asked.node})
    nodes = asked.nodes or []
    values = settings.max_neighbourhood_nodes * dataset.features
    affordable = max(1, settings.max_body_bytes // _BYTES_PER_VALUE // values)
    most = min(settings.max_graphs_per_request, affordable)
    if len(nodes) > most:
        reject(
            "/nodes",
            f"the request has {len(nodes):,} nodes; of neighbourhoods with up to {values:,} "
            f"feature values, this deployment accepts at most {most:,} at once",
        )
    return _listed_positions(numbered, _listed(nodes))


class NumberedNodes:
    """The nodes of a large graph, whose ids are their positions."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __contains__(self, node: object) -> bool:
        return isinstance(node, int) and 0 <= node < self.count

    def __getitem__(self, node: NodeId) -> int:
        return int(node)


def check_predicted(asked: PredictionsIn, gnn: Gnn) -> None:
    if asked.nodes is None:
        return
    if not gnns.classifies_nodes(gnn):
        reject("/nodes", _only_for_nodes(gnn))
    if asked.graphs is not None:
        reject("/nodes", "needs a single `graph`; with `graphs`, all nodes are classified")


def predicted_nodes(
    asked: PredictionsIn, gnn: Gnn, graphs: Sequence[CanonicalGraph]
) -> list[int] | None:
    """Positions of the nodes to classify, None for all, or if graphs are classified."""
    nodes = None if asked.nodes is None else _positions(graphs[0], _listed(asked.nodes))
    classes = gnn.spec["classes"]
    count = sum(len(graph.node_ids) for graph in graphs) if nodes is None else len(nodes)
    most = _MOST_PROBABILITIES // classes
    if gnns.classifies_nodes(gnn) and count > most:
        reject(
            "/nodes" if nodes else "/graphs" if asked.graphs else "/graph",
            f"the request asks about {count:,} nodes; of {classes:,} classes, "
            f"at most {most:,} nodes are answered at once",
        )
    return nodes


def _only_for_nodes(gnn: Gnn) -> str:
    return f"the GNN {gnn.id} classifies graphs; naming nodes needs a GNN that classifies nodes"


def _listed(nodes: Sequence[NodeId]) -> dict[str, NodeId]:
    """Each node by its place in the body."""
    return {f"/nodes/{i}": node for i, node in enumerate(nodes)}


def _positions(graph: CanonicalGraph, nodes: dict[str, NodeId]) -> list[int]:
    return _listed_positions({node_id: i for i, node_id in enumerate(graph.node_ids)}, nodes)


def _listed_positions(
    position: dict[NodeId, int] | NumberedNodes, nodes: dict[str, NodeId]
) -> list[int]:
    first: dict[NodeId, str] = {}
    faults = Faults()
    for place, node in nodes.items():
        if node not in position:
            faults.add(place, f"there is no node with the id {shown(node)}")
        elif node in first:
            faults.add(place, f"the node {shown(node)} is already listed, at {first[node]}")
        first.setdefault(node, place)
    faults.raise_if_any()
    return [position[node] for node in nodes.values()]
