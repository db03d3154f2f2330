"""A GNN to explain, in seconds: generated BA-3Motif graphs and a GIN trained on them.

`python -m bench.example_gnn --out DIR` writes spec.json, weights.safetensors, reference.json,
heldout.json and metrics.json into DIR; the first four are what the API takes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from d4explain.export import export
from models.gnn.network import Gnn, predict
from models.gnn.spec import (
    ActivationLayer,
    BatchNormLayer,
    DropoutLayer,
    GinLayer,
    GnnSpec,
    Layer,
    LinearLayer,
    PoolLayer,
)
from models.graphs import Graph, to_sparse
from models.synthetic import Ba3Class, LabelledGraphs, ba3motif

CPU = torch.device("cpu")
ACCURACY_GRAPHS = 300  # fresh ones; the few held-out graphs would measure accuracy too coarsely
DATASET_NAME = "BA-3Motif"
CLASS_NAMES = tuple(kind.name.lower() for kind in Ba3Class)


@dataclass(frozen=True)
class Training:
    epochs: int = 40
    batch: int = 64
    learning_rate: float = 5e-3
    weight_decay: float = 1e-2
    # Without edge noise a GNN that is always right on clean graphs loses 3–7 % of them to a
    # couple of random edits; counterfactuals of such a GNN show its brittleness, not the motifs.
    noisy_share: float = 0.5  # of the graphs of a batch
    edge_noise: float = 0.1  # edits of such a graph, at most, in its edges
    seconds: float = 30.0


@dataclass(frozen=True)
class EpochReport:
    epoch: int
    epochs: int
    loss: float
    accuracy: float  # on the training graphs, edge noise and dropout included


@dataclass(frozen=True)
class Metrics:
    accuracy: float  # on fresh graphs
    accuracy_with_edge_noise: float
    graphs: int
    seed: int
    epochs: int  # fewer than planned if time ran out
    seconds: float


def example_spec(features: int, classes: int) -> GnnSpec:
    layers: list[Layer] = []
    for _ in range(3):
        layers += [GinLayer(out=32, hidden=32), BatchNormLayer(), ActivationLayer("relu")]
    layers += [PoolLayer("sum"), LinearLayer(32), ActivationLayer("relu")]
    layers += [DropoutLayer(0.2), LinearLayer(classes)]
    return GnnSpec(features, classes, tuple(layers))


def train(
    data: LabelledGraphs,
    training: Training,
    seed: int,
    on_epoch: Callable[[EpochReport], None],
) -> Gnn:
    """A GNN in eval mode; stops after the epoch in which the time is over."""
    began = time.monotonic()
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # initial weights and dropout draw from torch's own generator
        classes = int(data.labels.max()) + 1
        gnn = Gnn(example_spec(data.graphs[0].features.shape[1], classes))
        optimizer = torch.optim.AdamW(
            gnn.parameters(), training.learning_rate, weight_decay=training.weight_decay
        )
        batches = -(-len(data.graphs) // training.batch)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, training.learning_rate, total_steps=training.epochs * batches
        )
        for epoch in range(1, training.epochs + 1):
            losses, hits = 0.0, 0
            for index in _shuffled_batches(len(data.graphs), training.batch, generator):
                graphs = [_maybe_noisy(data.graphs[i], training, generator) for i in index.tolist()]
                logits = gnn(to_sparse(graphs))  # [graph, class]
                loss = F.cross_entropy(logits, data.labels[index])
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                torch.nn.utils.clip_grad_norm_(gnn.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                losses += float(loss.detach()) * len(graphs)
                hits += int((logits.argmax(dim=1) == data.labels[index]).sum())
            count = len(data.graphs)
            on_epoch(EpochReport(epoch, training.epochs, losses / count, hits / count))
            if time.monotonic() - began > training.seconds:
                break
    return gnn.eval()


def with_edge_noise(graph: Graph, share: float, generator: torch.Generator) -> Graph:
    """At least one and at most `share`·|E| random edits, added and removed edges mixed."""
    most = max(int(share * graph.edge_count), 1)
    edits = 1 + int(torch.randint(most, (1,), generator=generator))
    removed = int(torch.randint(edits + 1, (1,), generator=generator))
    kept = torch.randperm(graph.edge_count, generator=generator)[removed:]
    ends = torch.randint(graph.node_count, (2, edits - removed), generator=generator)
    added = ends.sort(dim=0).values
    edges = torch.cat([graph.edges[:, kept], added[:, added[0] != added[1]]], dim=1)
    return Graph(graph.features, torch.unique(edges, dim=1))


def _maybe_noisy(graph: Graph, training: Training, generator: torch.Generator) -> Graph:
    if float(torch.rand(1, generator=generator)) >= training.noisy_share:
        return graph
    return with_edge_noise(graph, training.edge_noise, generator)


def _shuffled_batches(count: int, size: int, generator: torch.Generator) -> list[Tensor]:
    order = torch.randperm(count, generator=generator)
    return [order[start : start + size] for start in range(0, count, size)]


def accuracy(gnn: Gnn, graphs: Sequence[Graph], labels: Tensor) -> float:
    return float((predict(gnn, graphs, CPU).argmax(dim=1) == labels).double().mean())


def held_out(count: int, reference: Sequence[Graph], generator: torch.Generator) -> LabelledGraphs:
    """Graphs, the classes in turn, of which none is in the reference under any order of nodes."""
    seen = {_fingerprint(graph) for graph in reference}
    graphs: list[Graph] = []
    while len(graphs) < count:
        wanted = len(graphs) % len(Ba3Class)
        fresh, labels = ba3motif(len(Ba3Class), generator)
        graph = fresh[labels.tolist().index(wanted)]
        if _fingerprint(graph) not in seen:
            seen.add(_fingerprint(graph))
            graphs.append(graph)
    return LabelledGraphs(graphs, torch.arange(count) % len(Ba3Class))


def _fingerprint(graph: Graph) -> str:
    """Equal for equal graphs; a chance collision only drops a graph that could have stayed."""
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


@contextmanager
def shown_progress(console: Console) -> Iterator[Callable[[EpochReport], None]]:
    """A bar on a terminal; elsewhere a line per tenth of the way."""
    if console.is_terminal:
        columns = (
            TextColumn("training the GNN"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} epochs"),
            TextColumn("loss {task.fields[loss]:.3f}, accuracy {task.fields[accuracy]:.3f}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("train", total=None, loss=float("nan"), accuracy=float("nan"))
            yield lambda report: bar.update(
                task,
                total=report.epochs,
                completed=report.epoch,
                loss=report.loss,
                accuracy=report.accuracy,
            )
    else:

        def line(report: EpochReport) -> None:
            if report.epoch % max(report.epochs // 10, 1) == 0 or report.epoch == report.epochs:
                print(
                    f"epoch {report.epoch}/{report.epochs}: loss {report.loss:.3f}, "
                    f"accuracy {report.accuracy:.3f}",
                    flush=True,
                )

        yield line


def run(
    out: Path, *, graphs: int, test: int, seed: int, training: Training, console: Console
) -> Metrics:
    began = time.monotonic()
    generator = torch.Generator().manual_seed(seed)
    reference = ba3motif(graphs, generator)
    epochs = 0
    with shown_progress(console) as show:

        def count_and_show(report: EpochReport) -> None:
            nonlocal epochs
            epochs = report.epoch
            show(report)

        gnn = train(reference, training, seed, count_and_show)
    fresh = ba3motif(ACCURACY_GRAPHS, generator)
    noisy = [with_edge_noise(graph, training.edge_noise, generator) for graph in fresh.graphs]
    metrics = Metrics(
        accuracy=accuracy(gnn, fresh.graphs, fresh.labels),
        accuracy_with_edge_noise=accuracy(gnn, noisy, fresh.labels),
        graphs=graphs,
        seed=seed,
        epochs=epochs,
        seconds=time.monotonic() - began,
    )
    out.mkdir(parents=True, exist_ok=True)
    export(gnn, out, CLASS_NAMES)
    _write_graphs(out / "reference.json", DATASET_NAME, reference)
    held = held_out(test, reference.graphs, generator)
    _write_graphs(out / "heldout.json", f"{DATASET_NAME} held out", held)
    (out / "metrics.json").write_text(json.dumps(asdict(metrics), indent=2) + "\n")
    return metrics


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.example_gnn", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--graphs", type=_positive, default=600, help="graphs of the reference set")
    parser.add_argument("--test", type=_positive, default=24, help="graphs held out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=_positive, default=Training.epochs)
    parser.add_argument(
        "--seconds", type=float, default=Training.seconds, help="train no longer than this"
    )
    asked = parser.parse_args(arguments)
    # The tensors are small: a second thread costs more than it gives.
    torch.set_num_threads(1)
    metrics = run(
        asked.out,
        graphs=asked.graphs,
        test=asked.test,
        seed=asked.seed,
        training=Training(epochs=asked.epochs, seconds=asked.seconds),
        console=Console(),
    )
    print(
        f"accuracy {metrics.accuracy:.3f} on {ACCURACY_GRAPHS} fresh graphs "
        f"({metrics.accuracy_with_edge_noise:.3f} with edge noise) "
        f"after {metrics.epochs} epochs, {metrics.seconds:.1f} s; written to {asked.out}"
    )
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1; got {value}")
    return value


if __name__ == "__main__":
    sys.exit(main())
