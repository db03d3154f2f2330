from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from d4explain.cli.commands.evaluating import evaluation_files
from d4explain.cli.commands.evaluating.evaluation_files import EvaluationId
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
    given,
    list_filters,
    parse_settings,
)
from d4explain.cli.output.evaluation_tables import show_evaluation
from d4explain.cli.output.progress_bars import JobProgressBars
from d4explain.cli.output.resource_tables import (
    job_progress,
    print_fields,
    print_list,
    short_time,
    show_id,
)
from d4explain.cli.output.terminal import messages, output, print_json, print_line
from d4explain.client.client import Client
from d4explain.contracts.evaluations.requests import METRICS
from d4explain.contracts.job_states import JobState
from d4explain.errors import CommandError

app = typer.Typer(help="Evaluate explainers and a GNN on a test set.", no_args_is_help=True)


@app.command("create")
def create(
    *,
    gnn: Gnn,
    dataset: Dataset,
    test: Annotated[
        str | None, typer.Option(help="The test set: its id, name@version, or name.")
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(min=0, max=0.5, help="Instead: hold out this share of the reference set."),
    ] = None,
    explainer: Annotated[
        list[str] | None, typer.Option(help="d4, search, greedy, …; may be repeated.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(METRICS)}; may be repeated. Default: the first three."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Instances; default: all.")] = None,
    aim: Annotated[
        Literal["minimal", "believable", "both"] | None, typer.Option(help="Default: minimal.")
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="A GNN that judges, or none; may be repeated.")
    ] = None,
    max_ratio: Annotated[
        float | None, typer.Option(help="Largest ratio of edits to edges; default 0.3.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed; default 0.")] = None,
    metadata: Metadata = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate the cost and start nothing.")
    ] = False,
    no_wait: NoWait = False,
    timeout: Timeout = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Evaluate explainers on a test set, or on a held-out part of the reference set."""
    if (test is None) == (held_out is None):
        raise CommandError("give --test or --held-out, and not both")
    chosen: Any = test if test is not None else {"held_out": held_out}
    options = given(
        explainers=explainer,
        metrics=metric,
        count=count,
        aim=aim,
        judges="none" if judge == ["none"] else judge,
        constraints={} if max_ratio is None else {"max_ratio": max_ratio},
        seed=seed,
        metadata=parse_settings(metadata),
    )
    with Client(url) as client:
        if dry_run:
            estimate = client.estimate_evaluation(gnn, dataset, chosen, **options)
            if as_json:
                print_json(estimate)
                return
            print_line(
                f"{estimate.instances} instances in {estimate.shards} shards: about "
                f"{estimate.total_seconds:,.0f} s of one core, {estimate.seconds:,.0f} s of it "
                "without training"
            )
            return
        posted = client.evaluate(gnn, dataset, chosen, **options)
        if no_wait:
            show_id(posted, as_json)
            return
        with JobProgressBars(messages()) as bars:
            found = client.wait_for_evaluation(posted.id, on_progress=bars, timeout=timeout)
    if as_json:
        print_json(found)
        return
    print_line(found.id)
    assert found.result is not None  # it succeeded
    show_evaluation(found.result)


@app.command("list")
def list_evaluations(
    *,
    gnn: GnnFilter = None,
    state: Annotated[JobState | None, typer.Option(help="Only those in this state.")] = None,
    metadata: MetadataFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 20,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the newest evaluations."""
    filters = list_filters(metadata, created_after, created_before)
    with Client(url) as client:
        print_list(
            client.evaluations(gnn=gnn, state=state and state.value, **filters),
            {
                "evaluation": lambda item: item.id,
                "state": lambda item: item.state,
                "explained": lambda item: f"{item.explained_count}/{item.instance_count}",
                "explainers": lambda item: item.explainers,
                "gnn": lambda item: item.gnn,
                "metadata": lambda item: item.metadata,
                "created": lambda item: short_time(item.created_at),
            },
            limit=limit,
            as_json=as_json,
            nothing="no evaluations",
        )


@app.command("show")
def show(evaluation: EvaluationId, as_json: Json = False, url: Url = None) -> None:
    """Show an evaluation and its figures; does not wait."""
    with Client(url) as client:
        found = client.evaluation(evaluation)
    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "evaluation": found.id,
            "state": found.state,
            "gnn": found.gnn,
            "reference set": found.dataset,
            "test set": found.test_dataset,
            "explained": f"{found.explained_count} of {found.instance_count}",
            "metadata": found.metadata,
            "created": short_time(found.created_at),
            "job": f"{found.job.id} {found.job.state} {job_progress(found.job)}",
        }
    )
    if found.result is None:
        output().print("[dim]no figures yet")
    else:
        show_evaluation(found.result)


@app.command("watch")
def watch(
    evaluation: EvaluationId, timeout: Timeout = None, as_json: Json = False, url: Url = None
) -> None:
    """Wait for the figures of an evaluation."""
    with Client(url) as client, JobProgressBars(messages()) as bars:
        found = client.wait_for_evaluation(evaluation, on_progress=bars, timeout=timeout)
    if as_json:
        print_json(found)
        return
    assert found.result is not None  # it succeeded
    show_evaluation(found.result)


@app.command("rows")
def rows(
    evaluation: EvaluationId,
    explainer: Annotated[str | None, typer.Option(help="Only the rows of this one.")] = None,
    limit: Limit = 20,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List rows, also of an evaluation that still runs."""
    with Client(url) as client:
        print_list(
            client.evaluation_rows(evaluation, explainer=explainer),
            {
                "instance": lambda row: row.instance,
                "explainer": lambda row: row.explainer,
                "class": lambda row: row.predicted_class,
                "to": lambda row: row.new_class,
                "edits": lambda row: row.edits,
                "ratio": lambda row: row.modification_ratio,
                "fidelity": lambda row: row.fidelity,
                "verdict": lambda row: row.verdict,
            },
            limit=limit,
            as_json=as_json,
            nothing="no rows yet",
        )


@app.command("delete")
def delete(evaluation: EvaluationId, as_json: Json = False, url: Url = None) -> None:
    """Delete an evaluation with its rows."""
    with Client(url) as client:
        client.delete_evaluation(evaluation)
    print_json({"deleted": evaluation}) if as_json else print_line(f"deleted {evaluation}")


app.command("save")(evaluation_files.save)
app.command("report")(evaluation_files.report)
app.command("result")(evaluation_files.result)
app.command("test-result")(evaluation_files.signed_result)
