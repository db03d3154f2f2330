"""One graph of a result, chosen and written in the form a caller asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal
from xml.etree import ElementTree

from pydantic import BaseModel, ConfigDict, Field

from service.faults import refuse
from service.layout import layout
from store.errors import Conflict
from store.results import (
    ClassResult,
    CounterfactualAnswer,
    CounterfactualResult,
    Edit,
    GeneratedMolecule,
    Molecule,
    NodeId,
    Prediction,
    ResultEdge,
    ResultGraph,
    ResultNode,
)


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


@dataclass(frozen=True)
class ChosenGraph:
    """A graph of a result with what is known about it."""

    title: str
    subtitle: str
    graph: ResultGraph  # after the edits
    edits: tuple[Edit, ...]
    before: Prediction | None  # None for class explanations, which start from nothing
    after: Prediction
    is_answer: bool  # False: only the closest miss
    node: NodeId | None = None  # the explained one, if the GNN classifies nodes
    # as it was posted, or what a class example makes; None for other graphs
    molecule: Molecule | GeneratedMolecule | None = None

    @property
    def positions(self) -> dict[NodeId, int]:
        return {node.id: position for position, node in enumerate(self.graph.nodes)}

    def pairs(self) -> list[tuple[int, int]]:
        """The edited graph's edges by position."""
        position = self.positions
        return [(position[edge.source], position[edge.target]) for edge in self.graph.edges]

    def edited(self, action: str) -> list[tuple[int, int]]:
        position = self.positions
        return [
            (position[edit.source], position[edit.target])
            for edit in self.edits
            if edit.action == action
        ]


def chosen_graph(
    result: CounterfactualResult | ClassResult, graph: int, alternative: int
) -> ChosenGraph:
    """Graph `graph` of a result: its counterfactual number `alternative`, or a class example."""
    if isinstance(result, ClassResult):
        _check_index("graph", graph, len(result.examples), "examples")
        _check_index("alternative", alternative, 1, "alternative of an example")
        example = result.examples[graph]
        return ChosenGraph(
            title=f"Typical {'graph' if example.node is None else 'node'} of class "
            f"{result.target_class}",
            subtitle=f"example {graph + 1} of {len(result.examples)}"
            + ("" if example.share is None else f", {example.share:.1%} of the class"),
            graph=example.graph,
            edits=(),
            before=None,
            after=example.prediction,
            is_answer=True,
            node=example.node,
            molecule=example.molecule,
        )
    _check_index("graph", graph, len(result.answers), "graphs")
    answer = result.answers[graph]
    if not answer.counterfactuals:
        return _miss(answer, graph, len(result.answers))
    _check_index("alternative", alternative, len(answer.counterfactuals), "counterfactuals")
    found = answer.counterfactuals[alternative]
    return ChosenGraph(
        title="Counterfactual",
        subtitle=f"{_subject(answer)} {graph + 1} of {len(result.answers)}, "
        f"alternative {alternative + 1} of {len(answer.counterfactuals)}",
        graph=found.graph,
        edits=tuple(found.edits),
        before=answer.prediction,
        after=found.prediction,
        is_answer=True,
        node=answer.node.id if answer.node else None,
        molecule=answer.molecule,
    )


def _subject(answer: CounterfactualAnswer) -> str:
    return "node" if answer.node else "graph"


def _miss(answer: CounterfactualAnswer, graph: int, graphs: int) -> ChosenGraph:
    miss = answer.closest_miss
    return ChosenGraph(
        title="No counterfactual within the budget",
        subtitle=f"{_subject(answer)} {graph + 1} of {graphs}, "
        + ("closest miss" if miss else "as it was posted"),
        graph=_apply(answer.graph, miss.edits) if miss else answer.graph,
        edits=tuple(miss.edits) if miss else (),
        before=answer.prediction,
        after=miss.prediction if miss else answer.prediction,
        is_answer=False,
        node=answer.node.id if answer.node else None,
        molecule=answer.molecule,
    )


def _apply(graph: ResultGraph, edits: list[Edit]) -> ResultGraph:
    removed = {frozenset((e.source, e.target)) for e in edits if e.action == "remove"}
    kept = [edge for edge in graph.edges if frozenset((edge.source, edge.target)) not in removed]
    added = [
        ResultEdge(source=edit.source, target=edit.target, edge_attr=edit.edge_attr)
        for edit in edits
        if edit.action == "add"
    ]
    return ResultGraph(nodes=graph.nodes, edges=kept + added)


def require_answer(chosen: ChosenGraph) -> None:
    """Only a drawing may show a miss: in other forms it would be taken for a counterfactual."""
    if not chosen.is_answer:
        raise Conflict(
            "no counterfactual was found for this graph within the budget; "
            "format=svg draws the closest miss"
        )


def to_graphml(chosen: ChosenGraph) -> str:
    """GraphML: features as x0, x1 …, edge attributes as e0, e1 …

    Edges say whether they were added, nodes whether they are explained.
    """
    document = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    graph = ElementTree.Element("graph", edgedefault="undirected")
    keys: dict[tuple[str, str], str] = {}

    def put(element: ElementTree.Element, name: str, value: str | float) -> None:
        owner, place = element.tag, (element.tag, name)
        if place not in keys:  # GraphML wants every attribute declared before the graph
            keys[place] = f"d{len(keys)}"
            kind = {str: "string", int: "long", bool: "boolean"}.get(type(value), "double")
            declared = {"id": keys[place], "for": owner, "attr.name": name, "attr.type": kind}
            ElementTree.SubElement(document, "key", declared)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        ElementTree.SubElement(element, "data", key=keys[place]).text = text

    for name, value in _facts(chosen).items():
        put(graph, name, value)
    put(graph, "edits", json.dumps(_edit_list(chosen)))
    for node in chosen.graph.nodes:
        element = ElementTree.SubElement(graph, "node", id=str(node.id))
        for name, value in _mark(chosen, node).items():
            put(element, name, value)
        for position, feature in enumerate(node.x):
            put(element, f"x{position}", feature)
    added = _pair_set(chosen, "add")
    for edge in chosen.graph.edges:
        ends = {"source": str(edge.source), "target": str(edge.target)}
        element = ElementTree.SubElement(graph, "edge", ends)
        is_added = frozenset((edge.source, edge.target)) in added
        put(element, "edit", "added" if is_added else "kept")
        for position, attribute in enumerate(edge.edge_attr or []):
            put(element, f"e{position}", attribute)
    document.append(graph)
    ElementTree.indent(document)
    return ElementTree.tostring(document, encoding="unicode") + "\n"


def to_cytoscape(chosen: ChosenGraph) -> dict[str, Any]:
    """Cytoscape.js elements with positions; `networkx.cytoscape_graph` reads it too."""
    added = _pair_set(chosen, "add")
    pairs = chosen.pairs() + chosen.edited("remove")
    places = layout(len(chosen.graph.nodes), pairs) * 80.0  # pixels
    nodes = [
        {
            "data": {
                "id": str(node.id),
                "value": node.id,
                "name": str(node.id),
                "x": node.x,
                **_mark(chosen, node),
            },
            "position": {"x": round(float(place[0]), 2), "y": round(float(place[1]), 2)},
        }
        for node, place in zip(chosen.graph.nodes, places, strict=True)
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


def _check_index(name: str, index: int, count: int, what: str) -> None:
    if index >= count:
        allowed = f"0 to {count - 1}" if count > 1 else "only 0" if count else "none"
        refuse(name, f"is {index}; of the {count} {what}, allowed is {allowed}", "query")
