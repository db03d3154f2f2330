from __future__ import annotations

from typing import Annotated, Literal

import typer

from d4explain.cli.options import (
    CreatedAfter,
    CreatedBefore,
    Dataset,
    Gnn,
    GnnFilter,
    Json,
    Limit,
    Metadata,
    MetadataFilter,
    NoWait,
    Timeout,
    Url,
    list_filters,
    parse_settings,
)
from d4explain.cli.output.progress_bars import JobProgressBars, format_metrics
from d4explain.cli.output.resource_tables import (
    job_progress,
    print_fields,
    print_list,
    short_time,
    show_id,
)
from d4explain.cli.output.terminal import messages, print_json, print_line
from d4explain.client.client import Client
from d4explain.contracts.job_states import TrainingState

app = typer.Typer(help="Train, list, show and delete denoisers.", no_args_is_help=True)
DenoiserId = Annotated[str, typer.Argument(metavar="DENOISER", help="den_…")]


@app.command("train")
def train(
    *,
    gnn: Gnn,
    dataset: Dataset,
    objective: Annotated[
        Literal["counterfactual", "class"], typer.Option(help="What it is trained for.")
    ] = "counterfactual",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="recipe, steps, hidden, blocks, alpha or seed; may be repeated.",
        ),
    ] = None,
    metadata: Metadata = None,
    no_wait: NoWait = False,
    timeout: Timeout = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Train a denoiser ahead of time; one that exists already is returned at once."""
    with Client(url) as client:
        denoiser = client.train_denoiser(
            gnn, dataset, objective, parse_settings(setting), metadata=parse_settings(metadata)
        )
        if no_wait:
            show_id(denoiser, as_json)
            return
        with JobProgressBars(messages()) as bars:
            client.wait(denoiser.job.id, on_progress=bars, timeout=timeout)
        denoiser = client.denoiser(denoiser.id)
    if as_json:
        print_json(denoiser)
    else:
        print_line(f"{denoiser.id} is {denoiser.state}  {format_metrics(denoiser.metrics or {})}")


@app.command("list")
def list_denoisers(
    *,
    gnn: GnnFilter = None,
    state: Annotated[TrainingState | None, typer.Option(help="Only those in this state.")] = None,
    metadata: MetadataFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 20,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the newest denoisers."""
    filters = list_filters(metadata, created_after, created_before)
    with Client(url) as client:
        print_list(
            client.denoisers(
                gnn=gnn,
                state=state and state.value,
                **filters,
            ),
            {
                "denoiser": lambda item: item.id,
                "objective": lambda item: item.objective,
                "state": lambda item: item.state,
                "gnn": lambda item: item.gnn,
                "set": lambda item: item.dataset,
                "metadata": lambda item: item.metadata,
                "created": lambda item: short_time(item.created_at),
            },
            limit=limit,
            as_json=as_json,
            nothing="no denoisers",
        )


@app.command("show")
def show(denoiser: DenoiserId, as_json: Json = False, url: Url = None) -> None:
    """Show one denoiser with its training."""
    with Client(url) as client:
        found = client.denoiser(denoiser)
    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "denoiser": found.id,
            "objective": found.objective,
            "state": found.state,
            "gnn": found.gnn,
            "reference set": found.dataset,
            "created": short_time(found.created_at),
            "metadata": found.metadata,
            "metrics": format_metrics(found.metrics or {}),
            "job": f"{found.job.id} {found.job.state} {job_progress(found.job)}",
        }
    )


@app.command("delete")
def delete(denoiser: DenoiserId, as_json: Json = False, url: Url = None) -> None:
    """Delete a denoiser; a request that needs it trains it again."""
    with Client(url) as client:
        client.delete_denoiser(denoiser)
    print_json({"deleted": denoiser}) if as_json else print_line(f"deleted {denoiser}")
