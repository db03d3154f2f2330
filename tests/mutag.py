"""The files of MUTAG, where PyG looks for them before it downloads."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from bench.data.tasks import data_folder


def unpack_mutag(folder: Path) -> None:
    """So that `TUDataset("data", "MUTAG")` works in this folder; skips the test without data."""
    file = data_folder() / "MUTAG.zip"
    if not file.is_file():
        pytest.skip(f"{file} does not exist; set D4_DATA to its folder")
    raw = folder / "data" / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if name.endswith(".txt"):
                (raw / Path(name).name).write_bytes(archive.read(name))
