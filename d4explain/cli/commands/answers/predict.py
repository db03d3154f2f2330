from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from d4explain.cli.explain_options import SmilesTexts
from d4explain.cli.input.files import read_graphs
from d4explain.cli.input.node_ids import node_ids
from d4explain.cli.options import Gnn, Json, Metadata, Url, parse_settings
from d4explain.cli.output.result_tables import format_number
from d4explain.cli.output.terminal import output, print_json
from d4explain.client.client import Client
from d4explain.contracts.results import NodeId, Prediction
from d4explain.errors import CommandError


def predict(
    graph: Annotated[
        Path | None,
        typer.Argument(
            help="A graph, a list of graphs, {graph: …} or {graphs: […]}; - is stdin.",
            show_default=False,
        ),
    ] = None,
    *,
    gnn: Gnn,
    smiles: SmilesTexts = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            help="Node to classify, if the GNN classifies nodes; may be repeated. Default: all.",
            show_default=False,
        ),
    ] = None,
    metadata: Metadata = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Ask a GNN for the classes of graphs, or of the nodes of one graph."""
    graphs = read_graphs(graph, smiles)
    if not graphs:
        raise CommandError("nothing to classify", hint="give a GRAPH file or a --smiles")
    nodes = node_ids(graphs, node)
    notes = parse_settings(metadata)
    with Client(url) as client:
        found = client.gnn(gnn)
        if found.spec.get("task") != "node":
            if nodes:
                raise CommandError(f"{gnn} classifies graphs; --node is for GNNs of nodes")
            predictions = client.predictions(found, graphs, notes)
            _show("graph", dict(enumerate(predictions)), as_json)
            return
        if len(graphs) != 1:
            raise CommandError(f"{gnn} classifies nodes of one graph; got {len(graphs)} graphs")
        _show("node", client.node_predictions(found, graphs[0], nodes or None, notes), as_json)


def _show(subject: str, predictions: Mapping[NodeId, Prediction], as_json: bool) -> None:
    if as_json:
        print_json(list(predictions.values()))
        return
    table = Table(subject, "class", "name", "probabilities", box=None)
    has_names = any(prediction.class_name for prediction in predictions.values())
    table.columns[2].header = "name" if has_names else ""
    for item, prediction in predictions.items():
        table.add_row(
            escape(str(item)),
            str(prediction.predicted_class),
            escape(prediction.class_name or ""),
            _probabilities(prediction.probabilities),
        )
    output().print(table)


def _probabilities(values: Sequence[float]) -> str:
    return " ".join(format_number(value) for value in values)
