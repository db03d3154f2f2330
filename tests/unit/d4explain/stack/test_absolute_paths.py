"""Relative settings keep their meaning for children that run in another folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from d4explain.stack.absolute_paths import (
    absolute_artifacts,
    absolute_database_url,
    absolute_search_path,
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path.cwd()


@pytest.mark.parametrize("location", ["/data/a", "s3://bucket/a", "file:///data/a"])
def test_absolute_artifacts_stay(location: str) -> None:
    assert absolute_artifacts(location) == location


def test_relative_artifacts_become_absolute(here: Path) -> None:
    assert absolute_artifacts("a/b") == f"{here}/a/b"
    assert absolute_artifacts("file://a/b") == f"file://{here}/a/b"


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////data/d.sqlite",
        "sqlite:///:memory:",
        "sqlite://",
        "sqlite:///file:d.sqlite?uri=true",
        "postgresql+psycopg://u:p@host/d",
    ],
)
def test_other_databases_stay(url: str) -> None:
    assert absolute_database_url(url) == url


def test_a_relative_database_becomes_absolute(here: Path) -> None:
    assert absolute_database_url("sqlite:///d.sqlite?x=1") == f"sqlite:///{here}/d.sqlite?x=1"


def test_the_current_folder_leaves_the_search_path(here: Path) -> None:
    assert absolute_search_path(":/lib:own:") == f"/lib:{here}/own"
    assert absolute_search_path("") == ""
