"""Targets of class explanations, for each data set, class and size."""

from __future__ import annotations

from collections.abc import Iterator

from bench.report.paper_figures import CLASS_CONFIDENCE
from bench.report.results_store import Results, Row
from bench.report.targets.verdict import (
    TOLERANCE,
    Verdict,
    check_bounds,
    compare_rows,
    format_number,
    format_pair,
)

_COMMAND = "classes"


def default_rows(results: Results) -> list[Row]:
    """The `d4` rows at default settings, one per case.

    Later `d4` rows of the same case belong to the paper's grid of K and T.
    """
    first: dict[tuple[str, int, int], Row] = {}
    for row in results.rows(_COMMAND):
        if row["method"] == "d4":
            first.setdefault((row["dataset"], row["label"], row["nodes"]), row)
    return list(first.values())


def class_verdicts(results: Results) -> Iterator[Verdict]:
    for ours in default_rows(results):
        yield from _case_verdicts(results, ours)


def _case_verdicts(results: Results, ours: Row) -> Iterator[Verdict]:
    dataset = ours["dataset"]
    case = f"class {ours['label']}, N = {ours['nodes']}"

    def other(method: str) -> Row | None:
        keys = {"dataset": dataset, "label": ours["label"], "nodes": ours["nodes"]}
        return results.row(_COMMAND, **keys, method=method)

    paper = CLASS_CONFIDENCE.get(dataset, {}).get(ours["nodes"])
    if paper is not None:
        yield Verdict(
            _COMMAND,
            dataset,
            "confidence ≥ paper - 0.005",
            format_pair(ours["confidence"], paper),
            ours["confidence"] >= paper - 0.005 - TOLERANCE,
            case,
            _best_possible(ours, "possible_confidence", "no graph exceeds"),
        )
    connected = ours.get("connected")
    yield check_bounds(_COMMAND, dataset, "all connected", connected, at_least=1.0, case=case)
    broken = ours.get("valence_broken")
    if broken is not None:
        yield check_bounds(_COMMAND, dataset, "no valence exceeded", broken, at_most=0, case=case)
    yield Verdict(
        _COMMAND,
        dataset,
        "density ≤ 1.1 times held-out subgraphs",
        format_pair(ours["density"], ours["density_heldout"]),
        ours["density"] <= 1.1 * ours["density_heldout"] + TOLERANCE,
        case,
        _best_possible(
            ours, "possible_confidence_sparse", "at this density mean confidence cannot exceed"
        ),
    )
    best_real = other("real_best20")
    yield compare_rows(
        _COMMAND,
        dataset,
        "unique ≥ 2 times `real_best20`",
        (ours, best_real),
        "unique",
        holds=lambda our_share, real_share: our_share >= 2 * real_share - TOLERANCE,
        case=case,
        remark=_most_unique(ours, best_real),
    )
    yield compare_rows(
        _COMMAND,
        dataset,
        "held-out MMD ≤ 0.5 times `d4_paper`",
        (ours, other("d4_paper")),
        "mmd_heldout",
        holds=lambda our_mmd, paper_mmd: our_mmd <= paper_mmd / 2 + TOLERANCE,
        case=case,
    )
    if ours.get("motif_rate") is not None:
        yield compare_rows(
            _COMMAND,
            dataset,
            "motif rate > `real_random`",
            (ours, other("real_random")),
            "motif_rate",
            holds=lambda our_rate, random_rate: our_rate > random_rate + TOLERANCE,
            case=case,
        )
    seconds = ours.get("seconds")
    target = "≤ 60 CPU s per 100 explanations"
    yield check_bounds(_COMMAND, dataset, target, seconds, at_most=60, case=case)


def _most_unique(ours: Row, best_real: Row | None) -> str:
    if best_real is not None and best_real["unique"] > 0.5:
        return "impossible: the target exceeds 1.000"
    return _best_possible(ours, "possible_unique", "at the paper's confidence it cannot exceed")


def _best_possible(ours: Row, key: str, statement: str) -> str:
    if ours.get(key) is None:
        return ""
    subgraphs = ours.get("possible_parts")
    scope = "" if subgraphs is None else f" (features of {subgraphs} class subgraphs tried)"
    return f"{statement} {format_number(ours[key])}{scope}"
