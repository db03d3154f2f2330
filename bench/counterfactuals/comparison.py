"""Compare all counterfactual methods on one data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from bench.counterfactuals.figures import (
    CounterfactualRow,
    EditDetail,
    MethodResult,
    SharedFlips,
    counterfactual_row,
    shared_mmd,
)
from bench.counterfactuals.instances import (
    EXHAUSTIVE_PAIRS,
    MAX_NODE_EDITS,
    MAX_PAIRS,
    NEAR_TARGET,
    EditableInstance,
    is_covered,
    restricted_count,
    select_instances,
)
from bench.counterfactuals.intervals import mmd_gain
from bench.counterfactuals.runs import CounterfactualRun
from bench.data.tasks import Task
from bench.gnns.target_gnns import TargetGnn
from bench.progress import OnProgress


@dataclass(frozen=True)
class Comparison:
    instances: list[EditableInstance]
    answers: dict[str, list[MethodResult]]  # by method
    results: list[tuple[CounterfactualRow, EditDetail]]  # one per method
    documents: list[dict[str, Any]]  # rows to save: figures and provenance
    remarks: list[str]


def compare_methods(
    task: Task,
    target: TargetGnn,
    methods: Sequence[str],
    *,
    budget: float,
    test: int,
    seed: int,
    on_progress: OnProgress,
) -> Comparison:
    """Run every method on the same instances; cached answers are reused."""
    instances = select_instances(task, test, seed)
    covered = [is_covered(instance) for instance in instances]
    validation_count = sum(instance.from_validation for instance in instances)
    held_out = task.validation.graphs
    run = CounterfactualRun(
        target,
        task.train.graphs,
        instances,
        budget=budget,
        seed=seed,
        on_progress=on_progress,
        whole=None if task.whole is None else task.whole.data.graph,
    )
    runs = {name: run.answers(name) for name in methods}
    answers = {name: method_answers for name, (method_answers, _, _) in runs.items()}
    fewest = run.fewest()
    results: list[tuple[CounterfactualRow, EditDetail]] = []
    documents: list[dict[str, Any]] = []
    for name, (method_answers, train_seconds, origin) in runs.items():
        figures, detail = counterfactual_row(
            task.name,
            name,
            target.gnn,
            answers=method_answers,
            held_out=held_out,
            fewest=fewest,
            covered=covered,
            train_seconds=train_seconds,
        )
        results.append((figures, detail))
        gain, shared = None, None
        if name == "d4" and "d4_no_denoiser" in answers:
            gain = mmd_gain(method_answers, answers["d4_no_denoiser"], held_out, seed=seed)
        if name == "d4" and "greedy" in answers:
            shared = shared_mmd(method_answers, answers["greedy"], held_out)
        low, high = gain or (None, None)
        settings = {"budget": budget, "from_validation": validation_count}
        interval = {"mmd_gain_low": low, "mmd_gain_high": high}
        shared_figures = (
            asdict(shared) if shared else dict.fromkeys(field.name for field in fields(SharedFlips))
        )
        documents.append({**asdict(figures), **origin, **settings, **interval, **shared_figures})
    remarks = _remarks(task, instances, covered, [figures for figures, _ in results])
    return Comparison(instances, answers, results, documents, remarks)


def _remarks(
    task: Task,
    instances: Sequence[EditableInstance],
    covered: Sequence[bool],
    rows: Sequence[CounterfactualRow],
) -> list[str]:
    editable_pairs = (
        "existing edges and the nearest pairs by hops"
        if task.whole is None
        else f"existing edges and pairs with an end within {NEAR_TARGET} hops of the node, "
        f"at most {MAX_NODE_EDITS} of them"
    )
    remarks = [
        f"Exhaustive search to two edits covers {sum(covered) / len(covered):.0%} of the instances "
        f"(those with at most {EXHAUSTIVE_PAIRS} pairs). "
        f"{restricted_count(instances)} of {len(instances)} instances have more than {MAX_PAIRS} "
        f"pairs; every method may only edit their {editable_pairs}."
    ]
    if task.whole is not None:
        validation_count = sum(instance.from_validation for instance in instances)
        refuted = sum(row.refuted_on_whole for row in rows)
        remarks.append(
            f"{len(instances) - validation_count} test nodes and {validation_count} validation "
            f"nodes; {refuted} answers do not flip the node in the whole graph and do not count."
        )
    return remarks
