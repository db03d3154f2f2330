from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.input.files import write_file
from d4explain.cli.input.user_objects import load_model, split_names, user_code
from d4explain.cli.options import Json
from d4explain.cli.output.terminal import output, print_json
from d4explain.contracts.gnn_files.gnn_archive import SPEC, WEIGHTS, write_archive
from d4explain.errors import CommandError


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
    as_json: Json = False,
) -> None:
    """Convert a trained PyG model to the spec and weights that `register` takes."""
    with user_code():
        loaded = load_model(model)
        from d4explain.export.exporter import export as export_model  # noqa: PLC0415 - loads torch

        names = split_names(class_names)
        try:
            exported = export_model(loaded, out, names, features=features, output=head)
        except OSError as error:
            raise CommandError(f"{out} cannot be written: {error.strerror}") from error
    zipped = out / "gnn.zip" if archive else None
    if zipped is not None:
        members = {SPEC: exported.spec.read_bytes(), WEIGHTS: exported.weights.read_bytes()}
        write_file(zipped, write_archive(members))
    if as_json:
        print_json({**vars(exported), "archive": zipped})
        return
    output().print(
        f"wrote {exported.spec} ({exported.layers} layers) and {exported.weights} "
        f"({exported.parameters:,} parameters)\n"
        f"checked on {exported.graphs_compared} random graphs: "
        f"largest difference to the original {exported.largest_difference:.1g}"
    )
    for name in exported.left_out:
        output().print(f"note: forward's optional {name} was left out; the GNN does not read it")
    if zipped is not None:
        output().print(f"wrote {zipped}")
