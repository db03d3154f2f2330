"""`python -m tests.chaos --seed 1 --database postgres --out FILE` runs and judges.

`… judge FILE…` judges histories, or files of summaries, and sums them up. `… keep FILE…` adds the
summaries of histories to runs.jsonl and writes the table in docs/reliability.md.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos.cluster import Scale
from tests.chaos.report import PAGE, page_with_table, report_lines
from tests.chaos.run import run
from tests.chaos.summary import RUNS, summaries_in


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["judge"]:
        return _judge([Path(name) for name in arguments[1:]])
    if arguments[:1] == ["keep"]:
        return _keep([Path(name) for name in arguments[1:]])
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the started processes, too
    out = chosen.out or Path(f"histories/{chosen.database}-{chosen.seed}.jsonl")
    with tempfile.TemporaryDirectory() as folder:
        scale = Scale(chosen.jobs, has_older_program=True)
        run(Path(folder), out, seed=chosen.seed, database=chosen.database, scale=scale)
    return _judge([out])


def _judge(paths: list[Path]) -> int:
    """Prints what the histories show; 1 if a promise is broken."""
    lines, is_good = report_lines(paths)
    print("\n".join(lines))
    return 0 if is_good else 1


def _keep(paths: list[Path]) -> int:
    kept = summaries_in(RUNS) if RUNS.exists() else []
    known = {one.history_sha256 for one in kept}
    kept += [one for path in paths for one in summaries_in(path) if one.history_sha256 not in known]
    RUNS.write_text("".join(one.model_dump_json() + "\n" for one in kept))
    PAGE.write_text(page_with_table(PAGE.read_text(), kept))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
