"""C2ST: a classifier two-sample test of answers against their originals.

A small GIN that sees node features learns to tell them apart. Its AUC on graphs that it was not
trained on is 0.5 if it cannot and 1 if it always can (Lopez-Paz and Oquab 2017). No search ever
asks this discriminator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import predict
from d4explain.gnn.spec import (
    ActivationLayer,
    BatchNormLayer,
    GinLayer,
    GnnSpec,
    JumpLayer,
    KeepLayer,
    Layer,
    LinearLayer,
    PoolLayer,
)
from models.evaluation.bootstrap import percentile_interval, resampled_shares
from models.witnesses.classifier_training import CPU, EpochReport, LabelledGraphs, Training, train

MIN_PAIRS = 20
FOLDS = 5
SEEDS = (0, 1, 2)  # of the folds and the discriminators
_DEPTH, _WIDTH = 3, 32
# Chosen by the controls alone (validation graphs of Mutagenicity): over random splits, untouched
# graphs are near 0.5 on average, random edits above 0.9, and no discriminator is constant. Higher
# learning rates also gave 0.5 for untouched graphs, but because half of the discriminators were
# constant.
TRAINING = Training(epochs=40, batch=32, learning_rate=5e-3, noisy_share=0.0, seconds=math.inf)


@dataclass(frozen=True)
class Distinguishability:
    auc: float
    low: float  # 95 % bootstrap interval over pairs
    high: float
    constant_folds: int  # folds whose discriminator gave every graph the same score


def discriminator_spec(features: int) -> GnnSpec:
    layers: list[Layer] = []
    for _ in range(_DEPTH):
        layers += [
            GinLayer(_WIDTH, _WIDTH),
            BatchNormLayer(),
            ActivationLayer("relu"),
            KeepLayer(),
        ]
    layers += [JumpLayer("cat"), PoolLayer("sum"), LinearLayer(_WIDTH), ActivationLayer("relu")]
    return GnnSpec(features, 2, (*layers, LinearLayer(2)))


def distinguishability(
    originals: Sequence[Graph],
    others: Sequence[Graph],
    *,
    seed: int,
    seeds: Sequence[int] = SEEDS,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Distinguishability | None:
    """AUC of telling `others` from `originals`, which are pairs; None below 20 pairs.

    Pools the out-of-fold scores; the AUC is the mean over the discriminators' seeds. `seed` is
    that of the bootstrap, `seeds` are those of the folds and the training.
    """
    count = len(originals)
    if count < MIN_PAIRS:
        return None
    wins = torch.zeros(count, count, dtype=torch.float64)  # [other, original]
    constant_folds = 0
    for position, fold_seed in enumerate(seeds):
        (original_scores, other_scores), constant = _out_of_fold_scores(
            originals, others, fold_seed
        )
        wins += _wins(other_scores, original_scores) / len(seeds)
        constant_folds += constant
        on_progress(position + 1, len(seeds))
    shares = resampled_shares(count, seed)  # [resample, pair]
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
    spec = discriminator_spec(originals[0].features.shape[1])
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
        gnn, _ = train(spec, data, TRAINING, FOLDS * seed + fold, _ignore)
        for side, group in enumerate((originals, others)):
            tested = [group[index] for index in is_test.nonzero()[:, 0].tolist()]
            scores[side, is_test] = predict(gnn, tested, CPU)[:, 1]
        constant_folds += float(scores[:, is_test].min()) == float(scores[:, is_test].max())
    return _Scores(scores, constant_folds)


def _ignore(report: EpochReport) -> None:
    pass
