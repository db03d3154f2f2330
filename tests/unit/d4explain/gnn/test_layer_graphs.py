"""Specs that are graphs of layers: both forms, hops, states and shared values."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from d4explain.gnn.errors import NotAnEmbeddedNumberError
from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense, to_sparse
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import (
    ActivationLayer,
    AffineLayer,
    AppnpLayer,
    BroadcastLayer,
    ColumnsLayer,
    CombineLayer,
    ConstantLayer,
    EmbeddingLayer,
    GcnLayer,
    GineSumLayer,
    GinSumLayer,
    GnnSpec,
    GraphConvLayer,
    Layer,
    LinearLayer,
    NormalizeLayer,
    PoolLayer,
)
from d4explain.layer_graph import EDGE_ATTRIBUTES, FEATURES, Inputs
from models.diffusion.gnn_sensitivity import gnn_sensitivity

torch.set_num_threads(1)

Named = tuple[Layer, Inputs | None]


def spec_of(*layers: Named, features: int = 3, edge_features: int = 0, classes: int = 2) -> GnnSpec:
    return GnnSpec(
        features, classes, tuple(layer for layer, _ in layers), edge_features,
        tuple(read for _, read in layers),
    )  # fmt: skip


def random_gnn(spec: GnnSpec, seed: int = 0) -> Gnn:
    gnn = Gnn(spec).double().eval()
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in gnn.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng, dtype=torch.float64) / 2)
    return gnn


def random_graphs(features: int, edge_features: int = 0, seed: int = 0) -> list[Graph]:
    rng = torch.Generator().manual_seed(seed)
    graphs = []
    for size in (1, 2, 5, 8):
        edges = (torch.rand(size, size, generator=rng) < 0.5).triu(1).nonzero().T.contiguous()
        x = torch.randn(size, features, generator=rng, dtype=torch.float64)
        attributes = None
        if edge_features:
            shape = (edges.shape[1], edge_features)
            attributes = torch.rand(shape, generator=rng, dtype=torch.float64)
        graphs.append(Graph(x, edges, edge_attributes=attributes))
    return graphs


def pyg_inputs(graph: Graph) -> tuple[Tensor, Tensor, Tensor]:
    edge_index = torch.cat([graph.edges, graph.edges.flip(0)], dim=1)
    return graph.features, edge_index, torch.zeros(graph.node_count, dtype=torch.int64)


def assert_equal_to(gnn: Gnn, graphs: list[Graph], expected: Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(gnn(to_sparse(graphs)), expected, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(gnn.dense(to_dense(graphs)), expected, rtol=1e-10, atol=1e-10)


def test_a_virtual_node_is_its_formula() -> None:
    """h = GCN(x) + v; g = W · sum(h) + v; the output reads mean ‖ max of h + g of the graph."""
    spec = spec_of(
        (GcnLayer(4), None),  # 1
        (ConstantLayer(4), None),  # 2
        (CombineLayer("add"), (1, 2)),  # 3
        (PoolLayer("sum"), None),  # 4
        (LinearLayer(4), None),  # 5
        (CombineLayer("add"), (5, 2)),  # 6
        (BroadcastLayer(), None),  # 7
        (CombineLayer("add"), (3, 7)),  # 8
        (PoolLayer("mean"), None),  # 9
        (PoolLayer("max"), (8,)),  # 10
        (CombineLayer("concat"), (9, 10)),  # 11
        (LinearLayer(2), None),
    )
    gnn = random_gnn(spec)
    graphs = random_graphs(3)
    rows = []
    with torch.no_grad():
        for graph in graphs:
            x, edge_index, batch = pyg_inputs(graph)
            h = gnn.layers[0].conv(x, edge_index) + gnn.layers[1].value
            g = gnn.layers[4].linear(pyg.global_add_pool(h, batch)) + gnn.layers[1].value
            h = h + g
            pools = pyg.global_mean_pool(h, batch), pyg.global_max_pool(h, batch)
            rows.append(gnn.layers[11].linear(torch.cat(pools, dim=1)))
    assert_equal_to(gnn, graphs, torch.cat(rows))
    assert not spec.classifies_nodes


@pytest.mark.parametrize("layer", [GcnLayer(4), GraphConvLayer(4), AppnpLayer(3, 0.1)], ids=str)
def test_a_second_input_weighs_edges_as_in_pyg(layer: Layer) -> None:
    spec = spec_of(
        (ColumnsLayer(1, 2), (EDGE_ATTRIBUTES,)),
        (layer, (FEATURES, 1)),
        (PoolLayer("sum"), None),
        (LinearLayer(2), None),
        edge_features=2,
    )
    gnn = random_gnn(spec)
    graphs = random_graphs(3, 2)
    with torch.no_grad():
        rows = []
        for graph in graphs:
            x, edge_index, batch = pyg_inputs(graph)
            weights = graph.edge_attributes[:, 1].repeat(2)
            h = gnn.layers[1].conv(x, edge_index, weights)
            rows.append(gnn.layers[3].linear(pyg.global_add_pool(h, batch)))
    assert_equal_to(gnn, graphs, torch.cat(rows))
    assert spec.weighs_edges


def test_division_keeps_padding_out_of_smaller_graphs() -> None:
    rows_sum = (LinearLayer(1), (FEATURES,))
    spec = spec_of(
        rows_sum,
        (CombineLayer("divide"), (FEATURES, 1)),
        (GcnLayer(4), None),
        (PoolLayer("sum"), None),
        (LinearLayer(2), None),
    )
    gnn = random_gnn(spec)
    with torch.no_grad():
        gnn.layers[0].linear.bias.zero_()  # type: ignore[union-attr] # 0/0 in padding
    graphs = random_graphs(3)
    assert len({graph.node_count for graph in graphs}) > 1
    dense = to_dense(graphs)
    dense = replace(dense, adjacency=dense.adjacency.double(), features=dense.features.double())
    sparse = to_sparse(graphs)
    expected = gnn(replace(sparse, features=sparse.features.double()))
    torch.testing.assert_close(gnn.dense(dense), expected)


def test_edge_values_are_computed_from_edge_attributes() -> None:
    spec = spec_of(
        (LinearLayer(3), (EDGE_ATTRIBUTES,)),
        (ActivationLayer("tanh"), None),
        (GineSumLayer(project=False), (FEATURES, 2)),
        (PoolLayer("sum"), None),
        (LinearLayer(2), None),
        edge_features=2,
    )
    gnn = random_gnn(spec)
    graphs = random_graphs(3, 2)
    conv = pyg.GINEConv(nn.Identity())
    with torch.no_grad():
        conv.eps.copy_(gnn.layers[2].conv.eps)
        rows = []
        for graph in graphs:
            x, edge_index, batch = pyg_inputs(graph)
            encoded = torch.tanh(gnn.layers[0].linear(graph.edge_attributes.repeat(2, 1)))
            h = conv.double()(x, edge_index, encoded)
            rows.append(gnn.layers[4].linear(pyg.global_add_pool(h, batch)))
    assert_equal_to(gnn, graphs, torch.cat(rows))


OPS = ("add", "subtract", "multiply", "maximum", "minimum", "mean", "concat")
ROW_WISE = st.sampled_from(
    [ActivationLayer("tanh"), AffineLayer(0.5, 1.0), NormalizeLayer(), LinearLayer(4)]
)
NODE_LAYERS = st.sampled_from(
    [GcnLayer(4), GinSumLayer(), GraphConvLayer(4, aggr="max"), AppnpLayer(2, 0.2)]
)


@st.composite
def random_specs(draw: st.DrawFn) -> GnnSpec:
    """Random layers that read random earlier node values; the pools of some are joined."""
    layers: list[Named] = [(LinearLayer(4), None)]
    widths = {1: 4}
    for _ in range(draw(st.integers(2, 7))):
        number = len(layers) + 1
        read = draw(st.sampled_from(sorted(widths)))
        if draw(st.booleans()):
            layer = draw(st.one_of(ROW_WISE, NODE_LAYERS))
            layers.append((layer, (read,)))
            widths[number] = getattr(layer, "out", widths[read])
        else:
            op = draw(st.sampled_from(OPS))
            fits = [n for n in widths if op == "concat" or widths[n] == widths[read]]
            other = draw(st.sampled_from(fits))
            layers.append((CombineLayer(op), (read, other)))  # type: ignore[arg-type]
            widths[number] = widths[read] + (widths[other] if op == "concat" else 0)
    pooled = draw(st.lists(st.sampled_from(sorted(widths)), min_size=1, max_size=3))
    pools = []
    for value in pooled:
        layers.append((PoolLayer(draw(st.sampled_from(["mean", "sum", "max"]))), (value,)))
        pools.append(len(layers))
    layers += [(CombineLayer("concat"), tuple(pools)), (LinearLayer(2), None)]
    return spec_of(*layers)


@settings(max_examples=60, deadline=None)
@given(spec=random_specs(), seed=st.integers(0, 1000))
def test_both_forms_of_random_graphs_of_layers_agree(spec: GnnSpec, seed: int) -> None:
    gnn = random_gnn(spec, seed)
    graphs = random_graphs(3, seed=seed)
    dense = to_dense(graphs)
    with torch.no_grad():
        sparse = gnn(to_sparse(graphs))
        scale = 1e-9 * max(1.0, float(sparse.abs().max()))
        torch.testing.assert_close(gnn.dense(dense), sparse, rtol=1e-9, atol=scale)
        logits, states = gnn.dense_states(dense)
        torch.testing.assert_close(logits, sparse, rtol=1e-9, atol=scale)
        by_sparse = gnn.sparse_states(dense)[1]
    assert states.shape[2] == spec.state_width
    torch.testing.assert_close(states[dense.mask], by_sparse[dense.mask], rtol=1e-9, atol=scale)


@settings(max_examples=30, deadline=None)
@given(spec=random_specs(), seed=st.integers(0, 1000))
def test_edited_versions_of_one_graph_share_values(spec: GnnSpec, seed: int) -> None:
    """A batch that shares one copy of the features has the same logits as copies."""
    gnn = random_gnn(spec, seed)
    one = to_dense(random_graphs(3, seed=seed)[-1:])
    rng = torch.Generator().manual_seed(seed)
    upper = (torch.rand(4, 8, 8, generator=rng) < 0.5).double().triu(1)
    shared = DenseGraphs(upper + upper.mT, one.features.expand(4, -1, -1), one.mask.expand(4, -1))
    copied = replace(shared, features=shared.features.clone())
    with torch.no_grad():
        torch.testing.assert_close(gnn.dense(shared), gnn.dense(copied), rtol=1e-12, atol=1e-12)


def test_slopes_reach_edges_through_all_paths() -> None:
    """The logit is Σ degree² = Σ (A 1)²: its derivative in A_ij is 2 · degree_i."""
    spec = spec_of(
        (AffineLayer(0.0, 1.0), None),
        (GinSumLayer(), None),
        (CombineLayer("multiply"), (2, 2)),
        (PoolLayer("sum"), None),
        (LinearLayer(2, bias=False), None),
        features=1,
    )
    gnn = Gnn(spec).double().eval()
    with torch.no_grad():
        gnn.layers[1].conv.eps.fill_(-1)
        gnn.layers[4].linear.weight.copy_(torch.tensor([[0.0], [1.0]]))
    edges = torch.tensor([[0, 0, 1], [1, 2, 2]])
    graph = to_dense([Graph(torch.ones(4, 1, dtype=torch.float64), edges)])
    slopes = gnn_sensitivity(gnn, graph).slopes[1, 0]  # centred over two classes: half
    degree = graph.adjacency[0].sum(1)
    expected = (degree[:, None] + degree) * (1 - 2 * graph.adjacency[0])
    torch.testing.assert_close(slopes.fill_diagonal_(0), expected.fill_diagonal_(0))


def test_hops_are_those_of_the_longest_path() -> None:
    spec = spec_of(
        (GraphConvLayer(4), None),
        (GraphConvLayer(4), None),
        (AppnpLayer(3, 0.1), (FEATURES,)),
        (LinearLayer(4), None),
        (CombineLayer("add"), (2, 4)),
        (LinearLayer(2), None),
    )
    assert spec.classifies_nodes
    assert spec.convolutions == 3
    assert spec.receptive_field == 4  # APPNP reads the degrees of the farthest nodes
    assert spec.state_values == (1, 2, 3)


def test_an_unknown_type_is_refused_by_name() -> None:
    layers = [(EmbeddingLayer(3, 4), None), (GcnLayer(2), None)]
    gnn = random_gnn(spec_of(*layers, features=1))
    graph = Graph(torch.tensor([[0.0], [3.0]], dtype=torch.float64), torch.tensor([[0], [1]]))
    with pytest.raises(NotAnEmbeddedNumberError, match=r"column 0 holds 3; .* from 0 to 2"):
        gnn.node_logits(to_sparse([graph]))


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ([(CombineLayer("add"), (FEATURES, 5)), (LinearLayer(2), None)], "reads the value 5"),
        ([(CombineLayer("divide"), (0, 0, 0)), (LinearLayer(2), None)], "needs two inputs; got 3"),
        ([(LinearLayer(4), None), (CombineLayer("add"), (0, 1)), (LinearLayer(2), None)], "width"),
        ([(BroadcastLayer(), None), (LinearLayer(2), None)], "needs graph values"),
        ([(ColumnsLayer(1, 9), None), (LinearLayer(2), None)], "columns up to 9 of 3"),
        ([(LinearLayer(1), None), (EmbeddingLayer(2, 2), None)], "reads node features or edge"),
        ([(GcnLayer(2), (FEATURES, FEATURES))], "needs edge values as its second input"),
        ([(GcnLayer(2), ()), (LinearLayer(2), None)], "takes 1 or 2 inputs; got 0"),
    ],
)
def test_a_wrong_graph_names_the_layer(layers: list[Named], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        spec_of(*layers)
