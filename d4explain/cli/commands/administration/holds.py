from __future__ import annotations

from typing import Annotated

import typer

from d4explain.cli.options import Json, Url
from d4explain.cli.output.resource_tables import print_list, short_time
from d4explain.cli.output.terminal import print_json, print_line
from d4explain.client.client import Client

app = typer.Typer(help="Keep resources from being deleted.", no_args_is_help=True)
ResourceId = Annotated[
    str, typer.Argument(metavar="ID", help="exp_…, gnn_…, set_…, den_…, job_…, evl_… or cmp_….")
]


@app.command("put")
def put(
    resource: ResourceId,
    *,
    reason: Annotated[str, typer.Option(help="Why it must not be deleted.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Put a resource on hold: nobody can delete it or what it needs."""
    with Client(url) as client:
        hold = client.hold(resource, reason)
    needed = f", and with it {', '.join(hold.protects)}" if hold.protects else ""
    print_json(hold) if as_json else print_line(f"{resource} is on hold{needed}")


@app.command("end")
def end(resource: ResourceId, as_json: Json = False, url: Url = None) -> None:
    """End the hold of a resource."""
    with Client(url) as client:
        client.end_hold(resource)
    print_json({"ended": resource}) if as_json else print_line(f"the hold of {resource} ended")


@app.command("list")
def list_holds(as_json: Json = False, url: Url = None) -> None:
    """List all holds."""
    with Client(url) as client:
        found = client.holds()
    print_list(
        found,
        {
            "resource": lambda item: item.resource,
            "reason": lambda item: item.reason,
            "protects": lambda item: item.protects,
            "since": lambda item: short_time(item.created_at),
        },
        limit=max(1, len(found)),
        as_json=as_json,
        nothing="no holds",
    )
