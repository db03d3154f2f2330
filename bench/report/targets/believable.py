"""Targets of believable answers: transfer to judges, and realism; figures are means of seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import mean

from bench.report.results_store import Results
from bench.report.targets.verdict import Verdict

COMMAND = "believable"
_ANY_PATTERN_NAFR = {"mutagenicity": 0.886}  # the best published figure
_ANY_PATTERN_NA = dict.fromkeys(("nci1", "bbbp", "proteins"), 0.85)
_NAFR = {"mutagenicity": 0.8}
_NA = dict.fromkeys(("nci1", "bbbp"), 0.85)
_FLIP_RATE = 0.9
_MEAN_RATIO = {"mutagenicity": 0.2}
_UNTOUCHED, _RANDOM = 0.55, {"mutagenicity": 0.9}  # C2ST of the controls
_CLOSED_SHARE = 0.4
_REALISM_SETS = ("mutagenicity", "nci1", "bbbp", "ba3motif")


def mean_figure(results: Results, dataset: str, method: str, key: str) -> float | None:
    """The mean over the seeds of a row; None if it was not measured."""
    rows = [row for row in results.rows(COMMAND, dataset) if row["method"] == method]
    values = [row[key] for row in rows if row.get(key) is not None]
    return mean(values) if values else None


def believable_verdicts(results: Results) -> Iterator[Verdict]:
    """Sets with a target of their own have verdicts as soon as any set was measured."""
    measured = results.datasets(COMMAND)
    for dataset in dict.fromkeys((*measured, *_ANY_PATTERN_NA)) if measured else ():

        def figure(method: str, key: str, of: str = dataset) -> float | None:
            return mean_figure(results, of, method, key)

        if dataset in _ANY_PATTERN_NAFR:
            yield _at_least(
                dataset,
                "`believable_any_pattern`: NAFR",
                figure("believable_any_pattern", "nafr"),
                _ANY_PATTERN_NAFR[dataset],
            )
        if dataset in _MEAN_RATIO:
            ratio = figure("believable_any_pattern", "mean_ratio")
            yield _at_most(
                dataset, "`believable_any_pattern`: mean ratio", ratio, _MEAN_RATIO[dataset]
            )
        if dataset in _ANY_PATTERN_NA:
            na = figure("believable_any_pattern", "na")
            yield _at_least(dataset, "`believable_any_pattern`: NA", na, _ANY_PATTERN_NA[dataset])
            yield _half_of_greedy(dataset, na, figure("greedy", "na"))
        if dataset in _NAFR:
            nafr = figure("believable", "nafr")
            yield _at_least(dataset, "`believable`: NAFR", nafr, _NAFR[dataset])
        if dataset in _NA:
            yield _at_least(dataset, "`believable`: NA", figure("believable", "na"), _NA[dataset])
            rate = figure("believable", "flip_rate")
            yield _at_least(dataset, "`believable`: flip rate", rate, _FLIP_RATE)
        if dataset in _REALISM_SETS:
            yield _closed(dataset, figure)
            untouched = figure("believable", "c2st_untouched")
            yield _at_most(dataset, "C2ST of untouched graphs", untouched, _UNTOUCHED)
        if dataset in _RANDOM:
            yield _at_least(dataset, "C2ST of `random`", figure("random", "c2st"), _RANDOM[dataset])
        unseen = figure("believable", "unseen_answers")
        yield _at_most(dataset, "`believable`: answers with an unseen degree or edge", unseen, 0)
        yield _cpu_of_search(dataset, figure("d4", "cpu_seconds"), figure("search", "cpu_seconds"))


def closed_share(figure: Callable[[str, str], float | None]) -> float | None:
    """Share of greedy's distance to untouched graphs, in C2ST, that `believable` closes."""
    greedy, ours = figure("greedy", "c2st"), figure("believable", "c2st")
    untouched = figure("believable", "c2st_untouched")
    if greedy is None or ours is None or untouched is None or greedy <= untouched:
        return None
    return (greedy - ours) / (greedy - untouched)


def _at_least(dataset: str, what: str, value: float | None, bound: float) -> Verdict:
    target = f"{what} ≥ {bound:g}"
    if value is None:
        return Verdict(COMMAND, dataset, target, "not measured", None)
    # More digits where rounding would contradict the verdict.
    figures = f"{value:.5f}" if round(value, 3) == bound else f"{value:.3f}"
    return Verdict(COMMAND, dataset, target, figures, value >= bound)


def _at_most(dataset: str, what: str, value: float | None, bound: float) -> Verdict:
    target = f"{what} ≤ {bound:g}"
    if value is None:
        return Verdict(COMMAND, dataset, target, "not measured", None)
    return Verdict(COMMAND, dataset, target, f"{value:.3f}", value <= bound)


def _cpu_of_search(dataset: str, ours: float | None, search: float | None) -> Verdict:
    target = "CPU s per instance of `d4` not above `search`'s"
    if ours is None or search is None:
        return Verdict(COMMAND, dataset, target, "not measured", None)
    return Verdict(COMMAND, dataset, target, f"{ours:.3f} and {search:.3f}", ours <= search)


def _half_of_greedy(dataset: str, ours: float | None, greedy: float | None) -> Verdict:
    target = "`believable_any_pattern`: 1 - NA at most half of `greedy`'s"
    if ours is None or greedy is None:
        return Verdict(COMMAND, dataset, target, "not measured", None)
    figures = f"{1 - ours:.3f} and {1 - greedy:.3f}"
    return Verdict(COMMAND, dataset, target, figures, 1 - ours <= (1 - greedy) / 2)


def _closed(dataset: str, figure: Callable[[str, str], float | None]) -> Verdict:
    target = "`believable` closes 40 % of `greedy`'s distance to untouched graphs in C2ST"
    share = closed_share(figure)
    if share is None:
        return Verdict(COMMAND, dataset, target, "not measured", None)
    return Verdict(COMMAND, dataset, target, f"{share:.0%}", share >= _CLOSED_SHARE)
