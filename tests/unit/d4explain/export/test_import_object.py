"""`d4explain export` imports the model of the user by module or file name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

from d4explain.errors import CommandError
from d4explain.export.import_object import import_object, import_objects

MODELS = """
from torch import nn
from torch_geometric.nn import GCNConv
from torch_geometric.nn.aggr import MeanAggregation

def trained():
    return nn.Sequential(GCNConv(4, 8), MeanAggregation(), nn.Linear(8, 2))

class holder:
    model = trained()
"""


def d4explain(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "d4explain", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "PYTHONSAFEPATH": "1"},
    )


@pytest.mark.parametrize("name", ["models.py:trained", "models:trained"])
def test_the_command_exports_from_the_users_models_py(tmp_path: Path, name: str) -> None:
    """An editable install makes our own package `models` importable as well."""
    (tmp_path / "models.py").write_text(MODELS)
    done = d4explain("export", name, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "largest difference" in done.stdout
    assert (tmp_path / "out" / "spec.json").exists()


def test_objects_are_imported_by_module_and_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_gnns.py").write_text(MODELS)
    (tmp_path / "models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert isinstance(import_object("my_gnns:holder.model"), nn.Sequential)
    assert isinstance(import_object("models.py:holder.model"), nn.Sequential)
    for name, message in {
        "my_gnns": "is not MODULE:OBJECT",
        "my_gnns:absent": "has no 'absent'",
        "absent_gnns:model": "no module named 'absent_gnns'",
        "absent.py:model": "no such file: absent.py",
    }.items():
        with pytest.raises(CommandError, match=message):
            import_object(name)


def test_an_import_error_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty_gnns.py").write_text("raise ValueError('no data')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CommandError, match="faulty_gnns cannot be imported: ValueError: no data"):
        import_object("faulty_gnns:model")


def test_a_file_with_several_objects_runs_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may train the model."""
    file = tmp_path / "train.py"
    file.write_text("print('trained')\nnet, graphs = object(), []\n")
    net, graphs = import_objects(f"{file}:net", f"{file}:graphs")
    assert (type(net), graphs) == (object, [])
    assert capsys.readouterr().out == "trained\n"
