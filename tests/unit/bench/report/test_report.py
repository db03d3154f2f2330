"""The report: targets, tables and plots of made-up rows; what is missing is said to be."""

from __future__ import annotations

import json
import re
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from typer.testing import CliRunner

from bench.__main__ import app
from bench.report.paper_figures import SETS
from bench.report.plots import FIGURES, draw, draw_all
from bench.report.report import NOTES, write_report
from bench.report.results_store import COMMANDS, Results, keep, read
from bench.report.targets import Verdict, count_reached, verdicts
from bench.speed.bounds import BOUNDS
from bench.speed.parts import PARTS
from bench.speed.section import Figures, Say, Section, Table

ORIGIN = {"seed": 0, "commit": "0123456789abcdef", "machine": "a machine", "date": "2026-01-02"}
AUC = "AUC strict ≥ greedy's"


def counterfactual(dataset: str, method: str, **changed: Any) -> dict[str, Any]:
    return {
        **{"dataset": dataset, "method": method, "n": 60, "auc_strict": 0.8, "ceiling": 0.9},
        **{"auc_one_edit": 0.95, "fidelity_auc": 0.5, "mean_edits": 1.5, "flip_rate": 1.0},
        **{"flip_rate_005": 0.4, "flip_rate_01": 0.8, "mmd_sum": 0.05, "mmd_heldout": 0.04},
        **{"mmd_floor": 0.02, "alternatives": 5.0, "alternatives3": 0.9, "cpu_seconds": 0.1},
        **{"share_not_minimal": 0.01, "gnn_evaluations": 300.0, "train_seconds": 60.0},
        **{"curve": [place / 10 for place in range(10)], "command": "python -m bench x"},
        **ORIGIN,
        **changed,
    }


def class_row(method: str, **changed: Any) -> dict[str, Any]:
    return {
        **{"dataset": "mutagenicity", "label": 1, "nodes": 7, "method": method, "k": 20, "t": 50},
        **{"n": 100, "confidence": 0.9, "density": 0.3, "connected": 1.0, "valence_broken": 0.0},
        **{"unique": 0.9, "motif_rate": None, "mmd_heldout": 0.02, "seconds": 7.0},
        **{"recurrence": 0.5, "density_heldout": 0.28},
        **changed,
    }


def curve(method: str, *accuracies: float) -> list[dict[str, Any]]:
    about = {"dataset": "bbbp", "method": method, "k": 5, "ratio": 0.2, "n": 20, "seeds": 5}
    return [
        {**about, "noise": noise, "top_k_accuracy": value, "kept": 1.0, "flips": 0.9, **ORIGIN}
        for noise, value in zip((0.0, 0.02, 0.1), accuracies, strict=True)
    ]


def speed_row(part: str, **figures: float | None) -> dict[str, Any]:
    table = {"title": "by hand", "columns": ["N", "ms"], "rows": [["thirty", 0.123456], [50, 2e9]]}
    return {"dataset": part, **figures, "tables": [table], "short": True, **ORIGIN}


def judged(command: str, rows: list[dict[str, Any]]) -> dict[tuple[str, str], Verdict]:
    return {(one.dataset, one.target): one for one in verdicts(Results({command: rows}))}


def everything() -> dict[str, list[dict[str, Any]]]:
    return {
        "gnns": [
            {"dataset": "bbbp", "test_accuracy": 0.88, "paper_accuracy": 0.85, **ORIGIN},
            {"dataset": "mutag", "test_accuracy": 0.72, "paper_accuracy": None, **ORIGIN},
        ],
        "counterfactual": [counterfactual("bbbp", name) for name in ("d4", "greedy", "random")],
        "classes": [class_row(name) for name in ("d4", "d4_paper", "real_best20")],
        "robustness": [*curve("d4", 1.0, 0.8, 0.7), *curve("greedy", 1.0, 0.5, 0.4)],
        "speed": [speed_row("mmd", mmd_speedup=50.0, plain_ms=2500.0)],
    }


@pytest.mark.parametrize(("accuracy", "reached"), [(0.83, True), (0.829, False)])
def test_gnns_are_compared_with_the_paper(accuracy: float, reached: bool) -> None:
    rows = [{"dataset": "bbbp", "test_accuracy": accuracy}, {"dataset": "x", "test_accuracy": 0.1}]
    (only,) = verdicts(Results({"gnns": rows}))
    assert (only.dataset, only.reached) == ("bbbp", reached)


def test_counterfactual_targets() -> None:
    rows = [
        counterfactual("bbbp", "d4", mmd_heldout=0.036, cpu_seconds=0.3, cpu_seconds_n60=0.15),
        counterfactual("bbbp", "greedy"),
        counterfactual("bbbp", "d4_no_denoiser", gnn_evaluations=900.0, auc_strict=0.804),
        counterfactual("nci1", "d4", alternatives3=0.7, share_not_minimal=0.03, auc_one_edit=0.7),
    ]
    found = judged("counterfactual", rows)
    by_start = {
        (dataset, target.split(" ")[0]): one.reached for (dataset, target), one in found.items()
    }
    assert found["bbbp", AUC].reached
    assert found["bbbp", AUC].figures == "0.800 : 0.800"
    assert by_start["bbbp", "excess"]  # .016 of .020
    assert by_start["bbbp", "denoiser:"]
    assert found["bbbp", "CPU seconds ≤ .2 (N ≤ 60)"].reached
    assert found["nci1", AUC].reached is None  # greedy was not measured
    assert found["nci1", "≥ 3 answers for ≥ .8"].reached is False
    assert found["nci1", "not minimal ≤ .02"].reached is False
    assert found["nci1", "AUC one-edit ≥ the paper's"].reached is False
    assert by_start["nci1", "denoiser:"] is None


@pytest.mark.parametrize(
    ("changed", "reached"),
    [
        ({"gnn_evaluations": 301.0}, False),
        ({"gnn_evaluations": 290.0, "gnn_gradients": 10.0}, True),
        ({"gnn_evaluations": 290.0, "gnn_gradients": 11.0}, False),  # backward passes are work too
        ({"auc_strict": 0.79}, False),
        ({"gnn_evaluations": 900.0, "mmd_gain_low": 0.001, "mmd_gain_high": 0.01}, True),
        ({"gnn_evaluations": 900.0, "mmd_gain_low": -0.001, "mmd_gain_high": 0.01}, False),
    ],
)
def test_the_denoiser_earns_its_place_by_work_or_by_naturalness(
    changed: dict[str, float], reached: bool
) -> None:
    rows = [
        counterfactual("x", "d4", **changed),
        counterfactual("x", "d4_no_denoiser", gnn_evaluations=900.0, gnn_gradients=0.0),
    ]
    (verdict,) = [
        one for (_, target), one in judged("counterfactual", rows).items() if "denoiser" in target
    ]
    assert verdict.reached is reached


@pytest.mark.parametrize(
    ("gains", "measured", "reached"), [(2, 3, True), (1, 3, None), (1, 8, False), (0, 7, False)]
)
def test_targets_over_sets_are_undecided_until_enough_are_measured(
    gains: int, measured: int, reached: bool | None
) -> None:
    rows = []
    for place, name in enumerate(SETS[:measured]):
        more = 0.02 if place < gains else 0.019
        rows.append(counterfactual(name, "d4", auc_strict=0.7 + more))
        rows.append(counterfactual(name, "greedy", auc_strict=0.7))
    found = judged("counterfactual", rows)
    assert found["all", f"{AUC} + .02, on 2 of 8 sets"].reached is reached


def test_ba3motif_counts_once_over_sets() -> None:
    names = ("ba3motif", "ba3motif_roles")
    rows = [counterfactual(name, method) for name in names for method in ("d4", "greedy")]
    over = [one for one in verdicts(Results({"counterfactual": rows})) if one.dataset == "all"]
    assert over
    assert all(" of 1 measured" in one.figures for one in over)


def test_class_targets() -> None:
    rows = [
        class_row("d4"),
        class_row("d4", k=10, confidence=0.1),  # of the grid: not judged
        class_row("d4_paper", mmd_heldout=0.04),
        class_row("real_best20", unique=0.46),
    ]
    found = judged("classes", rows)
    assert {dataset for dataset, _ in found} == {"mutagenicity, class 1, N = 7"}
    reached = {target: one.reached for (_, target), one in found.items()}
    assert reached == {
        "confidence ≥ the paper's less .005": True,
        "all connected": True,
        "no valence broken": True,
        "density ≤ held-out subgraphs' + 10 %": True,
        "unique ≥ twice `real_best20`'s": False,
        "held-out MMD ≤ half of `d4_paper`'s": True,
        "seconds ≤ 60": True,
    }


def test_class_targets_say_what_is_possible() -> None:
    possible = {
        **{"possible_confidence": 0.95, "possible_confidence_sparse": 0.94},
        **{"possible_unique": 0.03},
    }
    rows = [
        class_row("d4", dataset="ba3motif", motif_rate=0.5, density=0.32, **possible),
        class_row("real_random", dataset="ba3motif", motif_rate=0.5),
    ]
    found = {target: one for (_, target), one in judged("classes", rows).items()}
    sure = found["confidence ≥ the paper's less .005"]
    assert (sure.reached, sure.figures) == (False, "0.900 : 0.998; no graph has more than 0.950")
    assert found["unique ≥ twice `real_best20`'s"].figures.endswith("at most 0.030")
    density = found["density ≤ held-out subgraphs' + 10 %"]
    assert not density.reached
    assert density.figures.endswith("no set is surer than 0.940")
    assert found["motif in more answers than of `real_random`"].reached is False
    estimated = class_row("d4", dataset="ba3motif", density=0.32, **possible, possible_parts=40)
    found = {target: one for (_, target), one in judged("classes", [estimated]).items()}
    sure = found["confidence ≥ the paper's less .005"]
    assert sure.figures.endswith("than 0.950, as far as graphs on the nodes of 40 parts were tried")


def test_robustness_targets() -> None:
    rows = [
        *curve("d4", 1.0, 0.8, 0.5),
        *curve("greedy", 1.0, 0.7, 0.4),
        *curve("gnnexplainer", 1.0, 0.7, 0.5),
    ]
    found = judged("robustness", rows)
    assert found["bbbp", "Top-K accuracy 1 without noise"].reached
    assert found["bbbp", "above `greedy` at every noise"].figures == "by +0.100 to +0.100"
    assert found["bbbp", "above `gnnexplainer` at every noise"].reached is False
    over = [one for one in found.values() if one.dataset == "all"]
    assert [one.reached for one in over] == [None]  # two other sets could still reach it


def test_speed_targets() -> None:
    rows = [
        speed_row("requests", many_jobs_over_one=1.51, warm_overhead_ms=None),
        speed_row("load", submit_rps=100.0, submit_p99_ms=150.0, submit_over_bare=0.5),
        speed_row("large", node_time_ratio_1e6_over_1e4=1.21, node_peak_bytes=1.9e9),
    ]
    found = verdicts(Results({"speed": rows}))
    by_key = {bound.key: one for bound, one in zip(BOUNDS, found, strict=True)}
    assert [one.target for one in found] == [bound.target for bound in BOUNDS]
    assert {key: one.reached for key, one in by_key.items() if one.figures != "not measured"} == {
        "many_jobs_over_one": False,
        "node_time_ratio_1e6_over_1e4": False,
        "node_peak_bytes": True,
        "submit_rps": True,
        "submit_p99_ms": False,  # less than that was wanted
        "submit_over_bare": True,
    }
    assert by_key["node_peak_bytes"].figures == "1,900,000,000"
    assert by_key["submit_rps"].dataset == "load"
    assert by_key["warm_overhead_ms"].reached is None
    assert not verdicts(Results({"speed": []}))


def test_verdicts_are_counted_in_words() -> None:
    some = [Verdict("x", "x", "x", "x", reached) for reached in (True, None, True)]
    assert count_reached(some) == "2 reached, 1 undecided"


def test_what_is_kept_is_read_again_by_data_set(tmp_path: Path) -> None:
    keep("gnns", [{"dataset": "b", "x": 1}, {"dataset": "a", "x": 2}], tmp_path)
    keep("gnns", [{"dataset": "b", "x": 3}], tmp_path)
    assert [row["x"] for row in read(tmp_path).rows("gnns")] == [2, 3]
    assert read(tmp_path / "nowhere").rows("classes") == []


def test_the_page_has_every_table_plot_and_verdict(tmp_path: Path) -> None:
    for command, rows in everything().items():
        keep(command, rows, tmp_path / "results")
    page = tmp_path / "docs" / "benchmarks.md"
    write_report(tmp_path / "results", page)
    text = page.read_text()
    assert text.startswith("<!-- Generated by")
    assert "| bbbp | 0.880 | 0.850 |" in text
    assert "| `d4` | 1.000 | 0.800 | 0.700 | 0.900 |" in text
    assert "the paper's CF-ACC AUC 0.781" in text
    assert "fidelity AUC 0.739" not in text  # the paper's, which is another quantity than ours
    assert "| AUC one-edit | flips' fidelity AUC |" in text
    assert "| GNN evals | GNN gradients |" in text
    assert "| 300 | not measured |" in text  # rows from before gradients were counted
    assert "python -m bench x\n" in text
    assert "Commit `0123456`; seed 0; 2026-01-02; a machine." in text
    assert "| bbbp | Top-K accuracy 1 without noise | 1.000 | reached |" in text
    assert "| `plain_ms` | 2,500 |" in text
    assert "\nby hand:\n\n| N | ms |\n|---|---:|\n| thirty | 0.1235 |\n" in text
    assert (
        "| mmd | MMD of 200 against 200 graphs ≥ 50 times as fast as a plain loop | 50 | reached |"
        in text
    )
    assert "| not measured | undecided |" in text
    assert "No results are kept" not in text
    plots = re.findall(r"!\[.*\]\((plots/.*\.svg)\)", text)
    assert [Path(plot).stem for plot in plots] == [
        *("gnn-accuracy", "cf-acc-curves", "naturalness", "class-confidence", "robustness")
    ]
    for plot in plots:
        assert (page.parent / plot).stat().st_size < 100_000


def test_missing_results_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keep("gnns", everything()["gnns"])
    done = CliRunner().invoke(app, ["report"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    text = Path("docs/benchmarks.md").read_text()
    assert "No results are kept of: counterfactuals, class explanations, robustness, speed." in text
    assert sorted(file.name for file in Path("docs/plots").iterdir()) == ["gnn-accuracy.svg"]


def measured(key: str, value: float) -> Any:
    """A part of the speed bench that has one figure."""
    figures = make_dataclass("One", [(key, float)], bases=(Figures,), frozen=True)(value)
    table = Table("more", ("what", "value"), (("it", value),))
    return lambda short, seed, say: Section(figures, (table,))


def test_parts_of_the_speed_bench_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {"mmd": measured("mmd_speedup", 60.0), "load": measured("submit_rps", 120.0)}
    monkeypatch.setattr("bench.__main__.PARTS", parts)
    monkeypatch.chdir(tmp_path)
    shown = []
    for arguments in (["--json", "all.json", "--short"], ["--part", "load"]):
        done = CliRunner().invoke(app, ["speed", "--keep", *arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        shown.append(done.output)
    (whole,) = json.loads(Path("all.json").read_text())
    assert (whole["mmd_speedup"], whole["submit_rps"], len(whole["tables"])) == (60.0, 120.0, 2)
    kept = {row["dataset"]: row for row in read().rows("speed")}
    assert kept["mmd"]["command"] == "python -m bench speed --short --seed 0"
    assert kept["load"]["command"] == "python -m bench speed --part load --seed 0"
    assert "mmd_speedup" not in kept["load"]
    assert "mmd_speedup" in shown[0]
    assert "submit_rps" in shown[1]
    assert "more" in shown[1]


def test_a_part_that_fails_loses_nothing_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(short: bool, seed: int, say: Say) -> Section[Figures]:
        (row,) = json.loads(Path("all.json").read_text())
        assert row["mmd_speedup"] == 60.0  # as soon as it is known
        raise RuntimeError("the disk is full")

    parts = {"mmd": measured("mmd_speedup", 60.0), "load": fails, "large": measured("auc", 0.5)}
    monkeypatch.setattr("bench.__main__.PARTS", parts)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["speed", "--keep", "--json", "all.json"])
    assert done.exit_code == 1
    assert "the disk is full" in done.output
    assert "not measured: load" in done.output
    (row,) = json.loads(Path("all.json").read_text())
    assert (row["mmd_speedup"], row["auc"]) == (60.0, 0.5)
    assert {row["dataset"] for row in read().rows("speed")} == {"mmd", "large"}


def test_the_parts_of_the_speed_bench_measure_what_was_asked_for() -> None:
    """By the types of what they return, which are made of nothing else."""
    returned = [get_args(get_type_hints(part)["return"])[0] for part in PARTS.values()]
    promised = [field.name for figures in returned for field in fields(figures)]
    assert len(set(promised)) == len(promised)
    assert set(promised) >= {
        *("step_over_matmul", "paper_step_peak_bytes", "many_jobs_over_one", "warm_overhead_ms"),
        *("node_time_ratio_1e6_over_1e4", "node_peak_bytes", "candidate_memory_exponent"),
        *("mmd_speedup", "submit_rps", "submit_p99_ms", "submit_over_bare"),
    }
    assert set(promised) >= {bound.key for bound in BOUNDS}


def test_rows_of_an_earlier_version_are_shown_without_what_they_lack(tmp_path: Path) -> None:
    rows = [
        {key: value for key, value in row.items() if key not in ("curve", "command", "commit")}
        for row in everything()["counterfactual"]
    ]
    keep("counterfactual", rows, tmp_path)
    write_report(tmp_path, tmp_path / "page.md")
    assert sorted(file.name for file in (tmp_path / "plots").iterdir()) == ["naturalness.svg"]


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_same_rows_give_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    for command, rows in everything().items():
        if command not in FIGURES:
            continue
        files = [tmp_path / f"{command}-{place}{suffix}" for place in range(2)]
        assert all(draw(command, rows, file) for file in files)
        assert files[0].read_bytes() == files[1].read_bytes()


def test_commands_without_rows_or_figures_draw_nothing(tmp_path: Path) -> None:
    assert not draw("unknown", [{"dataset": "x"}], tmp_path / "x.png")
    assert [draw_all(command, [], tmp_path) for command in COMMANDS] == [[]] * len(COMMANDS)
    assert not list(tmp_path.iterdir())


def test_notes_hold_no_figures() -> None:
    notes = sorted(NOTES.glob("*.md"))
    assert {note.stem for note in notes} == {"head", *COMMANDS}
    for note in notes:
        assert not re.findall(r"\d*\.\d+|\d+ ?%", note.read_text()), note.name


def test_kept_results_are_rows_of_known_commands() -> None:
    folder = Path(__file__).resolve().parents[4] / "bench" / "results"
    files = sorted(folder.glob("*.json"))
    assert files
    for file in files:
        assert file.name.partition("-")[0] in COMMANDS
        assert all("dataset" in row for row in json.loads(file.read_text()))
