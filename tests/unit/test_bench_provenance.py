"""What a kept denoiser is found by: the code that trains it, and no other."""

from __future__ import annotations

import subprocess
import sys

from bench.provenance import imported_by

_LOADED = """
import sys, models.training
print(*(name for name in sys.modules if name.startswith("models.") and name != "models.gnn"))
"""


def test_what_training_imports_is_what_python_loads_for_it() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True
    ).stdout.split()
    assert imported_by("models/training.py") == sorted(
        f"{name.replace('.', '/')}.py" for name in loaded
    )


def test_how_a_denoiser_is_used_does_not_count() -> None:
    training = imported_by("models/training.py")
    assert "models/search.py" not in training
    assert "models/search.py" in imported_by("models/counterfactual.py")
