"""Reads posted graphs of every input format as canonical graphs.

`input_formats` and `molecule_reader` convert the formats, `node_reader` and `edge_reader` check
values. Errors point into the document that the caller sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import TypeAdapter, ValidationError

from d4explain.contracts.requests import CanonicalGraph
from service.graph_io.edge_reader import read_edge_attributes, read_edges
from service.graph_io.features.expected_features import (
    ExpectedEdgeAttributes,
    ExpectedFeatures,
    unknown_class,
    with_class_numbers,
)
from service.graph_io.input_formats import (
    check_supported,
    check_symmetric,
    from_node_link,
    from_pyg,
)
from service.graph_io.molecule_reader import expanded_size, expands_too_much, read_molecule
from service.graph_io.node_reader import read_features, read_positions
from service.graph_io.schemas import GraphIn, NodeLinkGraph, PygGraph, SmilesGraph
from service.graph_io.unread_attributes import InputWarnings, check_unread
from service.http.faults import Faults, faults_of, kind_of, too_many
from store.settings import Settings

_ADAPTER: TypeAdapter[NodeLinkGraph | PygGraph | SmilesGraph] = TypeAdapter(GraphIn)


def read_graph(
    raw: object,
    at: str,
    limits: Settings,
    expected: ExpectedFeatures | None,
    warnings: InputWarnings | None = None,
) -> CanonicalGraph:
    """One graph; `warnings` gets what was left out of it."""
    faults = Faults()
    graph = _read(raw, at, limits, expected, faults, warnings=warnings or InputWarnings())
    faults.raise_if_any()
    assert graph is not None  # otherwise there is a fault
    return graph


def read_graphs(
    raw: Sequence[object],
    at: str,
    limits: Settings,
    expected: ExpectedFeatures | None,
    warnings: InputWarnings | None = None,
) -> list[CanonicalGraph]:
    """All graphs of a list; if `expected` is None, all must have the features of the first."""
    faults = Faults()
    noted = warnings or InputWarnings()
    graphs: list[CanonicalGraph] = []
    size = 0
    for index, item in enumerate(raw):
        graph = _read(item, f"{at}/{index}", limits, expected, faults, warnings=noted)
        if graph is None:
            continue
        graphs.append(graph)
        size += expanded_size(graph)
        if size > limits.max_body_bytes:
            faults.add(f"{at}/{index}", expands_too_much(limits))
            break
        expected = _completed(expected, graph, f"the graph at {at}/{index}")
    faults.raise_if_any()
    if expected is not None and expected.edges is not None and expected.edges.size:
        # Graphs without edges may precede the first graph with edge attributes.
        graphs = [_with_edge_attributes(graph) for graph in graphs]
    return graphs


def _completed(
    expected: ExpectedFeatures | None, graph: CanonicalGraph, source: str
) -> ExpectedFeatures:
    """Takes the sizes that are still unknown from this graph."""
    expected = expected or ExpectedFeatures(len(graph.x[0]), source)
    if expected.edges is not None or not graph.edges:
        return expected
    size = len(graph.edge_attr[0]) if graph.edge_attr else 0
    return replace(expected, edges=ExpectedEdgeAttributes(size, f"{source} has", is_of_set=True))


def _with_edge_attributes(graph: CanonicalGraph) -> CanonicalGraph:
    return graph if graph.edges else graph.model_copy(update={"edge_attr": []})


def _read(
    raw: object,
    at: str,
    limits: Settings,
    expected: ExpectedFeatures | None,
    faults: Faults,
    *,
    warnings: InputWarnings,
) -> CanonicalGraph | None:
    """One graph, or None with the reasons in `faults`."""
    if not isinstance(raw, dict):
        faults.add(at, f"a graph should be an object, not {kind_of(raw)}")
        return None
    # Check sizes before validation, so that a huge graph is cheap to reject.
    before = len(faults)
    class_names = () if expected is None else expected.class_names
    check_supported(raw, at, faults)
    _check_sizes(raw, at, limits, faults)
    _check_labels(raw, at, class_names, faults)
    if len(faults) > before:
        return None
    if class_names:
        raw = with_class_numbers(raw, class_names)
    try:
        graph = _ADAPTER.validate_python(raw)
    except ValidationError as error:
        faults.extend(faults_of(error, raw, at))
        return None
    if isinstance(graph, SmilesGraph):
        return _read_smiles(graph, at, limits, expected, faults)
    check_unread(raw, at, expected, faults, warnings)
    if len(faults) > before:
        return None
    read = _read_nodes_and_edges(graph, at, limits, expected, faults, warnings=warnings)
    if read is not None and not _has_features(graph):
        warnings.constant_features = True
    return read


def _check_labels(
    raw: dict[str, object], at: str, class_names: Sequence[str], faults: Faults
) -> None:
    for key in ("label", "y"):
        problem = unknown_class(raw.get(key), class_names) if class_names else None
        if problem is not None:
            faults.add(f"{at}/{key}", problem)


def _has_features(posted: NodeLinkGraph | PygGraph) -> bool:
    if isinstance(posted, PygGraph):
        return posted.x is not None
    return any(node.x is not None for node in posted.nodes)


def _check_sizes(raw: dict[str, object], at: str, limits: Settings, faults: Faults) -> None:
    def check(value: object, place: str, what: str, allowed: int) -> None:
        if isinstance(value, list) and len(value) > allowed:
            faults.add(f"{at}/{place}", too_many(len(value), what, allowed))

    max_listed = 2 * limits.max_edges  # an edge may be listed once per direction
    if "edge_index" not in raw:
        check(raw.get("nodes"), "nodes", "nodes", limits.max_nodes)
        check(raw.get("edges"), "edges", "listed edges", max_listed)
        check(raw.get("links"), "links", "listed edges", max_listed)
        return
    check(raw.get("x"), "x", "nodes", limits.max_nodes)
    check(raw.get("node_ids"), "node_ids", "nodes", limits.max_nodes)
    check(raw.get("edge_attr"), "edge_attr", "listed edges", max_listed)
    index = raw["edge_index"]
    for row, ends in enumerate(index[:2] if isinstance(index, list) else []):
        check(ends, f"edge_index/{row}", "listed edges", max_listed)


def _read_smiles(
    graph: SmilesGraph, at: str, limits: Settings, expected: ExpectedFeatures | None, faults: Faults
) -> CanonicalGraph | None:
    if expected is not None and expected.featuriser is not None:
        return read_molecule(graph, at, limits, expected.featuriser, faults)
    hint = (
        "name a GNN in `gnn`; its featuriser makes node features of the atoms"
        if expected is None
        else f"{expected.source} has no featuriser; send nodes with features"
    )
    faults.add(f"{at}/smiles", f"cannot be read: {hint}")
    return None


def _read_nodes_and_edges(
    posted: NodeLinkGraph | PygGraph,
    at: str,
    limits: Settings,
    expected: ExpectedFeatures | None,
    faults: Faults,
    *,
    warnings: InputWarnings,
) -> CanonicalGraph | None:
    before = len(faults)
    graph = (
        from_pyg(posted, at, limits, faults)
        if isinstance(posted, PygGraph)
        else from_node_link(posted, at, faults)
    )
    if graph is None:
        return None
    x = read_features(graph, limits, expected, faults)
    if isinstance(posted, PygGraph):
        check_symmetric(graph.edges, graph.pointers.edges, faults)
    edges, index_of = read_edges(graph, read_positions(graph, faults), limits.max_edges, faults)
    expected_edges = None if expected is None else expected.edges
    edge_attr = None
    if expected_edges is None or expected_edges.size or expected_edges.is_of_set:
        edge_attr = read_edge_attributes(graph, edges, index_of, expected_edges, faults)
    elif any(graph.edge_attr):
        warnings.add_unread("edge", ["edge_attr"])
    if len(faults) > before:
        return None
    return CanonicalGraph(
        node_ids=list(graph.node_ids), x=x, edges=edges, label=graph.label, edge_attr=edge_attr
    )
