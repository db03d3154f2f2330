"""Checks the nodes that a request names: they must exist, be distinct and not be too many."""

from __future__ import annotations

from collections.abc import Sequence

from d4explain.contracts.requests import CanonicalGraph
from d4explain.contracts.results import NodeId
from service.http.faults import Faults, reject, shown
from service.schemas import CounterfactualIn, PredictionsIn
from store.catalogue import gnns
from store.database.tables import Dataset, Gnn
from store.settings import Settings

_BYTES_PER_VALUE = 4  # a feature takes at least this much in JSON
_MAX_PROBABILITIES = 1_000_000  # of one result, which is stored in the row of the job


def check_names_nodes(body: CounterfactualIn, gnn: Gnn) -> None:
    """Requires `node` or `nodes` if the GNN classifies nodes, and neither if it does not."""
    named = "/node" if body.node is not None else "/nodes" if body.nodes is not None else None
    if not gnns.classifies_nodes(gnn):
        if named is not None:
            reject(named, _classifies_graphs(gnn))
        return
    if body.graphs is not None:
        reject("/graphs", f"the GNN {gnn.id} classifies nodes; give one `graph` and its `nodes`")
    if named is None:
        reject("/node", f"is required, or `nodes`: the GNN {gnn.id} classifies nodes")
    if body.node is not None and body.nodes is not None:
        reject("/nodes", "give either `node` or `nodes`")


def explained_nodes(
    body: CounterfactualIn, graphs: Sequence[CanonicalGraph], settings: Settings
) -> list[int] | None:
    """Positions of the nodes to explain; None if graphs are explained."""
    if body.node is not None:
        return _positions(graphs[0], {"/node": body.node})
    if body.nodes is None:
        return None
    values = len(graphs[0].x) * len(graphs[0].x[0])
    # Each answer repeats a part of the graph; together they must not exceed the size of a body.
    affordable = max(1, settings.max_body_bytes // _BYTES_PER_VALUE // values)
    most = min(settings.max_graphs_per_request, affordable)
    if len(body.nodes) > most:
        reject(
            "/nodes",
            f"the request has {len(body.nodes):,} nodes; this deployment accepts at most {most:,} "
            f"at once for a graph with {values:,} feature values",
        )
    return _positions(graphs[0], _by_pointer(body.nodes))


def names_nodes_of_dataset(body: CounterfactualIn, dataset: Dataset | None) -> bool:
    """Whether the request names nodes of the dataset itself, which is one large graph."""
    return dataset is not None and dataset.large and body.graph is None and body.graphs is None


def nodes_of_dataset(body: CounterfactualIn, dataset: Dataset, settings: Settings) -> list[int]:
    """Numbers of the nodes to explain in a large graph."""
    numbered = NodeNumbers(dataset.max_nodes)
    if body.node is not None:
        return _known_positions(numbered, {"/node": body.node})
    nodes = body.nodes or []
    values = settings.max_neighbourhood_nodes * dataset.features
    affordable = max(1, settings.max_body_bytes // _BYTES_PER_VALUE // values)
    most = min(settings.max_graphs_per_request, affordable)
    if len(nodes) > most:
        reject(
            "/nodes",
            f"the request has {len(nodes):,} nodes; this deployment accepts at most {most:,} at "
            f"once for neighbourhoods with up to {values:,} feature values",
        )
    return _known_positions(numbered, _by_pointer(nodes))


class NodeNumbers:
    """Maps the node ids of a large graph to positions, which are equal."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __contains__(self, node: object) -> bool:
        return isinstance(node, int) and 0 <= node < self.count

    def __getitem__(self, node: NodeId) -> int:
        return int(node)


def check_prediction_nodes(body: PredictionsIn, gnn: Gnn) -> None:
    if body.nodes is None:
        return
    if not gnns.classifies_nodes(gnn):
        reject("/nodes", _classifies_graphs(gnn))
    if body.graphs is not None:
        reject("/nodes", "needs a single `graph`; with `graphs`, all nodes are classified")


def predicted_nodes(
    body: PredictionsIn, gnn: Gnn, graphs: Sequence[CanonicalGraph]
) -> list[int] | None:
    """Positions of the nodes to classify; None for all nodes, or if graphs are classified."""
    nodes = None if body.nodes is None else _positions(graphs[0], _by_pointer(body.nodes))
    classes = gnn.spec["classes"]
    count = sum(len(graph.node_ids) for graph in graphs) if nodes is None else len(nodes)
    most = _MAX_PROBABILITIES // classes
    if gnns.classifies_nodes(gnn) and count > most:
        reject(
            "/nodes" if nodes else "/graphs" if body.graphs else "/graph",
            f"the request asks about {count:,} nodes; at most {most:,} are accepted for a GNN with "
            f"{classes:,} classes",
        )
    return nodes


def _classifies_graphs(gnn: Gnn) -> str:
    return f"the GNN {gnn.id} classifies graphs; naming nodes needs a GNN that classifies nodes"


def _by_pointer(nodes: Sequence[NodeId]) -> dict[str, NodeId]:
    """The nodes by their pointers into the body."""
    return {f"/nodes/{i}": node for i, node in enumerate(nodes)}


def _positions(graph: CanonicalGraph, nodes: dict[str, NodeId]) -> list[int]:
    return _known_positions({node_id: i for i, node_id in enumerate(graph.node_ids)}, nodes)


def _known_positions(
    position_of: dict[NodeId, int] | NodeNumbers, nodes: dict[str, NodeId]
) -> list[int]:
    first: dict[NodeId, str] = {}  # the pointer to the first mention of each node
    faults = Faults()
    for pointer, node in nodes.items():
        if node not in position_of:
            faults.add(pointer, f"there is no node with the id {shown(node)}")
        elif node in first:
            faults.add(pointer, f"the node {shown(node)} is already listed, at {first[node]}")
        first.setdefault(node, pointer)
    faults.raise_if_any()
    return [position_of[node] for node in nodes.values()]
