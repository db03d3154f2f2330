from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from d4explain.cli.commands.options import Url, graphs_in, read_json
from d4explain.cli.progress_bars import JobProgressBars
from d4explain.cli.tables import (
    class_table,
    counterfactual_table,
    mmd_table,
    stage_lines,
    summary_lines,
)
from d4explain.cli.terminal import messages, output
from d4explain.client.address import api_address
from d4explain.client.client import Client
from d4explain.client.resources import Estimate, Explanation
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.job_states import Stage
from d4explain.contracts.requests import Aim, Explainer, Preset
from d4explain.contracts.results import ClassResult, NodeId
from d4explain.errors import CommandError


def explain(
    *,
    gnn: Annotated[
        str, typer.Option(help="The GNN: its id, name@version, name@alias, or name for the newest.")
    ],
    dataset: Annotated[
        str, typer.Option(help="The reference set: its id, name@version, or name for the newest.")
    ],
    graph: Annotated[
        Path | None,
        typer.Argument(help="A graph, a list of graphs, {graph: …} or {graphs: […]}; - is stdin."),
    ] = None,
    smiles: Annotated[
        list[str] | None,
        typer.Option(help="A molecule, if the GNN has a featuriser; may be repeated."),
    ] = None,
    valid_molecule: Annotated[
        bool, typer.Option("--valid-molecule", help="Only edits that keep all valences valid.")
    ] = False,
    node: Annotated[
        list[str] | None,
        typer.Option(
            help="Node to explain, if the GNN classifies nodes; may be repeated. Without a GRAPH, "
            "the number of a node in the large graph DATASET."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--class", help="Number or name of the class to reach or, without a GRAPH, to explain."
        ),
    ] = None,
    alternatives: Annotated[int, typer.Option(min=1, max=16)] = 3,
    max_ratio: Annotated[float, typer.Option(help="Largest ratio of edits to edges.")] = 0.3,
    preset: Annotated[Preset, typer.Option(help="How much to search.")] = "balanced",
    explainer: Annotated[
        Explainer,
        typer.Option(
            help="The method: d4 trains a denoiser first; search needs none, but gives no "
            "likelihoods and explains no classes; d4-paper is the method of the paper."
        ),
    ] = "d4",
    aim: Annotated[
        Aim | None,
        typer.Option(
            help="believable: also convinces other networks and looks like the data, the default; "
            "minimal: fewest edits, the default of d4-paper; both: both lists."
        ),
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            help="A registered GNN that judges the answers besides the witnesses, or none for no "
            "judges; may be repeated. --aim minimal --judge none trains no witnesses."
        ),
    ] = None,
    allow_unseen: Annotated[
        bool,
        typer.Option(
            "--allow-unseen", help="Believable answers may have patterns that the data lacks."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate the cost; not for classes.")
    ] = False,
    max_queries: Annotated[
        int | None, typer.Option(min=1, help="Largest number of graphs sent to a black box.")
    ] = None,
    wait_for: Annotated[
        Stage,
        typer.Option(
            help="provisional: return with the answer of a search if networks have to be trained "
            "first; final: show that answer, too, but wait for the final one."
        ),
    ] = Stage.FINAL,
    svg: Annotated[Path | None, typer.Option(help="Draw the result to this file.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole result as JSON.")
    ] = False,
    url: Url = None,
) -> None:
    """Explain graphs or nodes (which edits flip the prediction?) or, without a GRAPH, a class."""
    if graph is None and not smiles and not node and target is None:
        raise CommandError(
            "nothing to explain",
            hint="give a GRAPH file, a --smiles, a --class, or the --node of a large graph",
        )
    graphs = [] if graph is None else graphs_in(read_json(graph), graph)
    graphs += [{"smiles": text} for text in smiles or []]
    nodes = node_ids(graphs, node or []) if graphs else node_numbers(node or [])
    with Client(api_address(url)) as client:
        ids = gnn, dataset
        if graphs or nodes:
            options: dict[str, Any] = {
                "alternatives": alternatives,
                "constraints": {
                    "max_ratio": max_ratio,
                    "valid_molecule": valid_molecule,
                    "only_seen": not allow_unseen,
                },
                "explainer": explainer,
                "preset": preset,
                "seed": seed,
                **_judging(aim, judge),
            }
            if target is not None:
                options["target_class"] = class_reference(target)
            if nodes:
                options["nodes"] = nodes
            if max_queries is not None:
                options["max_queries"] = max_queries
            if dry_run:
                _show_estimate(client.estimate_counterfactual(*ids, graphs, **options))
                return
            explanation = client.explain_counterfactual(*ids, graphs, **options)
        else:
            assert target is not None
            class_options: Any = {"explainer": explainer, "preset": preset, "seed": seed}
            explanation = client.explain_class(*ids, class_reference(target), **class_options)
        result = _result(client, explanation, wait_for)
        if svg is not None:
            svg.write_bytes(client.drawing(explanation.id))
        class_names = client.gnn(explanation.gnn).spec.get("class_names")
    if as_json:
        print(result.model_dump_json(indent=2))
    else:
        _show(result, class_names)
        drawing = f", drawn in {svg}" if svg else ""
        output().print(f"[dim]{explanation.id}{drawing}", soft_wrap=True)


def _result(
    client: Client, explanation: Explanation, wait_for: Stage
) -> CounterfactualResult | ClassResult:
    """Waits for the answer; shows a provisional one on stderr while the final one is awaited."""
    with JobProgressBars(messages()) as bars:
        if wait_for is Stage.FINAL and explanation.answer(Stage.PROVISIONAL) is not None:
            first = client.result(explanation, wait_for="provisional", on_progress=bars)
            if isinstance(first, CounterfactualResult) and first.stage is Stage.PROVISIONAL:
                names = client.gnn(explanation.gnn).spec.get("class_names")
                messages().print(counterfactual_table(first, names))
                for line in stage_lines(first):
                    messages().print(line, soft_wrap=True)
        result = client.result(explanation, wait_for=wait_for.value, on_progress=bars)
    reason = client.explanation(explanation.id).reason
    if reason is not None:
        messages().print(f"[yellow]{escape(reason)}", soft_wrap=True)
    return result


def _judging(aim: Aim | None, judges: list[str] | None) -> dict[str, Any]:
    """The fields `aim` and `judges`; those that were not given are left to the service."""
    options: dict[str, Any] = {} if aim is None else {"aim": aim}
    if judges:
        options["judges"] = "none" if judges == ["none"] else judges
    return options


def class_reference(text: str) -> int | str:
    """The number of a class, or else its name."""
    return int(text) if text.isdecimal() else text


def node_ids(graphs: list[dict[str, Any]], texts: list[str]) -> list[NodeId]:
    """The ids of the nodes with the types that they have in the file (text or number)."""
    if not texts:
        return []
    if len(graphs) != 1:
        raise CommandError(
            f"--node needs exactly one graph; got {len(graphs)}",
            hint="give a file with a single graph",
        )
    return [_node_id(graphs[0], text) for text in texts]


def node_numbers(texts: list[str]) -> list[NodeId]:
    """The numbers of nodes of a large graph."""
    for text in texts:
        if not text.isdecimal():
            raise CommandError(f"--node is {text!r}; nodes of a large graph are numbered from 0")
    return [int(text) for text in texts]


def _node_id(graph: dict[str, Any], text: str) -> NodeId:
    if "smiles" in graph or ("edge_index" in graph and graph.get("node_ids") is None):
        if text.isdecimal():
            return int(text)
        raise CommandError(f"--node is {text!r}; the nodes of this graph are numbered from 0")
    graph_node_ids = graph.get("node_ids") or [item.get("id") for item in graph.get("nodes", [])]
    for node_id in graph_node_ids:
        if str(node_id) == text:
            matching: NodeId = node_id
            return matching
    raise CommandError(f"the graph has no node {text!r}")


def _show_estimate(estimate: Estimate) -> None:
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


def _show(result: CounterfactualResult | ClassResult, class_names: list[str] | None) -> None:
    console = output()
    if isinstance(result, CounterfactualResult):
        console.print(counterfactual_table(result, class_names))
        for line in [*stage_lines(result), *summary_lines(result)]:
            console.print(line, soft_wrap=True)
    else:
        console.print(class_table([result], class_names))
    if result.mmd is not None:
        console.print(mmd_table(result.mmd))
    for warning in result.warnings:
        console.print(f"[yellow]{escape(warning)}", soft_wrap=True)
