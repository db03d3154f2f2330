"""Write everything that a separate program needs to check a comparison."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.counterfactuals.figures import MethodResult
from bench.counterfactuals.instances import CPU, EditableInstance
from bench.gnns.example_gnn import node_link
from bench.gnns.target_gnns import TargetGnn
from d4explain.gnn.network import predict


def dump(
    folder: Path,
    target: TargetGnn,
    instances: Sequence[EditableInstance],
    answers: Mapping[str, Sequence[MethodResult]],
) -> None:
    """Write spec.json, weights.safetensors, instances.json and edits.json.

    instances.json holds graphs with the GNN's predicted label; a node instance also names its
    target node. edits.json maps each method to one entry per instance: a list of alternatives, best
    first, each a list of [source, target, "add" or "remove"].
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("spec.json", "weights.safetensors"):
        shutil.copyfile(target.folder / name, folder / name)
    graphs = [instance.graph for instance in instances]
    predicted = predict(target.gnn, graphs, CPU).argmax(dim=1).tolist()
    documents = [
        node_link(graph, label) | ({} if graph.target is None else {"target": graph.target})
        for graph, label in zip(graphs, predicted, strict=True)
    ]
    (folder / "instances.json").write_text(json.dumps(documents) + "\n")
    edits = {
        method: [_edits_with_action(answer) for answer in method_answers]
        for method, method_answers in answers.items()
    }
    (folder / "edits.json").write_text(json.dumps(edits) + "\n")


def _edits_with_action(answer: MethodResult) -> list[list[tuple[int, int, str]]]:
    edges = set(map(tuple, answer.instance.graph.edges.T.tolist()))
    return [
        [(*pair, "remove" if pair in edges else "add") for pair in edits] for edits in answer.found
    ]
