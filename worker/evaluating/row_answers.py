"""Reads the rows of an evaluation: as the numbers of `models.evaluation`, as Parquet, as a hash."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow
import pyarrow.parquet

from d4explain.contracts.evaluations.rows import TIMES, EvaluationRow
from models.evaluation.answers import InstanceAnswer

_TEXTS = ("graph_sha256", "explainer", "reason", "verdict")
_NUMBERS = (
    *("probability", "new_probability", "modification_ratio", "fidelity", "typicality_before"),
    *("typicality", "diversity", "robustness_before", "robustness", "stability", *TIMES),
)
_FLAGS = ("found", "connected")
_PAIRS = ("added", "removed")
_VOTES = ("judges_agree", "judges_share")


def answer_of(row: EvaluationRow) -> InstanceAnswer:
    return InstanceAnswer(
        position=row.instance,
        nodes=row.node_count,
        edges=row.edge_count,
        old_class=row.predicted_class,
        label=row.label,
        new_class=row.new_class,
        added=tuple(row.added),
        removed=tuple(row.removed),
        fidelity=row.fidelity,
        connected=row.connected,
        verdict=row.verdict,
        agrees=tuple(row.judges_agree),
        shares=tuple(row.judges_share),
        typicality_before=row.typicality_before,
        typicality=row.typicality,
        answer_count=row.answer_count,
        diversity=row.diversity,
        robust_share=row.robustness,
        robust_share_before=row.robustness_before,
        stability=row.stability,
        gnn_evaluations=row.gnn_evaluations,
        gnn_gradients=row.gnn_gradients,
        cpu_seconds=row.cpu_seconds,
        seconds=row.seconds,
    )


def rows_sha256(rows: Sequence[EvaluationRow]) -> str:
    """A hash of all rows without their times, which another run of the same work changes."""
    content = hashlib.sha256()
    for row in rows:
        document = row.model_dump(mode="json", exclude=set(TIMES))
        content.update(json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return content.hexdigest()


def parquet_of(rows: Sequence[EvaluationRow]) -> bytes:
    """All rows as a table; the types are fixed, so a column of nulls keeps its type."""
    documents = [row.model_dump(mode="json") for row in rows]
    columns = {
        name: pyarrow.array([document[name] for document in documents], type=_type_of(name))
        for name in EvaluationRow.model_fields
    }
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def _type_of(name: str) -> Any:
    if name in _TEXTS:
        return pyarrow.string()
    if name in _NUMBERS:
        return pyarrow.float64()
    if name in _FLAGS:
        return pyarrow.bool_()
    if name in _PAIRS:
        return pyarrow.list_(pyarrow.list_(pyarrow.int64()))
    if name in _VOTES:
        return pyarrow.list_(pyarrow.bool_())
    return pyarrow.int64()
