"""The figures of a final answer that Prometheus gets, by GNN, version, reference set and class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from d4explain.contracts.counterfactual_results import CounterfactualAnswer, CounterfactualResult
from d4explain.contracts.features.gnn_names import GnnNames, gnn_names
from d4explain.contracts.results import ClassResult, Mmd
from store.database.observations import ModelGroup, Observation, Series
from store.metrics import answer_series as series
from store.metrics.metric_store import OTHER
from worker.loading.job_inputs import JobInputs

MAX_CLASSES = 20  # of a GNN; further ones are counted as `other`
ALL_CLASSES = "all"


def counterfactual_observations(
    inputs: JobInputs, result: CounterfactualResult, target_class: int | None
) -> list[Observation]:
    """The class is the one that the GNN gives the original."""
    names = gnn_names(inputs.gnn.spec)
    by_class: dict[str, list[CounterfactualAnswer]] = defaultdict(list)
    for answer in result.answers:
        if answer.prediction.predicted_class != target_class:
            by_class[_class_name(names, answer.prediction.predicted_class)].append(answer)
    found = [
        _observation(inputs, one, class_name, values)
        for class_name, answers in by_class.items()
        for one, values in _figures(answers)
        if values
    ]
    return [*found, *_mmd_observations(inputs, "counterfactual", ALL_CLASSES, result.mmd)]


def class_observations(inputs: JobInputs, result: ClassResult) -> list[Observation]:
    class_name = _class_name(gnn_names(inputs.gnn.spec), result.target_class)
    return list(_mmd_observations(inputs, "class", class_name, result.mmd))


def _figures(
    answers: Sequence[CounterfactualAnswer],
) -> Iterator[tuple[Series, Sequence[float]]]:
    best = [answer.counterfactuals[0] for answer in answers if answer.found]
    shared = [one.verdict == "meaningful" for one in best if one.verdict != "unjudged"]
    yield series.EXPLAINED, [len(answers)]
    yield series.FLIPPED, [len(best)]
    yield series.VALIDITY, [answer.found for answer in answers]
    yield series.JUDGED, [len(shared)] if shared else []
    yield series.SHARED, [sum(shared)] if shared else []
    yield series.TRANSFER, shared
    yield series.EDITS, [len(one.edits) for one in best]
    yield (
        series.TYPICALITY,
        [one.typicality.value for one in best if one.typicality is not None],
    )


def _mmd_observations(
    inputs: JobInputs, kind: str, class_name: str, mmd: Mmd | None
) -> Iterator[Observation]:
    if mmd is None:
        return
    for stat in ("degree", "clustering", "spectrum", "sum"):
        value = getattr(mmd, stat)
        yield _observation(inputs, series.MMD, class_name, [value], kind, stat)
    p95 = mmd.null_quantiles.get("0.95")
    if p95 is not None:
        yield _observation(inputs, series.MMD_NULL_P95, class_name, [p95], kind)


def _observation(
    inputs: JobInputs, one: Series, class_name: str, values: Sequence[float], *labels: str
) -> Observation:
    group = ModelGroup(
        inputs.gnn.name,
        str(inputs.gnn.version),
        inputs.dataset.name,
        str(inputs.dataset.version),
    )
    return Observation(
        one, inputs.gnn.tenant_id, tuple(map(float, values)), labels, group, class_name
    )


def _class_name(names: GnnNames, number: int) -> str:
    if number >= MAX_CLASSES:
        return OTHER
    return names.class_name(number) or str(number)
