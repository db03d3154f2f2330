from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from d4explain.cli.commands.options import Url
from d4explain.cli.progress_bars import JobProgressBars, format_metrics
from d4explain.cli.terminal import messages, output
from d4explain.client.address import api_address
from d4explain.client.client import Client
from d4explain.client.resources import Job
from d4explain.contracts.job_states import JobKind, JobState

app = typer.Typer(help="List, watch, cancel and retry jobs.", no_args_is_help=True)
JobId = Annotated[str, typer.Argument(metavar="JOB")]
COLOURS = {"succeeded": "green", "failed": "red", "expired": "red", "running": "cyan"}


@app.command("list")
def list_jobs(
    state: Annotated[JobState | None, typer.Option()] = None,
    kind: Annotated[JobKind | None, typer.Option()] = None,
    limit: Annotated[int, typer.Option(min=1)] = 20,
    url: Url = None,
) -> None:
    """List the newest jobs."""
    filters = {
        name: str(value)
        for name, value in {"state": state, "kind": kind}.items()
        if value is not None
    }
    table = Table(box=None)
    for name in ("job", "kind", "state", "created"):
        table.add_column(name, no_wrap=True)
    table.add_column("progress", ratio=1)
    with Client(api_address(url)) as client:
        for job in islice(client.jobs(**filters), limit):
            created = job.created_at[:16].replace("T", " ")
            table.add_row(job.id, job.kind, _state(job), created, _progress(job))
    output().print(table if table.row_count else "no jobs")


@app.command("show")
def show(job: JobId, url: Url = None) -> None:
    """Print one job as JSON."""
    with Client(api_address(url)) as client:
        print(client.job(job).model_dump_json(indent=2))


@app.command("watch")
def watch(job: JobId, url: Url = None) -> None:
    """Follow a job until it ends; exit with code 1 if it did not succeed."""
    with Client(api_address(url)) as client, JobProgressBars(messages()) as bars:
        client.wait(job, on_progress=bars)


@app.command("cancel")
def cancel(job: JobId, url: Url = None) -> None:
    """Stop a queued or running job."""
    with Client(api_address(url)) as client:
        canceled = client.cancel(job)
    outcome = "is canceled" if canceled.state is JobState.CANCELED else "will stop at its next step"
    output().print(f"{canceled.id} {outcome}")


@app.command("retry")
def retry(job: JobId, url: Url = None) -> None:
    """Repeat a failed, canceled or expired job as a new job."""
    with Client(api_address(url)) as client:
        new_job = client.retry(job)
    output().print(f"{new_job.id} repeats {job}")


def _state(job: Job) -> str:
    colour = COLOURS.get(job.state, "default")
    return f"[{colour}]{job.state}[/]"


def _progress(job: Job) -> str:
    if job.error is not None:
        return escape(job.error.message)
    if job.waiting_for is not None:
        return f"waits for {job.waiting_for}"
    if job.progress is None:
        return ""
    return f"{job.progress.step}/{job.progress.total or '?'} {format_metrics(job.progress.metrics)}"
