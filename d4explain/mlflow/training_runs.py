"""For training scripts: logs a GNN with its graphs to a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from d4explain.client.graph_formats.posted_graphs import Graphs, graph_list
from d4explain.client.operations.model_registration import SpecNames, exported_model
from d4explain.client.operations.resource_paths import checked_name
from d4explain.errors import CommandError
from d4explain.mlflow import run_files
from d4explain.mlflow.mlflow_import import mlflow_module


def log_gnn(
    model: Any,
    graphs: Graphs = None,
    *,
    heldout: Graphs = None,
    dataset: str | None = None,
    name: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    featuriser: Mapping[str, Any] | None = None,
    output: str | None = None,
    folder: str = run_files.FOLDER,
    run_id: str | None = None,
) -> str:
    """Log a trained PyG model to the active run, or to `run_id`, so that it gets explained.

    `model` is also the folder of a `d4explain export`. `graphs` are graphs like those of the
    training and become the reference set; `dataset` names a registered one instead. `heldout` are
    the graphs to explain. `name` is the GNN's name if the model of the registry has a name that
    d4explain refuses. Returns the run's id.
    """
    if (graphs is None) == (dataset is None):
        raise CommandError("give `graphs` for a new reference set, or `dataset` for a known one")
    if name is not None:
        checked_name(name)
    folder = folder.strip("/")
    spec, weights = _exported(model, graphs, output)
    documents: dict[str, Any] = {
        run_files.SPEC: SpecNames(class_names, feature_names, featuriser).added_to(spec)
    }
    if graphs is not None:
        documents[run_files.REFERENCE] = {"graphs": graph_list(graphs)}
    if heldout is not None:
        documents[run_files.HELDOUT] = {"graphs": graph_list(heldout)}
    tags = {
        run_files.FOLDER_TAG: folder or None,
        run_files.DATASET_TAG: dataset,
        run_files.NAME_TAG: name,
    }
    return _logged(documents, weights, folder, tags, run_id)


def _exported(model: Any, graphs: Graphs, output: str | None) -> tuple[dict[str, Any], bytes]:
    """The spec and the weights of a model, or of the folder of an export."""
    if not isinstance(model, str | Path):
        return exported_model(model, graphs, output)
    files = Path(model) / run_files.SPEC, Path(model) / run_files.WEIGHTS
    for file in files:
        if not file.is_file():
            raise CommandError(
                f"{file} does not exist", hint="`d4explain export --out FOLDER` writes it"
            )
    spec: dict[str, Any] = json.loads(files[0].read_text(encoding="utf-8"))
    return spec, files[1].read_bytes()


def _logged(
    documents: Mapping[str, Any],
    weights: bytes,
    folder: str,
    tags: Mapping[str, str | None],
    run_id: str | None,
) -> str:
    mlflow = mlflow_module()
    client = mlflow.MlflowClient()
    if run_id is None:
        active = mlflow.active_run()
        if active is None:
            raise CommandError("no run is active; call log_gnn inside `with mlflow.start_run():`")
        run_id = active.info.run_id
    with TemporaryDirectory(prefix="d4explain-") as temporary:
        local = Path(temporary)
        for file_name, document in documents.items():
            (local / file_name).write_text(json.dumps(document), encoding="utf-8")
        (local / run_files.WEIGHTS).write_bytes(weights)
        client.log_artifacts(run_id, str(local), folder or None)
    for key, value in tags.items():
        if value is not None:
            client.set_tag(run_id, key, value)
    return str(run_id)
