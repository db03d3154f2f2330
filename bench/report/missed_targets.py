"""A record of every target that a report has ever shown as missed.

A target that is reached after a missed run was seen is not an independent test. The report marks
such a verdict as post hoc. `python -m bench report` adds the misses of each report to the record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from bench.report.targets.verdict import TargetKey, Verdict

RECORD = Path("bench/report/missed_targets.json")


def read_missed(record: Path = RECORD) -> set[TargetKey]:
    if not record.is_file():
        return set()
    return {TargetKey(**entry) for entry in json.loads(record.read_text())}


def record_missed(verdicts: Iterable[Verdict], record: Path = RECORD) -> set[TargetKey]:
    """Add the missed targets to the record; return the whole record."""
    missed = read_missed(record)
    missed |= {verdict.key for verdict in verdicts if verdict.reached is False}
    record.parent.mkdir(parents=True, exist_ok=True)
    entries = [key._asdict() for key in sorted(missed)]
    record.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    return missed


def is_post_hoc(verdict: Verdict, missed: set[TargetKey]) -> bool:
    return verdict.reached is True and verdict.key in missed
