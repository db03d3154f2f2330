"""Class comparison: figures, baselines, rows and a whole run."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import networkx as nx
import pytest
import torch
from typer.testing import CliRunner

from bench.__main__ import app
from bench.classes.figures import ClassEvaluator, distinct_count
from bench.classes.methods import (
    METHODS,
    Answers,
    ClassTask,
    best_subgraphs,
    hill_climbing,
    parameter_grid,
)
from bench.data.motifs import contains_motif, motif_of
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import ActivationLayer, GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.metrics.recurrence import SubgraphIndex
from tests.unit.bench.counterfactuals.test_figures import rings_and_paths

torch.set_num_threads(1)
CPU = torch.device("cpu")
KEYS = [
    *("dataset", "label", "nodes", "method", "k", "t", "n", "confidence", "paper_confidence"),
    *("possible_confidence", "possible_parts", "possible_confidence_sparse", "possible_unique"),
    *("density", "density_heldout", "paper_density", "connected", "valence_broken", "unique"),
    *("effective", "recurrence", "motif_rate", "motif_rate_random", "motif_rate_distinct"),
    *("mmd_heldout", "mmd_floor", "seconds"),
    *("seed", "versions", "commit", "machine", "date", "train_seconds", "budget"),
]


def graph_of(network: nx.Graph) -> Graph:
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in network.edges)).view(-1, 2)
    return Graph(torch.ones(network.number_of_nodes(), 1), edges.T.contiguous())


def untrained_gnn() -> Gnn:
    layers = (GinLayer(4, 4), ActivationLayer("tanh"), PoolLayer("sum"), LinearLayer(3))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Gnn(GnnSpec(1, 3, layers)).eval()


def reference() -> list[Graph]:
    return [graph_of(nx.gnp_random_graph(12, 0.3, seed=seed)) for seed in range(8)]


def test_motifs_are_found_in_larger_graphs() -> None:
    house, grid, cycle = (motif_of("ba3motif", label) for label in range(3))
    assert house is not None
    assert grid is not None
    assert cycle is not None
    assert (grid.number_of_nodes(), grid.number_of_edges()) == (9, 12)
    assert contains_motif(graph_of(nx.house_x_graph()), house)  # extra edges are allowed
    assert contains_motif(graph_of(nx.house_graph()), cycle)
    assert not contains_motif(graph_of(nx.cycle_graph(6)), cycle)
    assert not contains_motif(graph_of(nx.cycle_graph(5)), house)
    assert motif_of("mutagenicity", 0) is None


def test_row_figures() -> None:
    gnn, held_out = untrained_gnn(), reference()
    evaluator = ClassEvaluator(
        "ba3motif", 2, 5, gnn=gnn, reference=reference(), held_out=held_out, seed=0
    )
    disconnected = graph_of(nx.disjoint_union(nx.path_graph(3), nx.path_graph(2)))
    answers = [graph_of(nx.cycle_graph(5)), graph_of(nx.path_graph(5)), disconnected]
    answers.append(graph_of(nx.relabel_nodes(nx.path_graph(5), {0: 4, 4: 1, 1: 0})))
    assert distinct_count(answers) == 3
    weighted = Answers.equally_weighted(answers)
    row = evaluator.row("d4", weighted, requested=8, cpu_seconds=2.0, candidates=7, steps=9)
    assert (row.n, row.k, row.t, row.seconds) == (4, 7, 9, 25.0)
    assert (row.unique, row.connected, row.motif_rate) == (3 / 8, 3 / 4, 1 / 4)
    assert row.density == pytest.approx((10 + 8 + 6 + 8) / 25 / 4)
    assert row.confidence == pytest.approx(float(predict(gnn, answers, CPU)[:, 2].mean()))
    assert row.valence_broken is None
    assert (row.paper_confidence, row.paper_density) == (0.997, 0.313)
    distinct = row.motif_rate_distinct
    assert distinct is not None
    assert 0 < distinct < 1
    assert row.recurrence == sum(map(SubgraphIndex(held_out).contain, answers)) / 4
    assert row.effective == pytest.approx(1 / (0.25**2 + 0.5**2 + 0.25**2))


def test_answers_are_weighted_by_share() -> None:
    evaluator = ClassEvaluator(
        "ba3motif", 2, 5, gnn=untrained_gnn(), reference=reference(), held_out=reference(), seed=0
    )
    cycle, path = graph_of(nx.cycle_graph(5)), graph_of(nx.path_graph(5))
    shared = evaluator.row("d4", Answers([cycle, path], [0.75, 0.25]), requested=4, cpu_seconds=0)
    repeated = evaluator.row(
        "d4", Answers.equally_weighted([cycle] * 3 + [path]), requested=4, cpu_seconds=0
    )
    assert (shared.n, repeated.n) == (2, 4)
    same = ("confidence", "density", "connected", "unique", "effective", "recurrence")
    for name in (*same, "motif_rate", "mmd_heldout"):
        assert getattr(shared, name) == pytest.approx(getattr(repeated, name), abs=1e-9)
    assert shared.motif_rate == 0.75
    assert shared.connected == 1


def test_real_best20_returns_the_most_confident_of_twenty() -> None:
    task = ClassTask(untrained_gnn(), reference(), 1, 5)
    best = best_subgraphs(task, 6, torch.Generator().manual_seed(0))
    assert [graph.node_count for graph in best] == [5] * 6
    assert all(SubgraphIndex(reference()).contain(graph) for graph in best)
    many = best_subgraphs(task, 120, torch.Generator().manual_seed(1))
    highest = predict(task.gnn, many, CPU)[:, 1].max()
    assert predict(task.gnn, best, CPU)[:, 1].mean() > highest - 0.2


def test_hill_climbing_stops_when_no_toggle_helps() -> None:
    task = ClassTask(untrained_gnn(), reference(), 0, 5)
    graphs = hill_climbing(task, 4, torch.Generator().manual_seed(0))
    assert len(graphs) == 4
    for graph in graphs:
        edges = set(map(tuple, graph.edges.T.tolist()))
        toggled = [sorted(edges ^ {pair}) for pair in combinations(range(5), 2)]
        neighbours = [Graph(graph.features, torch.tensor(pairs).view(-1, 2).T) for pairs in toggled]
        confidence = predict(task.gnn, [graph], CPU)[0, 0]
        assert predict(task.gnn, neighbours, CPU)[:, 0].max() <= confidence + 1e-6


def test_parameter_grid_has_the_settings_of_the_paper_for_both_samplers() -> None:
    methods = (*METHODS, *parameter_grid())
    settings = {(method.name, method.candidates, method.steps) for method in methods}
    for name in ("d4", "d4_paper"):
        for setting in ((10, 50), (20, 10), (20, 50), (20, 100), (30, 50)):
            assert (name, *setting) in settings
    assert len({method.key for method in methods}) == len(methods)


def test_whole_run_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # caches and results go to the current folder
    arguments = ["classes", "--dataset", str(rings_and_paths(tmp_path / "rings.zip"))]
    arguments += ["--budget", "0.2", "--explanations", "3", "--json", "rows.json"]
    runner = CliRunner()
    first = runner.invoke(app, arguments, catch_exceptions=False)
    assert first.exit_code == 0, first.output
    rows = json.loads(Path("rows.json").read_text())
    assert all(list(row) == [*KEYS, "command"] for row in rows)
    assert {row["method"] for row in rows} == {method.name for method in METHODS}
    second = runner.invoke(app, arguments, catch_exceptions=False)
    assert "training" not in second.output
    assert json.loads(Path("rows.json").read_text()) == rows
