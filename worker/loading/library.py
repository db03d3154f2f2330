"""Loads networks and graphs from rows and artifacts, and caches them between jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from safetensors.torch import load as load_tensors
from torch import Tensor, nn

from d4explain.contracts import gnn_spec
from d4explain.contracts.receipts.receipt import GraphLimits
from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.large.candidate_space import CandidateConfig
from models.counterfactual.large.patches import local_parts
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.stored_denoisers import load_denoiser
from models.explainers.interface import Explainer
from models.graphs.csr_graph import CsrGraph
from models.metrics.mmd import GraphStatistics, statistics
from models.metrics.neighbourhood_distance import CountedNeighbourhoods, count_neighbourhoods
from models.realism.reference_patterns import ReferencePatterns
from models.witnesses.witness_set import MIN_GRAPHS, WitnessSet, load_witnesses
from store.artifacts import large_graphs
from store.artifacts.artifact_store import ArtifactStore
from store.artifacts.files import TenantArtifacts
from store.catalogue import gnns
from store.database import tables
from store.settings import Settings
from worker.loading.graph_conversion import LabelledGraphs, unpack_graphs
from worker.loading.lru_cache import LruCache
from worker.loading.reference_sampling import (
    fixed_sample,
    sample_large_neighbourhoods,
    sample_neighbourhoods,
)
from worker.loading.spec_conversion import spec_of

CACHE_BYTES = 1024 * 1024 * 1024
# The reference's kernel matrix grows with the square of its graphs, and eigenvalues cost nodes³.
# A sample of a thousand graphs is as good; a few dozen graphs of 500 nodes take some seconds.
_MMD_GRAPHS = 1000
_MMD_CUBED_NODES = 5 * 10**9
_TRAINING_PARTS = 2000  # from all large graphs of a reference set together


class Library:
    """Cache keys are content digests, so an entry never becomes stale."""

    def __init__(
        self,
        artifacts: ArtifactStore,
        device: torch.device,
        *,
        cache_bytes: int = CACHE_BYTES,
        neighbourhood_nodes: int = Settings().max_neighbourhood_nodes,
        exact_nodes: int = Settings().exact_nodes,
    ) -> None:
        self.device = device
        self._cache_bytes = cache_bytes
        self.exact_nodes = exact_nodes  # graphs up to this size have a dense form
        self.neighbourhood_nodes = neighbourhood_nodes  # edited at most, in a large graph
        self._artifacts = artifacts
        self._cache = LruCache(cache_bytes)
        # A second cache, so that one large graph does not evict all networks. Each entry maps a
        # file. For an object store the file is a temporary copy that the operating system frees
        # with the map. The newest graph stays whatever its size: fetching it takes minutes.
        self._large_graphs = LruCache(cache_bytes, keeps_newest=True)

    @property
    def limits(self) -> GraphLimits:
        return GraphLimits(
            exact_nodes=self.exact_nodes, neighbourhood_nodes=self.neighbourhood_nodes
        )

    def with_limits(self, limits: GraphLimits) -> Library:
        """A library with other limits and its own cache: neighbourhoods depend on them."""
        return Library(
            self._artifacts,
            self.device,
            cache_bytes=self._cache_bytes,
            neighbourhood_nodes=limits.neighbourhood_nodes,
            exact_nodes=limits.exact_nodes,
        )

    def gnn(self, row: tables.Gnn) -> Gnn:
        """In eval mode, without gradients, on this worker's device."""

        def load() -> Gnn:
            gnn = Gnn(spec_of(row))
            gnn.load_state_dict(load_tensors(self._artifacts_of(row).get(row.weights_digest)))
            return gnn.to(self.device).eval().requires_grad_(False)

        return self._cache.get(("gnn", row.sha256), load, _parameter_bytes)

    def denoiser(self, row: tables.Denoiser) -> EdgeDenoiser:
        """In eval mode, without gradients, on this worker's device."""
        assert row.weights_digest is not None
        assert row.shape is not None
        digest, shape = row.weights_digest, row.shape

        def load() -> EdgeDenoiser:
            denoiser = load_denoiser(shape, load_tensors(self._artifacts_of(row).get(digest)))
            return denoiser.to(self.device).requires_grad_(False)

        return self._cache.get(("denoiser", digest), load, _parameter_bytes)

    def explainer(
        self,
        name: str,
        gnn: tables.Gnn,
        dataset: tables.Dataset,
        train: Callable[[], Explainer],
    ) -> Explainer:
        """An explainer that learns, trained once for a GNN and a reference set."""
        return self._cache.get(("explainer", name, gnn.sha256, dataset.sha256), train, _small)

    def witnesses(self, gnn: tables.Gnn, row: tables.WitnessSet) -> WitnessSet:
        """A trained set, in eval mode, without gradients, on this worker's device."""
        assert row.weights_digest is not None
        assert row.description is not None
        digest, described = row.weights_digest, row.description["witnesses"]

        def load() -> WitnessSet:
            tensors = load_tensors(self._artifacts_of(row).get(digest))
            loaded = load_witnesses(spec_of(gnn), described, tensors)
            for witness in loaded.witnesses:
                witness.gnn.to(self.device).requires_grad_(False)
            return loaded

        return self._cache.get(("witnesses", digest), load, _witness_bytes)

    def patterns(self, gnn: tables.Gnn, row: tables.Dataset) -> ReferencePatterns | None:
        """Which degrees, edges and neighbours occur in the reference; None if it is too small."""
        graphs = self.reference(gnn, row).graphs
        if len(graphs) < MIN_GRAPHS:
            return None

        def count() -> ReferencePatterns:
            return ReferencePatterns.of(graphs)

        key = ("patterns", *self._reference_key(gnn, row))
        return self._cache.get(key, count, _pattern_bytes)

    def reference(self, gnn: tables.Gnn, row: tables.Dataset) -> LabelledGraphs:
        """The graphs of a reference set; for a node classifier, neighbourhoods of their nodes.

        Each neighbourhood marks its node, so the GNN's prediction for it is that of the node.
        """
        if not gnns.classifies_nodes(gnn):
            return self._graphs(gnn, row)

        def sample() -> LabelledGraphs:
            spec = spec_of(gnn)
            if row.large:
                graph = self.large_graph(row)
                parts = sample_large_neighbourhoods(graph, spec, self.neighbourhood_nodes)
            else:
                graphs = self._graphs(gnn, row).graphs
                parts = sample_neighbourhoods(graphs, spec, max_nodes=self.exact_nodes)
            return LabelledGraphs(parts, [None] * len(parts))

        return self._cache.get(
            ("neighbourhoods", gnn.sha256, row.graphs_digest), sample, _labelled_bytes
        )

    def training_graphs(self, gnn: tables.Gnn, row: tables.Dataset) -> list[Graph]:
        """The reference; large graphs are replaced by parts of the size a search will edit."""
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
        """Memory-mapped; nothing is read until it is used."""

        def load() -> CsrGraph:
            with self._artifacts_of(row).open_large(row.graphs_digest) as file:
                graph = large_graphs.mapped(file)
            return CsrGraph(graph.x, graph.starts, graph.neighbours)

        return self._large_graphs.get(row.graphs_digest, load, _mapped_bytes)

    def usual_attributes(self, gnn: tables.Gnn, row: tables.Dataset) -> UsualAttributes | None:
        """The attributes of an added edge, counted in the reference set; an added bond is single.

        None if the GNN reads no edge attributes.
        """
        if not gnns.edge_features(gnn):
            return None
        featuriser = gnn_spec.stored_spec(gnn.spec).featuriser
        if featuriser is not None and featuriser.bonds:
            return UsualAttributes.always(torch.tensor(featuriser.bond_row("single")))

        def count() -> UsualAttributes:
            graphs = self._stored_graphs(row).graphs
            return UsualAttributes.seen(
                [graph.features for graph in graphs],
                [graph.edges for graph in graphs],
                [graph.edge_attributes for graph in graphs if graph.edge_attributes is not None],
            )

        return self._cache.get(("usual", row.graphs_digest), count, lambda usual: usual.rows.nbytes)

    def reference_statistics(self, gnn: tables.Gnn, row: tables.Dataset) -> GraphStatistics:
        """Statistics of the reference, or of a fixed sample if it is large."""

        def compute() -> GraphStatistics:
            graphs = self.reference(gnn, row).graphs
            return statistics(fixed_sample(graphs, _MMD_GRAPHS, _MMD_CUBED_NODES))

        key = ("statistics", *self._reference_key(gnn, row))
        return self._cache.get(key, compute, _statistics_bytes)

    def reference_predictions(self, gnn: tables.Gnn, row: tables.Dataset) -> Tensor:
        """The GNN's probabilities of the reference: [graph or node, class]."""

        def compute() -> Tensor:
            return predict(self.gnn(gnn), self.reference(gnn, row).graphs, self.device)

        key = ("predictions", gnn.sha256, row.graphs_digest)
        return self._cache.get(key, compute, lambda probabilities: probabilities.nbytes)

    def neighbourhood_counts(self, gnn: tables.Gnn, row: tables.Dataset) -> CountedNeighbourhoods:
        """Which node neighbourhoods the graphs of the reference have."""

        def count() -> CountedNeighbourhoods:
            return count_neighbourhoods(self.reference(gnn, row).graphs)

        key = ("counts", *self._reference_key(gnn, row))
        return self._cache.get(key, count, lambda counted: counted.size_bytes)

    def agreement(self, gnn: tables.Gnn, other: tables.Gnn, row: tables.Dataset) -> float:
        """The share of the reference to which another GNN gives the GNN's class."""

        def compute() -> float:
            graphs = self.reference(gnn, row).graphs
            mine = self.reference_predictions(gnn, row).argmax(dim=1)
            others = predict(self.gnn(other), graphs, self.device).argmax(dim=1)
            return float((mine == others).double().mean())

        key = ("agreement", gnn.sha256, other.sha256, row.graphs_digest)
        return self._cache.get(key, compute, lambda _: 8)

    def clear(self) -> None:
        self._cache.clear()
        self._large_graphs.clear()

    @staticmethod
    def _reference_key(gnn: tables.Gnn, row: tables.Dataset) -> tuple[str | None, str]:
        """Only neighbourhoods depend on the GNN; whole graphs do not."""
        return gnn.sha256 if gnns.classifies_nodes(gnn) else None, row.graphs_digest

    def _graphs(self, gnn: tables.Gnn, row: tables.Dataset) -> LabelledGraphs:
        """Drops edge attributes if the GNN does not read them."""
        stored = self._stored_graphs(row)
        if not row.edge_features:
            return stored
        usual = self.usual_attributes(gnn, row)
        graphs = [
            replace(graph, edge_attributes=graph.edge_attributes if usual else None, usual=usual)
            for graph in stored.graphs
        ]
        return LabelledGraphs(graphs, stored.labels)

    def _artifacts_of(self, row: tables.Gnn | tables.Dataset | tables.Trained) -> TenantArtifacts:
        return self._artifacts.of(row.tenant_id)

    def _stored_graphs(self, row: tables.Dataset) -> LabelledGraphs:
        def load() -> LabelledGraphs:
            return unpack_graphs(self._artifacts_of(row).get(row.graphs_digest))

        return self._cache.get(("reference", row.graphs_digest), load, _labelled_bytes)


def _parameter_bytes(network: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in network.state_dict().values())


def _small(_explainer: Explainer) -> int:
    """A perceptron of one hidden layer; most of its memory is the GNN's."""
    return 100_000


def _witness_bytes(witnesses: WitnessSet) -> int:
    return sum(_parameter_bytes(witness.gnn) for witness in witnesses.witnesses)


def _pattern_bytes(patterns: ReferencePatterns) -> int:
    return sum(tensor.nbytes for tensor in vars(patterns).values() if isinstance(tensor, Tensor))


def _labelled_bytes(labelled: LabelledGraphs) -> int:
    return labelled.size_bytes


def _mapped_bytes(graph: CsrGraph) -> int:
    return graph.features.nbytes + graph.starts.nbytes + graph.neighbours.nbytes


def _statistics_bytes(reference: GraphStatistics) -> int:
    # The statistics compute and keep their kernels on first use; count them from the start.
    kernels = 3 * 8 * reference.count**2
    return (
        reference.degree.nbytes + reference.clustering.nbytes + reference.spectrum.nbytes + kernels
    )
