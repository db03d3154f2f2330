"""The typicality benchmark: its test has the right level, and its figures are those of ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from typer.testing import CliRunner

from bench.__main__ import app
from bench.data.splits import Part
from bench.data.tasks import Task
from bench.typicality.comparison import EDIT_SHARES, score_unseen, typicality_row
from bench.typicality.splits import Scored, split_figures, uniformity_p
from d4explain.gnn.graphs import Graph
from models.diffusion.denoiser import Denoiser, DenoiserShape

torch.set_num_threads(1)


def scored(count: int, seed: int, *, shift: float = 0.0, trend: float = 0.0) -> Scored:
    """Normal scores that may depend on the size; edited versions are less likely by `shift`."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(10, 30, count)
    scores = torch.tensor(generator.normal(trend * sizes))
    edited = {share: torch.tensor(generator.normal(trend * sizes - shift)) for share in EDIT_SHARES}
    return Scored(scores, edited, torch.tensor(sizes), torch.arange(count) % 2 == 0)


def test_the_test_is_the_two_sample_test_of_the_scores() -> None:
    generator = torch.Generator().manual_seed(0)
    for seed in range(20):
        graphs = scored(700, seed)
        alike = Scored(graphs.scores, {}, torch.full((700,), 20), graphs.from_test)
        order = torch.randperm(700, generator=torch.Generator().manual_seed(seed))
        generator.manual_seed(seed)
        figures = split_figures(alike, 300, generator)
        calibration, third = graphs.scores[order[:300]], graphs.scores[order[300:]]
        assert (figures.ranked, figures.unranked) == (400, 0)
        expected = ks_2samp(third.numpy(), calibration.numpy()).pvalue
        assert figures.p == pytest.approx(expected, abs=0.1)


@pytest.mark.slow
def test_the_test_has_its_level_on_exchangeable_graphs() -> None:
    p_values = []
    for seed in range(200):
        graphs = scored(500, seed, trend=-0.05)
        p_values.append(split_figures(graphs, 200, torch.Generator().manual_seed(seed)).p)
    assert 0.005 <= np.mean(np.array(p_values) < 0.05) <= 0.1  # 1 to 20 of 200


def test_the_test_notices_ranks_that_are_not_uniform() -> None:
    uniform = torch.rand(500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert uniformity_p(uniform, 340) > 0.05
    assert uniformity_p(uniform**2, 340) < 1e-6


def test_detection_is_half_without_edits_and_grows_with_them() -> None:
    same = split_figures(scored(2000, 1), 400, torch.Generator().manual_seed(0))
    far = split_figures(scored(2000, 1, shift=6.0), 400, torch.Generator().manual_seed(0))
    assert same.low == pytest.approx(0.05, abs=0.02)
    for share in EDIT_SHARES:
        assert same.auc[share] == pytest.approx(0.5, abs=0.05)
        assert same.detected[share] == pytest.approx(0.05, abs=0.03)
        assert far.auc[share] > 0.98
        assert far.detected[share] > 0.98


def test_a_row_counts_the_splits_that_pass() -> None:
    splits = [
        split_figures(scored(600, seed, shift=1.0), 200, torch.Generator().manual_seed(seed))
        for seed in range(4)
    ]
    row = typicality_row("a set", 200, splits, splits[:2])
    assert (row.dataset, row.splits, row.calibration) == ("a set", 4, 200)
    assert row.uniform_splits == sum(split.p >= 0.05 for split in splits)
    assert row.uniform_share == sum(split.p >= 0.05 for split in splits[:2]) / 2
    assert row.smallest_p == min(split.p for split in splits)
    assert row.auc_10 == pytest.approx(sum(split.auc[0.1] for split in splits) / 4)
    assert row.ranked + row.unranked == 400


def path(nodes: int) -> Graph:
    ends = torch.arange(nodes - 1)
    return Graph(torch.ones(nodes, 1), torch.stack([ends, ends + 1]))


def test_test_and_validation_graphs_up_to_the_largest_size_are_scored() -> None:
    part = Part([path(5), path(9)], torch.zeros(2, dtype=torch.int64))
    validation = Part([path(6), path(1), path(7)], torch.zeros(3, dtype=torch.int64))
    denoiser = Denoiser(DenoiserShape(features=1, hidden=4, blocks=1)).eval()
    with torch.no_grad():
        denoiser.head_out.fill_(1.0)
    unseen = score_unseen(
        denoiser, Task("paths", 2, part, validation, part), 8, torch.Generator().manual_seed(0)
    )
    assert unseen.sizes.tolist() == [5, 6, 7]
    assert unseen.from_test.tolist() == [True, False, False]
    assert unseen.edited.keys() == set(EDIT_SHARES)
    assert all(not torch.equal(scores, unseen.scores) for scores in unseen.edited.values())


def test_a_set_without_a_calibration_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{'C' * (3 + index % 4)}O,{index % 2}" for index in range(18)]
    Path("tiny.csv").write_text("smiles,p_np\n" + "\n".join(lines) + "\n")
    arguments = ["typicality", "--dataset", "tiny.csv", "--budget", "0.2"]
    refused = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert refused.exit_code == 2
    assert "0 calibration graphs" in refused.output
