from __future__ import annotations

from typing import Annotated

import typer

from d4explain.cli.options import Json, Limit, Url
from d4explain.cli.output.resource_tables import print_list, short_time
from d4explain.cli.output.terminal import messages, print_json, print_line
from d4explain.client.client import Client

app = typer.Typer(
    help="Make, list and delete links that open one explanation without a key.",
    no_args_is_help=True,
)
ExplanationId = Annotated[str, typer.Argument(metavar="EXPLANATION", help="exp_…")]


@app.command("create")
def create(
    explanation: ExplanationId,
    *,
    hours: Annotated[float, typer.Option(min=0.001, max=168, help="Hours until it expires.")] = 1.0,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Make a link and print it, once."""
    with Client(url) as client:
        link = client.create_link(explanation, max(1, round(hours * 3600)))
    if as_json:
        print_json(link)
        return
    messages().print(f"[dim]{link.id} opens {explanation} until {short_time(link.expires_at)}")
    print_line(link.url)


@app.command("list")
def list_links(
    explanation: ExplanationId, limit: Limit = 20, as_json: Json = False, url: Url = None
) -> None:
    """List the links to an explanation that have not expired."""
    with Client(url) as client:
        print_list(
            client.links(explanation),
            {
                "link": lambda item: item.id,
                "created": lambda item: short_time(item.created_at),
                "expires": lambda item: short_time(item.expires_at),
            },
            limit=limit,
            as_json=as_json,
            nothing="no links",
        )


@app.command("delete")
def delete(
    explanation: ExplanationId,
    link: Annotated[str, typer.Argument(metavar="LINK", help="lnk_…")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Delete a link."""
    with Client(url) as client:
        client.delete_link(explanation, link)
    print_json({"deleted": link}) if as_json else print_line(f"deleted {link}")
