"""A newer version of this program, to run beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

from store.jobs.submission import JOB_FORMAT
from tests.processes import ROOT


def newer_program(folder: Path) -> Path:
    """A copy of this program whose job format is one higher, so that this one is the older."""
    for package in ("d4explain", "models", "service", "store", "worker"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    source = folder / "store/jobs/submission.py"
    known = f"\nJOB_FORMAT = {JOB_FORMAT}\n"
    text = source.read_text()
    assert text.count(known) == 1
    source.write_text(text.replace(known, f"\nJOB_FORMAT = {JOB_FORMAT + 1}\n"))
    return folder
