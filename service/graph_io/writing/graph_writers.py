"""Writes one graph of a result as GraphML, Cytoscape JSON or a PyG dict."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal
from xml.sax.saxutils import escape, quoteattr

from pydantic import BaseModel, ConfigDict, Field

from d4explain.contracts.results import Edit, NodeId, ResultNode
from service.drawing.layout import layout
from service.graph_io.chosen_graph import ChosenGraph
from service.http.faults import reject
from store.errors import Conflict

_MAX_GRAPHML_VALUES = 1_000_000  # about 30 bytes each
_PIXELS_PER_UNIT = 80.0  # the layout's unit is about the length of an edge


class Format(StrEnum):
    JSON = "json"
    SVG = "svg"
    FACTUAL = "factual"  # an SVG, too
    GRAPHML = "graphml"
    CYTOSCAPE = "cytoscape"
    PYG = "pyg"
    GRAFANA = "grafana"


class CytoscapeDocument(BaseModel):
    """The output of `to_cytoscape`."""

    model_config = ConfigDict(extra="forbid")

    data: dict[str, Any]
    directed: bool
    multigraph: bool
    elements: dict[Literal["nodes", "edges"], list[dict[str, Any]]]


class PygDocument(BaseModel):
    """The output of `to_pyg`; it can be posted as a graph."""

    model_config = ConfigDict(extra="forbid")

    x: list[list[float]]
    edge_index: Annotated[list[list[int]], Field(min_length=2, max_length=2)]
    edge_attr: list[list[float]] | None = Field(
        None, description="One row per entry of `edge_index`, if edges have attributes."
    )
    num_nodes: int
    y: list[int]
    node_ids: list[NodeId]
    edits: list[Edit]
    predicted_class: int
    confidence: float
    predicted_class_before: int | None = None
    node: NodeId | None = Field(
        None, description="The explained node, if the GNN classifies nodes."
    )


def require_answer(chosen: ChosenGraph) -> None:
    """Rejects a miss: only a drawing marks it, other formats would show it as a counterfactual."""
    if not chosen.is_answer:
        raise Conflict(
            "no counterfactual was found for this graph within the budget; "
            "format=svg draws the closest miss"
        )


def to_graphml(chosen: ChosenGraph, check: Callable[[], None] = lambda: None) -> str:
    """GraphML with features x0, x1 … and edge attributes e0, e1 …

    Writes text line by line: an element tree would take a hundred times the memory.
    """
    values = sum(len(node.x) for node in chosen.graph.nodes)
    if values > _MAX_GRAPHML_VALUES:
        reject(
            "format",
            f"is graphml, which allows at most {_MAX_GRAPHML_VALUES:,} node features; the graph "
            f"has {values:,}; use pyg or cytoscape",
            "query",
        )
    keys: dict[tuple[str, str], str] = {}
    declarations: list[str] = []

    def data(owner: str, name: str, value: str | float) -> str:
        attribute = owner, name
        if attribute not in keys:  # GraphML declares every attribute before the graph
            keys[attribute] = key = f"d{len(keys)}"
            kind = {str: "string", int: "long", bool: "boolean"}.get(type(value), "double")
            declarations.append(
                f'  <key id="{key}" for="{owner}" attr.name="{name}" attr.type="{kind}"/>'
            )
        text = str(value).lower() if isinstance(value, bool) else escape(str(value))
        return f'<data key="{keys[attribute]}">{text}</data>'

    lines = [f"    {data('graph', name, value)}" for name, value in _predictions(chosen).items()]
    lines.append(f"    {data('graph', 'edits', json.dumps(_edits(chosen)))}")
    for node in chosen.graph.nodes:
        check()
        flags = [data("node", name, value) for name, value in _node_flags(chosen, node).items()]
        features = [data("node", f"x{column}", value) for column, value in enumerate(node.x)]
        content = "".join(flags + features)
        lines.append(f"    <node id={quoteattr(str(node.id))}>{content}</node>")
    added = _added_edges(chosen)
    for edge in chosen.graph.edges:
        check()
        is_added = frozenset((edge.source, edge.target)) in added
        content = data("edge", "edit", "added" if is_added else "kept")
        for column, value in enumerate(edge.edge_attr or []):
            content += data("edge", f"e{column}", value)
        ends = f"source={quoteattr(str(edge.source))} target={quoteattr(str(edge.target))}"
        lines.append(f"    <edge {ends}>{content}</edge>")
    return "\n".join(
        [
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
            *declarations,
            '  <graph edgedefault="undirected">',
            *lines,
            "  </graph>",
            "</graphml>\n",
        ]
    )


def to_cytoscape(chosen: ChosenGraph, check: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Cytoscape.js elements with positions; `networkx.cytoscape_graph` can read them."""
    added = _added_edges(chosen)
    pairs = chosen.edge_pairs() + chosen.edited_pairs("remove")
    positions = layout(len(chosen.graph.nodes), pairs, check) * _PIXELS_PER_UNIT
    nodes = [
        {
            "data": {
                "id": str(node.id),
                "value": node.id,
                "name": str(node.id),
                "x": node.x,
                **_node_flags(chosen, node),
            },
            "position": {"x": x, "y": y},
        }
        for node, (x, y) in zip(chosen.graph.nodes, positions.round(2).tolist(), strict=True)
    ]
    edges = [
        {
            "data": {
                # Not as strings: NetworkX needs the original ids; Cytoscape.js converts them.
                "source": edge.source,
                "target": edge.target,
                "edit": "added" if frozenset((edge.source, edge.target)) in added else "kept",
                **({} if edge.edge_attr is None else {"edge_attr": edge.edge_attr}),
            }
        }
        for edge in chosen.graph.edges
    ]
    return {
        "data": {**_predictions(chosen), "edits": _edits(chosen)},
        "directed": False,
        "multigraph": False,
        "elements": {"nodes": nodes, "edges": edges},
    }


def to_pyg(chosen: ChosenGraph) -> dict[str, Any]:
    """A PyG `Data` as lists, with both directions of each edge; it can be posted unchanged."""
    pairs = chosen.edge_pairs()
    edge_attr = [edge.edge_attr for edge in chosen.graph.edges if edge.edge_attr is not None]
    return {
        "x": [node.x for node in chosen.graph.nodes],
        "edge_index": [
            [s for s, _ in pairs] + [t for _, t in pairs],
            [t for _, t in pairs] + [s for s, _ in pairs],
        ],
        **({"edge_attr": edge_attr + edge_attr} if edge_attr else {}),
        "num_nodes": len(chosen.graph.nodes),
        "y": [chosen.after.predicted_class],
        "node_ids": [node.id for node in chosen.graph.nodes],
        "edits": _edits(chosen),
        **_predictions(chosen),
    }


def _predictions(chosen: ChosenGraph) -> dict[str, NodeId | float]:
    after = chosen.after.predicted_class
    predictions: dict[str, NodeId | float] = {
        "predicted_class": after,
        "confidence": chosen.after.probabilities[after],
    }
    if chosen.before is not None:
        predictions["predicted_class_before"] = chosen.before.predicted_class
    if chosen.node is not None:
        predictions["node"] = chosen.node
    return predictions


def _node_flags(chosen: ChosenGraph, node: ResultNode) -> dict[str, bool]:
    """Whether this is the explained node, if the GNN classifies nodes."""
    return {} if chosen.node is None else {"explained": node.id == chosen.node}


def _edits(chosen: ChosenGraph) -> list[dict[str, Any]]:
    return [edit.model_dump(mode="json") for edit in chosen.edits]


def _added_edges(chosen: ChosenGraph) -> set[frozenset[NodeId]]:
    return {frozenset((e.source, e.target)) for e in chosen.edits if e.action == "add"}
