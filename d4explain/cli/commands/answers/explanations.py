from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.exit_codes import ExitCode
from d4explain.cli.explain_options import Svg, WaitFor
from d4explain.cli.input.class_names import find_class_names
from d4explain.cli.input.files import require_folder_of, write_file
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
from d4explain.cli.output.answers import AnswerOutput, show_result, wait_and_show
from d4explain.cli.output.progress_bars import JobProgressBars
from d4explain.cli.output.replay_reports import print_report
from d4explain.cli.output.resource_tables import job_progress, print_fields, print_list, short_time
from d4explain.cli.output.terminal import messages, output, print_json, print_line
from d4explain.client.client import Client
from d4explain.contracts.job_states import ExplanationKind, JobState, Stage
from d4explain.contracts.receipts.replay_reports import ReplayOutcome
from d4explain.errors import CommandError

app = typer.Typer(
    help="List, show, watch, save, cancel, retry, replay and delete explanations.",
    no_args_is_help=True,
)
ExplanationId = Annotated[str, typer.Argument(metavar="EXPLANATION", help="exp_…")]
StageOption = Annotated[
    Stage | None, typer.Option(help="Which answer; default: the newest.", show_default=False)
]

_REPLAY_CODES = {
    ReplayOutcome.MATCH: ExitCode.DONE,
    ReplayOutcome.DIFFERS: ExitCode.DIFFERENT,
    ReplayOutcome.NOT_COMPARABLE: ExitCode.UNSUCCESSFUL,
}


class GraphFormat(StrEnum):
    SVG = "svg"
    GRAPHML = "graphml"
    CYTOSCAPE = "cytoscape"
    PYG = "pyg"


@app.command("list")
def list_explanations(
    *,
    kind: Annotated[ExplanationKind | None, typer.Option(help="Only those of this kind.")] = None,
    gnn: GnnFilter = None,
    state: Annotated[JobState | None, typer.Option(help="Only those in this state.")] = None,
    metadata: MetadataFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 20,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """List the newest explanations."""
    filters = list_filters(metadata, created_after, created_before)
    with Client(url) as client:
        print_list(
            client.explanations(
                kind=kind,
                gnn=gnn,
                state=state and state.value,
                **filters,
            ),
            {
                "explanation": lambda item: item.id,
                "kind": lambda item: item.kind,
                "state": lambda item: item.state,
                "gnn": lambda item: item.gnn,
                "set": lambda item: item.dataset,
                "metadata": lambda item: item.metadata,
                "created": lambda item: short_time(item.created_at),
            },
            limit=limit,
            as_json=as_json,
            nothing="no explanations",
        )


@app.command("show")
def show(
    explanation: ExplanationId, stage: StageOption = None, as_json: Json = False, url: Url = None
) -> None:
    """Show an explanation and its newest answer, or the answer of one stage; does not wait."""
    with Client(url) as client:
        found = client.explanation(explanation)
        result = found.result if stage is None else client.answer(explanation, stage)
        if as_json:
            print_json(found if stage is None else result)
            return
        names = find_class_names(client, found.gnn)
    print_fields(
        {
            "explanation": found.id,
            "kind": found.kind,
            "state": found.state,
            "gnn": found.gnn,
            "reference set": found.dataset,
            "denoiser": found.denoiser,
            "metadata": found.metadata,
            "created": short_time(found.created_at),
            "job": f"{found.job.id} {found.job.state} {job_progress(found.job)}",
            "reason": found.reason,
        }
    )
    if result is None:
        output().print("[dim]no answer yet")
    else:
        show_result(result, names)


@app.command("watch")
def watch(
    explanation: ExplanationId,
    *,
    wait_for: WaitFor = Stage.FINAL,
    timeout: Timeout = None,
    svg: Svg = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Wait for the answer of an explanation and show it, as `explain` does."""
    require_folder_of(svg)
    with Client(url) as client:
        found = client.explanation(explanation)
        names = find_class_names(client, found.gnn)
        wait_and_show(client, found, names, AnswerOutput(wait_for, timeout, svg, as_json))


@app.command("save")
def save(
    explanation: ExplanationId,
    file: Annotated[Path, typer.Argument(help="File to write.")],
    *,
    form: Annotated[
        GraphFormat | None,
        typer.Option(
            "--format", help="Default: by the ending .svg or .graphml.", show_default=False
        ),
    ] = None,
    stage: StageOption = None,
    graph: Annotated[
        int, typer.Option(min=0, help="Number of the graph, node or class example.")
    ] = 0,
    alternative: Annotated[
        int, typer.Option(min=0, help="Number of the counterfactual, best first.")
    ] = 0,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Save one graph of an answer: as a drawing, GraphML, Cytoscape JSON or PyG JSON."""
    chosen = form or _by_ending(file)
    require_folder_of(file)
    with Client(url) as client:
        content = client.graph_file(explanation, chosen.value, graph, alternative, stage=stage)
    write_file(file, content)
    if as_json:
        print_json({"file": file, "format": chosen, "bytes": len(content)})
    else:
        print_line(f"wrote {file} ({chosen}, {len(content):,} bytes)")


@app.command("nearest")
def nearest(
    explanation: ExplanationId,
    *,
    graph: Annotated[int, typer.Option(min=0, help="Number of the graph or node.")] = 0,
    target_class: Annotated[
        int | None,
        typer.Option(
            min=0, help="Default: the class of the best counterfactual.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Find the real graph of another class that is nearest to an explained graph."""
    with Client(url) as client:
        found = client.nearest(explanation, graph, target_class)
    if as_json:
        print_json(found)
        return
    near = found.nearest
    if near is None:
        print_line(f"the GNN gives no reference graph the class {found.target_class}")
        return
    print_fields(
        {
            "reference graph": near.position,
            "smiles": near.smiles,
            "nodes": len(near.graph.nodes),
            "edges": len(near.graph.edges),
            "class": near.prediction.class_name or near.prediction.predicted_class,
            "probability": f"{near.prediction.probabilities[near.prediction.predicted_class]:.2f}",
            "distance": f"{found.distance:.2f} of node neighbourhoods up to {found.hops} hops",
            "compared": f"{found.compared_count:,} graphs",
        }
    )


@app.command("cancel")
def cancel(explanation: ExplanationId, as_json: Json = False, url: Url = None) -> None:
    """Stop the job of an explanation; a provisional answer stays."""
    with Client(url) as client:
        job = client.cancel(client.explanation(explanation).job.id)
    outcome = "is canceled" if job.state is JobState.CANCELED else "will stop at its next step"
    if as_json:
        print_json(job)
    else:
        print_line(f"{explanation} {outcome}")


@app.command("retry")
def retry(explanation: ExplanationId, as_json: Json = False, url: Url = None) -> None:
    """Repeat the failed, canceled or expired job of an explanation."""
    with Client(url) as client:
        job = client.retry(client.explanation(explanation).job.id)
    if as_json:
        print_json(job)
    else:
        print_line(f"{job.id} repeats the job of {explanation}")


@app.command("replay")
def replay(
    explanation: ExplanationId,
    *,
    stage: StageOption = None,
    timeout: Timeout = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Repeat the work of an answer and compare; exit code 7 if the answers differ."""
    with Client(url) as client, JobProgressBars(messages()) as bars:
        done = client.replay(explanation, stage, on_progress=bars, timeout=timeout)
    report = done.report
    assert report is not None, "its job has succeeded"
    if as_json:
        print_json(done)
    else:
        print_report(report)
    raise typer.Exit(_REPLAY_CODES[report.outcome])


@app.command("replays")
def list_replays(
    explanation: ExplanationId, limit: Limit = 20, as_json: Json = False, url: Url = None
) -> None:
    """List the replays of an explanation."""
    with Client(url) as client:
        print_list(
            client.replays(explanation),
            {
                "replay": lambda item: item.id,
                "stage": lambda item: item.stage,
                "state": lambda item: item.job.state,
                "outcome": lambda item: item.report and item.report.outcome,
                "created": lambda item: short_time(item.created_at),
            },
            limit=limit,
            as_json=as_json,
            nothing="no replays",
        )


@app.command("delete")
def delete(explanation: ExplanationId, as_json: Json = False, url: Url = None) -> None:
    """Delete an explanation with its answers and jobs."""
    with Client(url) as client:
        client.delete_explanation(explanation)
    print_json({"deleted": explanation}) if as_json else print_line(f"deleted {explanation}")


@app.command("receipt")
def receipt(
    explanation: ExplanationId,
    file: Annotated[Path, typer.Argument(help="File to write.")],
    *,
    stage: StageOption = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Save the signed receipt of an answer, which `d4explain verify` checks offline."""
    require_folder_of(file)
    with Client(url) as client:
        content = client.receipt(explanation, stage)
    write_file(file, content)
    if as_json:
        print_json({"file": file, "bytes": len(content)})
    else:
        print_line(f"wrote {file}")


@app.command("result")
def result(
    explanation: ExplanationId,
    file: Annotated[Path, typer.Argument(help="File to write.")],
    *,
    stage: StageOption = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Save an answer byte for byte, so that its SHA-256 is the one that its receipt signs."""
    require_folder_of(file)
    with Client(url) as client:
        content = client.answer_file(explanation, stage)
    write_file(file, content)
    if as_json:
        print_json({"file": file, "bytes": len(content)})
    else:
        print_line(f"wrote {file} ({len(content):,} bytes)")


def _by_ending(file: Path) -> GraphFormat:
    for form in (GraphFormat.SVG, GraphFormat.GRAPHML):
        if file.suffix == f".{form}":
            return form
    raise CommandError(
        f"the format of {file.name} is not clear",
        hint="give --format svg, graphml, cytoscape or pyg",
    )
