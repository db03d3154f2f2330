from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from d4explain.address import api_address
from d4explain.client import Client
from d4explain.commands.options import Url, read_json
from d4explain.errors import CommandError
from d4explain.tables import probe_table
from d4explain.terminal import output
from store.job_states import GnnState


def register(
    spec: Annotated[Path, typer.Argument(help="spec.json: the layers.")],
    weights: Annotated[Path, typer.Argument(help="weights.safetensors.")],
    name: Annotated[str, typer.Option(help="What to call the GNN.")],
    url: Url = None,
) -> None:
    """Register a GNN from its spec and weights; print its id and what the probe found."""
    document = read_json(spec)
    if not weights.is_file():
        raise CommandError(f"there is no file {weights}")
    console = output()
    with Client(api_address(url)) as client:
        gnn = client.register_gnn(name, document, weights)
    if gnn.report is not None:
        console.print(probe_table(gnn.report))
    if gnn.state is not GnnState.READY:
        raise CommandError(f"{gnn.id} was {gnn.state}: it cannot be explained")
    console.print(f"{gnn.id} is ready")
