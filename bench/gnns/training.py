"""The training of graph classifiers, which witnesses share, and its progress on a console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from models.witnesses.classifier_training import (
    CPU,
    EpochReport,
    LabelledGraphs,
    TrainedGnn,
    Training,
    accuracy,
    train,
    with_edge_noise,
)

__all__ = [
    "CPU",
    "EpochReport",
    "LabelledGraphs",
    "TrainedGnn",
    "Training",
    "accuracy",
    "show_epochs",
    "train",
    "with_edge_noise",
]


@contextmanager
def show_epochs(console: Console) -> Iterator[Callable[[EpochReport], None]]:
    """A progress bar on a terminal; elsewhere a line per tenth of the epochs."""
    if console.is_terminal:
        columns = (
            TextColumn("training the GNN"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} epochs"),
            TextColumn("{task.fields[summary]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("train", total=None, summary="")
            yield lambda report: bar.update(
                task,
                total=report.epochs,
                completed=report.epoch,
                summary=_describe(report),
            )
    else:

        def print_line(report: EpochReport) -> None:
            if report.epoch % max(report.epochs // 10, 1) == 0 or report.epoch == report.epochs:
                print(f"epoch {report.epoch}/{report.epochs}: {_describe(report)}", flush=True)

        yield print_line


def _describe(report: EpochReport) -> str:
    text = f"loss {report.loss:.3f}, accuracy {report.accuracy:.3f}"
    if report.best_validation is None:
        return text
    return f"{text}, best validation {report.best_validation:.3f}"
