"""Target GNNs: training and cache."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bench.data.splits import Part
from bench.data.synthetic import LabelledGraphs, ba3motif
from bench.data.tasks import Task, split
from bench.gnns.recipes import target_recipe
from bench.gnns.target_gnns import load_target_gnn
from bench.gnns.training import EpochReport, Training, accuracy, train
from d4explain.gnn.network import Gnn

torch.set_num_threads(1)


def small_task(seed: int = 0) -> Task:
    graphs, labels = ba3motif(60, torch.Generator().manual_seed(seed))
    return split("ba3motif", Part(graphs, labels), 0)


def ignore(report: EpochReport) -> None:
    pass


def same_weights(one: Gnn, other: Gnn) -> bool:
    return all(
        torch.equal(a, b)
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    )


def test_second_load_uses_the_cache(tmp_path: Path) -> None:
    task = small_task()
    trained = load_target_gnn(task, 0, ignore, cache=tmp_path)
    again = load_target_gnn(task, 0, pytest.fail, cache=tmp_path)
    assert (trained.cached, again.cached) == (False, True)
    assert same_weights(trained.gnn, again.gnn)
    assert trained.metrics == again.metrics
    assert not again.gnn.training
    assert trained.metrics.test_accuracy == accuracy(again.gnn, task.test.graphs, task.test.labels)
    (folder,) = (tmp_path / "gnns").iterdir()  # nothing unfinished is left
    assert sorted(file.name for file in folder.iterdir()) == [
        "metrics.json",
        "spec.json",
        "weights.safetensors",
    ]
    assert json.loads((folder / "spec.json").read_text())["classes"] == 3


def test_other_data_seeds_or_time_limits_are_trained_again(tmp_path: Path) -> None:
    first = load_target_gnn(small_task(), 0, ignore, cache=tmp_path)
    others = [
        load_target_gnn(small_task(1), 0, ignore, cache=tmp_path),
        load_target_gnn(small_task(), 1, ignore, cache=tmp_path),
        load_target_gnn(small_task(), 0, ignore, seconds=0.0, cache=tmp_path),
    ]
    assert not any(other.cached for other in others)
    assert len({first.folder, *(other.folder for other in others)}) == 4
    assert others[-1].metrics.epochs == 1


def test_failed_training_leaves_no_files(tmp_path: Path) -> None:
    def fail(report: EpochReport) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_target_gnn(small_task(), 0, fail, cache=tmp_path)
    assert not load_target_gnn(small_task(), 0, ignore, cache=tmp_path).cached


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_best_validation_epoch_is_returned(ema: float) -> None:
    task = small_task()
    training = Training(epochs=8, batch=16, noisy_share=0.0, ema=ema)
    validation = LabelledGraphs(task.validation.graphs, task.validation.labels)
    reports: list[EpochReport] = []
    gnn, epochs = train(
        target_recipe("ba3motif").spec(task.features, task.classes),
        LabelledGraphs(task.train.graphs, task.train.labels),
        training,
        0,
        reports.append,
        validation=validation,
    )
    best = [report.best_validation for report in reports]
    assert epochs == len(best) == 8
    assert best == sorted(best, key=lambda value: value or 0.0)
    assert accuracy(gnn, *validation) == best[-1]


def test_training_is_repeatable() -> None:
    task = small_task()
    spec = target_recipe("ba3motif").spec(task.features, task.classes)
    data = LabelledGraphs(task.train.graphs, task.train.labels)
    training = replace(target_recipe("ba3motif").training, epochs=3)
    first = train(spec, data, training, 5, ignore)
    assert same_weights(first.gnn, train(spec, data, training, 5, ignore).gnn)
    assert not same_weights(first.gnn, train(spec, data, training, 6, ignore).gnn)
