from __future__ import annotations

from typing import Annotated

import typer

from d4explain.cli.options import Json, Url, given
from d4explain.cli.output.resource_tables import print_fields
from d4explain.cli.output.terminal import print_json
from d4explain.client.client import Client
from d4explain.client.resources import Retention

app = typer.Typer(help="Show and set how long data is kept.", no_args_is_help=True)
Days = Annotated[float | None, typer.Option(min=0, help="Days; 0 keeps them.", show_default=False)]


@app.command("show")
def show(as_json: Json = False, url: Url = None) -> None:
    """Show after how many days data is deleted."""
    with Client(url) as client:
        found = client.retention()
    _show(found, as_json)


@app.command("set")
def set_retention(
    *,
    explanations: Days = None,
    jobs: Days = None,
    networks: Days = None,
    datasets: Days = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Set all times; those that are not given become the deployment's."""
    times = given(explanations=explanations, jobs=jobs, networks=networks, datasets=datasets)
    with Client(url) as client:
        found = client.set_retention(**times)
    _show(found, as_json)


def _show(retention: Retention, as_json: bool) -> None:
    if as_json:
        print_json(retention)
        return
    kinds = retention.model_dump()
    print_fields({kind: f"{days:g} days" if days else "kept" for kind, days in kinds.items()})
