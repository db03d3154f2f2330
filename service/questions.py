"""From what was posted to what a job is asked: ids to positions, defaults settled, all checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic_core import PydanticCustomError

from service.faults import Faults, kind_of, refuse, shown
from service.graph_schemas import checked_node_id
from service.graphs_in import FeatureSize, read_graph, read_graphs
from service.schemas import ClassIn, ConstraintsIn, CounterfactualIn, PredictionsIn
from store import gnns
from store.requests import (
    CanonicalGraph,
    ClassRequest,
    Constraints,
    CounterfactualRequest,
    Pair,
    PredictionRequest,
)
from store.results import NodeId
from store.settings import Settings
from store.tables import Gnn

_BYTES_PER_VALUE = 4  # of a feature in JSON, at the least
_MOST_PROBABILITIES = 1_000_000  # of one answer, which the job's row holds

Read = TypeVar("Read")


def counterfactual_request(
    asked: CounterfactualIn, gnn: Gnn, settings: Settings
) -> CounterfactualRequest:
    if asked.target_class is not None:
        check_class(asked.target_class, gnn)
    if asked.sampler == "paper" and asked.preset != "balanced":
        refuse(
            "/preset",
            f"is {shown(asked.preset)}; presets are for the search of the sampler 'guided', "
            "and the sampler 'paper' does not search",
        )
    _check_task(asked, gnn)
    graphs = posted_graphs(asked, gnn, settings)
    nodes = _asked_nodes(asked, graphs, settings)
    for index, graph in enumerate(graphs):
        if not graph.edges:
            at = "/graph" if asked.graph is not None else f"/graphs/{index}"
            refuse(at, "the graph has no edges; edits are budgeted as a share of them")
    return CounterfactualRequest(
        graphs=graphs,
        nodes=nodes,
        target_class=asked.target_class,
        alternatives=asked.alternatives,
        constraints=_constraints(asked.constraints, graphs, single=asked.graph is not None),
        sampler=asked.sampler,
        preset=asked.preset,
        time_budget=asked.time_budget,
        seed=asked.seed,
    )


def class_request(asked: ClassIn, gnn: Gnn) -> ClassRequest:
    check_class(asked.target_class, gnn)
    settled = asked.model_dump(exclude={"gnn", "dataset", "denoiser"})
    return ClassRequest.model_validate(settled)


def prediction_request(asked: PredictionsIn, gnn: Gnn, settings: Settings) -> PredictionRequest:
    of_nodes = gnns.classifies_nodes(gnn)
    if asked.nodes is not None and not of_nodes:
        refuse("/nodes", _only_for_nodes(gnn))
    if asked.nodes is not None and asked.graphs is not None:
        refuse("/nodes", "is for a single `graph`; of `graphs`, all nodes are classified")
    graphs = posted_graphs(asked, gnn, settings)
    nodes = None if asked.nodes is None else _positions(asked.nodes, graphs[0], "/nodes")
    if of_nodes:
        answered = sum(len(graph.node_ids) for graph in graphs) if nodes is None else len(nodes)
        most = _MOST_PROBABILITIES // gnn.spec["classes"]
        if answered > most:
            refuse(
                "/nodes" if nodes else "/graphs" if asked.graphs else "/graph",
                f"the request asks about {answered:,} nodes; of {gnn.spec['classes']} classes, "
                f"at most {most:,} nodes are answered at once",
            )
    return PredictionRequest(graphs=graphs, nodes=nodes)


def check_class(target: int, gnn: Gnn) -> None:
    classes = gnn.spec["classes"]
    if target >= classes:
        names = gnn.spec.get("class_names")
        said = f" ({', '.join(shown(name) for name in names[:20])})" if names else ""
        refuse(
            "/target_class",
            f"is {target}; the classes of {gnn.id} are 0 to {classes - 1}{said}",
        )


def posted_graphs(
    asked: CounterfactualIn | PredictionsIn, gnn: Gnn, settings: Settings
) -> list[CanonicalGraph]:
    """The graphs of a request that gives one `graph` or many `graphs`."""
    features = FeatureSize(gnn.spec["features"], f"the GNN {gnn.id}")
    if (asked.graph is None) == (asked.graphs is None):
        refuse("/graph", "give either `graph` or `graphs`")
    if asked.graphs is None:
        return [read_graph(asked.graph, "/graph", settings, features)]
    most = settings.max_graphs_per_request
    if len(asked.graphs) > most:
        refuse(
            "/graphs",
            f"the request has {len(asked.graphs):,} graphs; "
            f"this deployment accepts at most {most:,} at once",
        )
    return read_graphs(asked.graphs, "/graphs", settings, features)


def _check_task(asked: CounterfactualIn, gnn: Gnn) -> None:
    """Nodes are named where the GNN classifies nodes, and nowhere else."""
    named = "/node" if asked.node is not None else "/nodes" if asked.nodes is not None else None
    if not gnns.classifies_nodes(gnn):
        if named is not None:
            refuse(named, _only_for_nodes(gnn))
        return
    if asked.graphs is not None:
        refuse("/graphs", f"the GNN {gnn.id} classifies nodes; give one `graph` and its `nodes`")
    if named is None:
        refuse("/node", f"is required, or `nodes`: the GNN {gnn.id} classifies nodes")
    if asked.node is not None and asked.nodes is not None:
        refuse("/nodes", "give either `node` or `nodes`")


def _only_for_nodes(gnn: Gnn) -> str:
    return f"the GNN {gnn.id} classifies graphs; nodes are named for GNNs that classify nodes"


def _asked_nodes(
    asked: CounterfactualIn, graphs: Sequence[CanonicalGraph], settings: Settings
) -> list[int] | None:
    """Positions of the nodes to explain, None if graphs are explained."""
    if asked.node is not None:
        return _positions([asked.node], graphs[0], "/node", single=True)
    if asked.nodes is None:
        return None
    values = len(graphs[0].x) * len(graphs[0].x[0])
    # An answer repeats the node's part of the graph: as much as a body may hold, all together.
    affordable = max(1, settings.max_body_bytes // _BYTES_PER_VALUE // values)
    most = min(settings.max_graphs_per_request, affordable)
    if len(asked.nodes) > most:
        refuse(
            "/nodes",
            f"the request has {len(asked.nodes):,} nodes; of a graph with {values:,} feature "
            f"values, this deployment accepts at most {most:,} at once",
        )
    return _positions(asked.nodes, graphs[0], "/nodes")


def _positions(
    nodes: Sequence[NodeId], graph: CanonicalGraph, at: str, *, single: bool = False
) -> list[int]:
    position = {node_id: i for i, node_id in enumerate(graph.node_ids)}
    first: dict[NodeId, int] = {}
    faults = Faults()
    for i, node in enumerate(nodes):
        place = at if single else f"{at}/{i}"
        if node not in position:
            faults.add(place, f"there is no node with the id {shown(node)}")
        elif node in first:
            faults.add(place, f"the node {shown(node)} is already listed, as node {first[node]}")
        first.setdefault(node, i)
    faults.raise_if_any()
    return [position[node] for node in nodes]


def _constraints(
    asked: ConstraintsIn, graphs: Sequence[CanonicalGraph], *, single: bool
) -> Constraints:
    settled = asked.model_dump(exclude={"frozen_nodes", "frozen_edges"})
    nodes: Any = asked.frozen_nodes
    edges: Any = asked.frozen_edges
    return Constraints(
        frozen_nodes=_per_graph(nodes, graphs, "/constraints/frozen_nodes", single, _node),
        frozen_edges=_per_graph(edges, graphs, "/constraints/frozen_edges", single, _pair),
        **settled,
    )


_Position = dict[int | str, int]


def _per_graph(
    listed: object,
    graphs: Sequence[CanonicalGraph],
    at: str,
    single: bool,
    read: Callable[[object, _Position, str, Faults], Read | None],
) -> list[list[Read]]:
    """Frozen things by position: one list for a single graph, one per graph for many."""
    if listed == []:
        return []
    faults = Faults()
    lists = [(at, listed)] if single else _one_each(listed, len(graphs), at)
    found = []
    for graph, (place, entries) in zip(graphs, lists, strict=True):
        if not isinstance(entries, list):
            refuse(place, f"should be an array, is {kind_of(entries)}")
        position = {node_id: i for i, node_id in enumerate(graph.node_ids)}
        read_entries = [
            read(entry, position, f"{place}/{i}", faults) for i, entry in enumerate(entries)
        ]
        found.append([entry for entry in read_entries if entry is not None])
    faults.raise_if_any()
    return found


def _one_each(listed: object, graphs: int, at: str) -> list[tuple[str, object]]:
    if not isinstance(listed, list):
        refuse(at, f"should be an array, is {kind_of(listed)}")
    if len(listed) != graphs:
        refuse(at, f"should have one array per graph, {graphs:,}, has {len(listed):,}")
    return [(f"{at}/{i}", entries) for i, entries in enumerate(listed)]


def _node(entry: object, position: _Position, at: str, faults: Faults) -> int | None:
    try:
        node_id = checked_node_id(entry)
    except PydanticCustomError as error:
        faults.add(at, str(error))
        return None
    if node_id not in position:
        faults.add(at, f"there is no node with the id {shown(node_id)}")
        return None
    return position[node_id]


def _pair(entry: object, position: _Position, at: str, faults: Faults) -> Pair | None:
    if not isinstance(entry, list) or len(entry) != 2:
        faults.add(at, "should be an array of two node ids")
        return None
    ends = [_node(end, position, f"{at}/{i}", faults) for i, end in enumerate(entry)]
    source, target = ends
    if source is None or target is None:
        return None
    if source == target:
        faults.add(at, "should name two different nodes")
        return None
    return min(source, target), max(source, target)
