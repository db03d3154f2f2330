"""One graph of a stored result, read without the rest of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pydantic import TypeAdapter

from d4explain.contracts.results import (
    ClosestMiss,
    Edit,
    ExplainedNode,
    GeneratedMolecule,
    Molecule,
    NodeId,
    Prediction,
    ResultEdge,
    ResultGraph,
    ResultNode,
)
from service.graph_io.json_parts import JsonPart
from service.http.faults import reject

Value = TypeVar("Value")

_BATCH = 2**16  # bytes; a parser holds the interpreter until it is done
_NODES = TypeAdapter(list[ResultNode])
_EDGES = TypeAdapter(list[ResultEdge])
_EDITS = TypeAdapter(list[Edit])
_EXPLAINED = TypeAdapter[ExplainedNode | None](ExplainedNode | None)
_MOLECULE = TypeAdapter[Molecule | None](Molecule | None)
_GENERATED = TypeAdapter[GeneratedMolecule | None](GeneratedMolecule | None)
_MISS = TypeAdapter[ClosestMiss | None](ClosestMiss | None)
_ID = TypeAdapter[NodeId | None](NodeId | None)
_SHARE = TypeAdapter[float | None](float | None)


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


def chosen_graph(result: bytes, graph: int, alternative: int) -> ChosenGraph:
    """Graph `graph` of a stored result: its counterfactual `alternative`, or a class example."""
    members = JsonPart.whole(result).members()
    if "examples" in members:
        return _example(members, graph, alternative)
    answers = members["answers"].elements()
    _check_index("graph", graph, len(answers), "graphs")
    answer = answers[graph].members()
    node = _optional(_EXPLAINED, answer, "node")
    molecule = _optional(_MOLECULE, answer, "molecule")
    before = _prediction(answer)
    place = f"{'node' if node else 'graph'} {graph + 1} of {len(answers)}"
    counterfactuals = answer["counterfactuals"].elements()
    if not counterfactuals:
        miss = _optional(_MISS, answer, "closest_miss")
        posted = _graph(answer)
        return ChosenGraph(
            title="No counterfactual within the budget",
            subtitle=f"{place}, " + ("closest miss" if miss else "as it was posted"),
            graph=_apply(posted, miss.edits) if miss else posted,
            edits=tuple(miss.edits) if miss else (),
            before=before,
            after=miss.prediction if miss else before,
            is_answer=False,
            node=node.id if node else None,
            molecule=molecule,
        )
    _check_index("alternative", alternative, len(counterfactuals), "counterfactuals")
    found = counterfactuals[alternative].members()
    return ChosenGraph(
        title="Counterfactual",
        subtitle=f"{place}, alternative {alternative + 1} of {len(counterfactuals)}",
        graph=_graph(found),
        edits=tuple(_EDITS.validate_json(found["edits"].text)),
        before=before,
        after=_prediction(found),
        is_answer=True,
        node=node.id if node else None,
        molecule=molecule,
    )


def _example(result: dict[str, JsonPart], graph: int, alternative: int) -> ChosenGraph:
    examples = result["examples"].elements()
    _check_index("graph", graph, len(examples), "examples")
    _check_index("alternative", alternative, 1, "alternative of an example")
    example = examples[graph].members()
    node, share = _optional(_ID, example, "node"), _optional(_SHARE, example, "share")
    return ChosenGraph(
        title=f"Typical {'graph' if node is None else 'node'} of class "
        f"{int(result['target_class'].text)}",
        subtitle=f"example {graph + 1} of {len(examples)}"
        + ("" if share is None else f", {share:.1%} of the class"),
        graph=_graph(example),
        edits=(),
        before=None,
        after=_prediction(example),
        is_answer=True,
        node=node,
        molecule=_optional(_GENERATED, example, "molecule"),
    )


def _graph(owner: dict[str, JsonPart]) -> ResultGraph:
    members = owner["graph"].members()
    nodes, edges = members["nodes"].batches(_BATCH), members["edges"].batches(_BATCH)
    return ResultGraph(
        nodes=[node for batch in nodes for node in _NODES.validate_json(batch)],
        edges=[edge for batch in edges for edge in _EDGES.validate_json(batch)],
    )


def _prediction(owner: dict[str, JsonPart]) -> Prediction:
    return Prediction.model_validate_json(owner["prediction"].text)


def _optional(adapter: TypeAdapter[Value], owner: dict[str, JsonPart], name: str) -> Value | None:
    return adapter.validate_json(owner[name].text) if name in owner else None


def _apply(graph: ResultGraph, edits: list[Edit]) -> ResultGraph:
    removed = {frozenset((e.source, e.target)) for e in edits if e.action == "remove"}
    kept = [edge for edge in graph.edges if frozenset((edge.source, edge.target)) not in removed]
    added = [
        ResultEdge(source=edit.source, target=edit.target, edge_attr=edit.edge_attr)
        for edit in edits
        if edit.action == "add"
    ]
    return ResultGraph(nodes=graph.nodes, edges=kept + added)


def _check_index(name: str, index: int, count: int, what: str) -> None:
    if index >= count:
        allowed = f"0 to {count - 1}" if count > 1 else "only 0" if count else "none"
        reject(name, f"is {index}; of the {count} {what}, allowed is {allowed}", "query")
