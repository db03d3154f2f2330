"""The server runs from the source tree of this package, never from the current folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from d4explain.errors import CommandError
from d4explain.stack.source_tree import (
    python_command,
    python_environment,
    source_root,
    use_source_tree,
)

ROOT = Path(__file__).resolve().parents[4]
USER_PACKAGES = ("service", "worker", "store", "models", "bench")


@pytest.fixture
def users_folder(tmp_path: Path) -> Path:
    for name in USER_PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the package of a user')")
    return tmp_path


def run(argv: tuple[str, ...], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_source_tree_is_the_folder_of_this_package() -> None:
    assert source_root() == ROOT


def test_an_installation_without_a_server_is_refused(tmp_path: Path) -> None:
    (tmp_path / "service").mkdir()  # a package of another distribution
    with pytest.raises(CommandError, match="has no server") as error:
        source_root(tmp_path / "d4explain")
    assert "make serve" in str(error.value.hint)


def test_the_source_tree_comes_first_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    use_source_tree()
    use_source_tree()
    assert sys.path[:2] == [str(ROOT), ""]


def test_children_do_not_import_from_the_current_folder(users_folder: Path) -> None:
    code = "import store, service; print(store.__file__, service.__file__)"
    environment = python_environment({"PYTHONPATH": str(users_folder)})
    files = run(python_command("-c", code), users_folder, environment).split()
    assert [Path(file).parents[1] for file in files] == [ROOT, ROOT]


def test_the_command_does_not_import_from_the_current_folder(users_folder: Path) -> None:
    code = (
        "from d4explain.stack.source_tree import use_source_tree; use_source_tree();"
        "import store.settings; print(store.__file__)"
    )
    # Without -P, Python puts the current folder first.
    environment = {"PYTHONPATH": str(ROOT)}
    (file,) = run((sys.executable, "-c", code), users_folder, environment).split()
    assert Path(file).parents[1] == ROOT
