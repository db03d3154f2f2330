from __future__ import annotations

from typing import Annotated

import typer

from d4explain.cli.options import (
    CreatedAfter,
    CreatedBefore,
    GnnFilter,
    Json,
    Limit,
    MetadataFilter,
    Timeout,
    Url,
    list_filters,
)
from d4explain.cli.output.progress_bars import JobProgressBars
from d4explain.cli.output.resource_tables import job_progress, print_fields, print_list, short_time
from d4explain.cli.output.terminal import messages, print_json, print_line
from d4explain.client.client import Client
from d4explain.contracts.job_states import JobKind, JobState

app = typer.Typer(help="List, show, watch, cancel, retry and delete jobs.", no_args_is_help=True)
JobId = Annotated[str, typer.Argument(metavar="JOB", help="job_…")]


@app.command("list")
def list_jobs(
    *,
    state: Annotated[JobState | None, typer.Option(help="Only those in this state.")] = None,
    kind: Annotated[JobKind | None, typer.Option(help="Only those of this kind.")] = None,
    gnn: GnnFilter = None,
    metadata: MetadataFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 20,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the newest jobs."""
    filters = list_filters(metadata, created_after, created_before)
    with Client(url) as client:
        print_list(
            client.jobs(
                state=state and state.value,
                kind=kind and kind.value,
                gnn=gnn,
                **filters,
            ),
            {
                "job": lambda item: item.id,
                "kind": lambda item: item.kind,
                "state": lambda item: item.state,
                "created": lambda item: short_time(item.created_at),
                "progress": job_progress,
            },
            limit=limit,
            as_json=as_json,
            nothing="no jobs",
        )


@app.command("show")
def show(job: JobId, as_json: Json = False, url: Url = None) -> None:
    """Show one job."""
    with Client(url) as client:
        found = client.job(job)
    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "job": found.id,
            "kind": found.kind,
            "state": found.state,
            "about": found.subject,
            "progress": job_progress(found),
            "seconds left": found.seconds_left,
            "attempt": found.attempt,
            "repeats": found.retry_of,
            "metadata": found.metadata,
            "created": short_time(found.created_at),
            "started": short_time(found.started_at),
            "finished": short_time(found.finished_at),
        }
    )


@app.command("watch")
def watch(job: JobId, timeout: Timeout = None, as_json: Json = False, url: Url = None) -> None:
    """Follow a job until it ends."""
    with Client(url) as client, JobProgressBars(messages()) as bars:
        finished = client.wait(job, on_progress=bars, timeout=timeout)
    print_json(finished) if as_json else print_line(f"{finished.id} {finished.state}")


@app.command("cancel")
def cancel(job: JobId, as_json: Json = False, url: Url = None) -> None:
    """Stop a queued or running job."""
    with Client(url) as client:
        canceled = client.cancel(job)
    outcome = "is canceled" if canceled.state is JobState.CANCELED else "will stop at its next step"
    print_json(canceled) if as_json else print_line(f"{canceled.id} {outcome}")


@app.command("retry")
def retry(job: JobId, as_json: Json = False, url: Url = None) -> None:
    """Repeat a failed, canceled or expired job as a new job."""
    with Client(url) as client:
        new_job = client.retry(job)
    print_json(new_job) if as_json else print_line(f"{new_job.id} repeats {job}")


@app.command("delete")
def delete(job: JobId, as_json: Json = False, url: Url = None) -> None:
    """Delete an ended job that belongs to no other resource."""
    with Client(url) as client:
        client.delete_job(job)
    print_json({"deleted": job}) if as_json else print_line(f"deleted {job}")
