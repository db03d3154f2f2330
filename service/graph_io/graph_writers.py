"""A graph of a result, written in the form a caller asked for."""

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

_MOST_GRAPHML_VALUES = 1_000_000  # some 30 bytes each


class Format(StrEnum):
    JSON = "json"
    SVG = "svg"
    GRAPHML = "graphml"
    CYTOSCAPE = "cytoscape"
    PYG = "pyg"


class CytoscapeDocument(BaseModel):
    """What `to_cytoscape` writes."""

    model_config = ConfigDict(extra="forbid")

    data: dict[str, Any]
    directed: bool
    multigraph: bool
    elements: dict[Literal["nodes", "edges"], list[dict[str, Any]]]


class PygDocument(BaseModel):
    """What `to_pyg` writes; a posted graph may have this form."""

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
    node: NodeId | None = Field(None, description="The explained node, of a node classifier.")


def require_answer(chosen: ChosenGraph) -> None:
    """Only a drawing may show a miss: in other forms it would be taken for a counterfactual."""
    if not chosen.is_answer:
        raise Conflict(
            "no counterfactual was found for this graph within the budget; "
            "format=svg draws the closest miss"
        )


def to_graphml(chosen: ChosenGraph, check: Callable[[], None] = lambda: None) -> str:
    """GraphML: features as x0, x1 …, edge attributes as e0, e1 …

    Edges say whether they were added, nodes whether they are explained. It is written line by line:
    a tree of elements would take a hundred times the memory of the text.
    """
    values = sum(len(node.x) for node in chosen.graph.nodes)
    if values > _MOST_GRAPHML_VALUES:
        said = f"is graphml, which writes at most {_MOST_GRAPHML_VALUES:,} node features; "
        reject("format", f"{said}the graph has {values:,}: pyg and cytoscape write them", "query")
    keys: dict[tuple[str, str], str] = {}
    declared: list[str] = []

    def data(owner: str, name: str, value: str | float) -> str:
        place = owner, name
        if place not in keys:  # GraphML wants every attribute declared before the graph
            keys[place] = f"d{len(keys)}"
            kind = {str: "string", int: "long", bool: "boolean"}.get(type(value), "double")
            declared.append(
                f'  <key id="{keys[place]}" for="{owner}" attr.name="{name}" attr.type="{kind}"/>'
            )
        text = str(value).lower() if isinstance(value, bool) else escape(str(value))
        return f'<data key="{keys[place]}">{text}</data>'

    lines = [f"    {data('graph', name, value)}" for name, value in _facts(chosen).items()]
    lines.append(f"    {data('graph', 'edits', json.dumps(_edit_list(chosen)))}")
    for node in chosen.graph.nodes:
        check()
        marks = [data("node", name, value) for name, value in _mark(chosen, node).items()]
        features = [data("node", f"x{place}", value) for place, value in enumerate(node.x)]
        held = "".join(marks + features)
        lines.append(f"    <node id={quoteattr(str(node.id))}>{held}</node>")
    added = _pair_set(chosen, "add")
    for edge in chosen.graph.edges:
        check()
        is_added = frozenset((edge.source, edge.target)) in added
        held = data("edge", "edit", "added" if is_added else "kept")
        for place, attribute in enumerate(edge.edge_attr or []):
            held += data("edge", f"e{place}", attribute)
        ends = f"source={quoteattr(str(edge.source))} target={quoteattr(str(edge.target))}"
        lines.append(f"    <edge {ends}>{held}</edge>")
    return "\n".join(
        [
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
            *declared,
            '  <graph edgedefault="undirected">',
            *lines,
            "  </graph>",
            "</graphml>\n",
        ]
    )


def to_cytoscape(chosen: ChosenGraph, check: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Cytoscape.js elements with positions; `networkx.cytoscape_graph` reads it too."""
    added = _pair_set(chosen, "add")
    pairs = chosen.pairs() + chosen.edited("remove")
    places = (layout(len(chosen.graph.nodes), pairs, check) * 80.0).round(2).tolist()  # pixels
    nodes = [
        {
            "data": {
                "id": str(node.id),
                "value": node.id,
                "name": str(node.id),
                "x": node.x,
                **_mark(chosen, node),
            },
            "position": {"x": x, "y": y},
        }
        for node, (x, y) in zip(chosen.graph.nodes, places, strict=True)
    ]
    edges = [
        {
            "data": {
                # The caller's ids: NetworkX wants them so, Cytoscape.js makes strings of them.
                "source": edge.source,
                "target": edge.target,
                "edit": "added" if frozenset((edge.source, edge.target)) in added else "kept",
                **({} if edge.edge_attr is None else {"edge_attr": edge.edge_attr}),
            }
        }
        for edge in chosen.graph.edges
    ]
    return {
        "data": {**_facts(chosen), "edits": _edit_list(chosen)},
        "directed": False,
        "multigraph": False,
        "elements": {"nodes": nodes, "edges": edges},
    }


def to_pyg(chosen: ChosenGraph) -> dict[str, Any]:
    """A PyG `Data` as lists, both directions of each edge; it can be posted again as it is."""
    pairs = chosen.pairs()
    carried = [edge.edge_attr for edge in chosen.graph.edges if edge.edge_attr is not None]
    return {
        "x": [node.x for node in chosen.graph.nodes],
        "edge_index": [
            [s for s, _ in pairs] + [t for _, t in pairs],
            [t for _, t in pairs] + [s for s, _ in pairs],
        ],
        **({"edge_attr": carried + carried} if carried else {}),
        "num_nodes": len(chosen.graph.nodes),
        "y": [chosen.after.predicted_class],
        "node_ids": [node.id for node in chosen.graph.nodes],
        "edits": _edit_list(chosen),
        **_facts(chosen),
    }


def _facts(chosen: ChosenGraph) -> dict[str, NodeId | float]:
    after = chosen.after.predicted_class
    facts: dict[str, NodeId | float] = {
        "predicted_class": after,
        "confidence": chosen.after.probabilities[after],
    }
    if chosen.before is not None:
        facts["predicted_class_before"] = chosen.before.predicted_class
    if chosen.node is not None:
        facts["node"] = chosen.node
    return facts


def _mark(chosen: ChosenGraph, node: ResultNode) -> dict[str, bool]:
    """Whether it is the explained node, where there is one."""
    return {} if chosen.node is None else {"explained": node.id == chosen.node}


def _edit_list(chosen: ChosenGraph) -> list[dict[str, Any]]:
    return [edit.model_dump(mode="json") for edit in chosen.edits]


def _pair_set(chosen: ChosenGraph, action: str) -> set[frozenset[NodeId]]:
    return {frozenset((e.source, e.target)) for e in chosen.edits if e.action == action}
