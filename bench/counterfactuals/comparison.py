"""Compare all counterfactual methods on one data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from bench.counterfactuals.c2st import Discriminator
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
    InstancePart,
    held_out_graphs,
    is_covered,
    restricted_count,
    select_instances,
)
from bench.counterfactuals.intervals import mmd_gain
from bench.counterfactuals.judges import Judge, load_judges
from bench.counterfactuals.realism import Realism, count_unseen, measure_realism, no_realism
from bench.counterfactuals.runs import CounterfactualRun
from bench.counterfactuals.transfer import judge_votes
from bench.data.tasks import Task
from bench.gnns.target_gnns import TargetGnn
from bench.progress import OnProgress
from d4explain.gnn.graphs import Graph
from models.evaluation.transfer import Votes, transfer_figures
from models.realism.reference_patterns import ReferencePatterns


@dataclass(frozen=True)
class Comparison:
    instances: list[EditableInstance]
    answers: dict[str, list[MethodResult]]  # by method
    results: list[tuple[CounterfactualRow, EditDetail]]  # one per method
    documents: list[dict[str, Any]]  # rows to save: figures and provenance
    realism: Realism
    judges: list[dict[str, Any]]
    remarks: list[str]


def compare_methods(
    task: Task,
    target: TargetGnn,
    methods: Sequence[str],
    *,
    budget: float,
    test: int,
    seed: int,
    part: InstancePart = InstancePart.TEST,
    exhaustive: bool = True,
    on_progress: OnProgress,
) -> Comparison:
    """Run every method on the same instances; cached answers are reused.

    The figures about the fewest edits need an exhaustive search, which takes minutes.
    """
    instances = select_instances(task, test, seed, part)
    covered = [exhaustive and is_covered(instance) for instance in instances]
    validation_count = sum(instance.from_validation for instance in instances)
    held_out = held_out_graphs(task, instances, part)
    run = CounterfactualRun(
        target,
        task.train.graphs,
        instances,
        budget=budget,
        seed=seed,
        dataset=task.name,
        on_progress=on_progress,
        whole=None if task.whole is None else task.whole.data.graph,
    )
    runs = {name: run.answers(name) for name in methods}
    answers = {name: method_answers for name, (method_answers, _, _) in runs.items()}
    fewest = run.fewest() if exhaustive else [None] * len(instances)
    judges = load_judges(task, seed, on_progress)
    votes = {
        name: judge_votes(target.gnn, [judge.gnn for judge in judges], method_answers)
        for name, method_answers in answers.items()
    }
    panel = _panel(judges, votes[methods[0]])
    realism = _realism(task, answers, held_out, seed, on_progress)
    patterns = ReferencePatterns.of(task.train.graphs)
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
        believability = {
            **asdict(transfer_figures(votes[name], seed=seed)),
            **asdict(realism.by_method[name]),
            **asdict(count_unseen(method_answers, patterns)),
            "judges": panel,
        }
        documents.append(
            {
                **asdict(figures),
                **believability,
                **origin,
                **settings,
                **interval,
                **shared_figures,
            }
        )
    remarks = _remarks(task, instances, covered, [figures for figures, _ in results])
    remarks.append(realism.remark)
    return Comparison(instances, answers, results, documents, realism, panel, remarks)


def _panel(judges: Sequence[Judge], votes: Votes) -> list[dict[str, Any]]:
    """Validation accuracy of each judge, and its agreement with the GNN on the originals."""
    agreements = votes.agrees.double().mean(dim=1).tolist()
    return [
        {
            "architecture": judge.architecture,
            "validation_accuracy": judge.metrics.validation_accuracy,
            "agreement": agreement,
        }
        for judge, agreement in zip(judges, agreements, strict=True)
    ]


def _realism(
    task: Task,
    answers: Mapping[str, Sequence[MethodResult]],
    held_out: Sequence[Graph],
    seed: int,
    on_progress: OnProgress,
) -> Realism:
    if task.whole is not None:
        remark = (
            "No C2ST: the neighbourhoods of a graph's nodes overlap, so training and test folds "
            "would not be independent."
        )
        return no_realism(list(answers), remark)
    discriminator = Discriminator(seed=seed, on_progress=on_progress)
    return measure_realism(answers, held_out, discriminator, seed=seed)


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
