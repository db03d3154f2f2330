from __future__ import annotations

from typing import Annotated

import typer

from d4explain.cli.options import (
    CreatedAfter,
    CreatedBefore,
    Json,
    Limit,
    MetadataChanges,
    MetadataFilter,
    Url,
    list_filters,
    parse_changes,
    parse_pairs,
)
from d4explain.cli.output.resource_tables import print_fields, print_list, short_time
from d4explain.cli.output.result_tables import probe_table
from d4explain.cli.output.terminal import output, print_json, print_line
from d4explain.client.client import Client
from d4explain.client.operations.gnns import GnnChanges
from d4explain.contracts.job_states import GnnState

app = typer.Typer(help="List, show, tag, alias and delete GNNs.", no_args_is_help=True)
Reference = Annotated[
    str, typer.Argument(metavar="GNN", help="Id, name@version, name@alias, or name.")
]
Name = Annotated[str, typer.Argument(metavar="NAME")]
Alias = Annotated[str, typer.Argument(metavar="ALIAS")]


@app.command("list")
def list_gnns(
    *,
    name: Annotated[str | None, typer.Option(help="Only the versions of this name.")] = None,
    state: Annotated[GnnState | None, typer.Option(help="Only those in this state.")] = None,
    metadata: MetadataFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 20,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the newest GNNs."""
    filters = list_filters(metadata, created_after, created_before)
    with Client(url) as client:
        print_list(
            client.gnns(
                name,
                state=state and state.value,
                **filters,
            ),
            {
                "gnn": lambda item: item.id,
                "name": lambda item: f"{item.name}@{item.version}",
                "state": lambda item: item.state,
                "aliases": lambda item: item.aliases,
                "tags": lambda item: item.tags,
                "metadata": lambda item: item.metadata,
            },
            limit=limit,
            as_json=as_json,
            nothing="no GNNs",
        )


@app.command("show")
def show(gnn: Reference, as_json: Json = False, url: Url = None) -> None:
    """Show one GNN and the results of its probe; --json has the whole spec."""
    with Client(url) as client:
        found = client.gnn(gnn)
    if as_json:
        print_json(found)
        return
    spec = found.spec
    print_fields(
        {
            "gnn": found.id,
            "name": f"{found.name}@{found.version}",
            "state": found.state,
            "aliases": found.aliases,
            "tags": found.tags,
            "metadata": found.metadata,
            "description": found.description,
            "classifies": f"{spec.get('task', 'graph')}s in {spec.get('classes')} classes",
            "class names": ", ".join(spec.get("class_names") or ()),
            "features": spec.get("features"),
            "layers": len(spec.get("layers") or ()) or "unknown: it is a black box",
            "created": short_time(found.created_at),
        }
    )
    if found.report is not None:
        output().print(probe_table(found.report))


@app.command("change")
def change(
    gnn: Reference,
    *,
    description: Annotated[str | None, typer.Option(help="What the GNN is.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE, or KEY= to remove it; may be repeated.")
    ] = None,
    metadata: MetadataChanges = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Change the description, the tags or the metadata of a GNN."""
    changes: GnnChanges = {} if description is None else {"description": description}
    changes["tags"] = {key: value or None for key, value in parse_pairs(tag).items()}
    if metadata:
        changes["metadata"] = parse_changes(metadata)
    with Client(url) as client:
        changed = client.change_gnn(gnn, **changes)
    print_json(changed) if as_json else print_line(f"changed {changed.id}")


@app.command("alias")
def alias(
    name: Name,
    alias: Alias,
    version: Annotated[int, typer.Argument(min=1)],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Point NAME@ALIAS at a version."""
    with Client(url) as client:
        gnn = client.set_alias(name, alias, version)
    print_json(gnn) if as_json else print_line(f"{name}@{alias} is {gnn.id}")


@app.command("unalias")
def unalias(name: Name, alias: Alias, as_json: Json = False, url: Url = None) -> None:
    """Remove an alias; the version stays."""
    with Client(url) as client:
        client.remove_alias(name, alias)
    reference = f"{name}@{alias}"
    print_json({"removed": reference}) if as_json else print_line(f"removed {reference}")


@app.command("delete")
def delete(gnn: Reference, as_json: Json = False, url: Url = None) -> None:
    """Delete a GNN, by id or name@version, and what was trained for it."""
    with Client(url) as client:
        client.delete_gnn(gnn)
    print_json({"deleted": gnn}) if as_json else print_line(f"deleted {gnn}")
