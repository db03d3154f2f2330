from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.terminal import output
from d4explain.contracts.gnn_archive import SPEC, WEIGHTS, write_archive
from d4explain.errors import CommandError
from d4explain.export.import_object import import_object


def export(
    model: Annotated[
        str,
        typer.Argument(metavar="MODULE:OBJECT", help="A model, or a function that returns one."),
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder for spec.json and weights.safetensors.")],
    class_names: Annotated[
        str | None, typer.Option(help="Names of the classes, separated by commas.")
    ] = None,
    features: Annotated[
        int | None,
        typer.Option(help="Features per node; needed only if no layer of the model tells."),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            "--output",
            help="Which result of a model with several: its position, key or attribute.",
        ),
    ] = None,
    archive: Annotated[
        bool, typer.Option("--archive", help="Also write gnn.zip, which contains both files.")
    ] = False,
) -> None:
    """Convert a trained PyG model to the spec and weights that `register` takes."""
    try:
        from torch import nn  # noqa: PLC0415 - only this command needs torch

        from d4explain.export.exporter import export as export_model  # noqa: PLC0415
    except ModuleNotFoundError as error:
        hint = "pip install 'd4explain[export]'"
        raise CommandError(f"export needs {error.name}, which is not installed", hint) from error
    loaded = import_object(model)
    if not isinstance(loaded, nn.Module) and callable(loaded):
        loaded = loaded()
    if not isinstance(loaded, nn.Module):
        raise CommandError(f"{model} is a {type(loaded).__name__}, not a torch.nn.Module")
    names = [name.strip() for name in class_names.split(",")] if class_names else None
    exported = export_model(loaded, out, names, features=features, output=head)
    output().print(
        f"wrote {exported.spec} ({exported.layers} layers) and {exported.weights} "
        f"({exported.parameters:,} parameters)\n"
        f"checked on {exported.graphs_compared} random graphs: "
        f"largest difference to the original {exported.largest_difference:.1g}"
    )
    for name in exported.left_out:
        output().print(f"note: forward's optional {name} was left out; the GNN does not read it")
    if archive:
        members = {SPEC: exported.spec.read_bytes(), WEIGHTS: exported.weights.read_bytes()}
        (out / "gnn.zip").write_bytes(write_archive(members))
        output().print(f"wrote {out / 'gnn.zip'}")
