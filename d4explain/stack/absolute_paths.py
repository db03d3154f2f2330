"""Makes relative paths in settings absolute, because children run in another folder."""

from __future__ import annotations

import os
from pathlib import Path

_LOCAL = "file://"
_SQLITE = "sqlite:///"


def absolute_artifacts(location: str) -> str:
    """Make a folder or a file:// URL absolute; keep other URLs."""
    if location.startswith(_LOCAL):
        return _LOCAL + str(Path(location.removeprefix(_LOCAL)).absolute())
    return location if "://" in location else str(Path(location).absolute())


def absolute_database_url(url: str) -> str:
    """Make the path of a SQLite URL absolute; keep other URLs.

    `sqlite:///name` is relative, `sqlite:////folder/name` is absolute.
    """
    path, question_mark, query = url.removeprefix(_SQLITE).partition("?")
    if not url.startswith(_SQLITE) or not path or path.startswith((":memory:", "file:")):
        return url
    return f"{_SQLITE}{Path(path).absolute()}{question_mark}{query}"


def absolute_search_path(search_path: str) -> str:
    """Make PYTHONPATH absolute; drop empty entries, which mean the current folder."""
    folders = [folder for folder in search_path.split(os.pathsep) if folder]
    return os.pathsep.join(str(Path(folder).absolute()) for folder in folders)
