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
    Timeout,
    Url,
    given,
    list_filters,
    parse_settings,
)
from d4explain.cli.output.evaluation_tables import show_comparison
from d4explain.cli.output.progress_bars import JobProgressBars
from d4explain.cli.output.resource_tables import print_fields, print_list, short_time
from d4explain.cli.output.terminal import messages, output, print_json, print_line
from d4explain.client.client import Client
from d4explain.contracts.evaluations.requests import Noise
from d4explain.contracts.job_states import JobState

app = typer.Typer(help="Compare evaluations: what moved beyond noise.", no_args_is_help=True)
ComparisonId = Annotated[str, typer.Argument(metavar="COMPARISON", help="cmp_…")]


@app.command("create")
def create(
    baseline: Annotated[str, typer.Argument(help="Id of an evaluation.")],
    candidate: Annotated[str, typer.Argument(help="Id of an evaluation.")],
    *,
    explainer: Annotated[str | None, typer.Option(help="Whose answers are compared.")] = None,
    candidate_explainer: Annotated[
        str | None, typer.Option(help="The candidate's, if another one.")
    ] = None,
    retrained: Annotated[
        list[str] | None,
        typer.Option(help="An evaluation of another training of the baseline; repeat it."),
    ] = None,
    noise: Annotated[
        Noise | None, typer.Option(help="Default: retraining for two GNNs, else instances.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Default 0.01.")] = None,
    metadata: Metadata = None,
    timeout: Timeout = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Compare two evaluations of the same test set."""
    options = given(
        explainer=explainer,
        candidate_explainer=candidate_explainer,
        retrained=retrained,
        noise=noise,
        alpha=alpha,
        metadata=parse_settings(metadata),
    )
    with Client(url) as client, JobProgressBars(messages()) as bars:
        found = client.compare(baseline, candidate, on_progress=bars, timeout=timeout, **options)
    if as_json:
        print_json(found)
        return
    print_line(found.id)
    assert found.result is not None  # it succeeded
    show_comparison(found.result)


@app.command("list")
def list_comparisons(
    *,
    evaluation: Annotated[str | None, typer.Option(help="Only those of this one.")] = None,
    state: Annotated[JobState | None, typer.Option(help="Only those in this state.")] = None,
    metadata: MetadataFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 20,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the newest comparisons."""
    filters = list_filters(metadata, created_after, created_before)
    with Client(url) as client:
        print_list(
            client.comparisons(evaluation=evaluation, state=state and state.value, **filters),
            {
                "comparison": lambda item: item.id,
                "state": lambda item: item.state,
                "baseline": lambda item: item.baseline,
                "candidate": lambda item: item.candidate,
                "worse": lambda item: item.worse,
                "metadata": lambda item: item.metadata,
                "created": lambda item: short_time(item.created_at),
            },
            limit=limit,
            as_json=as_json,
            nothing="no comparisons",
        )


@app.command("show")
def show(comparison: ComparisonId, as_json: Json = False, url: Url = None) -> None:
    """Show a comparison and what moved; does not wait."""
    with Client(url) as client:
        found = client.comparison(comparison)
    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "comparison": found.id,
            "state": found.state,
            "baseline": found.baseline,
            "candidate": found.candidate,
            "metadata": found.metadata,
            "created": short_time(found.created_at),
        }
    )
    if found.result is None:
        output().print("[dim]no result yet")
    else:
        show_comparison(found.result)


@app.command("delete")
def delete(comparison: ComparisonId, as_json: Json = False, url: Url = None) -> None:
    """Delete a comparison; the evaluations stay."""
    with Client(url) as client:
        client.delete_comparison(comparison)
    print_json({"deleted": comparison}) if as_json else print_line(f"deleted {comparison}")
