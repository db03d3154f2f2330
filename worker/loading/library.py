"""From rows and artifacts to networks and graphs, kept warm between jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from safetensors.torch import load as load_tensors
from torch import Tensor, nn

from d4explain.contracts import gnn_layers, gnn_spec
from d4explain.contracts.requests import CanonicalGraph
from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import (
    ActivationLayer,
    AddLayer,
    BatchNormLayer,
    ChebLayer,
    DropoutLayer,
    EgnnLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GineLayer,
    GineSumLayer,
    GinLayer,
    GinSumLayer,
    GnnSpec,
    GraphConvLayer,
    GraphNormLayer,
    JumpLayer,
    KeepLayer,
    Layer,
    LayerNormLayer,
    LinearLayer,
    PnaLayer,
    PoolLayer,
    SageLayer,
    ShiftedReluLayer,
    TagLayer,
)
from models.counterfactual.large.candidate_space import CandidateConfig
from models.counterfactual.large.patches import local_parts
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.graphs.csr_graph import CsrGraph
from models.graphs.large_neighbourhoods import surroundings
from models.graphs.neighbourhoods import instance
from models.metrics.mmd import GraphStatistics, statistics
from store.artifacts import graph_sets, large_graphs
from store.artifacts.files import Artifacts
from store.catalogue import gnns
from store.database import tables
from store.settings import Settings
from worker.loading.lru_cache import LruCache
from worker.loading.plugin_layers import plugged_layer, require_plugins

WARM_BYTES = 1024 * 1024 * 1024
# Kernels of the reference with itself grow with the square of its graphs, and eigenvalues cost
# nodes³: a thousand graphs say as much, and a few dozen of 500 nodes take some seconds.
_MMD_GRAPHS = 1000
_MMD_CUBED_NODES = 5 * 10**9
# Neighbourhoods overlap: some hundred of them hold what a denoiser can learn from a graph.
REFERENCE_NODES = 1000
_TRAINING_PARTS = 2000  # of all large graphs of a reference set together
_REFERENCE_NODE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class LabelledGraphs:
    graphs: list[Graph]
    labels: list[int | None]


class Library:
    """Everything is found by the digest of its content, so nothing kept is ever stale."""

    def __init__(
        self,
        artifacts: Artifacts,
        device: torch.device,
        *,
        warm_bytes: int = WARM_BYTES,
        neighbourhood_nodes: int = Settings.max_neighbourhood_nodes,
        exact_nodes: int = Settings.exact_nodes,
    ) -> None:
        self.device = device
        self.exact_nodes = exact_nodes  # of the largest graphs that have a dense form
        self.neighbourhood_nodes = neighbourhood_nodes  # most that are edited in a large graph
        self._artifacts = artifacts
        self._shelf = LruCache(warm_bytes)
        # Apart, so that one large graph does not drive all networks out. Each is a map of a file;
        # of one in an object store the file is a copy, which goes when the map does. The newest
        # stays whatever its size: to fetch it again for every job would take minutes.
        self._large_graphs = LruCache(warm_bytes, keeps_newest=True)

    def gnn(self, row: tables.Gnn) -> Gnn:
        """In eval mode on this worker's device, as the denoiser is."""

        def load() -> Gnn:
            gnn = Gnn(spec_of(row))
            gnn.load_state_dict(load_tensors(self._artifacts.get(row.weights_digest)))
            return gnn.to(self.device).eval().requires_grad_(False)

        return self._shelf.get(("gnn", row.sha256), load, _parameter_bytes)

    def denoiser(self, row: tables.Denoiser) -> Denoiser:
        assert row.weights_digest is not None
        assert row.shape is not None
        digest, shape = row.weights_digest, DenoiserShape(**row.shape)

        def load() -> Denoiser:
            denoiser = Denoiser(shape)
            denoiser.load_state_dict(load_tensors(self._artifacts.get(digest)))
            return denoiser.to(self.device).eval().requires_grad_(False)

        return self._shelf.get(("denoiser", digest), load, _parameter_bytes)

    def reference(self, gnn: tables.Gnn, row: tables.Dataset) -> LabelledGraphs:
        """The graphs of a set or, for a node classifier, neighbourhoods of their nodes.

        Those are marked, and what the GNN says about them is what it says about the nodes.
        """
        if not gnns.classifies_nodes(gnn):
            return self._graphs(gnn, row)

        def cut_out() -> LabelledGraphs:
            spec = spec_of(gnn)
            if row.large:
                graph = self.large_graph(row)
                found = large_neighbourhoods(graph, spec, self.neighbourhood_nodes)
            else:
                whole = self._graphs(gnn, row).graphs
                found = neighbourhoods(whole, spec, max_nodes=self.exact_nodes)
            return LabelledGraphs(found, [None] * len(found))

        return self._shelf.get(
            ("neighbourhoods", gnn.sha256, row.graphs_digest), cut_out, _graph_bytes
        )

    def training_graphs(self, gnn: tables.Gnn, row: tables.Dataset) -> list[Graph]:
        """The reference, of large graphs parts: those that a denoiser will be asked about."""
        graphs = self.reference(gnn, row).graphs
        large = [graph for graph in graphs if graph.node_count > self.exact_nodes]
        if not large:
            return graphs
        count = max(2, _TRAINING_PARTS // len(large))
        return [
            part
            for graph in graphs
            for part in (
                local_parts(graph, CandidateConfig.patch_nodes, count)
                if graph.node_count > self.exact_nodes
                else [graph]
            )
        ]

    def large_graph(self, row: tables.Dataset) -> CsrGraph:
        """Mapped, not read."""

        def load() -> CsrGraph:
            with self._artifacts.open_large(row.graphs_digest) as file:
                graph = large_graphs.mapped(file)
            return CsrGraph(graph.x, graph.starts, graph.neighbours)

        return self._large_graphs.get(row.graphs_digest, load, _mapped_bytes)

    def _graphs(self, gnn: tables.Gnn, row: tables.Dataset) -> LabelledGraphs:
        """Edges have attributes only where the GNN reads them; then added ones are known, too."""
        found = self._as_stored(row)
        if not row.edge_features:
            return found
        usual = self.usual_attributes(gnn, row)
        graphs = [
            replace(graph, edge_attributes=graph.edge_attributes if usual else None, usual=usual)
            for graph in found.graphs
        ]
        return LabelledGraphs(graphs, found.labels)

    def _as_stored(self, row: tables.Dataset) -> LabelledGraphs:
        def load() -> LabelledGraphs:
            return unpacked(self._artifacts.get(row.graphs_digest))

        return self._shelf.get(("reference", row.graphs_digest), load, _graph_bytes)

    def usual_attributes(self, gnn: tables.Gnn, row: tables.Dataset) -> UsualAttributes | None:
        """What an added edge carries, by the reference set; an added bond is single.

        None if the GNN reads no edge attributes.
        """
        if not gnns.edge_features(gnn):
            return None
        featuriser = gnn_spec.stored_spec(gnn.spec).featuriser
        if featuriser is not None and featuriser.bonds:
            return UsualAttributes.always(torch.tensor(featuriser.bond_row("single")))

        def count() -> UsualAttributes:
            graphs = self._as_stored(row).graphs
            return UsualAttributes.seen(
                [graph.features for graph in graphs],
                [graph.edges for graph in graphs],
                [graph.edge_attributes for graph in graphs if graph.edge_attributes is not None],
            )

        return self._shelf.get(("usual", row.graphs_digest), count, lambda kept: kept.rows.nbytes)

    def reference_statistics(self, gnn: tables.Gnn, row: tables.Dataset) -> GraphStatistics:
        """Of the whole reference, or of a fixed sample of a large one."""

        def compute() -> GraphStatistics:
            graphs = self.reference(gnn, row).graphs
            return statistics(fixed_sample(graphs, _MMD_GRAPHS, _MMD_CUBED_NODES))

        # whole graphs are the same for every GNN
        of = gnn.sha256 if gnns.classifies_nodes(gnn) else None
        return self._shelf.get(("statistics", of, row.graphs_digest), compute, _statistics_bytes)

    def reference_predictions(self, gnn: tables.Gnn, row: tables.Dataset) -> Tensor:
        """The GNN's probabilities of the reference: [graph or node, class]."""

        def compute() -> Tensor:
            return predict(self.gnn(gnn), self.reference(gnn, row).graphs, self.device)

        return self._shelf.get(
            ("predictions", gnn.sha256, row.graphs_digest), compute, lambda kept: kept.nbytes
        )

    def forget(self) -> None:
        self._shelf.clear()
        self._large_graphs.clear()


_LAYERS: dict[str, type[Layer]] = {
    "gcn": GcnLayer,
    "gin": GinLayer,
    "gin_sum": GinSumLayer,
    "gine": GineLayer,
    "gine_sum": GineSumLayer,
    "sage": SageLayer,
    "graph_conv": GraphConvLayer,
    "gat": GatLayer,
    "gatv2": GatV2Layer,
    "pna": PnaLayer,
    "tag": TagLayer,
    "cheb": ChebLayer,
    "egnn": EgnnLayer,
    "linear": LinearLayer,
    "activation": ActivationLayer,
    "srelu": ShiftedReluLayer,
    "dropout": DropoutLayer,
    "batch_norm": BatchNormLayer,
    "layer_norm": LayerNormLayer,
    "graph_norm": GraphNormLayer,
    "pool": PoolLayer,
    "keep": KeepLayer,
    "add": AddLayer,
    "jump": JumpLayer,
}


def spec_of(row: tables.Gnn) -> GnnSpec:
    require_plugins(row.spec)
    return layers_of(gnn_spec.GnnSpecDocument.model_validate(row.spec))


def layers_of(document: gnn_spec.GnnSpecDocument) -> GnnSpec:
    outputs = gnn_spec.outputs_of(document)
    widths = gnn_spec.widths_of(document)
    return GnnSpec(
        features=document.features,
        edge_features=document.edge_features,
        classes=document.classes,
        layers=tuple(
            _layer(layer, width, outputs)
            for layer, width in zip(document.layers, widths, strict=False)
        ),
    )


def _layer(document: gnn_layers.SpecLayer, width: int, outputs: int) -> Layer:
    """Documents and layers have the same fields; each checks them for itself."""
    if isinstance(document, gnn_layers.PluggedDocument):
        return plugged_layer(document, width, outputs)
    fields = document.model_dump(exclude={"type"})
    # Layers can be compared and hashed, so their lists are tuples.
    fields = {name: tuple(x) if isinstance(x, list) else x for name, x in fields.items()}
    return _LAYERS[document.type](**fields)


def graph_of(
    document: CanonicalGraph, edge_features: int = 0, usual: UsualAttributes | None = None
) -> Graph:
    """With edge attributes, and to be edited, it has to know what an added edge carries."""
    edges = torch.tensor(document.edges, dtype=torch.int64).reshape(-1, 2)
    attributes = None
    if edge_features:
        rows = torch.tensor(document.edge_attr, dtype=torch.float32)
        attributes = rows.reshape(-1, edge_features)  # also of a graph without edges
    return Graph(
        features=torch.tensor(document.x, dtype=torch.float32),
        edges=edges.T.contiguous(),
        edge_attributes=attributes,
        usual=usual,
    )


def unpacked(data: bytes) -> LabelledGraphs:
    """A packed reference set as graphs; cut from the arrays, without a Python loop over nodes."""
    packed = graph_sets.arrays(data)
    # torch.tensor copies: the arrays lie in the artifact's bytes, which cannot be written to.
    features = torch.tensor(packed.x, dtype=torch.float32)
    edges = torch.tensor(packed.edges, dtype=torch.int64)  # [edge of all graphs, 2]
    nodes, starts = packed.node_ptr.tolist(), packed.edge_ptr.tolist()
    carried = None if packed.edge_attr is None else torch.tensor(packed.edge_attr)
    graphs = [
        Graph(
            features=features[nodes[i] : nodes[i + 1]],
            edges=edges[starts[i] : starts[i + 1]].T.contiguous(),
            edge_attributes=None if carried is None else carried[starts[i] : starts[i + 1]],
        )
        for i in range(packed.count)
    ]
    labels = [label if label >= 0 else None for label in packed.labels.tolist()]
    return LabelledGraphs(graphs, labels)


def neighbourhoods(
    graphs: Sequence[Graph],
    spec: GnnSpec,
    count: int = REFERENCE_NODES,
    *,
    max_nodes: int | None = None,
) -> list[Graph]:
    """What a node classifier sees around each node, which is marked; of many nodes a fixed sample.

    They come in the order of the graphs and their nodes.
    """
    nodes = [(graph, node) for graph in graphs for node in range(graph.node_count)]
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0)).tolist()
    found: dict[int, Graph] = {}
    spent = 0
    for index in order[:count]:
        graph, node = nodes[index]
        part = instance(graph, node, spec.convolutions, sight=spec.sight, max_nodes=max_nodes).graph
        spent += _bytes(part)
        if spent > _REFERENCE_NODE_BYTES and found:
            break
        found[index] = part
    return [found[index] for index in sorted(found)]


def large_neighbourhoods(
    graph: CsrGraph, spec: GnnSpec, max_nodes: int, count: int = REFERENCE_NODES
) -> list[Graph]:
    """The same around a fixed sample of the nodes of a large graph, in the order of the nodes."""
    generator = torch.Generator().manual_seed(0)
    nodes = torch.randperm(graph.node_count, generator=generator)[:count].tolist()
    found: dict[int, Graph] = {}
    spent = 0
    for node in nodes:
        around = surroundings(
            graph,
            node,
            spec.convolutions,
            spec.sight,
            max_nodes=max_nodes,
            verified_nodes=max_nodes,
        )
        spent += _bytes(around.part.graph)
        if spent > _REFERENCE_NODE_BYTES and found:
            break
        found[node] = around.part.graph
    return [found[node] for node in sorted(found)]


def fixed_sample(graphs: Sequence[Graph], count: int, cubed_nodes: int) -> list[Graph]:
    """The same graphs every time, spread over the whole set, two of them at least."""
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0)).tolist()
    spent = 0
    chosen: list[int] = []
    for index in order[:count]:
        spent += graphs[index].node_count ** 3
        if spent > cubed_nodes and len(chosen) >= 2:
            break
        chosen.append(index)
    return [graphs[index] for index in sorted(chosen)]


def _parameter_bytes(network: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in network.state_dict().values())


def _graph_bytes(labelled: LabelledGraphs) -> int:
    return sum(_bytes(graph) for graph in labelled.graphs)


def _bytes(graph: Graph) -> int:
    attributes = 0 if graph.edge_attributes is None else graph.edge_attributes.nbytes
    return graph.features.nbytes + graph.edges.nbytes + attributes


def _mapped_bytes(graph: CsrGraph) -> int:
    return graph.features.nbytes + graph.starts.nbytes + graph.neighbours.nbytes


def _statistics_bytes(kept: GraphStatistics) -> int:
    # The kernels are made later, on first use, and stay with the statistics.
    kernels = 3 * 8 * kept.count**2
    return kept.degree.nbytes + kept.clustering.nbytes + kept.spectrum.nbytes + kernels
