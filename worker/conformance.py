"""The conformance probe: what a GNN must do before anything it says is explained.

Sample graphs are drawn with a fixed seed; a check says in its detail what was measured. A GNN that
classifies nodes is asked about all nodes of all graphs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from models.gnn.network import Gnn
from models.gnn.spec import GraphNormLayer
from models.graphs import Graph, to_dense, to_sparse
from store.results import ProbeCheck, ProbeReport
from worker.failures import failure_of

# Relative to the largest logit. Single precision sums in another order differ by less; a layer
# that depends on its batch mates, or on chance, differs by far more.
_SINGLE = 1e-3
_DOUBLE = 1e-9
_SIZES = (2, 3, 4, 6, 9, 14, 20)
_DENSITIES = (0.15, 0.5)


@dataclass(frozen=True)
class _Probe:
    gnn: Gnn
    graphs: list[Graph]
    device: torch.device
    generator: torch.Generator

    def logits(self, graphs: list[Graph]) -> Tensor:
        """[graph, class], or of a node classifier [node of all graphs, class]."""
        with torch.inference_mode():
            return _forward(self.gnn, graphs, self.device)

    @property
    def of_nodes(self) -> bool:
        return self.gnn.spec.classifies_nodes

    @property
    def what(self) -> str:
        return "nodes" if self.of_nodes else "graphs"

    def one_per_answer(self, graphs: list[Graph]) -> list[Graph]:
        """What the dense form takes, which answers for the marked node of each graph."""
        if not self.of_nodes:
            return graphs
        return [replace(graph, target=node) for graph in graphs for node in range(graph.node_count)]


@dataclass(frozen=True)
class _Verdict:
    passed: bool
    detail: str


def probe(gnn: Gnn, device: torch.device) -> ProbeReport:
    """Every check in order; when the GNN cannot even be run, the others are left out."""
    generator = torch.Generator().manual_seed(0)
    graphs = sample_graphs(gnn.spec.features, generator)
    if any(isinstance(layer, GraphNormLayer) for layer in gnn.spec.layers):
        graphs = [graph for graph in graphs if not _nodes_alike(graph)]
    subject = _Probe(gnn.eval(), graphs, device, generator)
    checks: list[ProbeCheck] = []
    for name, check in _CHECKS:
        checks.append(_checked(name, check, subject))
        if name in _NEEDED_BY_OTHERS and not checks[-1].passed:
            break
    return ProbeReport(passed=all(check.passed for check in checks), checks=checks)


def sample_graphs(features: int, generator: torch.Generator) -> list[Graph]:
    """Varied sizes, densities and kinds of features: one-hot, real-valued, constant."""
    graphs = [Graph(torch.ones(3, features), torch.empty(2, 0, dtype=torch.int64))]
    for size in _SIZES:
        for density in _DENSITIES:
            hot = torch.randint(features, (size,), generator=generator)
            for x in (
                torch.nn.functional.one_hot(hot, features).float(),
                torch.randn(size, features, generator=generator),
                torch.ones(size, features),
            ):
                drawn = torch.rand(size, size, generator=generator) < density
                edges = torch.triu(drawn, diagonal=1).nonzero().T.contiguous()
                graphs.append(Graph(x, edges))
    return graphs


def _checked(name: str, check: Callable[[_Probe], _Verdict], subject: _Probe) -> ProbeCheck:
    try:
        verdict = check(subject)
    except Exception as error:
        if failure_of(error).retryable:
            raise  # the worker's fault, not the GNN's
        verdict = _Verdict(False, f"failed with {type(error).__name__}: {error}")
    return ProbeCheck(name=name, passed=verdict.passed, detail=verdict.detail)


def _shapes(probe: _Probe) -> _Verdict:
    wanted = (len(probe.one_per_answer(probe.graphs)), probe.gnn.spec.classes)
    got = tuple(probe.logits(probe.graphs).shape)
    return _Verdict(got == wanted, f"{wanted[0]} {probe.what} give logits {got}, expected {wanted}")


def _finite(probe: _Probe) -> _Verdict:
    finite = torch.isfinite(probe.logits(probe.graphs)).all(dim=1)
    count = int((~finite).sum())
    return _Verdict(
        count == 0, f"{count} of {len(finite)} {probe.what} give values that are not finite"
    )


def _deterministic(probe: _Probe) -> _Verdict:
    return _close(
        probe.logits(probe.graphs), probe.logits(probe.graphs), _SINGLE, "two passes in eval mode"
    )


def _batch_invariant(probe: _Probe) -> _Verdict:
    alone = torch.cat([probe.logits([graph]) for graph in probe.graphs])
    return _close(probe.logits(probe.graphs), alone, _SINGLE, "batched and one by one")


def _order_invariant(probe: _Probe) -> _Verdict:
    """A graph's answer stays what it was; the answers of nodes go where the nodes went."""
    places = [torch.randperm(graph.node_count, generator=probe.generator) for graph in probe.graphs]
    shuffled = [_placed(graph, place) for graph, place in zip(probe.graphs, places, strict=True)]
    logits = probe.logits(shuffled)
    if probe.of_nodes:
        rows = torch.split(logits, [len(place) for place in places])
        logits = torch.cat([own[place] for own, place in zip(rows, places, strict=True)])
    return _close(probe.logits(probe.graphs), logits, _SINGLE, "nodes in another order")


def _dense_equals_sparse(probe: _Probe) -> _Verdict:
    """In double precision, where a real difference cannot hide behind rounding."""
    gnn = copy.deepcopy(probe.gnn).cpu().double()
    graphs = [replace(graph, features=graph.features.double()) for graph in probe.graphs]
    with torch.inference_mode():
        dense = gnn.dense(to_dense(probe.one_per_answer(graphs)))
        sparse = _forward(gnn, graphs, torch.device("cpu"))
    return _close(sparse, dense, _DOUBLE, "dense and sparse form")


def _sees_edges(probe: _Probe) -> _Verdict:
    graphs = to_dense(probe.one_per_answer(probe.graphs)).to(probe.device)
    adjacency = graphs.adjacency.clone().requires_grad_()
    logits = probe.gnn.dense(graphs.with_adjacency(adjacency))
    # Squares: the logits' plain sum may be constant although each of them is not.
    (slope,) = torch.autograd.grad(logits.square().sum(), adjacency)
    largest = float((slope * graphs.pair_mask).abs().max())
    detail = f"largest gradient of the logits to an edge is {largest:.2g}"
    if largest == 0:
        detail += "; the GNN does not look at edges, so no edit can change its answer"
    return _Verdict(largest > 0, detail)


def _varies(probe: _Probe) -> _Verdict:
    """Probabilities, not logits: a GNN may add the same to every class."""
    probabilities = probe.logits(probe.graphs).softmax(dim=1)
    spread = float((probabilities.amax(dim=0) - probabilities.amin(dim=0)).max())
    count = f"{len(probabilities)} varied {probe.what}"
    detail = f"probabilities differ by up to {spread:.2g} over {count}"
    if spread <= 1e-6:
        detail += "; the GNN gives all of them the same answer"
    return _Verdict(spread > 1e-6, detail)


_CHECKS: tuple[tuple[str, Callable[[_Probe], _Verdict]], ...] = (
    ("shapes", _shapes),
    ("finite", _finite),
    ("deterministic", _deterministic),
    ("batch_invariant", _batch_invariant),
    ("node_order_invariant", _order_invariant),
    ("dense_equals_sparse", _dense_equals_sparse),
    ("sees_edges", _sees_edges),
    ("not_constant", _varies),
)
_NEEDED_BY_OTHERS = ("shapes", "finite")


def _forward(gnn: Gnn, graphs: list[Graph], device: torch.device) -> Tensor:
    batch = to_sparse(graphs).to(device)
    logits: Tensor = gnn.node_logits(batch) if gnn.spec.classifies_nodes else gnn(batch)
    return logits.cpu()


def _close(one: Tensor, other: Tensor, tolerance: float, what: str) -> _Verdict:
    scale = max(float(one.abs().max()), 1e-30)
    difference = float((one - other).abs().max()) / scale
    return _Verdict(
        difference <= tolerance,
        f"{what} differ by {difference:.2g} of the largest logit, {tolerance:.0e} is allowed",
    )


def _nodes_alike(graph: Graph) -> bool:
    """Whether all nodes have the same features, so that many layers cannot tell them apart.

    A norm over the nodes then divides rounding by sqrt(eps), 300 times per layer: what is left of
    it after some layers depends on batch and order, and is no fault of the GNN's form.
    """
    return bool((graph.features == graph.features[0]).all())


def _placed(graph: Graph, place: Tensor) -> Graph:
    """The graph with its node i at place[i]."""
    features = torch.empty_like(graph.features)
    features[place] = graph.features
    return Graph(features, place[graph.edges].sort(dim=0).values)
