"""docs/tutorial.md and the notebook of it run as written, against the real API with a worker."""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mutag import unpack_mutag
from tests.unit.flows.served_api import serving

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "tutorial.md"
BLOCK = re.compile(r"(<!-- trains networks -->\n)?```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files of MUTAG."""
    unpack_mutag(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_lines_of_the_tutorial_run(
    deployed: Callable[..., Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All but the block that trains networks, which takes minutes; the notebook has it, too."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    quick = [block for trains, block in blocks if not trains]
    assert (len(blocks), len(quick)) == (7, 6)
    names: dict[str, Any] = {"__name__": "tutorial"}
    with serving(deployed()) as address, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of PyG when it processes a data set
        monkeypatch.setenv("D4_URL", address)
        for number, block in enumerate(quick):
            exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
        names["client"].close()
    assert (folder / "molecule.svg").read_text().startswith("<svg")
    printed = capsys.readouterr().out
    assert "✗" not in printed
    assert "samples_accuracy" in printed
    assert "my model says harmless" in printed
    assert "\nmutagenic\n" in printed


@pytest.fixture
def writer() -> Any:
    """docs/notebook.py."""
    pytest.importorskip("nbclient", reason="nbclient is not installed (extra: dev)")
    spec = importlib.util.spec_from_file_location("notebook", DOCS / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outputs(notebook: Any) -> list[Any]:
    return [item for cell in notebook.cells for item in cell.get("outputs", [])]


def test_the_notebook_has_the_cells_of_the_tutorial_and_their_outputs(writer: Any) -> None:
    stored = writer.nbformat.read(DOCS / "tutorial.ipynb", as_version=4)
    fresh = writer.notebook_of(PAGE.read_text(encoding="utf-8"))
    assert [cell.source for cell in stored.cells] == [cell.source for cell in fresh.cells]
    drawings = [item for item in outputs(stored) if "image/svg+xml" in item.get("data", {})]
    assert len(drawings) == 2
    assert not [item for item in outputs(stored) if item.output_type == "error"]


@pytest.mark.slow  # trains a denoiser and witnesses
@pytest.mark.timeout(1200)
def test_the_notebook_runs(
    writer: Any, deployed: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = writer.notebook_of(PAGE.read_text(encoding="utf-8"))
    with serving(deployed()) as address, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Jupyter
        monkeypatch.setenv("D4_URL", address)
        writer.run(notebook, folder)
    texts = "".join(item.get("text", "") for item in outputs(notebook))
    assert "provisional True" in texts
    assert re.search("^final ", texts, re.MULTILINE)
