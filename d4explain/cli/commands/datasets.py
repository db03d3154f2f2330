from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from d4explain.cli.commands.options import Url, graphs_of, read_json
from d4explain.cli.terminal import output
from d4explain.client.address import api_address
from d4explain.client.client import Client

app = typer.Typer(help="Post, list and delete reference sets.", no_args_is_help=True)


@app.command("create")
def create(
    graphs: Annotated[Path, typer.Argument(help="A list of graphs, or {graphs: […]}; - is stdin.")],
    *,
    name: Annotated[str, typer.Option(help="What to call the set.")],
    gnn: Annotated[
        str | None, typer.Option(help="The GNN whose featuriser reads them, if they are SMILES.")
    ] = None,
    url: Url = None,
) -> None:
    """Post graphs of the distribution that a GNN was trained on."""
    listed = graphs_of(read_json(graphs), graphs)
    with Client(api_address(url)) as client:
        made = client.create_dataset(name, listed, gnn)
    said = f"{made.id}: {made.graph_count} graphs of {made.mean_nodes:.1f} nodes on average"
    output().print(said, markup=False, soft_wrap=True)


@app.command("list")
def list_datasets(limit: Annotated[int, typer.Option(min=1)] = 20, url: Url = None) -> None:
    """The newest reference sets."""
    table = Table("set", "name", "graphs", "features", "mean nodes", "mean edges", box=None)
    with Client(api_address(url)) as client:
        for found in islice(client.datasets(), limit):
            sizes = f"{found.mean_nodes:.1f}", f"{found.mean_edges:.1f}"
            counts = str(found.graph_count), str(found.features)
            table.add_row(found.id, escape(found.name), *counts, *sizes)
    output().print(table if table.row_count else "no reference sets")


@app.command("delete")
def delete(
    dataset: Annotated[str, typer.Argument(metavar="SET", help="Its id.")], url: Url = None
) -> None:
    """Delete a reference set and the denoisers that were trained on it."""
    with Client(api_address(url)) as client:
        client.delete_dataset(dataset)
    output().print(f"{dataset} is deleted", markup=False, soft_wrap=True)
