"""Example explanations: which rows a report shows, their pictures and their two sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from d4explain.contracts.evaluations.results import ExplainerResult
from d4explain.contracts.evaluations.rows import EvaluationRow
from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.requests import CanonicalGraph
from d4explain.contracts.results import Edit, Molecule, Prediction, ResultEdge, ResultGraph
from service.drawing.svg import edits_picture
from service.graph_io.chosen_graph import ChosenGraph
from service.graph_io.writing.result_graphs import as_result_graph
from service.reports.audit.document import Picture
from service.reports.letters import capitalised, edit_list
from store.molecules import MoleculeError, ReadMolecule

RULE = (
    "Of each explainer three graphs are shown, chosen by a fixed rule: the first one with the "
    "median number of edits; the change that the smallest share of judges shares (the one with "
    "the fewest edits if nothing was judged; the first one if several are equal); and the first "
    "graph for which no change was found."
)
_TITLES = ("a typical change", "the most brittle change", "no change found")
_UNJUDGED = ("a typical change", "the smallest change", "no change found")


@dataclass(frozen=True)
class Case:
    title: str
    row: EvaluationRow


class CaseChoice:
    """Chooses the examples of one explainer in one pass over its rows."""

    def __init__(self, explained: ExplainerResult) -> None:
        self._median = _median(explained.edit_histogram)
        self._is_judged = any(
            explained.verdicts.get(verdict) for verdict in ("meaningful", "brittle")
        )
        self._typical: EvaluationRow | None = None
        self._weakest: tuple[float, EvaluationRow] | None = None
        self._missing: EvaluationRow | None = None

    def add(self, row: EvaluationRow) -> None:
        if not row.found:
            self._missing = self._missing or row
            return
        if self._typical is None and row.edits == self._median:
            self._typical = row
        rank = self._rank(row)
        if rank is not None and (self._weakest is None or rank < self._weakest[0]):
            self._weakest = rank, row

    def cases(self) -> list[Case]:
        weakest = None if self._weakest is None else self._weakest[1]
        titles = _TITLES if self._is_judged else _UNJUDGED
        chosen = (self._typical, weakest, self._missing)
        cases: list[Case] = []
        for title, row in zip(titles, chosen, strict=True):
            if row is None:
                continue
            if cases and cases[-1].row == row:
                cases[-1] = Case(f"{cases[-1].title}, and {title}", row)
            else:
                cases.append(Case(title, row))
        return cases

    def _rank(self, row: EvaluationRow) -> float | None:
        if not self._is_judged:
            return float(row.edits or 0)
        agreeing = sum(row.judges_agree)
        if row.verdict == "unjudged" or not agreeing:
            return None
        return sum(row.judges_share) / agreeing


def picture(case: Case, graph: CanonicalGraph, names: GnnNames) -> Picture:
    """The graph with its edits; the text has the two sentences and who agrees."""
    row = case.row
    edits = _edits(row, graph, names)
    after = row.predicted_class if row.new_class is None else row.new_class
    chosen = ChosenGraph(
        title="",
        subtitle="",
        graph=_edited(graph, row),
        edits=edits,
        # Rows have one probability before and one after, which the picture does not show.
        before=Prediction(predicted_class=row.predicted_class, probabilities=[]),
        after=Prediction(predicted_class=after, probabilities=[]),
        is_answer=row.found,
        molecule=_molecule(graph),
    )
    title = f"{row.explainer}: {case.title} (test graph {row.graph}, counted from 0)"
    sentences = [_decision(row, names), _change(row, edits, names), *_evidence(row)]
    return Picture(title=title, text=" ".join(sentences), svg=edits_picture(chosen, names))


def _decision(row: EvaluationRow, names: GnnNames) -> str:
    said = f"The GNN calls this graph “{_class(row.predicted_class, names)}”"
    probability = f"(probability {row.probability:.2f})"
    if row.label is None:
        return f"{said} {probability}."
    known = _class(row.label, names)
    if row.label == row.predicted_class:
        return f"{said} {probability}, which is its label."
    return f"{said} {probability}; its label is “{known}”, so the GNN is wrong."


def _change(row: EvaluationRow, edits: Sequence[Edit], names: GnnNames) -> str:
    if row.new_class is None or row.new_probability is None:
        reason = (row.reason or "").rstrip(".")
        return "No change that alters this was found" + (f": {reason}." if reason else ".")
    return (
        f"{capitalised(edit_list(edits))}, it would call it “{_class(row.new_class, names)}” "
        f"(probability {row.new_probability:.2f})."
    )


def _evidence(row: EvaluationRow) -> list[str]:
    said = []
    if row.found and row.judges_agree:
        agreeing, shared = sum(row.judges_agree), sum(row.judges_share)
        said.append(
            f"Of the {agreeing} judges that agree with the GNN on the original, {shared} "
            f"{'shares' if shared == 1 else 'share'} the change ({row.verdict})."
        )
    if row.found and row.typicality is not None:
        said.append(f"Typicality of the changed graph: {row.typicality:.2f}.")
    return said


def _class(number: int, names: GnnNames) -> str:
    return names.class_name(number) or f"class {number}"


def _edits(row: EvaluationRow, graph: CanonicalGraph, names: GnnNames) -> tuple[Edit, ...]:
    pairs = [("remove", pair) for pair in row.removed] + [("add", pair) for pair in row.added]
    return tuple(
        Edit.model_validate(
            {
                "action": action,
                "source": graph.node_ids[source],
                "target": graph.node_ids[target],
                "source_type": names.type_name(graph.x[source]),
                "target_type": names.type_name(graph.x[target]),
                "plausibility": None,
                "proposed_by": "search",
            }
        )
        for action, (source, target) in pairs
    )


def _edited(graph: CanonicalGraph, row: EvaluationRow) -> ResultGraph:
    """The graph after the edits, as a drawing wants it."""
    whole = as_result_graph(graph)
    removed = set(row.removed)
    kept = [
        edge for edge, pair in zip(whole.edges, graph.edges, strict=True) if pair not in removed
    ]
    ids = graph.node_ids
    added = [ResultEdge(source=ids[source], target=ids[target]) for source, target in row.added]
    return ResultGraph(nodes=whole.nodes, edges=[*kept, *added])


def _molecule(graph: CanonicalGraph) -> Molecule | None:
    if graph.molecule is None:
        return None
    try:
        return ReadMolecule(graph.molecule).document(graph.node_ids)
    except MoleculeError:  # RDKit is missing
        return None


def _median(histogram: dict[str, int]) -> int | None:
    """The lower median, so that a row has it."""
    numbers = sorted((int(edits), count) for edits, count in histogram.items())
    half, seen = sum(count for _, count in numbers) / 2, 0
    for edits, count in numbers:
        seen += count
        if seen >= half:
            return edits
    return None
