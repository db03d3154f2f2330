"""The conformance probe: what a GNN must do before anything it says is explained.

Graphs are drawn with a fixed seed, and some come from the samples that the GNN was registered with;
a check says in its detail what was measured, and names a graph where it fails. A GNN that
classifies nodes is asked about all nodes of all graphs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor

from d4explain.contracts.results import ProbeCheck, ProbeExample, ProbeReport
from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph, to_dense, to_sparse
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import GnnSpec, GraphNormLayer
from worker.execution.failures import failure_of
from worker.probing.labelled_samples import Samples, sample_checks, sample_figures, shown

# Relative to the largest logit. Single precision sums in another order differ by less; a layer
# that depends on its batch mates, or on chance, differs by far more.
_SINGLE = 1e-3
_DOUBLE = 1e-9
_NOTICED = 1e-5  # a real change of the logits, relative to the largest, and no rounding
_BLIND = "the GNN does not look at edges, so no edit can change its answer"
_SIZES = (2, 3, 4, 6, 9, 14, 20)
_DENSITIES = (0.15, 0.5)
# Samples that every check runs on; the dense form of wide GNNs takes much memory for more of them.
_SAMPLES = 8
_SAMPLES_OF_NODES = 2  # every node of theirs is a graph of the dense form
_SAMPLE_NODES = 32


@dataclass(frozen=True)
class _Probe:
    gnn: Gnn
    graphs: list[Graph]
    names: list[ProbeExample]  # one per graph, still without what came out
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

    def example(self, answer: int, expected: str, came_out: str) -> ProbeExample:
        """Of the graph, or of the node of a graph, that an answer is about."""
        graph, node = answer, ""
        if self.of_nodes:
            sizes = [graph.node_count for graph in self.graphs]
            graph = next(i for i, end in enumerate(accumulate(sizes)) if answer < end)
            node = f", node {answer - sum(sizes[:graph])}"
        name = self.names[graph]
        update = {"graph": name.graph + node, "expected": expected, "came_out": came_out}
        return name.model_copy(update=update)


@dataclass(frozen=True)
class _Verdict:
    passed: bool
    detail: str
    example: ProbeExample | None = None  # where it has not passed


def probe(gnn: Gnn, device: torch.device, samples: Samples | None = None) -> ProbeReport:
    """Every check in order; when the GNN cannot even be run, the others are left out."""
    subject = _subject(gnn.eval(), device, samples)
    checks: list[ProbeCheck] = []
    for name, check in _CHECKS:
        if name == "dense_equals_sparse" and not gnn.has_dense:
            continue
        checks.append(_checked(name, check, subject))
        if name in _NEEDED_BY_OTHERS and not checks[-1].passed:
            return ProbeReport(passed=False, checks=checks)
    figures = None
    if samples is not None:
        probabilities = samples.probabilities(gnn, device)  # [sample, class]
        figures = sample_figures(samples, probabilities)
        checks += sample_checks(samples, probabilities, figures)
    passed = all(check.passed for check in checks)
    dense: Literal["present", "absent"] = "present" if gnn.has_dense else "absent"
    return ProbeReport(passed=passed, checks=checks, dense=dense, samples=figures)


def _subject(gnn: Gnn, device: torch.device, samples: Samples | None) -> _Probe:
    generator = torch.Generator().manual_seed(0)
    named = [
        (_named(graph, f"drawn graph {i}"), graph)
        for i, graph in enumerate(sample_graphs(gnn.spec, generator))
    ]
    if samples is not None:
        small = [i for i, graph in enumerate(samples.graphs) if graph.node_count <= _SAMPLE_NODES]
        usual = _usual(gnn.spec)
        most = _SAMPLES_OF_NODES if gnn.spec.classifies_nodes else _SAMPLES
        few = [(samples.named(i), samples.graphs[i]) for i in small[:most]]
        named += [(name, replace(graph, usual=usual)) for name, graph in few]
    if any(isinstance(layer, GraphNormLayer) for layer in gnn.spec.layers):
        named = [(name, graph) for name, graph in named if not _nodes_alike(graph)]
    names, graphs = zip(*named, strict=True)
    return _Probe(gnn, list(graphs), list(names), device, generator)


def sample_graphs(spec: GnnSpec, generator: torch.Generator) -> list[Graph]:
    """Varied sizes, densities and kinds of features: one-hot, real-valued, constant.

    Edge attributes are real-valued, where the GNN reads them.
    """
    features = spec.features
    graphs = [_drawn(torch.ones(3, features), torch.zeros(3, 3), spec, generator)]
    for size in _SIZES:
        for density in _DENSITIES:
            hot = torch.randint(features, (size,), generator=generator)
            for x in (
                torch.nn.functional.one_hot(hot, features).float(),
                torch.randn(size, features, generator=generator),
                torch.ones(size, features),
            ):
                chosen = torch.rand(size, size, generator=generator) < density
                graphs.append(_drawn(x, chosen, spec, generator))
    return graphs


def _drawn(x: Tensor, chosen: Tensor, spec: GnnSpec, generator: torch.Generator) -> Graph:
    edges = torch.triu(chosen, diagonal=1).nonzero().T.contiguous()
    if not spec.edge_features:
        return Graph(x, edges)
    attributes = torch.randn(edges.shape[1], spec.edge_features, generator=generator)
    return Graph(x, edges, edge_attributes=attributes, usual=_usual(spec))


def _usual(spec: GnnSpec) -> UsualAttributes | None:
    """What toggled edges carry here, before there is any reference set."""
    if not spec.edge_features:
        return None
    return UsualAttributes.always(torch.ones(spec.edge_features))


def _checked(name: str, check: Callable[[_Probe], _Verdict], subject: _Probe) -> ProbeCheck:
    try:
        verdict = check(subject)
    except Exception as error:
        if failure_of(error).retryable:
            raise  # the worker's fault, not the GNN's
        verdict = _Verdict(False, f"failed with {type(error).__name__}: {error}")
    return ProbeCheck(
        name=name, passed=verdict.passed, detail=verdict.detail, example=verdict.example
    )


def _shapes(probe: _Probe) -> _Verdict:
    wanted = (len(probe.one_per_answer(probe.graphs)), probe.gnn.spec.classes)
    got = tuple(probe.logits(probe.graphs).shape)
    return _Verdict(got == wanted, f"{wanted[0]} {probe.what} give logits {got}, expected {wanted}")


def _finite(probe: _Probe) -> _Verdict:
    logits = probe.logits(probe.graphs)
    broken = (~torch.isfinite(logits).all(dim=1)).nonzero().flatten().tolist()
    detail = f"{len(broken)} of {len(logits)} {probe.what} give values that are not finite"
    if not broken:
        return _Verdict(True, detail)
    example = probe.example(broken[0], "finite logits", shown(logits[broken[0]]))
    return _Verdict(False, detail, example)


def _deterministic(probe: _Probe) -> _Verdict:
    once, again = probe.logits(probe.graphs), probe.logits(probe.graphs)
    return _close(probe, once, again, _SINGLE, "two passes in eval mode")


def _batch_invariant(probe: _Probe) -> _Verdict:
    alone = torch.cat([probe.logits([graph]) for graph in probe.graphs])
    return _close(probe, probe.logits(probe.graphs), alone, _SINGLE, "batched and one by one")


def _order_invariant(probe: _Probe) -> _Verdict:
    """A graph's answer stays what it was; the answers of nodes go where the nodes went."""
    places = [torch.randperm(graph.node_count, generator=probe.generator) for graph in probe.graphs]
    shuffled = [_placed(graph, place) for graph, place in zip(probe.graphs, places, strict=True)]
    logits = probe.logits(shuffled)
    if probe.of_nodes:
        rows = torch.split(logits, [len(place) for place in places])
        logits = torch.cat([own[place] for own, place in zip(rows, places, strict=True)])
    return _close(probe, probe.logits(probe.graphs), logits, _SINGLE, "nodes in another order")


def _dense_equals_sparse(probe: _Probe) -> _Verdict:
    """In double precision, where a real difference cannot hide behind rounding."""
    gnn = copy.deepcopy(probe.gnn).cpu().double()
    graphs = [_double(graph) for graph in probe.graphs]
    with torch.inference_mode():
        dense = gnn.dense(to_dense(probe.one_per_answer(graphs)))
        sparse = _forward(gnn, graphs, torch.device("cpu"))
    return _close(probe, sparse, dense, _DOUBLE, "dense and sparse form")


def _sees_edges(probe: _Probe) -> _Verdict:
    if not probe.gnn.has_dense:
        return _notices_toggles(probe)
    graphs = to_dense(probe.one_per_answer(probe.graphs)).to(probe.device)
    adjacency = graphs.adjacency.clone().requires_grad_()
    logits = probe.gnn.dense(graphs.with_adjacency(adjacency))
    # Squares: the logits' plain sum may be constant although each of them is not.
    (slope,) = torch.autograd.grad(logits.square().sum(), adjacency)
    largest = float((slope * graphs.pair_mask).abs().max())
    detail = f"largest gradient of the logits to an edge is {largest:.2g}"
    if largest > 0:
        return _Verdict(True, detail)
    came_out = f"{largest:.2g} at all node pairs"
    example = _unmoved(probe, "a gradient to some edge", came_out)
    return _Verdict(False, f"{detail}; {_BLIND}", example)


def _unmoved(probe: _Probe, expected: str, came_out: str) -> ProbeExample:
    asked = probe.one_per_answer(probe.graphs)
    densest = max(range(len(asked)), key=lambda i: asked[i].edge_count)
    return probe.example(densest, expected, came_out)


def _notices_toggles(probe: _Probe) -> _Verdict:
    """Without a gradient: one pair of each graph is toggled, some edges and some absent pairs."""
    graphs = [graph for graph in probe.graphs if graph.node_count > 1]
    toggled = [_toggled(graph, probe.generator) for graph in graphs]
    before, after = probe.logits(graphs), probe.logits(toggled)
    largest = float((after - before).abs().max()) / max(float(before.abs().max()), 1e-30)
    detail = f"one toggled edge changes the logits by up to {largest:.2g} of the largest"
    if largest > _NOTICED:
        return _Verdict(True, detail)
    return _Verdict(False, f"{detail}; {_BLIND}", _unmoved(probe, "another answer", detail))


def _toggled(graph: Graph, generator: torch.Generator) -> Graph:
    """With one pair of nodes changed: an edge, or as often an absent one, if there is."""
    present = torch.zeros(graph.node_count, graph.node_count, dtype=torch.bool)
    present[tuple(graph.edges)] = True
    upper = torch.triu(torch.ones_like(present), diagonal=1)
    kinds = [(upper & present).nonzero(), (upper & ~present).nonzero()]
    first = int(torch.randint(2, (), generator=generator))
    pairs = kinds[first] if len(kinds[first]) else kinds[1 - first]
    one, other = pairs[int(torch.randint(len(pairs), (), generator=generator))].tolist()
    present[one, other] = not present[one, other]
    return graph.with_edges((upper & present).nonzero().T.contiguous())


def _double(graph: Graph) -> Graph:
    attributes = graph.edge_attributes
    return replace(
        graph,
        features=graph.features.double(),
        edge_attributes=None if attributes is None else attributes.double(),
    )


def _varies(probe: _Probe) -> _Verdict:
    """Probabilities, not logits: a GNN may add the same to every class."""
    probabilities = probe.logits(probe.graphs).softmax(dim=1)
    spread = float((probabilities.amax(dim=0) - probabilities.amin(dim=0)).max())
    detail = f"probabilities differ by up to {spread:.2g} over {len(probabilities)} {probe.what}"
    if spread > 1e-6:
        return _Verdict(True, detail)
    detail += "; the GNN gives all of them the same answer"
    last = len(probabilities) - 1
    other = f"another answer than {shown(probabilities[0])}, that of {probe.names[0].graph}"
    return _Verdict(False, detail, probe.example(last, other, shown(probabilities[last])))


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


def _close(probe: _Probe, one: Tensor, other: Tensor, tolerance: float, what: str) -> _Verdict:
    """Whether both [answer, class] are alike; if not, what differs most is the example."""
    scale = max(float(one.abs().max()), 1e-30)
    differences = (one - other).abs().amax(dim=1) / scale  # [answer]
    worst = int(differences.argmax())
    detail = (
        f"{what} differ by {float(differences[worst]):.2g} of the largest logit, "
        f"{tolerance:.0e} is allowed"
    )
    if float(differences[worst]) <= tolerance:
        return _Verdict(True, detail)
    return _Verdict(False, detail, probe.example(worst, shown(one[worst]), shown(other[worst])))


def _named(graph: Graph, name: str) -> ProbeExample:
    size = f"{graph.node_count} nodes and {graph.edges.shape[1]} edges"
    return ProbeExample(sample=None, graph=f"{name}, {size}", expected="", came_out="")


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
    return replace(graph, features=features, edges=place[graph.edges].sort(dim=0).values)
