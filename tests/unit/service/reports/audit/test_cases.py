"""Which examples a report shows, how molecules are drawn, and that texts are escaped."""

from __future__ import annotations

from typing import Any

from d4explain.contracts.evaluations.results import ExplainerResult
from d4explain.contracts.evaluations.rows import EvaluationRow
from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.requests import CanonicalGraph, Smiles
from service import examples
from service.reports.audit import plots
from service.reports.audit.cases import Case, CaseChoice, picture
from store.molecules import ReadMolecule

RESULT: dict[str, Any] = examples.EVALUATION["result"]["explainers"][0]


def row(**changes: Any) -> EvaluationRow:
    return EvaluationRow.model_validate({**examples.ROWS["items"][0], **changes})


def chosen(rows: list[EvaluationRow], **changes: Any) -> list[tuple[str, int]]:
    choice = CaseChoice(ExplainerResult.model_validate({**RESULT, **changes}))
    for each in rows:
        choice.add(each)
    return [(case.title, case.row.instance) for case in choice.cases()]


def test_the_median_the_most_brittle_and_the_first_without_a_change() -> None:
    missing = {"found": False, "new_class": None, "new_probability": None, "edits": None}
    rows = [
        row(instance=0, edits=1, judges_agree=[True] * 4, judges_share=[True, False, False, False]),
        row(instance=1, edits=2, judges_agree=[True] * 4, judges_share=[True] * 4,
            verdict="meaningful"),
        row(instance=2, **missing),
        row(instance=3, edits=2, judges_agree=[True] * 4, judges_share=[False] * 4),
        row(instance=4, **missing),
    ]  # fmt: skip
    assert chosen(rows, edit_histogram={"1": 1, "2": 2}) == [
        ("a typical change", 1),
        ("the most brittle change", 3),
        ("no change found", 2),
    ]


def test_without_judges_the_smallest_change_is_shown_and_no_row_twice() -> None:
    rows = [row(instance=i, edits=1, verdict=None) for i in range(2)]
    found = chosen(rows, edit_histogram={"1": 2}, verdicts={})
    assert found == [("a typical change, and the smallest change", 0)]


def test_molecules_are_drawn_as_molecules_and_names_are_escaped() -> None:
    smiles = Smiles(text="c1ccccc1[N+](=O)[O-]", hydrogens=False)
    molecule = ReadMolecule(smiles)
    graph = CanonicalGraph(
        node_ids=molecule.node_ids,
        x=[[1.0, 0.0]] * len(molecule.elements),
        edges=molecule.edges,
        molecule=smiles,
    )
    names = GnnNames(class_names=("<b>safe</b>", "toxic"), feature_names=("C", "N"))
    shown = picture(Case("a typical change", row(added=[[0, 7]], removed=[])), graph, names)
    assert "class='atom-6" in shown.svg  # RDKit's structural formula
    assert 'class="node' not in shown.svg
    assert "prefers-color-scheme" not in shown.svg
    assert "With a connection between 0 (C) and 7 (C)" in shown.text
    assert "<b>" not in shown.svg
    assert "“<b>safe</b>” (probability 0.83)" in shown.text  # text, which each format escapes


def test_plots_escape_names() -> None:
    line = plots.Line("<script>", [(0.0, 0.0), (0.3, 1.0)])
    svg = plots.line_plot([line], title='"a" & b', x_label="x", y_label="y")
    assert "<script>" not in svg
    assert 'aria-label="&quot;a&quot; &amp; b"' in svg


def test_a_matrix_of_many_classes_is_no_picture() -> None:
    assert plots.matrix(["a"] * 9, {(0, 1): 1}, title="t") is None
    assert ">3<" in (plots.matrix(["a", "b"], {(0, 1): 3}, title="t") or "")
