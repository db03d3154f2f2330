from __future__ import annotations

from typing import Annotated

import typer

from d4explain.cli.options import (
    CreatedAfter,
    CreatedBefore,
    Json,
    Limit,
    Metadata,
    MetadataFilter,
    Url,
    list_filters,
    parse_settings,
)
from d4explain.cli.output.resource_tables import print_fields, print_list, short_time
from d4explain.cli.output.terminal import messages, print_json, print_line
from d4explain.client.client import Client
from d4explain.client.resources import ApiKey, NewApiKey
from d4explain.contracts.scopes import KeyState, Scope

app = typer.Typer(
    help="Make, list, replace and revoke API keys of your tenant.", no_args_is_help=True
)
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="key_…")]


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    *,
    scope: Annotated[
        list[Scope], typer.Option("--scope", help="What the key may do; may be repeated.")
    ],
    days: Annotated[
        float | None, typer.Option(help="Days until it expires. Default: never.")
    ] = None,
    metadata: Metadata = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Make a key and print it, once."""
    with Client(url) as client:
        created = client.create_key(name, scope, days, parse_settings(metadata))
    _show_once(created, as_json)


@app.command("list")
def list_keys(
    *,
    state: Annotated[KeyState | None, typer.Option(help="Only those in this state.")] = None,
    metadata: MetadataFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 20,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the newest keys."""
    filters = list_filters(metadata, created_after, created_before)
    with Client(url) as client:
        print_list(
            client.keys(state=state and state.value, **filters),
            {
                "key": lambda item: item.id,
                "begins with": lambda item: item.prefix,
                "name": lambda item: item.name,
                "scopes": _scopes,
                "state": lambda item: item.state,
                "expires": lambda item: short_time(item.expires_at),
                "last used": lambda item: short_time(item.last_used_at),
            },
            limit=limit,
            as_json=as_json,
            nothing="no keys",
        )


@app.command("show")
def show(key: KeyId, as_json: Json = False, url: Url = None) -> None:
    """Show a key without its text."""
    with Client(url) as client:
        found = client.key(key)
    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "key": found.id,
            "begins with": found.prefix,
            "name": found.name,
            "scopes": _scopes(found),
            "state": found.state,
            "created": short_time(found.created_at),
            "expires": short_time(found.expires_at),
            "last used": short_time(found.last_used_at),
            "replaces": found.rotated_from,
            "metadata": found.metadata,
        }
    )


@app.command("rotate")
def rotate(
    key: KeyId,
    *,
    overlap_hours: Annotated[
        float, typer.Option(min=0, help="Hours that the old key still works.")
    ] = 24.0,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Replace a key and print the new one, once."""
    with Client(url) as client:
        created = client.rotate_key(key, overlap_hours)
    _show_once(created, as_json)


@app.command("revoke")
def revoke(key: KeyId, as_json: Json = False, url: Url = None) -> None:
    """End a key, its sessions and its links."""
    with Client(url) as client:
        client.revoke_key(key)
    if as_json:
        print_json({"revoked": key})
    else:
        print_line(f"revoked {key}")


def _show_once(created: NewApiKey, as_json: bool) -> None:
    if as_json:
        print_json(created)
        return
    messages().print(f"Made {created.id}. Keep the key: it is not shown again.")
    print_line(created.key)


def _scopes(key: ApiKey) -> str:
    return ", ".join(key.scopes)
