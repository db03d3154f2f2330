from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from d4explain.cli.commands.options import Url, graphs_in, read_json
from d4explain.cli.terminal import output
from d4explain.client.address import api_address
from d4explain.client.client import Client

app = typer.Typer(help="Create, list and delete reference sets.", no_args_is_help=True)


@app.command("create")
def create(
    graphs: Annotated[Path, typer.Argument(help="A list of graphs, or {graphs: […]}; - is stdin.")],
    *,
    name: Annotated[
        str, typer.Option(help="Name of the reference set; a used name gets a new version.")
    ],
    gnn: Annotated[
        str | None, typer.Option(help="GNN whose featuriser reads the graphs, if they are SMILES.")
    ] = None,
    url: Url = None,
) -> None:
    """Create a reference set: graphs like those that the GNN was trained on."""
    documents = graphs_in(read_json(graphs), graphs)
    with Client(api_address(url)) as client:
        created = client.create_dataset(name, documents, gnn)
    line = (
        f"{created.id} ({created.name}@{created.version}): {created.graph_count} graphs of "
        f"{created.mean_nodes:.1f} nodes on average"
    )
    output().print(line, markup=False, soft_wrap=True)


@app.command("list")
def list_datasets(limit: Annotated[int, typer.Option(min=1)] = 20, url: Url = None) -> None:
    """List the newest reference sets."""
    table = Table("set", "name", "graphs", "features", "mean nodes", "mean edges", box=None)
    for column in table.columns[:2]:
        column.no_wrap = True  # ids and names are there to be copied
    with Client(api_address(url)) as client:
        for dataset in islice(client.datasets(), limit):
            sizes = f"{dataset.mean_nodes:.1f}", f"{dataset.mean_edges:.1f}"
            counts = str(dataset.graph_count), str(dataset.features)
            name = escape(f"{dataset.name}@{dataset.version}")
            table.add_row(dataset.id, name, *counts, *sizes)
    output().print(table if table.row_count else "no reference sets")


@app.command("delete")
def delete(
    dataset: Annotated[
        str, typer.Argument(metavar="SET", help="Id or name@version of the reference set.")
    ],
    url: Url = None,
) -> None:
    """Delete a reference set and what was trained on it."""
    with Client(api_address(url)) as client:
        client.delete_dataset(dataset)
    output().print(f"deleted {dataset}", markup=False, soft_wrap=True)
