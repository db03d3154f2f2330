"""Reads one graph of a stored result without parsing the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pydantic import TypeAdapter

from d4explain.contracts.counterfactual_results import (
    ClosestMiss,
    EdgeImportance,
    ExplainedNode,
    FactualExplanation,
    Verdict,
)
from d4explain.contracts.job_states import Stage
from d4explain.contracts.results import (
    ClassOccurrence,
    Edit,
    Effect,
    GeneratedMolecule,
    Molecule,
    NodeId,
    Prediction,
    ResultEdge,
    ResultGraph,
    ResultNode,
    Support,
)
from service.graph_io.json_parts import JsonPart
from service.http.faults import reject
from store.errors import Conflict

Value = TypeVar("Value")

_BATCH_BYTES = 2**16  # the parser blocks other threads during a batch
_NODES = TypeAdapter(list[ResultNode])
_EDGES = TypeAdapter(list[ResultEdge])
_EDITS = TypeAdapter(list[Edit])
_EXPLAINED_NODE = TypeAdapter[ExplainedNode | None](ExplainedNode | None)
_MOLECULE = TypeAdapter[Molecule | None](Molecule | None)
_GENERATED_MOLECULE = TypeAdapter[GeneratedMolecule | None](GeneratedMolecule | None)
_CLOSEST_MISS = TypeAdapter[ClosestMiss | None](ClosestMiss | None)
_FACTUAL = TypeAdapter[FactualExplanation | None](FactualExplanation | None)
_NODE_ID = TypeAdapter[NodeId | None](NodeId | None)
_STAGE = TypeAdapter[Stage](Stage)
_REASON = TypeAdapter(str)
_VERDICT = TypeAdapter[Verdict](Verdict)
_TITLES: dict[Verdict | None, str] = {
    None: "Counterfactual",  # of an earlier version
    "meaningful": "Meaningful counterfactual",
    "brittle": "Brittle counterfactual",
    "unjudged": "Counterfactual",
}
_SUPPORT = TypeAdapter[Support](Support)
_CLASS_EFFECT = TypeAdapter[Effect](Effect)
_OCCURRENCE = TypeAdapter[ClassOccurrence](ClassOccurrence)
_SHOWN_OCCURRENCES = 2


@dataclass(frozen=True)
class ChosenPattern:
    """What a drawing tells about a pattern of a class; None in results of earlier versions."""

    target_class: int
    support: Support | None
    effect: Effect | None
    occurrences: tuple[ClassOccurrence, ...]  # with their whole graphs


@dataclass(frozen=True)
class ChosenCoverage:
    """What a drawing tells about a global counterfactual."""

    source_class: int
    source_count: int  # graphs that the GNN gives that class
    theta: float
    covered_share: float  # of them
    added_share: float


@dataclass(frozen=True)
class ChosenGraph:
    """A graph of a result with its edits and predictions."""

    title: str
    subtitle: str
    graph: ResultGraph  # after the edits
    edits: tuple[Edit, ...]
    before: Prediction | None  # None for classes and global counterfactuals: they edit no graph
    after: Prediction
    is_answer: bool  # False for the closest miss, or the posted graph if there is none
    node: NodeId | None = None  # the explained node, if the GNN classifies nodes
    # of a graph posted as SMILES, a class example or a global counterfactual
    molecule: Molecule | GeneratedMolecule | None = None
    pattern: ChosenPattern | None = None  # of class explanations
    importances: tuple[EdgeImportance, ...] = ()  # of the edges, for a factual explanation
    coverage: ChosenCoverage | None = None  # of global counterfactuals

    @property
    def positions(self) -> dict[NodeId, int]:
        return {node.id: position for position, node in enumerate(self.graph.nodes)}

    def edge_pairs(self) -> list[tuple[int, int]]:
        """The edges after the edits, by node position."""
        positions = self.positions
        return [(positions[edge.source], positions[edge.target]) for edge in self.graph.edges]

    def edited_pairs(self, action: str) -> list[tuple[int, int]]:
        positions = self.positions
        return [
            (positions[edit.source], positions[edit.target])
            for edit in self.edits
            if edit.action == action
        ]


def chosen_graph(result: bytes, graph: int, alternative: int) -> ChosenGraph:
    """Counterfactual `alternative` of graph `graph`; of other kinds, the graph with this number."""
    members = JsonPart.whole(result).members()
    is_provisional = _optional(_STAGE, members, "stage") is Stage.PROVISIONAL
    if "examples" in members:
        return _class_example(members, graph, alternative, is_provisional)
    if "counterfactuals" in members:
        return _global_counterfactual(members, graph, alternative)
    answers = members["answers"].elements()
    _check_index("graph", graph, len(answers), "graphs")
    answer = answers[graph].members()
    node = _optional(_EXPLAINED_NODE, answer, "node")
    molecule = _optional(_MOLECULE, answer, "molecule")
    before = _prediction(answer)
    number = f"{'node' if node else 'graph'} {graph + 1} of {len(answers)}"
    believable = answer["counterfactuals"].elements()
    minimal = answer["minimal"].elements() if "minimal" in answer else []  # old results lack it
    counterfactuals = [*believable, *minimal]
    title = None
    if alternative >= len(believable):
        missing = "" if believable else "No believable counterfactual; this is minimal"
        title = missing or "Minimal counterfactual"
    if not counterfactuals:
        miss = _optional(_CLOSEST_MISS, answer, "closest_miss")
        posted = _graph(answer)
        return ChosenGraph(
            title=_titled("No counterfactual within the budget", is_provisional),
            subtitle=f"{number}, " + ("closest miss" if miss else "as posted"),
            graph=_apply(posted, miss.edits) if miss else posted,
            edits=tuple(miss.edits) if miss else (),
            before=before,
            after=miss.prediction if miss else before,
            is_answer=False,
            node=node.id if node else None,
            molecule=molecule,
        )
    _check_index("alternative", alternative, len(counterfactuals), "counterfactuals")
    counterfactual = counterfactuals[alternative].members()
    return ChosenGraph(
        title=_titled(
            title or _TITLES[_optional(_VERDICT, counterfactual, "verdict")], is_provisional
        ),
        subtitle=f"{number}, alternative {alternative + 1} of {len(counterfactuals)}",
        graph=_graph(counterfactual),
        edits=tuple(_EDITS.validate_json(counterfactual["edits"].text)),
        before=before,
        after=_prediction(counterfactual),
        is_answer=True,
        node=node.id if node else None,
        molecule=molecule,
    )


def factual_graph(result: bytes, graph: int) -> ChosenGraph:
    """The posted graph `graph` with the importance of its edges."""
    members = JsonPart.whole(result).members()
    if "answers" not in members:
        reject("format", "is factual; only counterfactual explanations have importances", "query")
    answers = members["answers"].elements()
    _check_index("graph", graph, len(answers), "graphs")
    answer = answers[graph].members()
    factual = _optional(_FACTUAL, answer, "factual")
    if factual is None:
        raise Conflict(
            "this answer has no importances of edges; explainers that score edges, such as "
            "saliency or gnnexplainer, give them"
        )
    node = _optional(_EXPLAINED_NODE, answer, "node")
    return ChosenGraph(
        title="Edges that the prediction rests on",
        subtitle=f"{'node' if node else 'graph'} {graph + 1} of {len(answers)}",
        graph=_graph(answer),
        edits=(),
        before=_prediction(answer),
        after=factual.prediction_kept,
        is_answer=factual.fidelity_minus > 0,
        node=node.id if node else None,
        importances=tuple(factual.edges),
    )


def _titled(title: str, is_provisional: bool) -> str:
    return f"Provisional: {title[0].lower()}{title[1:]}" if is_provisional else title


def _class_example(
    result: dict[str, JsonPart], graph: int, alternative: int, is_provisional: bool
) -> ChosenGraph:
    examples = result["examples"].elements()
    _check_index("graph", graph, len(examples), "examples")
    _check_index("alternative", alternative, 1, "alternative per example")
    example = examples[graph].members()
    node = _optional(_NODE_ID, example, "node")
    target_class = int(result["target_class"].text)
    places = example["occurrences"].elements() if "occurrences" in example else []
    occurrences = [_OCCURRENCE.validate_json(place.text) for place in places[:_SHOWN_OCCURRENCES]]
    return ChosenGraph(
        title=_titled(f"Pattern of class {target_class}", is_provisional),
        subtitle=f"pattern {graph + 1} of {len(examples)}",
        graph=_graph(example),
        edits=(),
        before=None,
        after=_prediction(example),
        is_answer=True,
        node=node,
        molecule=_optional(_GENERATED_MOLECULE, example, "molecule"),
        pattern=ChosenPattern(
            target_class,
            _optional(_SUPPORT, example, "support"),
            _optional(_CLASS_EFFECT, example, "effect"),
            tuple(one for one in occurrences if one.shown is not None),
        ),
    )


def global_counterfactual_count(result: bytes) -> int | None:
    """Number of global counterfactuals; None for results of another kind."""
    members = JsonPart.whole(result).members()
    found = members.get("counterfactuals")
    return None if found is None else len(found.elements())


def _global_counterfactual(
    result: dict[str, JsonPart], graph: int, alternative: int
) -> ChosenGraph:
    found = result["counterfactuals"].elements()
    if not found:
        raise Conflict(
            f"there is no counterfactual: {_REASON.validate_json(result['reason'].text)}"
        )
    _check_index("graph", graph, len(found), "counterfactuals")
    _check_index("alternative", alternative, 1, "alternative per counterfactual")
    one = found[graph].members()
    return ChosenGraph(
        title="Global counterfactual",
        subtitle=f"counterfactual {graph + 1} of {len(found)}",
        graph=_graph(one),
        edits=(),
        before=None,
        after=_prediction(one),
        is_answer=True,
        molecule=_optional(_GENERATED_MOLECULE, one, "molecule"),
        coverage=ChosenCoverage(
            source_class=int(result["source_class"].text),
            source_count=int(result["source_count"].text),
            theta=float(result["theta"].text),
            covered_share=float(one["covered_share"].text),
            added_share=float(one["added_share"].text),
        ),
    )


def _graph(owner: dict[str, JsonPart]) -> ResultGraph:
    members = owner["graph"].members()
    nodes, edges = members["nodes"].batches(_BATCH_BYTES), members["edges"].batches(_BATCH_BYTES)
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
        expected = f"; expected {f'0 to {count - 1}' if count > 1 else 0}" if count else ""
        reject(name, f"is {index}, but the result has {count} {what}{expected}", "query")
