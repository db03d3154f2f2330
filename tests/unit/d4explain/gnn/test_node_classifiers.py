"""GNNs without a pool: the mark reaches everything that sees a graph, and decides the answer."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.gnn.errors import NoMarkedNodeError
from d4explain.gnn.graphs import Graph, from_dense, to_dense, to_sparse
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import (
    ActivationLayer,
    BatchNormLayer,
    GcnLayer,
    GinLayer,
    GnnSpec,
    JumpLayer,
    KeepLayer,
    LinearLayer,
    PoolLayer,
)
from models.classes.config import ClassConfig
from models.classes.explain import explain_class
from models.counterfactual.explain import CounterfactualConfig, explain
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.diffusion.recipes import Objective, recipe_for
from models.graphs.edits import EditRules, EditSpace
from models.graphs.isomorphism import graph_codes, marked_codes
from models.graphs.subgraphs import connected_subgraph, neighbours_of
from models.training.trainer import Trainer

torch.set_num_threads(1)

CPU = torch.device("cpu")
FEATURES = 3
seeds = st.integers(0, 10_000)


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def marked_graph(seed: int, nodes: int | None = None, *, constant: bool = False) -> Graph:
    generator = rng(seed)
    if nodes is None:
        nodes = int(torch.randint(1, 9, (1,), generator=generator))
    upper = torch.triu(torch.rand(nodes, nodes, generator=generator) < 0.4, diagonal=1)
    features = torch.randn(nodes, FEATURES, generator=generator)
    return Graph(
        torch.ones_like(features) if constant else features,
        upper.nonzero().T.contiguous(),
        target=int(torch.randint(nodes, (1,), generator=generator)),
    )


def node_gnn(seed: int, classes: int = 2) -> Gnn:
    """Jumping knowledge, both convolutions, and weights away from their initial values."""
    layers = (
        GcnLayer(5),
        BatchNormLayer(),
        ActivationLayer("tanh"),
        KeepLayer(),
        GinLayer(4, 6),
        KeepLayer(),
        JumpLayer("cat"),
        LinearLayer(classes),
    )
    gnn = Gnn(GnnSpec(FEATURES, classes, layers)).eval()
    with torch.no_grad():
        for parameter in gnn.parameters():
            parameter.normal_(generator=rng(seed))
    return gnn


def marked_denoiser(seed: int = 0) -> Denoiser:
    denoiser = Denoiser(DenoiserShape(FEATURES, hidden=6, blocks=2, marked=True), rng(seed))
    with torch.no_grad():  # a new denoiser says nothing before it is trained
        denoiser.head_out.normal_(generator=rng(seed + 1))
    return denoiser.eval()


def test_a_spec_knows_its_task_and_its_hops() -> None:
    nodes = node_gnn(0).spec
    assert nodes.classifies_nodes
    assert nodes.convolutions == 2
    graphs = GnnSpec(1, 2, (GcnLayer(2), PoolLayer("sum"), LinearLayer(2)))
    assert not graphs.classifies_nodes
    assert graphs.convolutions == 1


@settings(max_examples=30, deadline=None)
@given(seed=seeds, padding=st.integers(0, 3))
def test_both_forms_answer_for_the_marked_node_as_pyg_does(seed: int, padding: int) -> None:
    gnn = node_gnn(seed).double()
    graphs = [marked_graph(seed + number) for number in range(4)]
    graphs = [replace(graph, features=graph.features.double()) for graph in graphs]
    conv = pyg.GCNConv(FEATURES, 5).double()
    conv.load_state_dict(gnn.layers[0].conv.state_dict())
    with torch.no_grad():
        expected = []
        for graph in graphs:
            edge_index = torch.cat([graph.edges, graph.edges.flip(0)], dim=1)
            first = torch.tanh(gnn.layers[1].norm(conv(graph.features, edge_index)))
            second = gnn.layers[4].conv(first, edge_index)
            rows = gnn.layers[7].linear(torch.cat([first, second], dim=1))
            expected.append(rows[graph.target])
        sparse = gnn(to_sparse(graphs))
        widest = max(graph.node_count for graph in graphs)
        torch.testing.assert_close(sparse, torch.stack(expected))
        torch.testing.assert_close(gnn.dense(to_dense(graphs, nodes=widest + padding)), sparse)
        every_node = gnn.node_logits(to_sparse(graphs))
        torch.testing.assert_close(every_node[to_sparse(graphs).targets], sparse)
    torch.testing.assert_close(predict(gnn, graphs, CPU), sparse.softmax(dim=1))


def test_a_dense_batch_in_pieces_keeps_the_marks() -> None:
    gnn = node_gnn(0)
    batch = to_dense([marked_graph(seed, 6) for seed in range(900)], nodes=40)
    whole = gnn.dense(batch).detach()
    with torch.no_grad():
        torch.testing.assert_close(gnn.dense(batch), whole)


def test_graphs_without_a_mark_are_refused_by_node_classifiers() -> None:
    gnn, graph = node_gnn(0), replace(marked_graph(0, 4), target=None)
    with pytest.raises(NoMarkedNodeError, match=r"classifies nodes .* Graph.target"):
        gnn(to_sparse([graph]))
    with pytest.raises(NoMarkedNodeError):
        gnn.dense(to_dense([graph]))
    with pytest.raises(NoMarkedNodeError, match="denoiser"):
        marked_denoiser().read(to_dense([graph]))
    pooled = Gnn(GnnSpec(FEATURES, 2, (PoolLayer("sum"), LinearLayer(2))))
    with pytest.raises(ValueError, match="classifies graphs"):
        pooled.node_logits(to_sparse([graph]))


@pytest.mark.parametrize("target", [-1, 4])
def test_a_mark_outside_the_graph_is_refused(target: int) -> None:
    with pytest.raises(ValueError, match=f"node {target} is marked; the graph has nodes 0 to 3"):
        Graph(torch.ones(4, 1), torch.empty(2, 0, dtype=torch.int64), target)


def test_a_batch_is_marked_throughout_or_not_at_all() -> None:
    mixed = [marked_graph(0, 3), replace(marked_graph(1, 3), target=None)]
    with pytest.raises(ValueError, match="1 of 2 graphs have a marked node"):
        to_dense(mixed)
    with pytest.raises(ValueError, match="1 of 2 graphs have a marked node"):
        to_sparse(mixed)
    unmarked = [replace(graph, target=None) for graph in mixed]
    assert to_dense(unmarked).targets is None
    assert to_sparse(unmarked).targets is None


def test_marks_survive_every_way_a_batch_is_changed() -> None:
    graphs = [marked_graph(seed) for seed in range(5)]
    marks = [graph.target for graph in graphs]
    dense = to_dense(graphs)
    assert [graph.target for graph in from_dense(dense)] == marks
    assert [graph.cpu().target for graph in graphs] == marks

    def of(batch: object) -> list[int]:
        return batch.targets.tolist()  # type: ignore[attr-defined, no-any-return]

    assert of(dense.repeat(2)) == [mark for mark in marks for _ in range(2)]
    assert of(dense.select(torch.tensor([3, 0]))) == [marks[3], marks[0]]
    assert of(dense.select(slice(1, 3))) == marks[1:3]
    assert of(dense.with_adjacency(torch.zeros_like(dense.adjacency))) == marks
    assert of(dense.to(CPU)) == marks
    sparse = to_sparse(graphs).to(CPU)
    for position, graph in enumerate(graphs):
        assert sparse.targets is not None
        place = int(sparse.targets[position])
        assert int(sparse.graph_of_node[place]) == position
        assert torch.equal(sparse.features[place], graph.features[graph.target])


def test_edits_leave_the_mark_where_it_is() -> None:
    graph = marked_graph(3, 6)
    space = EditSpace.of(graph, EditRules(max_ratio=10.0))
    edit_sets = [(), (0,), (1, 4)]
    assert all(edited.target == graph.target for edited in space.apply_all(edit_sets))
    targets = space.dense(edit_sets).targets
    assert targets is not None
    assert targets.tolist() == [graph.target] * 3


def path(target: int | None) -> Graph:
    return Graph(torch.ones(4, 1), torch.tensor([[0, 1, 2], [1, 2, 3]]), target)


def test_symmetries_keep_the_mark() -> None:
    """On a path, cutting off either end is the same edit, unless one of the ends is marked."""
    removals = EditRules(max_ratio=1.0, add=False)
    ends = [(0,), (2,)]
    plain = marked_codes(EditSpace.of(path(None), removals), ends)
    assert plain[0] == plain[1]
    one_sided = marked_codes(EditSpace.of(path(0), removals), ends)
    assert one_sided[0] != one_sided[1]
    codes = graph_codes(to_dense([path(0), path(3), path(1), path(2)]))
    assert codes[0] == codes[1] != codes[2] == codes[3]


def test_the_denoiser_sees_the_mark_and_nothing_changes_without_it() -> None:
    plain, marked = (DenoiserShape(FEATURES, 6, 2, marked=marked) for marked in (False, True))
    shapes = {name: tensor.shape for name, tensor in Denoiser(plain).state_dict().items()}
    with_mark = {name: tensor.shape for name, tensor in Denoiser(marked).state_dict().items()}
    assert shapes.keys() == with_mark.keys()
    different = {name for name in shapes if shapes[name] != with_mark[name]}
    assert different == {"source", "target"}
    assert with_mark["source"] == (6, FEATURES + 1)

    graph = marked_graph(5, 6, constant=True)
    assert graph.target is not None
    elsewhere = replace(graph, target=(graph.target + 1) % 6)
    answers = marked_denoiser().read(to_dense([graph, elsewhere])).plausibility
    assert not torch.allclose(answers[0], answers[1])
    unseeing = Denoiser(plain)
    with torch.no_grad():
        unseeing.head_out.normal_(generator=rng(1))
    answers = unseeing.read(to_dense([graph, elsewhere])).plausibility
    torch.testing.assert_close(answers[0], answers[1])


@settings(max_examples=20, deadline=None)
@given(seed=seeds, nodes=st.integers(2, 7), padding=st.integers(0, 3))
def test_the_denoiser_follows_the_order_of_the_nodes(seed: int, nodes: int, padding: int) -> None:
    denoiser, graph = marked_denoiser(seed).double(), marked_graph(seed, nodes)
    graph = replace(graph, features=graph.features.double())
    order = torch.randperm(nodes, generator=rng(seed))
    place = torch.argsort(order)
    assert graph.target is not None
    moved = Graph(
        graph.features[order], place[graph.edges].sort(dim=0).values, int(place[graph.target])
    )
    answer = denoiser.read(to_dense([graph])).plausibility[0]
    other = denoiser.read(to_dense([moved], nodes=nodes + padding)).plausibility[0]
    torch.testing.assert_close(other[:nodes, :nodes], answer[order][:, order])


@settings(max_examples=30, deadline=None)
@given(seed=seeds, nodes=st.integers(1, 9))
def test_random_subgraphs_grow_around_the_mark(seed: int, nodes: int) -> None:
    graph = marked_graph(seed)
    part = connected_subgraph(graph, neighbours_of(graph), nodes, rng(seed))
    assert part.target == 0
    assert torch.equal(part.features[0], graph.features[graph.target])
    assert part.node_count <= nodes


def small_trainer(graphs: list[Graph], objective: Objective, gnn: Gnn) -> Trainer:
    recipe = replace(recipe_for(objective, steps=8, hidden=6, blocks=2), batch_graphs=4)
    # some graphs are larger than a pass holds
    return Trainer(graphs, gnn, replace(recipe, max_nodes=5), seed=0, device=CPU)


@pytest.mark.parametrize("objective", list(Objective))
def test_a_denoiser_is_trained_on_marked_graphs(objective: Objective) -> None:
    graphs = [marked_graph(seed, 4 + seed % 4) for seed in range(12)]
    trainer = small_trainer(graphs, objective, node_gnn(0))
    progress = list(trainer.run())
    assert len(progress) == 8
    assert trainer.denoiser().shape.marked
    assert trainer.denoiser().predicts_effects == (objective is Objective.COUNTERFACTUAL)
    again = small_trainer(graphs, objective, node_gnn(0))
    again.load_state(trainer.state())
    assert again.step == 8


def test_training_refuses_graphs_whose_marks_are_missing() -> None:
    graphs = [marked_graph(seed, 4) for seed in range(3)]
    unmarked = [replace(graph, target=None) for graph in graphs]
    with pytest.raises(NoMarkedNodeError, match="denoiser for a node classifier"):
        small_trainer(unmarked, Objective.COUNTERFACTUAL, node_gnn(0))
    with pytest.raises(ValueError, match="all reference graphs"):
        small_trainer([*graphs, *unmarked], Objective.COUNTERFACTUAL, node_gnn(0))


@pytest.mark.parametrize("seed", range(6))
def test_counterfactuals_of_a_node_are_as_small_as_exhaustive_search_finds(seed: int) -> None:
    gnn, graph = node_gnn(seed), marked_graph(seed, 6)
    rules = EditRules(max_edits=2, max_ratio=10.0)
    outcome = explain(
        gnn, marked_denoiser(), graph, rules, CounterfactualConfig(), seed=0, device=CPU
    )
    before = int(predict(gnn, [graph], CPU)[0].argmax())
    assert int(outcome.probabilities.argmax()) == before
    space = EditSpace.of(graph, rules)
    smallest = None
    for size in (1, 2):
        edited = space.apply_all(list(combinations(range(space.count), size)))
        if (predict(gnn, edited, CPU).argmax(dim=1) != before).any():
            smallest = size
            break
    assert (len(outcome.found[0].edits) if outcome.found else None) == smallest
    for found in outcome.found:
        assert found.graph.target == graph.target
        assert int(predict(gnn, [found.graph], CPU)[0].argmax()) != before


def test_class_explanations_of_a_node_classifier_carry_a_mark() -> None:
    graphs = [marked_graph(seed, 6) for seed in range(6)]
    is_in_class = [True, True, True, False, False, False]
    # 8 nodes are more than any reference graph has: features come from nodes drawn one by one
    for nodes in (4, 8):
        config = ClassConfig(0, nodes=nodes, chains=3, candidates=4, steps=4, sampler="paper")
        found = explain_class(
            node_gnn(1), marked_denoiser(), graphs, is_in_class, config, seed=0, device=CPU
        ).patterns
        assert found
        marks = {tuple(graph.features[graph.target].tolist()) for graph in graphs}
        for one in found:
            assert one.graph.target == 0
            assert tuple(one.graph.features[0].tolist()) in marks
