from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from d4explain.cli.commands.options import Url, parse_tags, read_json, require_file
from d4explain.cli.tables import probe_table
from d4explain.cli.terminal import output
from d4explain.client.address import api_address
from d4explain.client.client import Client
from d4explain.client.resources import Gnn
from d4explain.contracts.job_states import GnnState
from d4explain.errors import CommandError


def register(
    spec: Annotated[Path, typer.Argument(help="spec.json, or a .zip with spec and weights.")],
    weights: Annotated[Path | None, typer.Argument(help="weights.safetensors.")] = None,
    *,
    name: Annotated[str, typer.Option(help="Name of the GNN; a known name gets a new version.")],
    predict_url: Annotated[
        str | None,
        typer.Option(help="URL of a GNN without weights; its spec has only features and classes."),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(help="Labelled graphs or nodes that the GNN should classify correctly."),
    ] = None,
    description: Annotated[str | None, typer.Option()] = None,
    tag: Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be repeated.")] = None,
    url: Url = None,
) -> None:
    """Register a GNN from spec and weights, or from a URL; print its id and the probe report."""
    metadata: dict[str, Any] = {"description": description, "tags": parse_tags(tag or [])}
    if predict_url is not None:
        if weights is not None or spec.suffix == ".zip":
            raise CommandError("a GNN has weights or a --predict-url, not both")
        document = read_json(spec)
        labelled_graphs = None if samples is None else read_json(samples)
        with Client(api_address(url)) as client:
            gnn = client.register_black_box(
                name, document, predict_url, samples=labelled_graphs, **metadata
            )
    elif weights is None:
        if spec.suffix != ".zip" or samples is not None:
            raise CommandError("give spec.json and weights.safetensors, or a .zip file of both")
        archive = require_file(spec).read_bytes()
        with Client(api_address(url)) as client:
            gnn = client.register_archive(name, archive, **metadata)
    else:
        document = read_json(spec)
        labelled_graphs = None if samples is None else read_json(samples)
        require_file(weights)
        with Client(api_address(url)) as client:
            gnn = client.register_gnn(name, document, weights, samples=labelled_graphs, **metadata)
    _show(gnn)


def _show(gnn: Gnn) -> None:
    console = output()
    if gnn.report is not None:
        console.print(probe_table(gnn.report))
    if gnn.state is not GnnState.READY:
        raise CommandError(f"{gnn.id} is {gnn.state} and cannot be explained")
    console.print(f"{gnn.id} is ready: {gnn.name}@{gnn.version}", markup=False, soft_wrap=True)
