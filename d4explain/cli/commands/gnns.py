from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from d4explain.cli.commands.options import Url, parse_tags
from d4explain.cli.terminal import output
from d4explain.client.address import api_address
from d4explain.client.client import Client
from d4explain.client.operations.gnns import GnnChanges

app = typer.Typer(help="List, show, tag, alias and delete GNNs.", no_args_is_help=True)
Reference = Annotated[
    str, typer.Argument(metavar="GNN", help="Id, name@version, name@alias, or name.")
]
Name = Annotated[str, typer.Argument(metavar="NAME")]
Alias = Annotated[str, typer.Argument(metavar="ALIAS")]


@app.command("list")
def list_gnns(
    name: Annotated[str | None, typer.Option(help="Only the versions of this name.")] = None,
    limit: Annotated[int, typer.Option(min=1)] = 20,
    url: Url = None,
) -> None:
    """List the newest GNNs."""
    table = Table("gnn", "name", "version", "state", "aliases", "tags", box=None)
    with Client(api_address(url)) as client:
        for gnn in islice(client.gnns(name), limit):
            tags = " ".join(f"{key}={value}" for key, value in gnn.tags.items())
            cells = (gnn.name, str(gnn.version), gnn.state, " ".join(gnn.aliases), tags)
            table.add_row(gnn.id, *(escape(cell) for cell in cells))
    output().print(table if table.row_count else "no GNNs")


@app.command("show")
def show(gnn: Reference, url: Url = None) -> None:
    """Print one GNN as JSON."""
    with Client(api_address(url)) as client:
        print(client.gnn(gnn).model_dump_json(indent=2))


@app.command("change")
def change(
    gnn: Reference,
    description: Annotated[str | None, typer.Option()] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE, or KEY= to remove it; may be repeated.")
    ] = None,
    url: Url = None,
) -> None:
    """Change the description or the tags of a GNN."""
    changes: GnnChanges = {} if description is None else {"description": description}
    changes["tags"] = {key: value or None for key, value in parse_tags(tag or []).items()}
    with Client(api_address(url)) as client:
        changed = client.change_gnn(gnn, **changes)
    output().print(f"changed {changed.id}")


@app.command("alias")
def alias(
    name: Name, alias: Alias, version: Annotated[int, typer.Argument(min=1)], url: Url = None
) -> None:
    """Point NAME@ALIAS at a version."""
    with Client(api_address(url)) as client:
        gnn = client.set_alias(name, alias, version)
    output().print(f"{name}@{alias} is {gnn.id}", markup=False, soft_wrap=True)


@app.command("unalias")
def unalias(name: Name, alias: Alias, url: Url = None) -> None:
    """Remove an alias; the version stays."""
    with Client(api_address(url)) as client:
        client.remove_alias(name, alias)
    output().print(f"removed {name}@{alias}", markup=False, soft_wrap=True)


@app.command("delete")
def delete(gnn: Reference, url: Url = None) -> None:
    """Delete a GNN, by id or name@version, and what was trained for it."""
    with Client(api_address(url)) as client:
        client.delete_gnn(gnn)
    output().print(f"deleted {gnn}", markup=False, soft_wrap=True)
