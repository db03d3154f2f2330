"""C2ST: a classifier two-sample test of answers against their originals.

A small GIN that sees node features learns to tell them apart. Its AUC on graphs that it was not
trained on is 0.5 if it cannot and 1 if it always can (Lopez-Paz and Oquab 2017). No search ever
asks this discriminator.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from bench.counterfactuals.intervals import percentile_interval, resampled_shares
from bench.data.digests import graphs_digest
from bench.data.synthetic import LabelledGraphs
from bench.gnns.recipes import TargetRecipe, graph_layers
from bench.gnns.target_gnns import CACHE
from bench.gnns.training import CPU, EpochReport, Training, train
from bench.json_files import write_json
from bench.progress import OnProgress
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import predict

MIN_PAIRS = 20
FOLDS = 5
SEEDS = (0, 1, 2)  # of the folds and the discriminators
# Chosen by the controls alone (validation graphs of Mutagenicity): over random splits, untouched
# graphs are near 0.5 on average, random edits above 0.9, and no discriminator is constant. Higher
# learning rates also gave 0.5 for untouched graphs, but because half of the discriminators were
# constant.
DISCRIMINATOR = TargetRecipe(
    graph_layers(3, 32, dropout=0.0),
    Training(epochs=40, batch=32, learning_rate=5e-3, noisy_share=0.0, seconds=float("inf")),
)


@dataclass(frozen=True)
class Distinguishability:
    auc: float
    low: float  # 95 % bootstrap interval over pairs
    high: float
    constant_folds: int  # folds whose discriminator gave every graph the same score


class Discriminator:
    """Measures C2ST and caches the results, which take seconds each."""

    def __init__(
        self,
        *,
        seed: int,
        on_progress: OnProgress,
        seeds: Sequence[int] = SEEDS,
        cache: Path = CACHE,
    ) -> None:
        """`seed` is that of the bootstrap, `seeds` are those of the folds and the training."""
        self._seed = seed
        self._seeds = seeds
        self._on_progress = on_progress
        self._cache = cache / "c2st"

    def compare(
        self, originals: Sequence[Graph], others: Sequence[Graph], *, label: str
    ) -> Distinguishability | None:
        """AUC of telling `others` from `originals`, which are pairs; None below 20 pairs."""
        if len(originals) < MIN_PAIRS:
            return None
        graphs = graphs_digest([*originals, *others])
        figures = [field.name for field in fields(Distinguishability)]
        key = json.dumps([figures, graphs, repr(DISCRIMINATOR), FOLDS, self._seeds, self._seed])
        file = self._cache / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
        if not file.is_file():
            result = self._measure(originals, others, label)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, asdict(result))
        return Distinguishability(**json.loads(file.read_text()))

    def _measure(
        self, originals: Sequence[Graph], others: Sequence[Graph], label: str
    ) -> Distinguishability:
        """Pool the out-of-fold scores; the AUC is the mean over the discriminator's seeds."""
        count = len(originals)
        wins = torch.zeros(count, count, dtype=torch.float64)  # [other, original]
        constant_folds = 0
        for position, seed in enumerate(self._seeds):
            (original_scores, other_scores), constant = _out_of_fold_scores(originals, others, seed)
            wins += _wins(other_scores, original_scores) / len(self._seeds)
            constant_folds += constant
            self._on_progress(label, position + 1, len(self._seeds))
        shares = resampled_shares(count, self._seed)  # [resample, pair]
        low, high = percentile_interval(((shares @ wins) * shares).sum(dim=1))
        return Distinguishability(float(wins.mean()), low, high, constant_folds)


def _wins(scores: Tensor, others: Tensor) -> Tensor:
    """1 where a score is above the other, one half where they are equal: [score, other]."""
    difference = scores[:, None] - others[None, :]
    return 0.5 + 0.5 * difference.sign().double()


class _Scores(NamedTuple):
    values: Tensor  # [2, pair], originals first
    constant_folds: int


def _out_of_fold_scores(originals: Sequence[Graph], others: Sequence[Graph], seed: int) -> _Scores:
    """Probability of being one of the others, by a GIN trained on the other folds.

    Both graphs of a pair are in the same fold.
    """
    count = len(originals)
    spec = DISCRIMINATOR.spec(originals[0].features.shape[1], 2)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    scores = torch.empty(2, count)
    constant_folds = 0
    for fold in range(FOLDS):
        is_test = torch.zeros(count, dtype=torch.bool)
        is_test[order[fold::FOLDS]] = True
        trained_on = (~is_test).nonzero()[:, 0].tolist()
        graphs = [side[index] for side in (originals, others) for index in trained_on]
        labels = torch.arange(2).repeat_interleave(len(trained_on))
        data = LabelledGraphs(graphs, labels)
        gnn, _ = train(spec, data, DISCRIMINATOR.training, FOLDS * seed + fold, _ignore)
        for side, group in enumerate((originals, others)):
            tested = [group[index] for index in is_test.nonzero()[:, 0].tolist()]
            scores[side, is_test] = predict(gnn, tested, CPU)[:, 1]
        constant_folds += float(scores[:, is_test].min()) == float(scores[:, is_test].max())
    return _Scores(scores, constant_folds)


def _ignore(report: EpochReport) -> None:
    pass
