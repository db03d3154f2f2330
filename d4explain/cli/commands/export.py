from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.terminal import output
from d4explain.contracts.gnn_archive import SPEC, WEIGHTS, write_archive
from d4explain.errors import CommandError
from d4explain.export.import_object import load_object


def export(
    model: Annotated[
        str, typer.Argument(metavar="MODULE:OBJECT", help="A model, or a function that makes it.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for spec.json and weights.safetensors.")],
    class_names: Annotated[
        str | None, typer.Option(help="Names of the classes, separated by commas.")
    ] = None,
    archive: Annotated[
        bool, typer.Option("--archive", help="Write gnn.zip as well, which holds both.")
    ] = False,
) -> None:
    """Turn a trained PyG model into spec and weights that `register` takes."""
    try:
        from torch import nn  # noqa: PLC0415 - only this command needs torch

        from d4explain.export.exporter import Chain  # noqa: PLC0415
        from d4explain.export.exporter import export as export_model  # noqa: PLC0415
    except ModuleNotFoundError as error:
        hint = "pip install 'd4explain[worker]'"
        raise CommandError(f"export needs {error.name}, which is not installed", hint) from error
    found = load_object(model)
    if not isinstance(found, nn.Module) and callable(found):
        found = found()
    if not isinstance(found, nn.Module | Chain):
        raise CommandError(f"{model} is a {type(found).__name__}, not a torch.nn.Module or a Chain")
    names = [name.strip() for name in class_names.split(",")] if class_names else None
    written = export_model(found, out, names)
    output().print(
        f"wrote {written.spec} ({written.layers} layers) and {written.weights} "
        f"({written.parameters:,} parameters)\n"
        f"checked on {written.graphs_compared} random graphs: "
        f"largest difference to the original {written.largest_difference:.1g}"
    )
    if archive:
        members = {SPEC: written.spec.read_bytes(), WEIGHTS: written.weights.read_bytes()}
        (out / "gnn.zip").write_bytes(write_archive(members))
        output().print(f"wrote {out / 'gnn.zip'}")
