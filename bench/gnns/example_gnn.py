"""An example GNN: a GIN trained in seconds on generated BA-3Motif graphs.

`python -m bench.gnns.example_gnn --out DIR` writes spec.json, weights.safetensors, reference.json,
heldout.json and metrics.json into DIR. The API accepts the first four.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from rich.console import Console

from bench.data.synthetic import Ba3Class, LabelledGraphs, ba3motif
from bench.gnns.training import Training, accuracy, show_epochs, train, with_edge_noise
from d4explain.export.exporter import export
from d4explain.gnn.graphs import Graph, to_sparse
from d4explain.gnn.spec import (
    ActivationLayer,
    BatchNormLayer,
    DropoutLayer,
    GinLayer,
    GnnSpec,
    Layer,
    LinearLayer,
    PoolLayer,
)

# New graphs, because the few held-out ones would measure accuracy too coarsely.
ACCURACY_GRAPHS = 300
DATASET_NAME = "BA-3Motif"
CLASS_NAMES = tuple(kind.name.lower() for kind in Ba3Class)


@dataclass(frozen=True)
class Metrics:
    accuracy: float  # on new graphs
    accuracy_with_edge_noise: float
    graphs: int
    seed: int
    epochs: int  # fewer than planned if the time limit was reached
    seconds: float


def example_spec(features: int, classes: int) -> GnnSpec:
    layers: list[Layer] = []
    for _ in range(3):
        layers += [GinLayer(out=32, hidden=32), BatchNormLayer(), ActivationLayer("relu")]
    layers += [PoolLayer("sum"), LinearLayer(32), ActivationLayer("relu")]
    layers += [DropoutLayer(0.2), LinearLayer(classes)]
    return GnnSpec(features, classes, tuple(layers))


def held_out(count: int, reference: Sequence[Graph], generator: torch.Generator) -> LabelledGraphs:
    """Graphs of alternating classes, none isomorphic to a reference graph."""
    seen = {_fingerprint(graph) for graph in reference}
    graphs: list[Graph] = []
    while len(graphs) < count:
        label = len(graphs) % len(Ba3Class)
        generated, labels = ba3motif(len(Ba3Class), generator)
        graph = generated[labels.tolist().index(label)]
        if _fingerprint(graph) not in seen:
            seen.add(_fingerprint(graph))
            graphs.append(graph)
    return LabelledGraphs(graphs, torch.arange(count) % len(Ba3Class))


def _fingerprint(graph: Graph) -> str:
    """Equal for isomorphic graphs; a collision only drops a usable graph."""
    network = nx.empty_graph(graph.node_count)
    network.add_edges_from(graph.edges.T.tolist())
    nx.set_node_attributes(network, dict(network.degree), "degree")
    return str(nx.weisfeiler_lehman_graph_hash(network, node_attr="degree", iterations=4))


def node_link(graph: Graph, label: int) -> dict[str, Any]:
    return {
        "nodes": [{"id": node, "x": row} for node, row in enumerate(graph.features.tolist())],
        "edges": [{"source": a, "target": b} for a, b in graph.edges.T.tolist()],
        "label": label,
    }


def _write_graphs(path: Path, name: str, data: LabelledGraphs) -> None:
    pairs = zip(data.graphs, data.labels.tolist(), strict=True)
    document = {"name": name, "graphs": [node_link(graph, label) for graph, label in pairs]}
    path.write_text(json.dumps(document))


def run(
    out: Path, *, graphs: int, test: int, seed: int, training: Training, console: Console
) -> Metrics:
    started = time.monotonic()
    generator = torch.Generator().manual_seed(seed)
    reference = ba3motif(graphs, generator)
    spec = example_spec(reference.graphs[0].features.shape[1], len(Ba3Class))
    with show_epochs(console) as show:
        gnn, epochs = train(spec, reference, training, seed, show)
    new = ba3motif(ACCURACY_GRAPHS, generator)
    noisy = with_edge_noise(to_sparse(new.graphs), training.edge_noise, generator)
    with torch.inference_mode():
        right_with_noise = gnn(noisy).argmax(dim=1) == new.labels
    metrics = Metrics(
        accuracy=accuracy(gnn, new.graphs, new.labels),
        accuracy_with_edge_noise=float(right_with_noise.double().mean()),
        graphs=graphs,
        seed=seed,
        epochs=epochs,
        seconds=time.monotonic() - started,
    )
    out.mkdir(parents=True, exist_ok=True)
    export(gnn, out, CLASS_NAMES)
    _write_graphs(out / "reference.json", DATASET_NAME, reference)
    test_graphs = held_out(test, reference.graphs, generator)
    _write_graphs(out / "heldout.json", f"{DATASET_NAME} held out", test_graphs)
    (out / "metrics.json").write_text(json.dumps(asdict(metrics), indent=2) + "\n")
    return metrics


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gnns.example_gnn", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--graphs", type=_positive, default=600, help="size of the reference set")
    parser.add_argument("--test", type=_positive, default=24, help="number of held-out graphs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=_positive, default=Training.epochs)
    parser.add_argument(
        "--seconds", type=float, default=Training.seconds, help="maximum training time"
    )
    options = parser.parse_args(arguments)
    # The tensors are so small that a second thread costs more than it saves.
    torch.set_num_threads(1)
    metrics = run(
        options.out,
        graphs=options.graphs,
        test=options.test,
        seed=options.seed,
        training=Training(epochs=options.epochs, seconds=options.seconds),
        console=Console(),
    )
    print(
        f"accuracy {metrics.accuracy:.3f} on {ACCURACY_GRAPHS} new graphs "
        f"({metrics.accuracy_with_edge_noise:.3f} with edge noise) "
        f"after {metrics.epochs} epochs, {metrics.seconds:.1f} s; written to {options.out}"
    )
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1; got {value}")
    return value


if __name__ == "__main__":
    sys.exit(main())
