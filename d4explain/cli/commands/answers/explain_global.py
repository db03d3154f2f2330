from __future__ import annotations

from typing import Annotated

import typer

from d4explain.cli.commands.answers.explain import show_estimate
from d4explain.cli.explain_options import (
    DatasetOrName,
    DryRun,
    PresetOption,
    Seed,
    Svg,
    TimeBudget,
)
from d4explain.cli.input.class_names import class_names_of, class_reference
from d4explain.cli.input.files import require_folder_of
from d4explain.cli.options import (
    Gnn,
    Json,
    Metadata,
    NoWait,
    Timeout,
    Url,
    given,
    parse_settings,
    refuse,
)
from d4explain.cli.output.answers import AnswerOutput, wait_and_show
from d4explain.cli.output.resource_tables import show_id
from d4explain.client.client import Client


def explain_global(
    *,
    gnn: Gnn,
    source: Annotated[
        str, typer.Option("--from", help="The class whose graphs are covered: its name or number.")
    ],
    dataset: DatasetOrName = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="The class of the counterfactuals.",
            show_default="any other class",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(help="Counterfactuals at most, 1 to 32.", show_default="10")
    ] = None,
    theta: Annotated[
        float | None,
        typer.Option(
            help="Largest edits per node and edge of both graphs, at most 0.2.", show_default="0.1"
        ),
    ] = None,
    preset: PresetOption = None,
    seed: Seed = None,
    time_budget: TimeBudget = None,
    metadata: Metadata = None,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    timeout: Timeout = None,
    svg: Svg = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Find few graphs of another class that are near to many graphs of a class."""
    require_folder_of(svg)
    of_answers = {"svg": svg, "timeout": timeout}
    if dry_run:
        refuse({**of_answers, "no_wait": no_wait}, "for an answer, which --dry-run omits")
    if no_wait:
        refuse(of_answers, "for an answer, which --no-wait does not await")
    options = given(
        count=count,
        theta=theta,
        preset=preset,
        seed=seed,
        time_budget=time_budget,
        metadata=parse_settings(metadata),
    )
    with Client(url) as client:
        found = client.gnn(gnn)
        names = class_names_of(found)
        inputs = found.id, dataset or found.name
        covered = class_reference(source, names)
        if target is not None:
            options["target_class"] = class_reference(target, names)
        if dry_run:
            show_estimate(client.estimate_global(*inputs, covered, **options), as_json)
            return
        explanation = client.explain_global(*inputs, covered, **options)
        if no_wait:
            show_id(explanation, as_json)
            return
        wait_and_show(
            client, explanation, names, AnswerOutput(timeout=timeout, svg=svg, as_json=as_json)
        )
