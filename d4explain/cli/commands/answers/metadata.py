from __future__ import annotations

from typing import Annotated

import typer

from d4explain.cli.options import Json, Url, parse_changes
from d4explain.cli.output.resource_tables import print_fields
from d4explain.cli.output.terminal import print_json
from d4explain.client.client import Client


def metadata(
    resource: Annotated[str, typer.Argument(metavar="ID", help="exp_…, evl_…, gnn_…, …")],
    changes: Annotated[list[str], typer.Argument(metavar="KEY=VALUE", help="KEY= removes a key.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Change the metadata of an explanation, an evaluation, a GNN, …, named by its id."""
    with Client(url) as client:
        left = client.change_metadata(resource, parse_changes(changes))
    print_json(left) if as_json else print_fields(left)
