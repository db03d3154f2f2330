"""A long training in pieces: it continues from its checkpoint, and its points are verified."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bench.data.splits import DataError, Part
from bench.data.tasks import Task
from bench.gnns.target_gnns import TargetGnn, TargetMetrics
from bench.paper import long_run, sizes
from bench.paper.long_run import CONFIGS, LongRun, measure_point
from bench.report.provenance import provenance
from bench.report.results_store import append_rows
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import ActivationLayer, GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.diffusion.paper.recipe import PRINTED_SIZES, PaperRecipe, PrintedSize

torch.set_num_threads(1)
RECIPE = PaperRecipe(hidden=4, blocks=1, batch_graphs=4, noise_levels=2, steps=6)


def ring(nodes: int) -> Graph:
    ends = sorted(tuple(sorted((node, (node + 1) % nodes))) for node in range(nodes))
    return Graph(torch.ones(nodes, 1), torch.tensor(ends).T)


def task(name: str = "tree_cycle") -> Task:
    graphs = [ring(nodes) for nodes in (5, 6, 7, 8)]
    part = Part(graphs, torch.zeros(4, dtype=torch.int64))
    return Task(name, 2, part, part, part)


def target(folder: Path) -> TargetGnn:
    layers = (GinLayer(4, 4), ActivationLayer("tanh"), PoolLayer("sum"), LinearLayer(2))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        gnn = Gnn(GnnSpec(1, 2, layers)).eval()
    metrics = TargetMetrics(0, 0, None, "graphs", 0, 0, 0, 0, 0, 0, provenance(0))
    return TargetGnn(gnn, metrics, folder / "gnn", cached=True)


def run_in(folder: Path) -> LongRun:
    return LongRun(task(), target(folder), RECIPE, 1, folder)


def quiet(label: str, done: int, total: int) -> None:
    pass


def test_pieces_are_one_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted after any step, it continues to the same weights, and CPU seconds add up."""
    monkeypatch.setattr(long_run, "_CHECKPOINT_SECONDS", 0.0)
    whole = run_in(tmp_path / "whole")
    whole.train(1, quiet)
    pieces = run_in(tmp_path / "pieces")

    def interrupt(label: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    seconds = [0.0]
    for steps in range(1, 4):
        with pytest.raises(KeyboardInterrupt):
            pieces.train(1, interrupt)
        measured = pieces.train(0, quiet)
        assert measured.progress is not None
        assert measured.steps == measured.progress.step == steps
        seconds.append(measured.cpu_seconds)
    piece = pieces.train(1, quiet)
    assert (piece.steps, piece.epochs) == (6, 6)
    assert all(one < other for one, other in pairwise([*seconds, piece.cpu_seconds]))
    expected, found = load_file(whole.checkpoint), load_file(pieces.checkpoint)
    weights = [name for name in expected if name.startswith("weights.")]
    assert weights
    assert all(torch.equal(expected[name], found[name]) for name in weights)


def test_a_finished_training_is_only_measured(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    run.train(1, quiet)
    again = run.train(1, quiet)
    assert again.steps == 6


def test_other_recipes_and_seeds_have_other_checkpoints(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    others = [
        LongRun(run.task, run.target, PaperRecipe(hidden=8), 1, tmp_path),
        LongRun(run.task, run.target, RECIPE, 2, tmp_path),
    ]
    assert len({one.checkpoint for one in (run, *others)}) == 3


def test_points_are_appended(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    piece = run.train(1, quiet)
    rows = measure_point(run, piece, CONFIGS, test=3, on_progress=quiet)
    assert [row["sampling"] for row in rows] == list(CONFIGS)
    for row in rows:
        assert (row["steps"], row["n"], row["hidden"]) == (6, 3, 4)
        assert 0 <= row["auc_strict"] <= row["auc_one_edit"] <= 1
        assert row["auc_strict"] <= row["ceiling"]
    for _ in range(2):
        file = append_rows("paper", rows, tmp_path)
    assert len(json.loads(file.read_text())) == 2 * len(CONFIGS)


def test_smaller_networks_are_tried_until_one_is_affordable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PRINTED_SIZES, "ba3motif", PrintedSize(32, 2, 4, 0.05))
    monkeypatch.setattr(sizes, "SECONDS", 0.0)
    rows = list(sizes.measure_sizes(task("ba3motif"), target(tmp_path), 0))
    assert [(row["hidden"], row["blocks"]) for row in rows] == [(32, 2), (24, 2), (16, 2)]
    assert not any(row["chosen"] for row in rows)
    monkeypatch.setattr(sizes, "SECONDS", 1e9)
    (row,) = sizes.measure_sizes(task("ba3motif"), target(tmp_path), 0)
    assert (row["chosen"], row["printed"], row["steps_per_epoch"]) == (True, True, 1)
    assert row["seconds_per_step"] > 0


def test_the_saved_choice_is_used(tmp_path: Path) -> None:
    chosen = {"dataset": "bbbp", "hidden": 48, "blocks": 6, "batch_graphs": 16, "alpha": 0.005}
    rows = [{**chosen, "hidden": 128, "chosen": False}, {**chosen, "chosen": True}]
    (tmp_path / "paper_sizes-bbbp.json").write_text(json.dumps(rows))
    assert sizes.chosen_size("bbbp", tmp_path) == PrintedSize(48, 6, 16, 0.005)
    assert sizes.chosen_size("nci1", tmp_path) == PRINTED_SIZES["nci1"]
    assert sizes.chosen_size("tree_cycle", tmp_path) == PRINTED_SIZES["tree_cycle"]
    with pytest.raises(DataError, match="proteins"):
        sizes.chosen_size("proteins", tmp_path)
