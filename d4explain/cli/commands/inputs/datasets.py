from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.input.files import graphs_in, read_json
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
from d4explain.cli.output.terminal import print_json, print_line, print_warnings
from d4explain.client.client import Client

app = typer.Typer(help="Create, list, show and delete reference sets.", no_args_is_help=True)


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
    metadata: Metadata = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Create a reference set: graphs like those that the GNN was trained on."""
    documents = graphs_in(read_json(graphs), graphs)
    with Client(url) as client:
        created = client.create_dataset(name, documents, gnn, metadata=parse_settings(metadata))
    print_warnings(created.warnings)
    if as_json:
        print_json(created)
        return
    print_line(
        f"{created.id} ({created.name}@{created.version}): {created.graph_count} graphs of "
        f"{created.mean_nodes:.1f} nodes on average"
    )


@app.command("list")
def list_datasets(
    *,
    name: Annotated[str | None, typer.Option(help="Only the versions of this name.")] = None,
    metadata: MetadataFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 20,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the newest reference sets."""
    filters = list_filters(metadata, created_after, created_before)
    with Client(url) as client:
        print_list(
            client.datasets(name, **filters),
            {
                "set": lambda item: item.id,
                "name": lambda item: f"{item.name}@{item.version}",
                "graphs": lambda item: item.graph_count,
                "features": lambda item: item.features,
                "mean nodes": lambda item: item.mean_nodes,
                "mean edges": lambda item: item.mean_edges,
                "metadata": lambda item: item.metadata,
            },
            limit=limit,
            as_json=as_json,
            nothing="no reference sets",
        )


@app.command("show")
def show(
    dataset: Annotated[
        str, typer.Argument(metavar="SET", help="Id, name@version, or name for the newest.")
    ],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Show one reference set."""
    with Client(url) as client:
        found = client.dataset(dataset)
    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "set": found.id,
            "name": f"{found.name}@{found.version}",
            "kind": "one large graph" if found.large else "graphs",
            "graphs": found.graph_count,
            "features": found.features,
            "edge features": found.edge_features or None,
            "labels": found.label_counts,
            "mean nodes": found.mean_nodes,
            "mean edges": found.mean_edges,
            "largest": f"{found.max_nodes:,} nodes",
            "created": short_time(found.created_at),
            "metadata": found.metadata,
            "sha256": found.sha256,
        }
    )
    print_warnings(found.warnings)


@app.command("delete")
def delete(
    dataset: Annotated[
        str, typer.Argument(metavar="SET", help="Id or name@version of the reference set.")
    ],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Delete a reference set and what was trained on it."""
    with Client(url) as client:
        client.delete_dataset(dataset)
    print_json({"deleted": dataset}) if as_json else print_line(f"deleted {dataset}")
