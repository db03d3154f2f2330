"""Counterfactuals of a trained node classifier, verified on the whole graph."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from bench.data.synthetic import NodeDataset, tree_cycle
from d4explain.gnn.graphs import Graph, to_sparse
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import (
    ActivationLayer,
    BatchNormLayer,
    GcnLayer,
    GinLayer,
    GnnSpec,
    JumpLayer,
    KeepLayer,
    LinearLayer,
)
from models.counterfactual.explain import CounterfactualConfig, explain
from models.counterfactual.nodes import explain_node, frozen_pairs, held_on_whole
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.graphs.edits import EditRules
from models.graphs.neighbourhoods import instance, verify_on_whole

torch.set_num_threads(1)

CPU = torch.device("cpu")
EPOCHS = 150


@pytest.fixture(scope="module")
def data() -> NodeDataset:
    return tree_cycle(torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def gnn(data: NodeDataset) -> Gnn:
    block = (GcnLayer(16), BatchNormLayer(), ActivationLayer("relu"), KeepLayer())
    spec = GnnSpec(10, 2, (*block, *block, *block, JumpLayer("cat"), LinearLayer(2)))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        gnn = Gnn(spec)
    optimizer = torch.optim.Adam(gnn.parameters(), lr=1e-2)
    # A full learning rate at the end would make batch norm's averages stale.
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    graphs = to_sparse([data.graph])
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        cross_entropy(gnn.node_logits(graphs), data.labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return gnn.eval()


def test_the_classifier_learned_its_task(data: NodeDataset, gnn: Gnn) -> None:
    with torch.no_grad():
        predicted = gnn.node_logits(to_sparse([data.graph])).argmax(dim=1)
    assert float((predicted == data.labels).float().mean()) > 0.95


# Nodes of three cycles.
@pytest.mark.parametrize("node", [511 + 6 * 10, 511 + 6 * 25 + 2, 511 + 6 * 40 + 4])
@pytest.mark.parametrize("has_denoiser", [True, False])
def test_counterfactuals_of_a_node_flip_on_the_whole_graph(
    data: NodeDataset, gnn: Gnn, node: int, has_denoiser: bool
) -> None:
    part = instance(data.graph, node, gnn.spec.convolutions)
    assert part.graph.node_count < 100
    denoiser = Denoiser(DenoiserShape(10, hidden=8, blocks=2, marked=True))
    outcome = explain(
        gnn,
        denoiser if has_denoiser else None,
        part.graph,
        part.rules(EditRules(max_edits=4, max_ratio=1.0)),
        CounterfactualConfig(),
        seed=0,
        device=CPU,
    )
    before = verify_on_whole(gnn, data.graph, part, part.graph, CPU)
    torch.testing.assert_close(outcome.probabilities, before)
    assert int(before.argmax()) == int(data.labels[node]) == 1
    assert outcome.found
    for found in outcome.found:
        after = verify_on_whole(gnn, data.graph, part, found.graph, CPU)
        assert int(after.argmax()) == 0
        torch.testing.assert_close(found.probabilities, after, rtol=1e-4, atol=1e-5)
        touched = {end for edit in found.edits for end in (edit.source, edit.target)}
        assert not touched & part.frozen_nodes


def walk_counter(threshold: float) -> Gnn:
    """Class 1 if more than `threshold` walks of two steps start at the node; a step may stay."""
    gnn = Gnn(GnnSpec(1, 2, (GinLayer(1, 1), GinLayer(1, 1), LinearLayer(2)))).eval()
    with torch.no_grad():
        for name, value in gnn.named_parameters():
            value.fill_(1.0 if name.endswith("weight") else 0.0)
        gnn.layers[2].linear.weight[0] = 0.0
        gnn.layers[2].linear.bias[1] = -threshold
    return gnn


def ring(size: int) -> Graph:
    nodes = torch.arange(size)
    edges = torch.stack([nodes, (nodes + 1) % size]).sort(dim=0).values
    return Graph(torch.ones(size, 1), edges)


def test_probabilities_of_a_node_come_from_the_whole_graph() -> None:
    gnn, whole = walk_counter(10.0), ring(8)  # nine walks start at every node
    part = instance(whole, 0, gnn.spec.convolutions, receptive_field=gnn.spec.receptive_field)
    outcome = explain_node(
        gnn,
        Denoiser(DenoiserShape(1, hidden=4, blocks=1, marked=True)),
        part,
        EditRules(),
        CounterfactualConfig(),
        whole=whole,
        seed=0,
        device=CPU,
    )
    torch.testing.assert_close(outcome.probabilities, torch.tensor([0.0, -1.0]).softmax(0))
    assert len(outcome.found) == 1
    torch.testing.assert_close(outcome.found[0].probabilities, torch.tensor([0.0, 1.0]).softmax(0))
    assert outcome.reason is None
    assert frozen_pairs(part) == 3


def test_answers_refuted_in_the_whole_graph_are_dropped() -> None:
    """With one hop, the instance has 7 walks and 9 after an edit, instead of 9 and 11."""
    gnn, whole = walk_counter(8.0), ring(8)
    part = instance(
        whole, 0, gnn.spec.convolutions, receptive_field=gnn.spec.receptive_field, hops=1
    )
    assert not part.exact
    claimed = explain(
        gnn,
        Denoiser(DenoiserShape(1, hidden=4, blocks=1, marked=True)),
        part.graph,
        EditRules(max_ratio=0.5),
        CounterfactualConfig(),
        seed=0,
        device=CPU,
    )
    assert claimed.found
    verified = held_on_whole(gnn, part, claimed, whole=whole, target_class=None, device=CPU)
    assert verified.found == ()
    assert verified.reason == (
        "the edits flip the node in its neighbourhood but not in the whole graph"
    )
    torch.testing.assert_close(verified.probabilities, torch.tensor([0.0, 1.0]).softmax(0))
    assert verified.closest_miss is not None
    torch.testing.assert_close(
        verified.closest_miss.probabilities, torch.tensor([0.0, 3.0]).softmax(0)
    )
    assert verified.gnn_evaluations == claimed.gnn_evaluations + 1 + len(claimed.found)


def test_answers_of_another_class_than_requested_are_dropped() -> None:
    gnn, whole = walk_counter(10.0), ring(8)
    part = instance(whole, 0, gnn.spec.convolutions, receptive_field=gnn.spec.receptive_field)
    claimed = explain(
        gnn,
        Denoiser(DenoiserShape(1, hidden=4, blocks=1, marked=True)),
        part.graph,
        part.rules(EditRules()),
        CounterfactualConfig(),
        seed=0,
        device=CPU,
    )
    for target, kept in ((1, 1), (0, 0), (None, 1)):
        verified = held_on_whole(gnn, part, claimed, whole=whole, target_class=target, device=CPU)
        assert len(verified.found) == kept
