"""The paper's sampling: averages over noisy versions, and three ways to decide edges."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph
from models.counterfactual.paper.proposals import Decision, PaperSampling, paper_edit_sets
from models.diffusion.noise import NoiseLevel
from models.diffusion.paper.network import PaperDenoiser, PaperShape
from models.graphs.edits import EditRules, EditSpace

CPU = torch.device("cpu")
LEVELS = (0.1, 0.3)


class LevelDenoiser(PaperDenoiser):
    """Edge probabilities that depend on the noise level alone."""

    def __init__(self, probability: dict[float, Tensor]) -> None:
        super().__init__(PaperShape(1, hidden=2, blocks=1))
        self.probability = probability
        self.seen: list[DenseGraphs] = []

    def forward(self, noisy: DenseGraphs, noise: NoiseLevel) -> Tensor:
        self.seen.append(noisy)
        rows = [self.probability[round(float(flip), 3)] for flip in noise.add]
        return torch.logit(torch.stack(rows))


def path(nodes: int = 4) -> Graph:
    return Graph(torch.ones(nodes, 1), torch.tensor([[i, i + 1] for i in range(nodes - 1)]).T)


def space() -> EditSpace:
    return EditSpace.of(path(), EditRules(max_ratio=1.0))


def edit_sets(
    first: float | Tensor, second: float | Tensor, sampling: PaperSampling
) -> list[tuple[int, ...]]:
    values = {
        level: value if isinstance(value, Tensor) else torch.full((4, 4), value)
        for level, value in zip(LEVELS, (first, second), strict=True)
    }
    sampling = replace(sampling, noise_levels=LEVELS)
    generator = torch.Generator().manual_seed(0)
    return paper_edit_sets(LevelDenoiser(values), space(), sampling, generator, CPU)


def test_thresholding_decides_on_the_average() -> None:
    """Levels .9 and .3 average to an edge everywhere; each by itself disagrees."""
    sampling = PaperSampling(decision=Decision.THRESHOLD, noisy_per_level=2)
    absent = tuple((~space().present).nonzero()[:, 0].tolist())
    present = tuple(space().present.nonzero()[:, 0].tolist())
    assert edit_sets(0.9, 0.3, sampling) == [absent]
    alone = edit_sets(0.9, 0.3, replace(sampling, average=False))
    assert alone == [absent] * 2 + [present] * 2


def test_samples_have_the_averaged_probability() -> None:
    sampling = PaperSampling(noisy_per_level=1, draws=20_000)
    drawn = edit_sets(0.9, 0.3, sampling)
    assert len(drawn) == 20_000
    toggled = torch.zeros(space().count)
    for edits in drawn:
        toggled[list(edits)] += 1
    expected = torch.where(space().present, 0.4, 0.6)
    assert (toggled / len(drawn) - expected).abs().max() < 5 * (0.24 / 20_000) ** 0.5


def test_ranked_sets_grow_by_the_pair_that_differs_most() -> None:
    probability = torch.full((4, 4), 0.5)
    for (one, other), value in {(0, 3): 0.9, (1, 2): 0.2, (0, 1): 0.95}.items():
        probability[one, other] = probability[other, one] = value
    found = edit_sets(probability, probability, PaperSampling(decision=Decision.RANKED))
    edit_space = space()
    pairs = list(zip(edit_space.sources.tolist(), edit_space.targets.tolist(), strict=True))
    # The added (0, 3) differs by .9, the removed (1, 2) by .8; the kept (0, 1) by .05 comes last.
    assert {pairs[place] for place in found[0]} == {(0, 3)}
    assert {pairs[place] for place in found[1]} == {(0, 3), (1, 2)}
    assert [len(edits) for edits in found] == list(range(1, edit_space.budget + 1))
    assert all(pairs.index((0, 1)) not in edits for edits in found)


def test_every_version_has_its_own_noise() -> None:
    values = {level: torch.full((12, 12), 0.5) for level in LEVELS}
    denoiser = LevelDenoiser(values)
    larger = EditSpace.of(path(12), EditRules(max_ratio=1.0))
    sampling = PaperSampling(noise_levels=LEVELS, noisy_per_level=200)
    paper_edit_sets(denoiser, larger, sampling, torch.Generator().manual_seed(0), CPU)
    noisy = torch.cat([graphs.adjacency for graphs in denoiser.seen])
    changed = torch.triu(noisy != larger.base, 1).sum((1, 2)) / 66
    assert float(changed[:200].mean()) == pytest.approx(0.1, abs=0.01)
    assert float(changed[200:].mean()) == pytest.approx(0.3, abs=0.01)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.6"):
        PaperSampling(noise_levels=(0.6,))
    with pytest.raises(ValueError, match="at least one"):
        PaperSampling(draws=0)
