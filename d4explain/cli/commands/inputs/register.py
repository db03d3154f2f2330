from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from d4explain.cli.input.files import read_json, read_object, require_file
from d4explain.cli.input.user_objects import (
    is_python_object,
    load_model_and_graphs,
    split_names,
    user_code,
)
from d4explain.cli.options import Json, Metadata, Tags, Url, parse_pairs, parse_settings, refuse
from d4explain.cli.output.result_tables import probe_table
from d4explain.cli.output.terminal import messages, output, print_json, print_line
from d4explain.client.client import Client
from d4explain.client.errors import RejectedGnnError
from d4explain.client.operations.resource_paths import checked_name
from d4explain.client.resources import Gnn
from d4explain.contracts.job_states import GnnState
from d4explain.errors import CommandError


def register(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="MODULE:OBJECT, such as train.py:net, which is exported and checked; or spec.json "
            "with WEIGHTS; or a .zip with both.",
        ),
    ],
    weights: Annotated[
        Path | None, typer.Argument(help="weights.safetensors.", show_default=False)
    ] = None,
    *,
    name: Annotated[str, typer.Option(help="Name of the GNN; a known name gets a new version.")],
    samples: Annotated[
        str | None,
        typer.Option(
            help="JSON file of graphs or, with a MODULE:OBJECT, also MODULE:OBJECT of PyG graphs. "
            "If they have labels, the GNN should classify them correctly. With a MODULE:OBJECT "
            "they also become the reference set NAME.",
            show_default=False,
        ),
    ] = None,
    class_names: Annotated[
        str | None,
        typer.Option(help="Names of the classes, separated by commas.", show_default=False),
    ] = None,
    feature_names: Annotated[
        str | None,
        typer.Option(help="Names of one-hot features, separated by commas.", show_default=False),
    ] = None,
    featuriser: Annotated[
        Path | None,
        typer.Option(help="JSON file of a featuriser, to explain SMILES.", show_default=False),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            "--output",
            help="Which result of a model with several: its position, key or attribute.",
            show_default=False,
        ),
    ] = None,
    predict_url: Annotated[
        str | None,
        typer.Option(
            help="URL of a GNN without weights; its spec has only features and classes.",
            show_default=False,
        ),
    ] = None,
    description: Annotated[
        str | None, typer.Option(help="What the GNN is.", show_default=False)
    ] = None,
    tag: Tags = None,
    metadata: Metadata = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Register a GNN: a PyG model in one step, a spec with weights, or a URL."""
    checked_name(name)
    common = {
        "description": description,
        "tags": parse_pairs(tag),
        "metadata": parse_settings(metadata),
    }
    with Client(url) as client:
        if is_python_object(model):
            if weights is not None:
                raise CommandError(f"{model} has weights of its own; leave out {weights}")
            refuse({"predict_url": predict_url}, "for a spec, not for a MODULE:OBJECT")
            fields: dict[str, Any] = {
                "class_names": split_names(class_names),
                "feature_names": split_names(feature_names),
                "featuriser": None if featuriser is None else read_object(featuriser),
                "output": head,
            }
            gnn = _from_python(client, model, samples, name=name, **fields, **common)
        else:
            of_models = {
                "class_names": class_names,
                "feature_names": feature_names,
                "featuriser": featuriser,
                "output": head,
            }
            refuse(of_models, "for a MODULE:OBJECT; a spec has these fields itself")
            fields = {"name": name, "predict_url": predict_url, **common}
            gnn = _from_files(client, Path(model), weights, samples, **fields)
    _show(gnn, as_json)


def _from_python(client: Client, model: str, samples: str | None, **fields: Any) -> Gnn:
    if samples is None:
        raise CommandError(
            "--samples is missing",
            hint="give graphs like those of the training: they become the reference set",
        )
    with user_code():
        loaded, graphs = load_model_and_graphs(model, samples)
        messages().print("[dim]exporting, checking and uploading", soft_wrap=True)
        try:
            return client.register(loaded, graphs, **fields)
        except RejectedGnnError as error:
            return error.gnn  # shown with its probe, as one of a spec


def _from_files(
    client: Client, spec: Path, weights: Path | None, samples: str | None, **fields: Any
) -> Gnn:
    is_archive = spec.suffix == ".zip"
    if fields["predict_url"] is not None and (weights is not None or is_archive):
        raise CommandError("a GNN has weights or a --predict-url, not both")
    if is_archive and samples is not None:
        raise CommandError("--samples is for spec.json with WEIGHTS, not for a .zip file")
    labelled_graphs = None if samples is None else read_json(Path(samples))
    if fields["predict_url"] is not None:
        return client.register_black_box(spec=read_json(spec), samples=labelled_graphs, **fields)
    fields.pop("predict_url")
    if weights is not None:
        document = read_json(spec)
        return client.register_gnn(
            spec=document, weights=require_file(weights), samples=labelled_graphs, **fields
        )
    if not is_archive:
        raise CommandError(
            "give spec.json and weights.safetensors, a .zip file of both, or MODULE:OBJECT"
        )
    return client.register_archive(archive=require_file(spec), **fields)


def _show(gnn: Gnn, as_json: bool) -> None:
    if as_json:
        print_json(gnn)
    elif gnn.report is not None:
        output().print(probe_table(gnn.report))
    if gnn.state is not GnnState.READY:
        raise RejectedGnnError(gnn)
    if not as_json:
        print_line(f"{gnn.id} is ready: {gnn.name}@{gnn.version}")
