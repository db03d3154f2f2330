from __future__ import annotations

import typer

from d4explain.cli import explain_options as asked
from d4explain.cli.explain_request import class_options, counterfactual_options
from d4explain.cli.input.class_names import class_names_of, class_reference
from d4explain.cli.input.files import read_graphs, require_folder_of
from d4explain.cli.options import Gnn, Json, Metadata, NoWait, Timeout, Url, refuse
from d4explain.cli.output.answers import AnswerOutput, wait_and_show
from d4explain.cli.output.resource_tables import show_id
from d4explain.cli.output.terminal import output, print_json
from d4explain.client.client import Client
from d4explain.client.resources import Estimate
from d4explain.contracts.job_states import Stage
from d4explain.errors import CommandError


def explain(
    context: typer.Context,
    *,
    gnn: Gnn,
    dataset: asked.DatasetOrName = None,
    graph: asked.GraphFile = None,
    smiles: asked.SmilesTexts = None,
    node: asked.Nodes = None,
    target: asked.TargetClass = None,
    aim: asked.AimOption = None,
    judge: asked.Judges = None,
    alternatives: asked.Alternatives = None,
    max_edits: asked.MaxEdits = None,
    max_ratio: asked.MaxRatio = None,
    actions: asked.Actions = None,
    keep_connected: asked.KeepConnected = False,
    valid_molecule: asked.ValidMolecule = False,
    allow_unseen: asked.AllowUnseen = False,
    frozen_node: asked.FrozenNodes = None,
    frozen_edge: asked.FrozenEdges = None,
    constraints: asked.ConstraintsFile = None,
    explainer: asked.ExplainerOption = None,
    preset: asked.PresetOption = None,
    seed: asked.Seed = None,
    time_budget: asked.TimeBudget = None,
    max_queries: asked.MaxQueries = None,
    denoiser: asked.DenoiserSettings = None,
    node_count: asked.NodeCount = None,
    example_count: asked.ExampleCount = None,
    candidates: asked.Candidates = None,
    steps: asked.Steps = None,
    regulariser: asked.Regularisers = None,
    metadata: Metadata = None,
    dry_run: asked.DryRun = False,
    no_wait: NoWait = False,
    wait_for: asked.WaitFor = Stage.FINAL,
    timeout: Timeout = None,
    svg: asked.Svg = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Explain graphs or nodes (which edits flip the prediction?) or, without a GRAPH, a class."""
    if graph is None and not smiles and not node and target is None:
        raise CommandError(
            "nothing to explain",
            hint="give a GRAPH file, a --smiles, a --class, or the --node of a large graph",
        )
    require_folder_of(svg)
    source = context.get_parameter_source("wait_for")
    awaited = wait_for if source is not None and source.name == "COMMANDLINE" else None
    of_answers = {"svg": svg, "timeout": timeout, "wait_for": awaited}
    if dry_run:
        refuse({**of_answers, "no_wait": no_wait}, "for an answer, which --dry-run omits")
    if no_wait:
        refuse(of_answers, "for an answer, which --no-wait does not await")
    is_class = graph is None and not smiles and not node
    graphs = read_graphs(graph, smiles)
    # Most options are read here, by their names.
    options = (
        class_options(context.params)
        if is_class
        else counterfactual_options(context.params, graphs)
    )
    with Client(url) as client:
        found = client.gnn(gnn)
        class_names = class_names_of(found)
        inputs = found.id, dataset or found.name
        if target is not None:
            options["target_class"] = class_reference(target, class_names)
        if dry_run:
            show_estimate(client.estimate_counterfactual(*inputs, graphs, **options), as_json)
            return
        if is_class:
            explanation = client.explain_class(*inputs, **options)
        else:
            explanation = client.explain_counterfactual(*inputs, graphs, **options)
        if no_wait:
            show_id(explanation, as_json)
            return
        shown = AnswerOutput(wait_for, timeout, svg, as_json)
        wait_and_show(client, explanation, class_names, shown)


def show_estimate(estimate: Estimate, as_json: bool) -> None:
    if as_json:
        print_json(estimate)
        return
    for case in estimate.cases:
        output().print(
            f"{case.mode}: {case.node_count:,} nodes, {case.pair_count:,} pairs, "
            f"{case.memory_bytes / 1e6:,.0f} MB, {case.seconds:g} s"
        )
    trained = ["a denoiser"] if estimate.trains_denoiser else []
    trained += ["witnesses"] if estimate.trains_witnesses else []
    training = f", after training {' and '.join(trained)}" if trained else ""
    total = estimate.seconds if estimate.total_seconds is None else estimate.total_seconds
    output().print(f"total: about {total:g} s on one core{training}")
    if estimate.provisional:
        output().print("a provisional answer comes first, within seconds")
