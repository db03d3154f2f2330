"""A GNN together with the graphs that it is probed with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from d4explain.contracts.probe_reports import ProbeExample
from d4explain.gnn.graphs import Graph, to_sparse
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import GraphNormLayer
from worker.probing.drawn_graphs import draw_graphs, usual_attributes
from worker.probing.labelled_samples import Samples

# Every check runs on these samples. The dense form of wide GNNs takes much memory for more.
_MAX_SAMPLES = 8
_MAX_NODE_SAMPLES = 2  # for a node classifier, each node is a graph of the dense form
_MAX_SAMPLE_NODES = 32


@dataclass(frozen=True)
class ProbeSubject:
    gnn: Gnn
    graphs: list[Graph]
    names: list[ProbeExample]  # one per graph, without expected and actual output
    device: torch.device
    generator: torch.Generator

    def logits(self, graphs: list[Graph]) -> Tensor:
        """[graph, class]; for a node classifier [node of all graphs, class]."""
        with torch.inference_mode():
            return sparse_logits(self.gnn, graphs, self.device)

    @property
    def classifies_nodes(self) -> bool:
        return self.gnn.spec.classifies_nodes

    @property
    def units(self) -> str:
        return "nodes" if self.classifies_nodes else "graphs"

    def one_graph_per_answer(self, graphs: list[Graph]) -> list[Graph]:
        """The input of the dense form, which answers for the marked node of each graph."""
        if not self.classifies_nodes:
            return graphs
        return [replace(graph, target=node) for graph in graphs for node in range(graph.node_count)]

    def example(self, answer: int, expected: str, came_out: str) -> ProbeExample:
        """Names the graph or the node that an answer belongs to."""
        graph, node = answer, ""
        if self.classifies_nodes:
            sizes = [graph.node_count for graph in self.graphs]
            graph = next(i for i, end in enumerate(accumulate(sizes)) if answer < end)
            node = f", node {answer - sum(sizes[:graph])}"
        name = self.names[graph]
        update = {"graph": name.graph + node, "expected": expected, "came_out": came_out}
        return name.model_copy(update=update)


def probe_subject(gnn: Gnn, device: torch.device, samples: Samples | None) -> ProbeSubject:
    """Draws graphs with a fixed seed and adds some small ones from the samples."""
    generator = torch.Generator().manual_seed(0)
    named = [
        (_name(graph, f"drawn graph {i}"), graph)
        for i, graph in enumerate(draw_graphs(gnn.spec, generator))
    ]
    if samples is not None:
        usual = usual_attributes(gnn.spec)
        small = [
            i for i, graph in enumerate(samples.graphs) if graph.node_count <= _MAX_SAMPLE_NODES
        ]
        limit = _MAX_NODE_SAMPLES if gnn.spec.classifies_nodes else _MAX_SAMPLES
        named += [(samples.name(i), replace(samples.graphs[i], usual=usual)) for i in small[:limit]]
    if any(isinstance(layer, GraphNormLayer) for layer in gnn.spec.layers):
        named = [(name, graph) for name, graph in named if not _has_equal_nodes(graph)]
    names, graphs = zip(*named, strict=True)
    return ProbeSubject(gnn, list(graphs), list(names), device, generator)


def sparse_logits(gnn: Gnn, graphs: list[Graph], device: torch.device) -> Tensor:
    batch = to_sparse(graphs).to(device)
    logits: Tensor = gnn.node_logits(batch) if gnn.spec.classifies_nodes else gnn(batch)
    return logits.cpu()


def _name(graph: Graph, name: str) -> ProbeExample:
    size = f"{graph.node_count} nodes and {graph.edges.shape[1]} edges"
    return ProbeExample(sample=None, graph=f"{name}, {size}", expected="", came_out="")


def _has_equal_nodes(graph: Graph) -> bool:
    """Whether all nodes have the same features.

    A norm over equal nodes divides rounding errors by sqrt(eps), a factor of 300 per layer. After
    some layers the result depends on batch and node order, which is not a fault of the GNN.
    """
    return bool((graph.features == graph.features[0]).all())
