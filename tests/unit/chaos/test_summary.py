"""Summaries add up, and the page shows those that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from d4explain.contracts.job_states import JobKind, JobState
from tests.chaos.history import (
    Answer,
    AnyRecord,
    Ended,
    Fault,
    FaultKind,
    Finished,
    HistoryWriter,
    Recovery,
    Run,
)
from tests.chaos.report import PAGE, page_with_table, report_lines
from tests.chaos.summary import RUNS, summaries_in

START = Run(
    seed=3, database="sqlite", jobs=1, lease_seconds=6, date="2026-01-01", commit="c", machine="m"
)
RECORDS: list[AnyRecord] = [
    START,
    Answer(key="k", work="w", status=202, job="j", resource="r"),
    Fault(what=FaultKind.KILL_CHILD, job="j", attempt=1, was_working=True),
    Fault(what=FaultKind.KILL_WORKER, job="j", attempt=2, was_working=False),
    Fault(what=FaultKind.LOSE_BROKER),
    Recovery(job="j", seconds=6.5),
    Ended(job="j", kind=JobKind.PREDICT, part_of="j", states=[JobState.QUEUED, JobState.RUNNING]),
    Finished(),
]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    writer = HistoryWriter(path)
    for record in RECORDS:
        writer.write(record)
    writer.close()
    return path


def test_a_summary_says_what_the_history_says(history: Path, tmp_path: Path) -> None:
    [summary] = summaries_in(history)
    assert (summary.accepted, summary.jobs, summary.recoveries) == (1, 1, [6.5])
    # The second kill hit no working worker.
    assert summary.faults == {FaultKind.KILL_CHILD: 1, FaultKind.LOSE_BROKER: 1}
    assert any(one.broken == "a job did not end" for one in summary.broken)
    kept = tmp_path / "runs.jsonl"
    kept.write_text(summary.model_dump_json() + "\n")
    assert summaries_in(kept) == [summary]


def test_the_report_adds_up_histories_and_summaries(history: Path, tmp_path: Path) -> None:
    kept = tmp_path / "runs.jsonl"
    kept.write_text(summaries_in(history)[0].model_dump_json() + "\n")
    lines, is_good = report_lines([history, kept])
    assert not is_good
    assert "2 runs, 2 accepted" in lines[-1]
    assert f"2 x {FaultKind.LOSE_BROKER}" in lines[-1]


def test_the_table_counts_kills_of_working_workers_only(history: Path) -> None:
    page = page_with_table("<!-- runs -->\nold\n<!-- end of runs -->\n", summaries_in(history))
    assert "old" not in page
    row = next(line for line in page.splitlines() if "seed 3" in line)
    assert [cell.strip() for cell in row.split("|")][2:5] == ["1", "1", "1, 1"]


def test_the_page_shows_the_kept_runs() -> None:
    assert page_with_table(PAGE.read_text(), summaries_in(RUNS)) == PAGE.read_text()
