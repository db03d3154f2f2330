"""Registers a PyG model in one call: export, comparison, upload, probe, reference set."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from d4explain.client.errors import RejectedGnnError
from d4explain.client.graph_formats.posted_graphs import Graphs, graph_list, pyg_graphs
from d4explain.client.operations.datasets.dataset_requests import create_dataset
from d4explain.client.operations.gnn_registration import register_gnn, registration_form
from d4explain.client.operations.resource_paths import checked_name
from d4explain.client.options import Metadata
from d4explain.client.resources import Gnn
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.contracts.job_states import GnnState
from d4explain.errors import CommandError

MAX_SAMPLES = 256  # of one registration, by default; the reference set may be larger
_COMPARED = 16  # sample graphs on which the export compares the model with its copy


@dataclass(frozen=True)
class SpecNames:
    """Fields of the spec that no model knows."""

    class_names: Sequence[str] | None = None
    feature_names: Sequence[str] | None = None
    featuriser: Mapping[str, Any] | None = None

    def added_to(self, spec: dict[str, Any]) -> dict[str, Any]:
        named = dict(spec)
        if self.class_names is not None:
            named["class_names"] = list(self.class_names)
        if self.feature_names is not None:
            features = [{"name": name} for name in self.feature_names]
            named["feature_schema"] = {"features": features}
        if self.featuriser is not None:
            named["featuriser"] = dict(self.featuriser)
        return named


async def register_model(
    transport: HttpTransport,
    model: Any,
    sample_graphs: Graphs,
    *,
    name: str,
    names: SpecNames,
    output: str | None,
    description: str | None,
    tags: Mapping[str, str] | None,
    metadata: Metadata | None,
) -> Gnn:
    """See `Client.register`."""
    checked_name(name)
    graphs = graph_list(sample_graphs)
    spec, weights = await transport.connection.call(exported_model, model, sample_graphs, output)
    form = registration_form(
        name,
        spec=names.added_to(spec),
        weights=weights,
        samples=_labelled_samples(graphs),
        description=description,
        tags=tags,
        metadata=metadata,
    )
    gnn = await register_gnn(transport, form)
    if gnn.state is not GnnState.READY:
        raise RejectedGnnError(gnn)
    await create_dataset(transport, name, graphs, gnn.id, metadata=metadata)
    return gnn


def exported_model(
    model: Any, sample_graphs: Graphs, output: str | None
) -> tuple[dict[str, Any], bytes]:
    """The spec and the weights; the export compares their outputs with those of the model."""
    try:
        from d4explain.export.exporter import export  # noqa: PLC0415 - the base has no torch
    except ModuleNotFoundError as error:
        raise CommandError(
            f"the export of a model needs the package {error.name!r}",
            hint="pip install 'd4explain[export]'",
        ) from error
    with TemporaryDirectory(prefix="d4explain-") as folder:
        samples = pyg_graphs(sample_graphs)[:_COMPARED] or None
        files = export(model, Path(folder), samples=samples, output=output)
        return json.loads(files.spec.read_text()), files.weights.read_bytes()


def _labelled_samples(graphs: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Graphs to measure the accuracy on, drawn at random if there are many; None without labels."""
    if not all(_is_labelled(graph) for graph in graphs):
        return None
    if len(graphs) <= MAX_SAMPLES:
        return {"graphs": list(graphs)}
    chosen = random.Random(0).sample(range(len(graphs)), MAX_SAMPLES)
    return {"graphs": [graphs[index] for index in sorted(chosen)]}


def _is_labelled(graph: Mapping[str, Any]) -> bool:
    """Whether the graph, or a node of it, has a label."""
    if graph.get("label") is not None or graph.get("y") is not None:
        return True
    return any(node.get("label") is not None for node in graph.get("nodes", ()))
