"""Cache keys and provenance: which code they cover."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import provenance
from bench.report.provenance import imported_by

_LOADED = """
import sys, models.training.trainer
for name, module in sorted(sys.modules.items()):
    if name.startswith(("models.", "d4explain.gnn.")) and not hasattr(module, "__path__"):
        print(name)
"""


def test_imported_by_lists_the_modules_that_python_loads() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True
    ).stdout.split()
    assert imported_by("models/training/trainer.py") == sorted(
        f"{name.replace('.', '/')}.py" for name in loaded
    )


def test_training_does_not_depend_on_the_search() -> None:
    training = imported_by("models/training/trainer.py")
    search = "models/counterfactual/search/beam_search.py"
    assert search not in training
    assert search in imported_by("models/counterfactual/explain.py")


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        *((f"{folder}/new.py", True) for folder in ("models", "store", "service", "worker")),
        *(("d4explain/new.py", True), ("bench/speed/new.py", True)),
        *(("bench/results/new.json", False), ("docs/new.md", False)),
    ],
)
def test_changes_to_measured_code_mark_the_commit_as_dirty(
    file: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    assert provenance._commit() is None
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", "-C", tmp_path, *author, *arguments], check=True)
    head = provenance._commit()
    assert head is not None
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("")
    assert provenance._commit() == (f"{head}-dirty" if counts else head)
