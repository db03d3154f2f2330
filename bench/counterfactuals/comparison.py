"""The counterfactual comparison on one data set: all methods' answers and the rows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from bench.counterfactuals.figures import Answered, Detail, Row, Shared, row, shared_mmd
from bench.counterfactuals.instances import (
    EXHAUSTIVE_PAIRS,
    MOST_EDITS,
    MOST_PAIRS,
    NEAR_TARGET,
    Explained,
    chosen,
    is_covered,
    restricted_count,
)
from bench.counterfactuals.intervals import mmd_gain
from bench.counterfactuals.runs import Run
from bench.data.tasks import Task
from bench.gnns.target_gnns import TargetGnn
from bench.progress import OnProgress


@dataclass(frozen=True)
class Comparison:
    instances: list[Explained]
    answers: dict[str, list[Answered]]  # by method
    results: list[tuple[Row, Detail]]  # one per method
    documents: list[dict[str, Any]]  # the same with where they come from
    remarks: list[str]


def compared(
    task: Task,
    target: TargetGnn,
    methods: Sequence[str],
    *,
    budget: float,
    test: int,
    seed: int,
    on_progress: OnProgress,
) -> Comparison:
    """What was computed before is read."""
    instances = chosen(task, test, seed)
    covered = [is_covered(instance) for instance in instances]
    spare = sum(instance.from_validation for instance in instances)
    held_out = task.validation.graphs
    run = Run(
        target,
        task.train.graphs,
        instances,
        budget=budget,
        seed=seed,
        on_progress=on_progress,
        whole=None if task.whole is None else task.whole.data.graph,
    )
    given = {name: run.answers(name) for name in methods}
    answers = {name: found for name, (found, _, _) in given.items()}
    fewest = run.fewest()
    results: list[tuple[Row, Detail]] = []
    documents: list[dict[str, Any]] = []
    for name, (found, train_seconds, origin) in given.items():
        figures, detail = row(
            task.name,
            name,
            target.gnn,
            answers=found,
            held_out=held_out,
            fewest=fewest,
            covered=covered,
            train_seconds=train_seconds,
        )
        results.append((figures, detail))
        gain, both = None, None
        if name == "d4" and "d4_no_denoiser" in answers:
            gain = mmd_gain(found, answers["d4_no_denoiser"], held_out, seed=seed)
        if name == "d4" and "greedy" in answers:
            both = shared_mmd(found, answers["greedy"], held_out)
        low, high = gain or (None, None)
        said = {"budget": budget, "from_validation": spare}
        interval = {"mmd_gain_low": low, "mmd_gain_high": high}
        on_shared = asdict(both) if both else dict.fromkeys(one.name for one in fields(Shared))
        documents.append({**asdict(figures), **origin, **said, **interval, **on_shared})
    remarks = _remarks(task, instances, covered, [figures for figures, _ in results])
    return Comparison(instances, answers, results, documents, remarks)


def _remarks(
    task: Task, instances: Sequence[Explained], covered: Sequence[bool], rows: Sequence[Row]
) -> list[str]:
    nearest = (
        "the edges and the pairs nearest by hops"
        if task.whole is None
        else f"the edges and the pairs with an end within {NEAR_TARGET} hops of the node, "
        f"at most {MOST_EDITS} of them,"
    )
    remarks = [
        f"exhaustive search to two edits covers {sum(covered) / len(covered):.0%} of the instances "
        f"(at most {EXHAUSTIVE_PAIRS} pairs); {restricted_count(instances)} of {len(instances)} "
        f"have more than {MOST_PAIRS} pairs: there all methods may edit {nearest} only"
    ]
    if task.whole is not None:
        spare = sum(instance.from_validation for instance in instances)
        refuted = sum(figures.refuted_on_whole for figures in rows)
        remarks.append(
            f"{len(instances) - spare} test nodes and {spare} validation nodes; "
            f"{refuted} answers did not hold on the whole graph and are not counted"
        )
    return remarks
