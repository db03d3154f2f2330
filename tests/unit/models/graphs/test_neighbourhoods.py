"""A node's instance says what the whole graph says, before and after edits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.synthetic import ba_shapes, tree_cycle
from d4explain.gnn.graphs import Graph, to_dense, to_sparse
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import (
    ActivationLayer,
    AddLayer,
    ChebLayer,
    EgnnLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GinLayer,
    GinSumLayer,
    GnnSpec,
    GraphConvLayer,
    JumpLayer,
    KeepLayer,
    Layer,
    LayerNormLayer,
    LinearLayer,
    PnaLayer,
    SageLayer,
    ShiftedReluLayer,
    TagLayer,
)
from models.errors import UnknownTargetError
from models.graphs.edits import EditRules, EditSpace
from models.graphs.neighbourhoods import (
    NodeInstance,
    edited_whole,
    instance,
    usual_rules,
    verify_on_whole,
)

torch.set_num_threads(1)

CPU = torch.device("cpu")
FEATURES = 4
ANYTHING = EditRules(max_ratio=10.0)
seeds = st.integers(0, 10_000)
READ_NO_DEGREES: list[Layer] = [
    GinLayer(5, 6),
    SageLayer(5),
    SageLayer(5, aggr="max"),
    GraphConvLayer(5),
    GraphConvLayer(5, aggr="mean"),
    GraphConvLayer(5, aggr="max"),
    GatLayer(3, heads=2),
    GatV2Layer(5, heads=2, concat=False),
]
unnormalised = st.sampled_from(READ_NO_DEGREES)
convolutions = st.one_of(st.just(GcnLayer(5)), unnormalised)


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def with_random_features(graph: Graph) -> Graph:
    features = torch.randn(graph.node_count, FEATURES, generator=rng(0), dtype=torch.float64)
    return Graph(features, graph.edges)


WHOLE = {
    "tree-cycle": with_random_features(tree_cycle(rng(1)).graph),
    "ba": with_random_features(ba_shapes(rng(1)).graph),
}


def random_gnn(convs: list[Layer], seed: int) -> Gnn:
    layers: list[Layer] = []
    for conv in convs:
        layers += [conv, ActivationLayer("tanh"), KeepLayer()]
    jump = [JumpLayer("cat")] if convs else []
    gnn = Gnn(GnnSpec(FEATURES, 3, (*layers, *jump, LinearLayer(3)))).double().eval()
    with torch.no_grad():
        for parameter in gnn.parameters():
            parameter.normal_(generator=rng(seed))
    return gnn


def difference(gnn: Gnn, whole: Graph, part: NodeInstance, edited: Graph) -> float:
    """Largest gap between the logits on the instance, in both forms, and on the whole graph."""
    with torch.no_grad():
        truth = gnn(to_sparse([edited_whole(whole, part, edited)]))
        sparse, dense = gnn(to_sparse([edited])), gnn.dense(to_dense([edited]))
    return max(float((one - truth).abs().max()) for one in (sparse, dense))


def random_edits(part: NodeInstance, rules: EditRules, count: int, seed: int) -> Graph:
    space = EditSpace.of(part.graph, rules)
    order = torch.randperm(space.count, generator=rng(seed))
    # as many removals as additions, of which there are far more
    present = [pair for pair in order.tolist() if space.present[pair]][:count]
    absent = [pair for pair in order.tolist() if not space.present[pair]][:count]
    return space.apply(tuple(sorted(present + absent)))


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE.keys())
@settings(max_examples=25, deadline=None)
@given(convs=st.lists(convolutions, min_size=1, max_size=3), seed=seeds, data=st.data())
def test_an_instance_gives_the_logits_of_the_whole_graph(
    whole: Graph, convs: list[Layer], seed: int, data: st.DataObject
) -> None:
    # four hops around a node of a Barabási–Albert graph are most of it
    convs = convs[:2] if whole is WHOLE["ba"] else convs
    gnn = random_gnn(convs, seed)
    node = data.draw(st.integers(0, whole.node_count - 1))
    part = instance(whole, node, gnn.spec.convolutions)
    assert part.exact
    assert difference(gnn, whole, part, part.graph) < 1e-6
    edited = random_edits(part, part.rules(ANYTHING), 6, seed)
    assert edited.target == 0
    assert difference(gnn, whole, part, edited) < 1e-6


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE.keys())
@settings(max_examples=25, deadline=None)
@given(
    convs=st.lists(unnormalised, min_size=1, max_size=3),
    seed=seeds,
    spare=st.integers(0, 2),
    data=st.data(),
)
def test_a_gnn_that_reads_no_degrees_needs_one_hop_less(
    whole: Graph, convs: list[Layer], seed: int, spare: int, data: st.DataObject
) -> None:
    convs = convs[:2] if whole is WHOLE["ba"] else convs
    gnn = random_gnn(convs, seed)
    layers = gnn.spec.convolutions
    assert gnn.spec.receptive_field == layers
    node = data.draw(st.integers(0, whole.node_count - 1))
    hops = None if whole is WHOLE["ba"] else layers + spare
    part = instance(whole, node, layers, receptive_field=gnn.spec.receptive_field, hops=hops)
    assert part.exact
    if hops is not None and spare >= layers - 1:
        assert part.shortcuts == frozenset()
    assert difference(gnn, whole, part, part.graph) < 1e-6
    edited = random_edits(part, part.rules(ANYTHING), 6, seed)
    assert difference(gnn, whole, part, edited) < 1e-6


def test_norms_and_residuals_do_not_extend_the_receptive_field() -> None:
    whole = WHOLE["tree-cycle"]
    block = (KeepLayer(), GatLayer(4), LayerNormLayer("node"), AddLayer())
    gnn = Gnn(GnnSpec(FEATURES, 3, (*block * 2, LinearLayer(3)))).double().eval()
    assert gnn.spec.receptive_field == gnn.spec.convolutions == 2
    for node in range(0, whole.node_count, 67):
        part = instance(whole, node, 2, receptive_field=2)
        assert part.exact
        edited = random_edits(part, part.rules(ANYTHING), 6, node)
        assert difference(gnn, whole, part, edited) < 1e-6


@pytest.mark.parametrize(
    ("layers", "hops", "receptive_field"),
    [
        ((TagLayer(4, 2),), 2, 3),
        ((ChebLayer(4, 3),), 2, 3),
        ((LinearLayer(4), KeepLayer(), EgnnLayer(4, 0.1, 0.2), ShiftedReluLayer()), 1, 2),
        ((PnaLayer(4, ("mean", "max", "std"), ("linear", "attenuation")),), 1, 1),
        ((GinSumLayer(), LinearLayer(4)), 1, 1),
    ],
    ids=str,
)
def test_layers_of_many_hops_extend_the_receptive_field(
    layers: tuple[Layer, ...], hops: int, receptive_field: int
) -> None:
    whole = WHOLE["tree-cycle"]
    gnn = Gnn(GnnSpec(FEATURES, 3, (*layers, LinearLayer(3)))).double().eval()
    assert (gnn.spec.convolutions, gnn.spec.receptive_field) == (hops, receptive_field)
    for node in range(0, whole.node_count, 97):
        part = instance(whole, node, hops, receptive_field=receptive_field)
        assert part.exact
        edited = random_edits(part, part.rules(ANYTHING), 6, node)
        assert difference(gnn, whole, part, edited) < 1e-6


def test_a_normalised_gnn_reads_one_hop_more_than_it_has_layers() -> None:
    assert random_gnn([GcnLayer(5), GinLayer(5, 6)], 0).spec.receptive_field == 3
    assert not instance(WHOLE["tree-cycle"], 3, 2, hops=2).exact
    assert instance(WHOLE["tree-cycle"], 3, 2, receptive_field=2).exact
    assert instance(WHOLE["tree-cycle"], 3, 2).idle_pairs == frozenset()


@pytest.mark.parametrize("layer", READ_NO_DEGREES, ids=str)
def test_idle_pairs_change_nothing(layer: Layer) -> None:
    whole, gnn = WHOLE["tree-cycle"], random_gnn([layer] * 2, 0)
    part = instance(whole, 3, 2, receptive_field=2)
    assert part.idle_pairs
    everything = EditSpace.of(part.graph, part.rules(ANYTHING, shortcuts=True))
    idle = [
        number
        for number, pair in enumerate(
            zip(everything.sources.tolist(), everything.targets.tolist(), strict=True)
        )
        if pair in part.idle_pairs
    ]
    edited = everything.apply(tuple(idle))
    assert edited.edges.tolist() != part.graph.edges.tolist()
    before = verify_on_whole(gnn, whole, part, part.graph, CPU)
    torch.testing.assert_close(verify_on_whole(gnn, whole, part, edited, CPU), before)


@settings(max_examples=25, deadline=None)
@given(convs=st.lists(convolutions, min_size=1, max_size=3), seed=seeds, data=st.data())
def test_with_twice_the_layers_every_edit_is_exact(
    convs: list[Layer], seed: int, data: st.DataObject
) -> None:
    whole, gnn = WHOLE["tree-cycle"], random_gnn(convs, seed)
    node = data.draw(st.integers(0, whole.node_count - 1))
    layers = gnn.spec.convolutions
    part = instance(whole, node, layers, hops=2 * layers)
    assert part.shortcuts == frozenset()
    edited = random_edits(part, part.rules(ANYTHING), 6, seed)
    assert difference(gnn, whole, part, edited) < 1e-6


def largest_difference(
    layers: int, make: Callable[[Graph, int], NodeInstance], rules: EditRules | None = None
) -> float:
    """Over some nodes of the tree with cycles, as they are or with additions that rules allow."""
    whole, gnn = WHOLE["tree-cycle"], random_gnn([GcnLayer(5)] * layers, 0)
    found = []
    for node in range(0, whole.node_count, 67):
        part = make(whole, node)
        edited = part.graph
        if rules is not None:
            edited = random_edits(part, part.rules(rules, shortcuts=True), 6, node)
        found.append(difference(gnn, whole, part, edited))
    return max(found)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_one_hop_fewer_is_not_enough_for_normalised_layers(layers: int) -> None:
    assert largest_difference(layers, lambda whole, node: instance(whole, node, layers)) < 1e-6
    one_fewer = largest_difference(
        layers, lambda whole, node: instance(whole, node, layers, hops=layers)
    )
    assert one_fewer > 1e-2


@pytest.mark.parametrize("layers", [2, 3])
def test_shortcuts_are_not_exact_and_one_hop_fewer_than_twice_is_not_either(layers: int) -> None:
    additions = EditRules(max_ratio=10.0, remove=False)
    for hops in range(layers + 1, 2 * layers):
        gap = largest_difference(
            layers,
            lambda whole, node, hops=hops: instance(whole, node, layers, hops=hops),
            additions,
        )
        assert gap > 1e-3


def test_edits_among_frozen_nodes_would_change_nothing() -> None:
    whole, gnn = WHOLE["tree-cycle"], random_gnn([GcnLayer(5), GcnLayer(5)], 0)
    part = instance(whole, 3, 2, hops=4)
    near = frozenset(range(part.graph.node_count)) - part.frozen_nodes
    edited = random_edits(part, EditRules(max_ratio=10.0, frozen_nodes=near), 6, 0)
    assert edited.edges.tolist() != part.graph.edges.tolist()
    before = verify_on_whole(gnn, whole, part, part.graph, CPU)
    torch.testing.assert_close(verify_on_whole(gnn, whole, part, edited, CPU), before)


@settings(max_examples=30, deadline=None)
@given(node=st.integers(0, 800), layers=st.integers(0, 3), capped=st.booleans())
def test_nodes_come_by_hops_and_number_and_edges_with_them(
    node: int, layers: int, capped: bool
) -> None:
    whole = WHOLE["tree-cycle"]
    part = instance(whole, node, layers, max_nodes=9 if capped else None)
    network = nx.Graph(whole.edges.T.tolist())
    hops = nx.single_source_shortest_path_length(network, node, cutoff=layers + 1)
    order = sorted(hops, key=lambda other: (hops[other], other))[: 9 if capped else None]
    assert part.nodes.tolist() == order
    assert part.hops.tolist() == [hops[other] for other in order]
    assert part.graph.target == 0
    assert torch.equal(part.graph.features, whole.features[order])
    edges = [(order[a], order[b]) for a, b in part.graph.edges.T.tolist()]
    inside = {tuple(sorted(edge)) for edge in network.subgraph(order).edges}
    assert {tuple(sorted(edge)) for edge in edges} == inside
    assert len(edges) == len(inside)
    assert part.graph.edges.T.tolist() == sorted(part.graph.edges.T.tolist())
    assert bool((part.graph.edges[0] < part.graph.edges[1]).all())
    assert part.frozen_nodes == {i for i, other in enumerate(order) if hops[other] > layers}
    cut = [hops[other] for other in order if set(network[other]) - set(order)]
    assert part.rim == min(cut, default=None)
    assert part.exact == all(far > layers for far in cut)


def test_a_capped_instance_stays_connected_and_is_not_exact() -> None:
    whole = WHOLE["ba"]
    hub = int(torch.bincount(whole.edges.flatten()).argmax())
    part = instance(whole, hub, 3, max_nodes=40)
    assert part.graph.node_count == 40
    assert not part.exact
    assert nx.is_connected(nx.Graph(part.graph.edges.T.tolist()))
    assert instance(whole, hub, 3, max_nodes=10_000).exact


def test_a_whole_component_has_no_shortcuts() -> None:
    path = Graph(torch.ones(5, FEATURES), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]))
    part = instance(path, 2, 1)
    assert part.rim is None
    assert part.shortcuts == frozenset()
    assert part.frozen_nodes == {3, 4}
    assert part.nodes.tolist() == [2, 1, 3, 0, 4]
    assert instance(path, 0, 2).rim == 3
    # ring 0 with ring 2: the only pair within two hops that is more than one ring apart
    assert instance(path, 0, 2).shortcuts == {(0, 2)}


@given(seeds, st.integers(0, 3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_usual_rules_of_an_instance_are_its_own(seed: int, layers: int, degrees: bool) -> None:
    generator = rng(seed)
    size = int(torch.randint(2, 30, (1,), generator=generator))
    whole = with_random_features(random_tree_with_extra_edges(size, generator))
    node = int(torch.randint(whole.node_count, (1,), generator=generator))
    receptive_field = layers + degrees
    part = instance(whole, node, layers, receptive_field=receptive_field)
    own = EditSpace.of(part.graph, part.rules(ANYTHING))
    usual = EditSpace.of(part.graph, usual_rules(part.graph, layers, receptive_field))
    wanted, found = (
        set(zip(s.sources.tolist(), s.targets.tolist(), strict=True)) for s in (own, usual)
    )
    if part.rim is None and receptive_field in part.hops.tolist():
        assert found <= wanted  # that nothing was left out cannot be seen
    else:
        assert found == wanted


def random_tree_with_extra_edges(nodes: int, generator: torch.Generator) -> Graph:
    seed = int(torch.randint(10_000, (1,), generator=generator))
    made = nx.random_labeled_tree(nodes, seed=seed)
    made.add_edges_from(nx.gnm_random_graph(nodes, nodes // 4, seed=seed).edges)
    edges = torch.tensor(sorted(map(sorted, made.edges))).view(-1, 2).T.contiguous()
    return Graph(torch.ones(nodes, FEATURES), edges)


def test_edits_are_applied_to_the_whole_graph() -> None:
    whole = WHOLE["tree-cycle"]
    part = instance(whole, 5, 2)
    edited = random_edits(part, part.rules(ANYTHING), 2, 0)
    after = edited_whole(whole, part, edited)

    def pairs(graph: Graph, names: list[int]) -> set[frozenset[int]]:
        return {frozenset((names[a], names[b])) for a, b in graph.edges.T.tolist()}

    everyone, own = list(range(whole.node_count)), part.nodes.tolist()
    changed = pairs(part.graph, own) ^ pairs(edited, own)
    assert len(changed) == 4
    assert pairs(after, everyone) ^ pairs(whole, everyone) == changed
    assert after.target == 5
    assert after.edge_count == whole.edge_count
    assert bool((after.edges[0] < after.edges[1]).all())


def test_nothing_of_whole_graph_square_size_is_built() -> None:
    """A path of a million nodes: its square would be a terabyte even in bits."""
    nodes = 1_000_000
    ends = torch.arange(nodes - 1)
    whole = Graph(torch.ones(nodes, FEATURES).double(), torch.stack([ends, ends + 1]))
    part = instance(whole, nodes // 2, 2)
    assert part.graph.node_count == 7
    gnn = random_gnn([GcnLayer(5), GinLayer(5, 6)], 0)
    edited = random_edits(part, part.rules(ANYTHING), 1, 0)
    assert difference(gnn, whole, part, edited) < 1e-6


def test_rules_are_added_to_those_given() -> None:
    part = instance(WHOLE["tree-cycle"], 5, 2)
    given_rules = EditRules(
        max_edits=3, frozen_nodes=frozenset({1}), frozen_pairs=frozenset({(0, 2)})
    )
    rules = part.rules(given_rules)
    assert rules.frozen_nodes == part.frozen_nodes | {1}
    assert rules.frozen_pairs == part.shortcuts | {(0, 2)}
    assert part.shortcuts
    assert part.rules(given_rules, shortcuts=True).frozen_pairs == {(0, 2)}
    assert replace(rules, frozen_nodes=frozenset(), frozen_pairs=frozenset()) == EditRules(
        max_edits=3
    )


def test_invalid_arguments_are_refused() -> None:
    whole = WHOLE["tree-cycle"]
    with pytest.raises(UnknownTargetError, match=r"node 871; .* nodes 0 to 870"):
        instance(whole, 871, 2)
    with pytest.raises(ValueError, match="max_nodes must be at least 1, got 0"):
        instance(whole, 0, 2, max_nodes=0)
    with pytest.raises(ValueError, match="at least the number of layers, 2, got 1"):
        instance(whole, 0, 2, receptive_field=1)
    with pytest.raises(ValueError, match="-1"):
        instance(whole, 0, -1)
    part = instance(whole, 0, 1)
    with pytest.raises(ValueError, match="the edited graph 871"):
        edited_whole(whole, part, whole)
