"""What the audit log costs a submission: `python -m bench.speed.api.audit_cost`."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from store.database import audit_entries
from store.database.audit_entries import Action
from store.database.sessions import Database
from store.jobs import JobKind
from store.jobs.submission import submit_all


def seconds_per_group(database: Database, group: int, *, audited: bool) -> float:
    """The time of one transaction that submits `group` jobs."""
    started = time.perf_counter()
    with database.transaction() as session:
        submit_all(session, [{"kind": JobKind.PREDICT, "tenant": "default"}] * group)
        for number in range(group if audited else 0):
            audit_entries.note(session, Action("predict", "default"), f"job_{number}")
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--url", help="database; default: SQLite in a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = Database(options.url or f"sqlite:///{Path(folder) / 'store.sqlite'}")
        database.migrate()
        for group in (1, 16, 64):
            times: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(options.groups):
                for audited, measured in times.items():  # in turns: a busy machine slows both
                    measured.append(seconds_per_group(database, group, audited=audited))
            ratio = median(times[True]) / median(times[False])
            print(f"{group:3d} submissions per transaction: {ratio:.2f} times as long")
        database.close()


if __name__ == "__main__":
    main()
