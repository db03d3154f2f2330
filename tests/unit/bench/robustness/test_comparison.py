"""Robustness: noise, Top-K accuracy, rankings and a whole run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from bench.__main__ import app
from bench.counterfactuals.instances import EditableInstance
from bench.data.noise import add_noise
from bench.robustness.comparison import (
    NOISE,
    NoisyComparison,
    compare_under_noise,
    graph_seed,
    instances_within_ratio,
    robustness_rows,
    top_k_accuracy,
)
from bench.robustness.edit_rankings import RANKINGS, flips_gnn, make_ranking, rank_by_score
from bench.robustness.smoothing import Smoothing
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import ActivationLayer, GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.graphs.edits import EditRules
from models.metrics.scores import changed_pairs

torch.set_num_threads(1)
CPU = torch.device("cpu")
RULES = EditRules(max_ratio=0.2)


def random_graph(seed: int, nodes: int = 9, edges: int = 15) -> Graph:
    rng = torch.Generator().manual_seed(seed)
    pairs = torch.triu_indices(nodes, nodes, offset=1)
    chosen = torch.randperm(pairs.shape[1], generator=rng)[:edges].sort().values
    return Graph(torch.randn(nodes, 2, generator=rng), pairs[:, chosen])


REFERENCE = [random_graph(seed, nodes=5, edges=4) for seed in range(4)]


def random_gnn(seed: int) -> Gnn:
    layers = (GinLayer(6, 6), ActivationLayer("tanh"), PoolLayer("sum"), LinearLayer(2))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Gnn(GnnSpec(2, 2, layers)).eval()


def untrained_denoiser() -> Denoiser:
    shape = DenoiserShape(2, hidden=4, blocks=1)
    return Denoiser(shape, torch.Generator().manual_seed(0)).eval()


@pytest.mark.parametrize(("share", "edits"), [(0.0, 0), (0.02, 1), (0.1, 2), (0.2, 3)])
def test_noise_toggles_its_share_of_the_edges_rounded_up(share: float, edits: int) -> None:
    graph = random_graph(0)
    for seed in range(5):
        noisy = add_noise(graph, share, torch.Generator().manual_seed(seed))
        assert len(changed_pairs(graph, noisy)) == edits
        assert bool((noisy.edges[0] < noisy.edges[1]).all())


def test_noise_removes_and_adds() -> None:
    graph = random_graph(0)
    sizes = {
        add_noise(graph, 0.02, torch.Generator().manual_seed(seed)).edge_count for seed in range(20)
    }
    assert sizes == {14, 16}


def test_noise_on_a_complete_graph_can_only_remove() -> None:
    graph = random_graph(0, nodes=4, edges=6)
    noisy = add_noise(graph, 1.0, torch.Generator().manual_seed(1))
    assert noisy.edge_count == 0
    assert noisy.edges.shape == (2, 0)


def test_top_k_accuracy_searches_the_whole_other_ranking() -> None:
    original = [(0, 1, True), (0, 2, False), (1, 2, True), (2, 3, True)]
    # The second edit has the other direction; the third comes later in the other ranking.
    other = [(0, 1, True), (0, 2, True), (3, 4, False), (1, 2, True)]
    assert top_k_accuracy(original, other, 1) == 1.0
    assert top_k_accuracy(original, other, 2) == 0.5
    assert top_k_accuracy(original, other, 3) == 2 / 3
    assert top_k_accuracy(original, other, 9) == 0.5  # there are only four edits


def test_graphs_whose_ratio_allows_no_edit_are_left_out() -> None:
    graphs = [random_graph(0, edges=4), random_graph(0, edges=5)]
    instances = [EditableInstance(graph, EditRules(), restricted=False) for graph in graphs]
    (remaining,) = instances_within_ratio(instances)
    assert remaining.graph is graphs[1]
    assert remaining.rules.max_ratio == 0.2


@pytest.mark.parametrize("name", RANKINGS)
def test_without_noise_every_ranking_is_reproduced(name: str) -> None:
    gnn, graph = random_gnn(1), random_graph(2)
    rank = make_ranking(name, gnn, untrained_denoiser(), REFERENCE)
    comparisons = compare_under_noise(gnn, rank, graph, RULES, seed=3, noise_seeds=1)
    assert [comparison.noise for comparison in comparisons] == list(NOISE)
    assert comparisons[0].accuracy == 1.0


# CF-GNNExplainer returns its smallest flip alone.
@pytest.mark.parametrize("name", sorted(set(RANKINGS) - {"cf-gnnexplainer"}))
def test_rankings_fill_the_modification_ratio(name: str) -> None:
    gnn, graph = random_gnn(1), random_graph(2)
    edits = make_ranking(name, gnn, untrained_denoiser(), REFERENCE)(graph, RULES, 0)
    edges = set(map(tuple, graph.edges.T.tolist()))
    assert len(edits) == len(set(edits)) == 3
    assert all(((source, target) in edges) == (not added) for source, target, added in edits)


def test_learned_rankings_need_a_denoiser() -> None:
    with pytest.raises(ValueError, match="Ranking 'd4' needs a denoiser"):
        make_ranking("d4", random_gnn(0), None)


def test_smoothed_ranking_is_completed_to_a_flip() -> None:
    gnn, denoiser = random_gnn(1), untrained_denoiser()
    flipped = flipped_by_greedy = 0
    for seed in range(8):
        graph = random_graph(seed)
        edits = rank_by_score(gnn, denoiser, graph, RULES, seed=0, smoothing=Smoothing((0.1,)))
        flipped += flips_gnn(gnn, graph, edits)
        flipped_by_greedy += flips_gnn(
            gnn, graph, make_ranking("greedy", gnn, None)(graph, RULES, 0)
        )
    assert flipped >= flipped_by_greedy > 0


def test_flips_gnn_checks_every_prefix() -> None:
    gnn, graph = random_gnn(1), random_graph(2)
    (before,) = predict(gnn, [graph], CPU).argmax(dim=1).tolist()
    source, target = graph.edges[:, 0].tolist()
    edit = (source, target, False)
    (after,) = predict(gnn, [replace(graph, edges=graph.edges[:, 1:])], CPU).argmax(dim=1).tolist()
    assert flips_gnn(gnn, graph, [edit]) == (after != before)
    assert flips_gnn(gnn, graph, [edit, edit]) == (
        after != before
    )  # the second edit reverts the first
    assert not flips_gnn(gnn, graph, [])


@pytest.mark.parametrize("name", sorted(set(RANKINGS).difference(("d4", "d4_answers"))))
def test_a_ranking_is_repeatable_and_within_the_rules(name: str) -> None:
    gnn, graph = random_gnn(0), random_graph(0, nodes=5, edges=5)
    rank = make_ranking(name, gnn, None, REFERENCE)
    edits = rank(graph, EditRules(max_ratio=0.6), 0)
    assert edits == rank(graph, EditRules(max_ratio=0.6), 0)
    assert len(edits) == len(set(edits)) <= 3
    edges = set(map(tuple, graph.edges.T.tolist()))
    assert all(added != ((source, target) in edges) for source, target, added in edits)
    if name not in ("greedy", "random"):
        assert not any(added for *_, added in edits)


def test_each_graph_has_its_own_seed() -> None:
    graph, other = random_graph(0), random_graph(1)
    assert graph_seed(graph, 0) == graph_seed(replace(graph, edges=graph.edges.flip(1)), 0)
    assert len({graph_seed(graph, 0), graph_seed(graph, 1), graph_seed(other, 0)}) == 3


def test_random_edits_are_not_robust() -> None:
    gnn, graph = random_gnn(1), random_graph(2, nodes=20, edges=40)
    comparisons = compare_under_noise(
        gnn, make_ranking("random", gnn, None), graph, RULES, seed=0, noise_seeds=5
    )
    accuracies = [
        comparison.accuracy
        for comparison in comparisons
        if comparison.noise and comparison.accuracy is not None
    ]
    assert sum(accuracies) / len(accuracies) < 0.2  # 8 of 190 pairs are chosen


def test_rows_count_graphs_with_unchanged_class() -> None:
    graphs = [
        [
            NoisyComparison(0.0, 1.0, True),
            NoisyComparison(0.02, 0.5, True),
            NoisyComparison(0.02, None, False),
        ],
        [
            NoisyComparison(0.0, 1.0, True),
            NoisyComparison(0.02, 1.0, False),
            NoisyComparison(0.02, 0.0, False),
        ],
    ]
    padding = [[NoisyComparison(noise, None, False) for noise in NOISE[2:]] for _ in graphs]
    rows = robustness_rows("x", "d4", [a + b for a, b in zip(graphs, padding, strict=True)], 2)
    assert [row.noise for row in rows] == list(NOISE)
    clean, first, *others = rows
    assert (clean.top_k_accuracy, clean.kept, clean.flips) == (1.0, 1.0, 1.0)
    assert (first.top_k_accuracy, first.kept, first.flips) == (0.5, 0.75, 1 / 3)
    assert all((row.top_k_accuracy, row.kept, row.flips) == (None, 0.0, 0.0) for row in others)


def test_whole_run_resumes_and_saves_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    smiles = ["CCCCCCCO", "CCCCCCO", "CCCCCCCCO", "c1ccccc1O", "c1ccccc1CO", "c1ccccc1CCO"] * 3
    lines = [f"{molecule},{index % 2}" for index, molecule in enumerate(smiles)]
    Path("tiny.csv").write_text("smiles,p_np\n" + "\n".join(lines) + "\n")
    arguments = ["robustness", "--dataset", "tiny.csv", "--budget", "0.2", "--test", "1"]
    arguments += ["--method", "d4", "--method", "random", "--json", "rows.json", "--keep"]
    first = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert first.exit_code == 0, first.output
    rows = json.loads(Path("rows.json").read_text())
    assert [(row["method"], row["noise"]) for row in rows] == [
        (method, noise) for method in ("d4", "random") for noise in NOISE
    ]
    assert all(row["top_k_accuracy"] == 1.0 for row in rows if row["noise"] == 0)
    assert rows[0]["command"] == (
        "python -m bench robustness --dataset tiny.csv --budget 0.2 --test 1 "
        "--method d4 --method random --seed 0"
    )
    assert json.loads(Path("bench/results/robustness-tiny.json").read_text()) == rows
    assert Path("rows.png").is_file()
    second = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "training" not in second.output
    assert json.loads(Path("rows.json").read_text()) == rows
