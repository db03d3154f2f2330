"""Files and tags of a training run that `d4explain mlflow` looks for."""

from __future__ import annotations

from collections.abc import Mapping

FOLDER = "d4explain"  # of the run's artifacts, unless a tag names another
SPEC, WEIGHTS = "spec.json", "weights.safetensors"  # as `d4explain export` writes them
REFERENCE = "reference.json"  # {"graphs": […]}: the reference set
HELDOUT = "heldout.json"  # {"graphs": […]}: the graphs to explain
MAX_FILE_BYTES = 1 << 30  # larger artifacts are not downloaded

# Tags of a run or a version; those of the version come first.
FOLDER_TAG = "d4explain.folder"
NAME_TAG = "d4explain.name"  # of the GNN; by default the name of the model
DATASET_TAG = "d4explain.dataset"  # a registered reference set; also a parameter of the run


def artifact_folders(version_tags: Mapping[str, str], run_tags: Mapping[str, str]) -> list[str]:
    """Where the GNN may be, in the order of the search; "" is the root of the artifacts."""
    named = version_tags.get(FOLDER_TAG) or run_tags.get(FOLDER_TAG)
    return [named.strip("/")] if named else [FOLDER, ""]


def joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
