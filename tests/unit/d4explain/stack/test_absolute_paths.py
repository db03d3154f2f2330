"""Relative paths in settings become absolute for children that run in another folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from d4explain.stack.absolute_paths import (
    absolute_artifacts,
    absolute_database_url,
    absolute_search_path,
)


@pytest.fixture(autouse=True)
def current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path.cwd()


@pytest.mark.parametrize("location", ["/data/a", "s3://bucket/a", "file:///data/a"])
def test_absolute_artifacts_are_unchanged(location: str) -> None:
    assert absolute_artifacts(location) == location


def test_relative_artifacts_become_absolute(current_folder: Path) -> None:
    assert absolute_artifacts("a/b") == f"{current_folder}/a/b"
    assert absolute_artifacts("file://a/b") == f"file://{current_folder}/a/b"


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
def test_other_database_urls_are_unchanged(url: str) -> None:
    assert absolute_database_url(url) == url


def test_a_relative_database_becomes_absolute(current_folder: Path) -> None:
    assert (
        absolute_database_url("sqlite:///d.sqlite?x=1")
        == f"sqlite:///{current_folder}/d.sqlite?x=1"
    )


def test_the_search_path_drops_the_current_folder(current_folder: Path) -> None:
    assert absolute_search_path(":/lib:own:") == f"/lib:{current_folder}/own"
    assert absolute_search_path("") == ""
