from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.input.files import require_file
from d4explain.cli.options import Json, Metadata, Url, parse_settings
from d4explain.cli.output.terminal import print_json, print_line, print_warnings
from d4explain.client.client import Client
from d4explain.errors import CommandError


def upload(
    graph: Annotated[
        Path,
        typer.Argument(
            help=".npz with edge_index and x, .ndjson, or .parquet with the columns source and "
            "target; see docs/api.md."
        ),
    ],
    *,
    name: Annotated[str, typer.Option(help="Name of the reference set.")],
    features: Annotated[
        Path | None,
        typer.Option(
            help="For a .parquet graph: .parquet with one row per node, and a list column x or "
            "numeric columns."
        ),
    ] = None,
    metadata: Metadata = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Upload one large graph for `explain --node`; print its id."""
    for file in (graph, features):
        if file is not None:
            require_file(file)
    with Client(url) as client:
        try:
            dataset = client.upload_large_graph(name, graph, features, parse_settings(metadata))
        except (ValueError, OSError) as error:
            raise CommandError(str(error)) from error
    print_warnings(dataset.warnings)
    if as_json:
        print_json(dataset)
        return
    print_line(
        f"{dataset.id} ({dataset.name}@{dataset.version}): {dataset.max_nodes:,} nodes, "
        f"{dataset.mean_edges:,.0f} edges"
    )
