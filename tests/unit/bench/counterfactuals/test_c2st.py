"""C2ST: samples of one distribution, clearly different ones, shared flips and the cache."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bench.counterfactuals.c2st import Discriminator
from bench.counterfactuals.figures import MethodResult
from bench.counterfactuals.instances import EditableInstance
from bench.counterfactuals.realism import measure_realism, shared_flips
from d4explain.gnn.graphs import Graph
from models.evaluation.c2st import FOLDS, _out_of_fold_scores, _wins
from models.graphs.edits import EditRules

torch.set_num_threads(1)


def random_graph(seed: int, nodes: int = 8) -> Graph:
    """A random tree; its nodes have one of two types."""
    rng = torch.Generator().manual_seed(seed)
    parents = [int(torch.randint(node, (1,), generator=rng)) for node in range(1, nodes)]
    edges = torch.tensor([parents, list(range(1, nodes))])
    types = torch.randint(2, (nodes,), generator=rng)
    return Graph(torch.nn.functional.one_hot(types, 2).float(), edges)


def ignore(label: str, done: int, total: int) -> None:
    pass


def discriminator(cache: Path) -> Discriminator:
    return Discriminator(seed=0, on_progress=ignore, seeds=(0,), cache=cache)


def test_samples_of_one_distribution_cannot_be_told_apart(tmp_path: Path) -> None:
    one, other = ([random_graph(first + i) for i in range(60)] for first in (0, 100))
    result = discriminator(tmp_path).compare(one, other, label="")
    assert result is not None
    assert result.low < 0.5 < result.high
    assert result.auc == pytest.approx(0.5, abs=0.15)


def test_node_types_alone_can_tell_samples_apart(tmp_path: Path) -> None:
    """The structure is the same, so a test that ignores features would give 0.5."""
    originals = [random_graph(i) for i in range(30)]
    others = [replace(graph, features=torch.eye(2)[[0] * 8]) for graph in originals]
    result = discriminator(tmp_path).compare(originals, others, label="")
    assert result is not None
    assert min(result.auc, result.low) > 0.95
    assert result.constant_folds == 0


def test_second_comparison_uses_the_cache(tmp_path: Path) -> None:
    graphs = [random_graph(i, 5) for i in range(40)]
    first = discriminator(tmp_path).compare(graphs[:20], graphs[20:], label="")
    cached = Discriminator(seed=0, on_progress=pytest.fail, seeds=(0,), cache=tmp_path)
    assert cached.compare(graphs[:20], graphs[20:], label="") == first
    (file,) = (tmp_path / "c2st").iterdir()
    assert file.suffix == ".json"


def test_few_pairs_are_not_measured(tmp_path: Path) -> None:
    graphs = [random_graph(i, 5) for i in range(19)]
    assert discriminator(tmp_path).compare(graphs, graphs, label="") is None


def test_identical_pairs_have_equal_scores() -> None:
    """Both graphs of a pair are scored by the same discriminator, which was trained on neither."""
    graphs = [random_graph(i, 5) for i in range(20)]
    (originals, others), _ = _out_of_fold_scores(graphs, graphs, seed=0)
    assert torch.allclose(originals, others)


def test_discriminators_that_see_no_difference_at_all_are_counted() -> None:
    """All graphs are equal, so every fold has a single score."""
    graphs = [random_graph(0, 5)] * 20
    assert _out_of_fold_scores(graphs, graphs, seed=0).constant_folds == FOLDS
    different = [random_graph(i, 5) for i in range(20)]
    assert _out_of_fold_scores(different, different, seed=0).constant_folds < FOLDS


def test_wins_count_ties_as_one_half() -> None:
    assert _wins(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0, 0.0])).tolist() == [
        [0.5, 0.0, 1.0],
        [1.0, 0.0, 1.0],
    ]


def results(flips: str) -> list[MethodResult]:
    """One instance per mark; a mark 1 adds the edge between the two youngest leaves."""
    return [
        MethodResult(
            EditableInstance(random_graph(index), EditRules(), restricted=False),
            (((0, 7), (1, 7)),) if mark == "1" else (),
            1,
            0,
            0.0,
        )
        for index, mark in enumerate(flips)
    ]


def test_control_and_weak_methods_do_not_decide_the_shared_flips() -> None:
    answers = {"d4": results("1110"), "greedy": results("0111"), "random": results("1000")}
    assert shared_flips(answers) == [1, 2]
    assert shared_flips(answers | {"d4_paper": results("1000")}) == [1, 2]
    assert shared_flips({"random": results("1001")}) == [0, 3]


def test_each_method_is_measured_on_shared_flips(tmp_path: Path) -> None:
    answers = {
        "d4": results("1" * 22 + "0" * 3),
        "greedy": results("0" + "1" * 24),
        "random": results("10" * 12 + "1"),
    }
    held_out = [random_graph(seed) for seed in range(100, 130)]
    realism = measure_realism(answers, held_out, discriminator(tmp_path), seed=0)
    figures = realism.by_method
    assert [figures[name].c2st_n for name in answers] == [21, 21, 10]
    assert figures["random"].c2st is None  # fewer than 20 instances
    assert figures["d4"].c2st == figures["greedy"].c2st is not None  # the same answers there
    assert realism.untouched is not None
    assert figures["d4"].c2st_untouched == realism.untouched.auc
    assert realism.remark == "C2ST: on 21 instances that d4, greedy flip."
    few = measure_realism({"d4": results("1" * 5)}, held_out, discriminator(tmp_path), seed=0)
    assert few.by_method["d4"].c2st is None
    assert "too few" in few.remark
