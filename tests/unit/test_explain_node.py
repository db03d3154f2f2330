"""From a trained node classifier to counterfactuals that flip it on the whole graph."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from models.counterfactual import CounterfactualConfig, explain
from models.denoiser import Denoiser, DenoiserShape
from models.edits import EditRules
from models.gnn.network import Gnn
from models.gnn.spec import (
    ActivationLayer,
    BatchNormLayer,
    GcnLayer,
    GnnSpec,
    JumpLayer,
    KeepLayer,
    LinearLayer,
)
from models.graphs import to_sparse
from models.neighbourhoods import instance, verify_on_whole
from models.synthetic import NodeDataset, tree_cycle

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
    # at full rate a last step may undo what the batch norm's averages have learned
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


# nodes of three cycles
@pytest.mark.parametrize("node", [511 + 6 * 10, 511 + 6 * 25 + 2, 511 + 6 * 40 + 4])
def test_counterfactuals_of_a_node_flip_on_the_whole_graph(
    data: NodeDataset, gnn: Gnn, node: int
) -> None:
    part = instance(data.graph, node, gnn.spec.convolutions)
    assert part.graph.node_count < 100
    denoiser = Denoiser(DenoiserShape(10, hidden=8, blocks=2, marked=True))
    outcome = explain(
        gnn,
        denoiser,
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
