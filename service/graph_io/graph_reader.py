"""Posted graphs to canonical graphs; every refusal points at the place in the caller's own form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from pydantic import TypeAdapter, ValidationError

from d4explain.contracts.feature_schema import OneHotGroup, broken_rows
from d4explain.contracts.featurisers import SmilesFeaturiser
from d4explain.contracts.requests import CanonicalGraph, Pair
from d4explain.contracts.results import NodeId
from service.graph_io.edge_reader import EdgeSize, ListedEdges, edge_attributes
from service.graph_io.molecule_reader import read_molecule, too_much_written, written_size
from service.graph_io.schemas import GraphIn, NodeLinkGraph, PygGraph, SmilesGraph
from service.http.faults import Faults, faults_of, kind_of, shown
from store.settings import Settings

_ADAPTER: TypeAdapter[NodeLinkGraph | PygGraph | SmilesGraph] = TypeAdapter(GraphIn)


@dataclass(frozen=True)
class FeatureSize:
    """How many features each node and edge must have, and who says so."""

    size: int
    owner: str  # "the GNN gnn_…"
    groups: tuple[OneHotGroup, ...] = ()
    featuriser: SmilesFeaturiser | None = None
    edges: EdgeSize | None = None  # None: not said yet


@dataclass(frozen=True)
class _Places:
    """Where the parts of a graph stand in the form its caller chose."""

    at: str
    edges_key: Literal["edges", "links", "edge_index"]

    def node_id(self, node: int) -> str:
        return f"{self.at}/{'node_ids' if self._pyg else 'nodes'}/{node}{self._id}"

    def features(self, node: int) -> str:
        return f"{self.at}/x/{node}" if self._pyg else f"{self.at}/nodes/{node}/x"

    def edges(self) -> str:
        return f"{self.at}/{self.edges_key}"

    def edge_attributes(self, edge: int) -> str:
        if self._pyg:
            return f"{self.at}/edge_attr/{edge}"
        return f"{self.edges()}/{edge}/edge_attr"

    def end(self, edge: int, end: Literal["source", "target"]) -> str:
        if self._pyg:
            return f"{self.edges()}/{int(end == 'target')}/{edge}"
        return f"{self.edges()}/{edge}/{end}"

    def edge(self, edge: int) -> str:
        return self.end(edge, "source") if self._pyg else f"{self.edges()}/{edge}"

    @property
    def _pyg(self) -> bool:
        return self.edges_key == "edge_index"

    @property
    def _id(self) -> str:
        return "" if self._pyg else "/id"


@dataclass(frozen=True)
class _Listed:
    """A graph as it was listed, in either form."""

    node_ids: Sequence[NodeId]
    x: Sequence[list[float] | None]
    edges: Sequence[tuple[NodeId, NodeId]]
    edge_attr: Sequence[list[float] | None]
    label: int | None
    places: _Places


def read_graphs(
    raw: Sequence[object], at: str, limits: Settings, features: FeatureSize | None
) -> list[CanonicalGraph]:
    """All graphs of a list; with no `features` given, the first graph sets them for the rest."""
    faults = Faults()
    graphs: list[CanonicalGraph] = []
    size = 0
    for index, item in enumerate(raw):
        graph = _read(item, f"{at}/{index}", limits, features, faults)
        if graph is None:
            continue
        graphs.append(graph)
        size += written_size(graph)
        if size > limits.max_body_bytes:
            faults.add(f"{at}/{index}", too_much_written(limits))
            break
        features = _settled(features, graph, f"the graph at {at}/{index}")
    faults.raise_if_any()
    if features is not None and features.edges is not None and features.edges.size:
        # also those that came before the first graph with edges
        graphs = [_with_attributes(graph) for graph in graphs]
    return graphs


def _settled(features: FeatureSize | None, graph: CanonicalGraph, owner: str) -> FeatureSize:
    """What is not said yet, this graph says for the rest."""
    features = features or FeatureSize(len(graph.x[0]), owner)
    if features.edges is not None or not graph.edges:
        return features
    size = len(graph.edge_attr[0]) if graph.edge_attr else 0
    return replace(features, edges=EdgeSize(size, f"{owner} has"))


def _with_attributes(graph: CanonicalGraph) -> CanonicalGraph:
    return graph if graph.edges else graph.model_copy(update={"edge_attr": []})


def read_graph(
    raw: object, at: str, limits: Settings, features: FeatureSize | None
) -> CanonicalGraph:
    faults = Faults()
    graph = _read(raw, at, limits, features, faults)
    faults.raise_if_any()
    assert graph is not None  # a graph that is refused has left a fault
    return graph


def _read(
    raw: object, at: str, limits: Settings, features: FeatureSize | None, faults: Faults
) -> CanonicalGraph | None:
    """One graph, or None with the reasons in `faults`."""
    if not isinstance(raw, dict):
        faults.add(at, f"a graph should be an object, not {kind_of(raw)}")
        return None
    # Counted before anything is validated: the refusal of a huge graph has to be cheap.
    before = len(faults)
    _check_size(raw, at, limits, faults)
    if len(faults) > before:
        return None
    try:
        graph = _ADAPTER.validate_python(raw)
    except ValidationError as error:
        faults.extend(faults_of(error, raw, at))
        return None
    if isinstance(graph, SmilesGraph):
        return _molecule(graph, at, limits, features, faults)
    return _listed_graph(graph, at, limits, features, faults)


def _molecule(
    graph: SmilesGraph, at: str, limits: Settings, features: FeatureSize | None, faults: Faults
) -> CanonicalGraph | None:
    if features is not None and features.featuriser is not None:
        return read_molecule(graph, at, limits, features.featuriser, faults)
    wanted = (
        "say by `gnn` whose featuriser makes features of the atoms"
        if features is None
        else f"{features.owner} has no featuriser; send nodes with features"
    )
    faults.add(f"{at}/smiles", f"cannot be read: {wanted}")
    return None


def _listed_graph(
    graph: NodeLinkGraph | PygGraph,
    at: str,
    limits: Settings,
    features: FeatureSize | None,
    faults: Faults,
) -> CanonicalGraph | None:
    before = len(faults)
    listed = (
        _listed_pyg(graph, at, limits, faults)
        if isinstance(graph, PygGraph)
        else (_listed_node_link(graph, at, faults))
    )
    if listed is None:
        return None
    x = _features(listed, limits, features, faults)
    edges, places = _edges(listed, limits, faults)
    expected = None if features is None else features.edges
    rows = ListedEdges(listed.edge_attr, places, listed.places.edge_attributes)
    carried = edge_attributes(rows, edges, expected, faults)
    if len(faults) > before:
        return None
    return CanonicalGraph(
        node_ids=list(listed.node_ids), x=x, edges=edges, label=listed.label, edge_attr=carried
    )


def _check_size(raw: dict[str, object], at: str, limits: Settings, faults: Faults) -> None:
    def check(value: object, where: str, what: str, allowed: int) -> None:
        if isinstance(value, list) and len(value) > allowed:
            faults.add(f"{at}/{where}", _too_many(len(value), what, allowed))

    listed_edges = 2 * limits.max_edges  # each edge may stand there once per direction
    if "edge_index" not in raw:
        check(raw.get("nodes"), "nodes", "nodes", limits.max_nodes)
        check(raw.get("edges"), "edges", "listed edges", listed_edges)
        check(raw.get("links"), "links", "listed edges", listed_edges)
        return
    check(raw.get("x"), "x", "nodes", limits.max_nodes)
    check(raw.get("node_ids"), "node_ids", "nodes", limits.max_nodes)
    check(raw.get("edge_attr"), "edge_attr", "listed edges", listed_edges)
    index = raw["edge_index"]
    for row, ends in enumerate(index[:2] if isinstance(index, list) else []):
        check(ends, f"edge_index/{row}", "listed edges", listed_edges)


def _listed_node_link(graph: NodeLinkGraph, at: str, faults: Faults) -> _Listed | None:
    if (graph.edges is None) == (graph.links is None):
        faults.add(f"{at}/edges", "give the edges once, as `edges` or as `links`")
        return None
    edges = graph.edges or graph.links or []
    return _Listed(
        node_ids=[node.id for node in graph.nodes],
        x=[node.x for node in graph.nodes],
        edges=[(edge.source, edge.target) for edge in edges],
        edge_attr=[edge.edge_attr for edge in edges],
        label=graph.label,
        places=_Places(at, "edges" if graph.edges is not None else "links"),
    )


def _listed_pyg(graph: PygGraph, at: str, limits: Settings, faults: Faults) -> _Listed | None:
    sources, targets = graph.edge_index
    uneven = _uneven(graph)
    if uneven is not None:
        faults.add(f"{at}/{uneven[0]}", uneven[1])
        return None
    counts = {
        name: count
        for name, count in (
            ("x", None if graph.x is None else len(graph.x)),
            ("node_ids", None if graph.node_ids is None else len(graph.node_ids)),
            ("num_nodes", graph.num_nodes),
        )
        if count is not None
    }
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} says {shown(count)}" for name, count in counts.items())
        faults.add(at, f"the number of nodes is not clear: {said}")
        return None
    # PyG's own rule for data without x or num_nodes: the largest index counts.
    nodes = next(iter(counts.values()), 1 + max((*sources, *targets), default=-1))
    if not 1 <= nodes <= limits.max_nodes:
        problem = (
            "the graph has no nodes" if nodes < 1 else (_too_many(nodes, "nodes", limits.max_nodes))
        )
        faults.add(f"{at}/{next(iter(counts), 'edge_index')}", problem)
        return None
    places = _Places(at, "edge_index")
    for row, (end, ends) in enumerate((("source", sources), ("target", targets))):
        for edge, position in enumerate(ends):
            if not 0 <= position < nodes:
                faults.add(
                    f"{places.edges()}/{row}/{edge}",
                    f"the {end} is {shown(position)}; the nodes are 0 to {nodes - 1}",
                )
                return None
    ids: Sequence[NodeId] = graph.node_ids if graph.node_ids is not None else range(nodes)
    label = graph.label
    if isinstance(graph.y, list):
        if len(graph.y) not in (1, nodes):
            faults.add(
                f"{at}/y",
                f"has {len(graph.y):,} entries; a graph has one label, or one for each of its "
                f"{nodes:,} nodes",
            )
            return None
        if label is None and len(graph.y) == 1:
            label = graph.y[0]
    elif label is None:
        label = graph.y
    return _Listed(
        node_ids=ids,
        x=graph.x if graph.x is not None else [None] * nodes,
        edges=[(ids[s], ids[t]) for s, t in zip(sources, targets, strict=True)],
        edge_attr=graph.edge_attr if graph.edge_attr is not None else [None] * len(sources),
        label=label,
        places=places,
    )


def _uneven(graph: PygGraph) -> tuple[str, str] | None:
    """Lists of edges that are not equally long: which, and what is wrong."""
    sources, targets = (len(ends) for ends in graph.edge_index)
    if sources != targets:
        return "edge_index", f"its two rows have {sources:,} and {targets:,} entries"
    if graph.edge_attr is not None and len(graph.edge_attr) != sources:
        return "edge_attr", f"has {len(graph.edge_attr):,} rows; edge_index has {sources:,} edges"
    return None


def _features(
    listed: _Listed, limits: Settings, features: FeatureSize | None, faults: Faults
) -> list[list[float]]:
    """Checked features; graphs without any get the constant 1, as GNNs on bare structure do."""
    places = listed.places
    if all(row is None for row in listed.x):
        if features is not None and features.size != 1:
            faults.add(
                places.features(0),
                f"the nodes have no features; {features.owner} takes {features.size:,} per node",
            )
        return [[1.0]] * len(listed.x)
    first = next(row for row in listed.x if row is not None)
    expected = features or FeatureSize(len(first), "the first node")
    if not 1 <= len(first) <= limits.max_features:
        faults.add(
            places.features(listed.x.index(first)),
            f"a node has {len(first):,} features; allowed are 1 to {limits.max_features:,}",
        )
        return []
    checked = []
    for node, row in enumerate(listed.x):
        if row is None:
            faults.add(places.features(node), "is missing, while other nodes have features")
        elif len(row) != expected.size:
            faults.add(
                places.features(node),
                f"has {len(row):,} features; {expected.owner} "
                f"{'has' if features is None else 'takes'} {expected.size:,}",
            )
        else:
            checked.append(row)
    if features is not None and len(checked) == len(listed.x):
        for broken in broken_rows(np.asarray(checked), features.groups):
            faults.add(places.features(broken.row), f"{broken.detail} ({features.owner})")
    return checked


def _edges(listed: _Listed, limits: Settings, faults: Faults) -> tuple[list[Pair], dict[Pair, int]]:
    """Distinct undirected edges by position; each may have been listed once per direction.

    And where each ordered pair was listed.
    """
    places = listed.places
    position: dict[NodeId, int] = {}
    texts: dict[str, NodeId] = {}
    for node, node_id in enumerate(listed.node_ids):
        # 1 and "1" differ here but not in GraphML, Cytoscape or a person's eyes.
        if str(node_id) in texts:
            other = position[texts[str(node_id)]]
            faults.add(
                places.node_id(node), f"the id {shown(node_id)} is already that of node {other}"
            )
            continue
        texts[str(node_id)] = node_id
        position[node_id] = node
    seen: dict[Pair, int] = {}
    for edge, (source, target) in enumerate(listed.edges):
        if source not in position or target not in position:
            end: Literal["source", "target"] = "target" if source in position else "source"
            unknown = target if source in position else source
            faults.add(places.end(edge, end), f"there is no node with the id {shown(unknown)}")
            continue
        pair = (position[source], position[target])
        if pair[0] == pair[1]:
            faults.add(places.edge(edge), f"is a self-loop of node {shown(source)}")
        elif pair in seen:
            faults.add(
                places.edge(edge),
                f"the edge from {shown(source)} to {shown(target)} is already listed, "
                f"as edge {seen[pair]}",
            )
        seen.setdefault(pair, edge)
    edges = sorted({(min(pair), max(pair)) for pair in seen})
    if len(edges) > limits.max_edges:
        faults.add(places.edges(), _too_many(len(edges), "edges", limits.max_edges))
    return edges, seen


def _too_many(sent: int, what: str, allowed: int) -> str:
    count = f"{sent:,}" if sent < 10**18 else "more than 10^18"
    return f"the graph has {count} {what}; this deployment accepts at most {allowed:,}"
