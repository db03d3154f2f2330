"""Short runs of `python -m tests.chaos`: jobs survive faults of every kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.cluster import Scale
from tests.chaos.faults import SCHEDULE
from tests.chaos.history import FaultKind, read_history
from tests.chaos.judge import judge
from tests.chaos.run import run
from tests.chaos.summary import fault_counts

# One fault of each kind. Each start of a worker process costs about 7 s of CPU, so there are few.
SHORT = Scale(jobs=20, workers=2, lease_seconds=3.0, max_attempts=3, recoveries=0)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_no_job_is_lost_or_committed_twice(tmp_path: Path, database: str) -> None:
    out = tmp_path / "history.jsonl"
    # PostgreSQL runs also have processes of an older program beside newer ones.
    scale = replace(SHORT, has_older_program=database == "postgres")
    run(tmp_path / "run", out, seed=1, database=database, scale=scale)
    history = read_history(out)
    assert judge(history) == []
    # Mounting a disk needs rights; SQLite has no connection to cut.
    needs_more = {FaultKind.FILL_DISK, FaultKind.CUT_COMMIT}
    assert set(fault_counts(history)) >= set(SCHEDULE) - needs_more
