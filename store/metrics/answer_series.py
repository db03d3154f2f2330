"""The metrics of final answers, by GNN, version, reference set and class."""

from __future__ import annotations

from store.database.observations import RECENT, Series, SeriesType


def _series(name: str, help_: str, type_: SeriesType, **more: object) -> Series:
    return Series(name, help_, type_, by_model=True, **more)  # type: ignore[arg-type]


EXPLAINED = _series(
    "d4_explained_graphs",
    "Graphs, or nodes, for which a counterfactual was searched.",
    SeriesType.COUNTER,
)
FLIPPED = _series(
    "d4_flipped_graphs", "Graphs, or nodes, with a counterfactual.", SeriesType.COUNTER
)
JUDGED = _series(
    "d4_judged_flips", "Best counterfactuals that other networks judged.", SeriesType.COUNTER
)
SHARED = _series(
    "d4_shared_flips", "Best counterfactuals that other networks share.", SeriesType.COUNTER
)
VALIDITY = _series(
    "d4_validity_ratio",
    f"Share of the last {RECENT} explained graphs that have a counterfactual.",
    SeriesType.SHARE,
)
TRANSFER = _series(
    "d4_transfer_ratio",
    f"Share of the last {RECENT} judged flips that other networks share.",
    SeriesType.SHARE,
)
EDITS = _series(
    "d4_edits",
    "Edits of the best counterfactual of a graph.",
    SeriesType.HISTOGRAM,
    buckets=(1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100),
)
TYPICALITY = _series(
    "d4_typicality",
    "Typicality of the best counterfactual of a graph; low values are unusual graphs.",
    SeriesType.HISTOGRAM,
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1),
)
MMD = _series(
    "d4_mmd",
    "MMD of the newest explanation's graphs to the reference set.",
    SeriesType.LATEST,
    labels=("kind", "stat"),
    deployment=False,
)
MMD_NULL_P95 = _series(
    "d4_mmd_null_p95",
    'Quantile 0.95 of d4_mmd{stat="sum"} for reference graphs: an MMD above it is unusual.',
    SeriesType.LATEST,
    labels=("kind",),
    deployment=False,
)
ANSWER_SERIES = (
    *(EXPLAINED, FLIPPED, JUDGED, SHARED, VALIDITY, TRANSFER),
    *(EDITS, TYPICALITY, MMD, MMD_NULL_P95),
)
