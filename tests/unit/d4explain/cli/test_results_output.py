"""Tables, summaries and progress bars."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.console import Console

from d4explain.cli.output.progress_bars import JobProgressBars, format_metrics
from d4explain.cli.output.result_tables import (
    counterfactual_table,
    format_edits,
    reason_lines,
    summary_lines,
)
from d4explain.client.resources import Job, Progress
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.job_states import JobKind, JobState
from d4explain.contracts.results import Edit


def edit(action: str, source: str, proposed_by: str = "denoiser") -> dict[str, object]:
    return {
        "action": action,
        "source": source,
        "target": "b",
        "plausibility": -1.0,
        "proposed_by": proposed_by,
    }


def result() -> CounterfactualResult:
    graph = {"nodes": [{"id": "a", "x": [1.0]}, {"id": "b", "x": [1.0]}], "edges": []}
    before = {"predicted_class": 0, "probabilities": [0.9, 0.1]}
    found = {
        "graph": graph,
        "edits": [edit("add", "[red]a"), edit("remove", "c", "search")],
        "prediction": {"predicted_class": 1, "probabilities": [0.2, 0.8]},
        "confidence": 0.8,
        "denoiser_likelihood": -1.0,
        "fidelity": 0.7,
        "modification_ratio": 0.25,
        "connected": True,
        "found_by": "denoiser",
    }
    answer = {"graph": graph, "prediction": before, "diversity": None, "gnn_evaluations": 5}
    answer |= {"closest_miss": None, "seconds": 0.1}
    return CounterfactualResult.model_validate(
        {
            "answers": [
                {**answer, "found": True, "reason": None, "counterfactuals": [found]},
                {**answer, "found": False, "reason": "budget used up", "counterfactuals": []},
            ],
            "summary": {
                "graph_count": 2,
                "found_count": 1,
                "flip_rate": 0.5,
                "mean_edits": 2.0,
                "mean_modification_ratio": 0.25,
                "mean_fidelity": None,
                "mean_confidence": 0.8,
                "edits_by_denoiser": 1,
                "edits_by_search": 1,
            },
            "mmd": None,
            "timings": {"load_seconds": 0.1, "explain_seconds": 1, "mmd_seconds": 0},
            "receipt": {
                "request_sha256": "",
                "gnn_sha256": "",
                "dataset_sha256": "",
                "denoiser_sha256": "",
                "denoiser_key": "",
                "config": {},
                "seed": 0,
                "device": "cpu",
                "versions": {},
                "work": {},
            },
            "warnings": [],
        }
    )


def render(content: object, width: int = 160) -> str:
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        console.print(content)
    return console.export_text()


def test_the_table_shows_edits_or_the_reason_for_none() -> None:
    lines = render(counterfactual_table(result())).splitlines()
    row = next(line for line in lines if "0 → 1" in line)
    for expected in ("+[red]a:b", "-c:b", "0.25", "0.80", "unjudged"):
        assert expected in row
    assert any(line.split()[-2:] == ["0", "none"] for line in lines)
    assert reason_lines(result()) == ["[yellow]graph 1: budget used up[/]"]


def test_the_smallest_flip_is_shown_if_nothing_is_believable() -> None:
    document = result().model_dump(mode="json")
    found, missed = document["answers"]
    missed["minimal"] = found["counterfactuals"]
    (_, flip) = reason_lines(CounterfactualResult.model_validate(document))
    assert render(flip).startswith("graph 1, the smallest flip (unjudged): +[red]a:b -c:b")


def test_the_table_fits_in_80_columns() -> None:
    shown = render(counterfactual_table(result(), ["mutagenic", "harmless"]), 80)
    for word in ("mutagenic", "harmless", "+[red]a:b", "-c:b", "0.25", "0.80", "unjudged"):
        assert word in shown


@pytest.mark.parametrize(
    ("value", "low", "shown"), [(0.31, False, "0.31"), (0.02, True, "0.02 low")]
)
def test_the_table_shows_typicality(value: float, low: bool, shown: str) -> None:
    document = result().model_dump(mode="json")
    figure = {"value": value, "low": low, "calibration_graphs": 100}
    document["answers"][0]["counterfactuals"][0]["typicality"] = figure
    lines = render(counterfactual_table(CounterfactualResult.model_validate(document))).splitlines()
    assert any("0 → 1" in line and shown in line for line in lines)


def test_the_table_shows_node_ids() -> None:
    document = result().model_dump(mode="json")
    for answer, name in zip(document["answers"], ("[b]x", 7), strict=True):
        answer["node"] = {
            "id": name,
            "hops": 2,
            "node_count": 2,
            "edge_count": 0,
            "frozen_pair_count": 0,
        }
    shown = CounterfactualResult.model_validate(document)
    lines = render(counterfactual_table(shown)).splitlines()
    assert any(line.split()[:2] == ["node", "class"] for line in lines)
    assert any(line.strip().startswith("[b]x") and "0 → 1" in line for line in lines)
    assert "flipped 1 of 2 nodes" in summary_lines(shown)[0]


def test_the_summary_counts_edits_by_denoiser_and_by_search() -> None:
    flips, edits = summary_lines(result())
    assert "1 of 2 graphs (50%)" in flips
    assert "denoiser 1" in edits
    assert "the search 1" in edits


def test_verdicts_are_shown_or_the_reason_for_none() -> None:
    document = result().model_dump(mode="json")
    found = document["answers"][0]["counterfactuals"][0]
    found |= {"verdict": "brittle", "transfers": {"shared": 1, "agreeing": 4, "asked": 5}}
    document["summary"]["verdicts"] = {"meaningful": 0, "brittle": 1, "unjudged": 0}
    judged = CounterfactualResult.model_validate(document)
    assert "brittle" in render(counterfactual_table(judged))
    assert summary_lines(judged)[-1].endswith("meaningful 0, brittle 1, unjudged 0")
    document["unjudged_reason"] = "the GNN is a black box"
    unjudged = CounterfactualResult.model_validate(document)
    assert summary_lines(unjudged)[-1] == "nothing was judged: the GNN is a black box"


def test_node_ids_are_not_interpreted_as_markup() -> None:
    edits = [Edit.model_validate(edit("add", "[bold]x"))]
    assert "[bold]x" in render(format_edits(edits))


def test_metrics_are_formatted_briefly() -> None:
    formatted = format_metrics({"loss": 0.123456, "loss_cf": 1.0, "flip_rate": 0.5, "auc": None})
    assert formatted == "loss 0.123  flips 0.5"


def make_job(state: JobState, step: int) -> Job:
    return Job(
        id="job_1",
        kind=JobKind.TRAIN,
        state=state,
        progress=Progress(step=step, total=10, metrics={"loss": 0.5}),
        created_at="now",
    )


def test_progress_is_printed_as_lines_without_a_terminal(tmp_path: Path) -> None:
    with (
        (tmp_path / "out").open("w") as file,
        JobProgressBars(Console(file=file, width=100)) as bars,
    ):
        for step in range(10):
            bars(make_job(JobState.RUNNING, step))
        bars(make_job(JobState.SUCCEEDED, 10))
    assert (tmp_path / "out").read_text() == "training the denoiser 10/10 loss 0.5\n"


def test_graphs_that_had_the_class_are_left_out_of_the_flip_rate() -> None:
    def first_line(**changes: object) -> str:
        summary = result().summary.model_copy(update=changes)
        return summary_lines(result().model_copy(update={"summary": summary}))[0]

    assert first_line(already_count=1, flip_rate=1.0).startswith(
        "flipped 1 of 1 graphs (100%); 1 had the class already; "
    )
    assert first_line(already_count=2, found_count=0, flip_rate=None).startswith(
        "flipped 0 of 0 graphs (-); "
    )
