"""The checks of the conformance probe; each reports a measurement, and an example if it fails."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from d4explain.contracts.probe_reports import ProbeExample
from d4explain.gnn.graphs import Graph, to_dense
from worker.probing.labelled_samples import format_values
from worker.probing.probe_subject import ProbeSubject, sparse_logits

# Tolerances relative to the largest logit. Sums in another order differ by less in single
# precision. A layer that depends on the rest of its batch, or on chance, differs by far more.
_SINGLE_TOLERANCE = 1e-3
_DOUBLE_TOLERANCE = 1e-9
_MIN_CHANGE = 1e-5  # of the logits, relative to the largest: more than rounding
_IGNORES_EDGES = "the GNN ignores edges, so no edit can change its output"


@dataclass(frozen=True)
class Verdict:
    passed: bool
    detail: str
    example: ProbeExample | None = None  # of a failed check


def _shapes(subject: ProbeSubject) -> Verdict:
    expected_shape = (len(subject.one_graph_per_answer(subject.graphs)), subject.gnn.spec.classes)
    actual = tuple(subject.logits(subject.graphs).shape)
    return Verdict(
        actual == expected_shape,
        f"{expected_shape[0]} {subject.units} give logits {actual}, expected {expected_shape}",
    )


def _finite(subject: ProbeSubject) -> Verdict:
    logits = subject.logits(subject.graphs)
    broken = (~torch.isfinite(logits).all(dim=1)).nonzero().flatten().tolist()
    detail = f"{len(broken)} of {len(logits)} {subject.units} give non-finite values"
    if not broken:
        return Verdict(True, detail)
    example = subject.example(broken[0], "finite logits", format_values(logits[broken[0]]))
    return Verdict(False, detail, example)


def _deterministic(subject: ProbeSubject) -> Verdict:
    once, again = subject.logits(subject.graphs), subject.logits(subject.graphs)
    return _close(subject, once, again, _SINGLE_TOLERANCE, "two passes in eval mode")


def _batch_invariant(subject: ProbeSubject) -> Verdict:
    alone = torch.cat([subject.logits([graph]) for graph in subject.graphs])
    return _close(
        subject, subject.logits(subject.graphs), alone, _SINGLE_TOLERANCE, "batched and one by one"
    )


def _node_order_invariant(subject: ProbeSubject) -> Verdict:
    """Permuting nodes keeps the output for a graph and permutes the outputs for nodes."""
    positions = [
        torch.randperm(graph.node_count, generator=subject.generator) for graph in subject.graphs
    ]
    shuffled = [
        _permute(graph, position) for graph, position in zip(subject.graphs, positions, strict=True)
    ]
    logits = subject.logits(shuffled)
    if subject.classifies_nodes:
        rows = torch.split(logits, [len(position) for position in positions])
        logits = torch.cat([row[position] for row, position in zip(rows, positions, strict=True)])
    return _close(
        subject, subject.logits(subject.graphs), logits, _SINGLE_TOLERANCE, "nodes in another order"
    )


def _dense_equals_sparse(subject: ProbeSubject) -> Verdict:
    """Compares in double precision, where rounding cannot hide a real difference."""
    gnn = copy.deepcopy(subject.gnn).cpu().double()
    graphs = [_to_double(graph) for graph in subject.graphs]
    with torch.inference_mode():
        dense = gnn.dense(to_dense(subject.one_graph_per_answer(graphs)))
        sparse = sparse_logits(gnn, graphs, torch.device("cpu"))
    return _close(subject, sparse, dense, _DOUBLE_TOLERANCE, "dense and sparse form")


def _sees_edges(subject: ProbeSubject) -> Verdict:
    if not subject.gnn.has_dense:
        return _reacts_to_toggles(subject)
    graphs = to_dense(subject.one_graph_per_answer(subject.graphs)).to(subject.device)
    adjacency = graphs.adjacency.clone().requires_grad_()
    logits = subject.gnn.dense(graphs.with_adjacency(adjacency))
    # Squares, because the plain sum of logits may be constant although each logit is not.
    (slope,) = torch.autograd.grad(logits.square().sum(), adjacency)
    largest = float((slope * graphs.pair_mask).abs().max())
    detail = f"the largest gradient of the logits with respect to an edge is {largest:.2g}"
    if largest > 0:
        return Verdict(True, detail)
    came_out = f"at most {largest:.2g} at all node pairs"
    example = _densest_example(subject, "a gradient with respect to some edge", came_out)
    return Verdict(False, f"{detail}; {_IGNORES_EDGES}", example)


def _densest_example(subject: ProbeSubject, expected: str, came_out: str) -> ProbeExample:
    graphs = subject.one_graph_per_answer(subject.graphs)
    densest = max(range(len(graphs)), key=lambda i: graphs[i].edge_count)
    return subject.example(densest, expected, came_out)


def _reacts_to_toggles(subject: ProbeSubject) -> Verdict:
    """Without a gradient: toggles one node pair of each graph, an edge or an absent pair."""
    graphs = [graph for graph in subject.graphs if graph.node_count > 1]
    toggled = [_toggle_one_pair(graph, subject.generator) for graph in graphs]
    before, after = subject.logits(graphs), subject.logits(toggled)
    largest = float((after - before).abs().max()) / max(float(before.abs().max()), 1e-30)
    detail = f"one toggled edge changes the logits by up to {largest:.2g} of the largest"
    if largest > _MIN_CHANGE:
        return Verdict(True, detail)
    return Verdict(
        False, f"{detail}; {_IGNORES_EDGES}", _densest_example(subject, "another output", detail)
    )


def _toggle_one_pair(graph: Graph, generator: torch.Generator) -> Graph:
    """Removes or adds one edge with equal probability, if both are possible."""
    present = torch.zeros(graph.node_count, graph.node_count, dtype=torch.bool)
    present[tuple(graph.edges)] = True
    upper = torch.triu(torch.ones_like(present), diagonal=1)
    choices = [(upper & present).nonzero(), (upper & ~present).nonzero()]
    first = int(torch.randint(2, (), generator=generator))
    pairs = choices[first] if len(choices[first]) else choices[1 - first]
    source, target = pairs[int(torch.randint(len(pairs), (), generator=generator))].tolist()
    present[source, target] = not present[source, target]
    return graph.with_edges((upper & present).nonzero().T.contiguous())


def _to_double(graph: Graph) -> Graph:
    attributes = graph.edge_attributes
    return replace(
        graph,
        features=graph.features.double(),
        edge_attributes=None if attributes is None else attributes.double(),
    )


def _not_constant(subject: ProbeSubject) -> Verdict:
    """Compares probabilities, because a GNN may add the same number to all logits."""
    probabilities = subject.logits(subject.graphs).softmax(dim=1)
    spread = float((probabilities.amax(dim=0) - probabilities.amin(dim=0)).max())
    detail = f"probabilities differ by up to {spread:.2g} over {len(probabilities)} {subject.units}"
    if spread > 1e-6:
        return Verdict(True, detail)
    detail += "; the GNN gives all of them the same output"
    last = len(probabilities) - 1
    other = (
        f"another output than {format_values(probabilities[0])}, that of {subject.names[0].graph}"
    )
    return Verdict(False, detail, subject.example(last, other, format_values(probabilities[last])))


CHECKS: tuple[tuple[str, Callable[[ProbeSubject], Verdict]], ...] = (
    ("shapes", _shapes),
    ("finite", _finite),
    ("deterministic", _deterministic),
    ("batch_invariant", _batch_invariant),
    ("node_order_invariant", _node_order_invariant),
    ("dense_equals_sparse", _dense_equals_sparse),
    ("sees_edges", _sees_edges),
    ("not_constant", _not_constant),
)


def _close(
    subject: ProbeSubject, one: Tensor, other: Tensor, tolerance: float, what: str
) -> Verdict:
    """Compares two outputs [answer, class]; the example of a failure has the largest difference."""
    scale = max(float(one.abs().max()), 1e-30)
    differences = (one - other).abs().amax(dim=1) / scale  # [answer]
    worst = int(differences.argmax())
    detail = (
        f"{what} differ by {float(differences[worst]):.2g} of the largest logit; "
        f"at most {tolerance:.0e} is allowed"
    )
    if float(differences[worst]) <= tolerance:
        return Verdict(True, detail)
    return Verdict(
        False,
        detail,
        subject.example(worst, format_values(one[worst]), format_values(other[worst])),
    )


def _permute(graph: Graph, position: Tensor) -> Graph:
    """Moves node i to position[i]."""
    features = torch.empty_like(graph.features)
    features[position] = graph.features
    return replace(graph, features=features, edges=position[graph.edges].sort(dim=0).values)
