"""Both forms of every layer against PyG's own modules, built separately from the state dict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from d4explain.gnn.device import choose_device
from d4explain.gnn.graphs import DenseGraphs, Graph, side_by_side, to_dense, to_sparse
from d4explain.gnn.layers.build import build
from d4explain.gnn.layers.convolutions import Gin
from d4explain.gnn.layers.forms import GraphLayer
from d4explain.gnn.layers.row_wise import Activation
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import (
    ActivationLayer,
    AddLayer,
    AffineLayer,
    AppnpLayer,
    BatchNormLayer,
    ChebLayer,
    ColumnsLayer,
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
    NormalizeLayer,
    PnaLayer,
    PoolLayer,
    SageLayer,
    ShiftedReluLayer,
    TagLayer,
)

torch.set_num_threads(1)

CPU = torch.device("cpu")
RTOL = {torch.float32: 1e-5, torch.float64: 1e-10}
ACTIVATIONS = {
    "relu": nn.ReLU(),
    "leaky_relu": nn.LeakyReLU(),
    "elu": nn.ELU(),
    "selu": nn.SELU(),
    "gelu": nn.GELU(),
    "silu": nn.SiLU(),
    "softplus": nn.Softplus(),
    "tanh": nn.Tanh(),
    "sigmoid": nn.Sigmoid(),
}
POOLS = {"mean": pyg.global_mean_pool, "sum": pyg.global_add_pool, "max": pyg.global_max_pool}

widths = st.integers(1, 6)
activations = st.one_of(
    st.sampled_from(sorted(ACTIVATIONS)).map(ActivationLayer),
    st.floats(0, 1, width=32).map(lambda slope: ActivationLayer("leaky_relu", slope)),
)
rowwise = st.one_of(
    widths.map(LinearLayer),
    st.builds(LinearLayer, widths, st.just(False)),
    activations,
    st.floats(0, 0.9).map(DropoutLayer),
    st.just(BatchNormLayer()),
    st.just(ShiftedReluLayer()),
    st.just(LayerNormLayer("node")),
)
graph_norms = st.sampled_from([LayerNormLayer("graph"), GraphNormLayer()])
heads = st.integers(1, 3)
slopes = st.sampled_from([0.0, 0.2, 1.0])
AGGREGATORS = ("sum", "mean", "min", "max", "std")
SCALERS = ("identity", "amplification", "attenuation", "linear", "inverse_linear")


def some_of(words: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(words), min_size=1, max_size=5, unique=True).map(tuple)


FAMILIES: dict[str, st.SearchStrategy[Layer]] = {
    "plain": st.one_of(
        widths.map(GcnLayer),
        st.builds(GinLayer, widths, widths, st.booleans()),
        st.builds(GinSumLayer, st.booleans()),
    ),
    "gathering": st.one_of(
        st.builds(SageLayer, widths, st.booleans(), st.sampled_from(["mean", "max"])),
        st.builds(GraphConvLayer, widths, st.booleans(), st.sampled_from(["add", "mean", "max"])),
    ),
    "attention": st.one_of(
        st.builds(GatLayer, widths, heads, st.booleans(), slopes),
        st.builds(GatV2Layer, widths, heads, st.booleans(), slopes),
    ),
    "pna": st.one_of(
        st.builds(PnaLayer, widths, some_of(AGGREGATORS), some_of(SCALERS)),
        st.builds(PnaLayer, st.just(4), some_of(AGGREGATORS), some_of(SCALERS), st.just(2)),
    ),
    "polynomials": st.one_of(
        st.builds(TagLayer, widths, st.integers(1, 4), st.booleans()),
        st.builds(ChebLayer, widths, st.integers(2, 4), st.booleans()),
    ),
    "edges": st.one_of(
        st.builds(GineLayer, widths, widths, st.booleans()),
        st.builds(GineSumLayer, st.booleans()),
        st.builds(GatLayer, widths, heads, st.booleans(), slopes, st.just(True)),
        st.builds(GatV2Layer, widths, heads, st.booleans(), slopes, st.just(True)),
    ),
}
anything = st.one_of(*FAMILIES.values())
EDGE_FEATURES = 2  # of all graphs here; only some layers read them


@st.composite
def specs(draw: st.DrawFn, convolutions: st.SearchStrategy[Layer] = anything) -> GnnSpec:
    classes = draw(st.integers(2, 4))
    on_nodes = st.one_of(convolutions, rowwise, graph_norms, st.just(KeepLayer()))
    before = draw(st.lists(on_nodes, max_size=6))
    if draw(st.booleans()):
        width = draw(widths)
        block = draw(st.one_of(convolutions, rowwise, graph_norms))
        before += [LinearLayer(width), KeepLayer(), block, LinearLayer(width), AddLayer()]
    if draw(st.booleans()):
        width = draw(st.sampled_from([2, 4, 6]))
        towers = PnaLayer(width, ("mean", "std"), ("identity", "linear"), 2, divide_input=True)
        before += [LinearLayer(width), towers]
    if not any(isinstance(layer, KeepLayer) for layer in before) and draw(st.booleans()):
        width = draw(widths)
        shares = st.floats(0, 0.5)
        energetic = [EgnnLayer(width, draw(shares), draw(shares)), ShiftedReluLayer()]
        before += [LinearLayer(width), KeepLayer(), *energetic * draw(st.integers(1, 3))]
    if draw(st.booleans()):
        before += [KeepLayer()]
        keeps = sum(isinstance(layer, KeepLayer) for layer in before)
        last = draw(st.one_of(st.none(), st.integers(1, keeps)))
        before += [JumpLayer("cat", last), *draw(st.lists(convolutions, max_size=1))]
    if draw(st.booleans()):
        width = draw(widths)
        kept = [LinearLayer(width), KeepLayer(), GcnLayer(width), KeepLayer()]
        if not any(isinstance(layer, KeepLayer) for layer in before):
            before += [*kept, JumpLayer("max")]
    if any(map(reads_edges, before)) and draw(st.booleans()):
        as_they_are = [GineSumLayer(project=False), GineLayer(3, 4, project=False)]
        before += [LinearLayer(EDGE_FEATURES), draw(st.sampled_from(as_they_are))]
    pool = PoolLayer(draw(st.sampled_from(["mean", "sum", "max", "attention"])))
    after = draw(st.lists(rowwise, max_size=3))
    outputs = 1 if classes == 2 and draw(st.booleans()) else classes
    layers = (*before, pool, *after, LinearLayer(outputs))
    return spec_of(draw(widths), classes, layers)


def spec_of(features: int, classes: int, layers: tuple[Layer, ...]) -> GnnSpec:
    reads = any(map(reads_edges, layers))
    return GnnSpec(features, classes, layers, EDGE_FEATURES if reads else 0)


def reads_edges(layer: Layer) -> bool:
    return isinstance(layer, GineLayer | GineSumLayer) or getattr(layer, "edges", False)


seeds = st.integers(0, 2**31)
dtypes = st.sampled_from([torch.float32, torch.float64])


def random_graphs(seed: int, features: int, dtype: torch.dtype) -> list[Graph]:
    """Sizes from a single node, densities from no edge at all to complete."""
    rng = torch.Generator().manual_seed(seed)
    graphs = []
    for density in (0.0, 1.0, *torch.rand(3, generator=rng).tolist()):
        nodes = int(torch.randint(1, 10, (1,), generator=rng))
        kept = torch.rand(nodes, nodes, generator=rng) < density
        edges = torch.triu(kept, diagonal=1).nonzero().T
        values = torch.randn(nodes, features, generator=rng, dtype=dtype)
        attributes = torch.randn(edges.shape[1], EDGE_FEATURES, generator=rng, dtype=dtype)
        graphs.append(Graph(values, edges, edge_attributes=attributes))
    graphs.append(
        Graph(
            torch.randn(1, features, generator=rng, dtype=dtype),
            torch.zeros(2, 0, dtype=torch.int64),
            edge_attributes=torch.zeros(0, EDGE_FEATURES, dtype=dtype),
        )
    )
    return graphs


def randomised(module: nn.Module, seed: int, dtype: torch.dtype) -> None:
    """Every tensor of the state dict away from its initial value, running statistics included."""
    module.to(dtype)
    rng = torch.Generator().manual_seed(seed)
    for name, tensor in module.state_dict().items():
        if name.endswith("num_batches_tracked"):
            tensor.fill_(3)
        elif name.endswith(("running_var", "avg_deg_lin", "avg_deg_log")):
            tensor.copy_(torch.rand(tensor.shape, generator=rng, dtype=dtype) + 0.5)
        else:
            scale = tensor.shape[-1] ** -0.5
            tensor.copy_(torch.randn(tensor.shape, generator=rng, dtype=dtype) * scale)
    module.eval()


def random_gnn(spec: GnnSpec, seed: int, dtype: torch.dtype) -> Gnn:
    gnn = Gnn(spec)
    randomised(gnn, seed, dtype)
    return gnn


CONVOLUTIONS = GcnLayer | GinLayer | SageLayer | GraphConvLayer | GatLayer | GatV2Layer
CONVOLUTIONS |= PnaLayer | TagLayer | ChebLayer | GinSumLayer | GineLayer | GineSumLayer


def pyg_convolution(layer: Layer, width: int) -> nn.Module:
    match layer:
        case GcnLayer(out):
            conv = pyg.GCNConv(width, out)
        case GinLayer(out, hidden, train_eps):
            mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))
            conv = pyg.GINConv(mlp, train_eps=train_eps)
        case GinSumLayer(train_eps):
            conv = pyg.GINConv(nn.Identity(), train_eps=train_eps)
        case GineLayer(out, hidden, train_eps, project):
            mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))
            edge_dim = EDGE_FEATURES if project else None
            conv = pyg.GINEConv(mlp, train_eps=train_eps, edge_dim=edge_dim)
        case GineSumLayer(train_eps, project):
            nothing = nn.Identity()
            nothing.in_channels = width  # where PyG looks for it
            edge_dim = EDGE_FEATURES if project else None
            conv = pyg.GINEConv(nothing, train_eps=train_eps, edge_dim=edge_dim)
        case SageLayer(out, bias, aggr):
            conv = pyg.SAGEConv(width, out, aggr=aggr, bias=bias)
        case GraphConvLayer(out, bias, aggr):
            conv = pyg.GraphConv(width, out, aggr=aggr, bias=bias)
        case GatLayer(out, heads, concat, slope, edges):
            edge_dim = EDGE_FEATURES if edges else None
            conv = pyg.GATConv(width, out, heads, concat, slope, edge_dim=edge_dim)
        case GatV2Layer(out, heads, concat, slope, edges):
            edge_dim = EDGE_FEATURES if edges else None
            conv = pyg.GATv2Conv(width, out, heads, concat, slope, edge_dim=edge_dim)
        case PnaLayer(out, aggregators, scalers, towers, divide):
            degrees = torch.tensor([0, 3, 5])
            means = {"towers": towers, "divide_input": divide}
            conv = pyg.PNAConv(width, out, list(aggregators), list(scalers), degrees, **means)
        case TagLayer(out, k, bias):
            conv = pyg.TAGConv(width, out, K=k, bias=bias)
        case ChebLayer(out, k, bias):
            conv = pyg.ChebConv(width, out, K=k, bias=bias)
    return conv


def energetic(
    layer: EgnnLayer, weight: Tensor, values: Tensor, first: Tensor, edges: Tensor
) -> Tensor:
    """The paper's formula in NumPy, with its c_min."""
    adjacency = np.eye(len(values))
    adjacency[tuple(edges.numpy())] = 1
    degrees = np.diag(adjacency.sum(axis=1) ** -0.5)
    propagation = degrees @ adjacency @ degrees
    c_min = layer.alpha + layer.beta
    x, x_0 = values.numpy(), first.numpy()
    mixed = (1 - c_min) * propagation @ x + layer.alpha * x + layer.beta * x_0
    return torch.from_numpy(mixed @ weight.numpy().T).to(values.dtype)


class Shifted(nn.Module):
    """The authors' way to say max(x, b)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.empty(width))

    def forward(self, values: Tensor) -> Tensor:
        return torch.relu(values - self.shift) + self.shift


def pyg_module(layer: Layer, width: int) -> tuple[str, nn.Module]:
    """PyG's or torch's own module, and what the names of its tensors begin with."""
    named: tuple[str, nn.Module] = "", nn.Identity()
    match layer:
        case _ if isinstance(layer, CONVOLUTIONS):
            named = "conv.", pyg_convolution(layer, width)
        case LinearLayer(out, bias):
            named = "linear.", nn.Linear(width, out, bias=bias)
        case BatchNormLayer():
            named = "norm.", nn.BatchNorm1d(width)
        case LayerNormLayer(mode):
            named = "norm.", pyg.LayerNorm(width, mode=mode)
        case GraphNormLayer():
            named = "norm.", pyg.GraphNorm(width)
        case PoolLayer("attention"):
            named = "pool.", pyg.AttentionalAggregation(nn.Linear(width, 1))
        case ActivationLayer(kind, slope):
            named = "", ACTIVATIONS[kind] if slope is None else nn.LeakyReLU(slope)
        case ShiftedReluLayer():
            named = "", Shifted(width)
        case JumpLayer(mode):
            named = "", pyg.JumpingKnowledge(mode)
    return named


def pyg_form(spec: GnnSpec, state: dict[str, Tensor]) -> Callable[[Graph], Tensor]:
    """One graph through PyG and torch modules that know nothing of ours but the tensors."""
    modules = []
    for position, layer in enumerate(spec.layers):
        name, module = pyg_module(layer, spec.value_widths[position])
        prefix = f"layers.{position}.{name}"
        own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        if not isinstance(layer, EgnnLayer):
            module.to(next(iter(state.values())).dtype).eval().load_state_dict(own)
        modules.append(module)

    def logits(graph: Graph) -> Tensor:
        values = graph.features
        kept: list[Tensor] = []
        edge_index = torch.cat([graph.edges, graph.edges.flip(0)], dim=1)
        for position, (layer, module) in enumerate(zip(spec.layers, modules, strict=True)):
            batch = torch.zeros(len(values), dtype=torch.int64)
            match layer:
                case _ if reads_edges(layer):
                    both = graph.edge_attributes.repeat(2, 1)
                    values = module(values, edge_index, both)
                case _ if isinstance(layer, CONVOLUTIONS):
                    values = module(values, edge_index)
                case LayerNormLayer() | GraphNormLayer() | PoolLayer("attention"):
                    values = module(values, batch)
                case PoolLayer(op):
                    values = POOLS[op](values, batch)
                case EgnnLayer():
                    weight = state[f"layers.{position}.conv.lin.weight"]
                    values = energetic(layer, weight, values, kept[0], edge_index)
                case KeepLayer():
                    kept.append(values)
                case AddLayer():
                    values = values + kept[-1]
                case JumpLayer():
                    values = module(kept if layer.last is None else kept[-layer.last :])
                case _:
                    values = module(values)
        if values.shape[1] < spec.classes:
            values = torch.stack([torch.zeros_like(values[:, 0]), values[:, 0]], dim=1)
        return values

    return logits


def assert_equal_logits(actual: Tensor, expected: Tensor) -> None:
    """To the tolerance of the type, relative to the largest of the logits."""
    rtol = RTOL[expected.dtype]
    atol = rtol * max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)


CASES = 100  # random specs per family, each with random weights and six random graphs


def test_at_least_500_random_specs_are_compared_with_pyg() -> None:
    assert CASES * len(FAMILIES) >= 500


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=CASES, deadline=None)
@given(data=st.data(), seed=seeds, dtype=dtypes)
def test_both_forms_equal_pyg_on_random_specs(
    family: str, data: st.DataObject, seed: int, dtype: torch.dtype
) -> None:
    spec = data.draw(specs(FAMILIES[family]))
    if any(isinstance(layer, LayerNormLayer | GraphNormLayer | PnaLayer) for layer in spec.layers):
        # Values that happen to be all alike are divided by sqrt(eps), and their rounding with them;
        # a deviation of 0 is cut off from the root of its rounding.
        dtype = torch.float64
    gnn = random_gnn(spec, seed, dtype)
    graphs = random_graphs(seed, spec.features, dtype)
    with torch.no_grad():
        expected = torch.cat(list(map(pyg_form(spec, gnn.state_dict()), graphs)))
        assert_equal_logits(gnn(to_sparse(graphs)), expected)
        assert_equal_logits(gnn.dense(to_dense(graphs)), expected)
    if spec.edge_features:  # read another way where slopes are wanted
        dense = to_dense(graphs)
        followed = dense.with_adjacency(dense.adjacency.clone().requires_grad_())
        assert_equal_logits(gnn.dense(followed).detach(), expected)
        with torch.no_grad():
            assert_equal_logits(gnn(side_by_side(dense)), expected)


@settings(max_examples=30, deadline=None)
@given(spec=specs(), seed=seeds)
def test_states_come_with_the_same_logits(spec: GnnSpec, seed: int) -> None:
    gnn = random_gnn(spec, seed, torch.float64)
    graphs = to_dense(random_graphs(seed, spec.features, torch.float64))
    with torch.no_grad():
        logits, states = gnn.dense_states(graphs)
        assert_equal_logits(logits, gnn.dense(graphs))
    assert states.shape == (*graphs.mask.shape, spec.state_width)
    convolving = CONVOLUTIONS | EgnnLayer
    assert len(spec.state_values) == sum(isinstance(x, convolving) for x in spec.layers)


def test_states_are_the_outputs_of_all_convolutions() -> None:
    layers = (GcnLayer(4), BatchNormLayer(), ActivationLayer("tanh"), GinLayer(3, 6))
    rest = (KeepLayer(), JumpLayer("cat"), PoolLayer("sum"), LinearLayer(2))
    gnn = random_gnn(GnnSpec(2, 2, (*layers, *rest)), 5, torch.float64)
    graphs = random_graphs(5, 2, torch.float64)
    with torch.no_grad():
        _, states = gnn.dense_states(to_dense(graphs))
        for place, graph in enumerate(graphs):
            sparse = to_sparse([graph])
            values, expected = graph.features, []
            for layer in gnn.layers[:4]:
                values = layer.sparse(values, sparse)
                if isinstance(layer, Activation | Gin):
                    expected.append(values)
            found = states[place, : graph.node_count]
            torch.testing.assert_close(found, torch.cat(expected, dim=1))


LAYERS: list[Layer] = [
    GcnLayer(5),
    GinLayer(5, 7),
    GinLayer(5, 7, train_eps=True),
    SageLayer(5),
    SageLayer(5, bias=False),
    SageLayer(5, aggr="max"),
    GraphConvLayer(5),
    GraphConvLayer(5, bias=False, aggr="mean"),
    GraphConvLayer(5, aggr="max"),
    *(
        kind(5, heads, concat)
        for kind in (GatLayer, GatV2Layer)
        for heads in (1, 3)
        for concat in (True, False)
    ),
    *(PnaLayer(6, (aggregator,), SCALERS) for aggregator in AGGREGATORS),
    PnaLayer(6, AGGREGATORS, ("attenuation",), towers=3),
    PnaLayer(6, AGGREGATORS, ("linear", "identity"), towers=3, divide_input=True),
    *(TagLayer(5, k, bias) for k, bias in ((1, True), (3, False))),
    *(ChebLayer(5, k, bias) for k, bias in ((2, True), (4, False))),
    GinSumLayer(),
    GinSumLayer(train_eps=True),
    GineLayer(5, 7),
    GineLayer(5, 7, train_eps=True),
    GineSumLayer(),
    GatLayer(5, 3, edges=True),
    GatV2Layer(5, 3, concat=False, edges=True),
    EgnnLayer(5, 0.1, 0.2),
    AppnpLayer(4, 0.2),
    AffineLayer(0.5, -1.0),
    ColumnsLayer(1, 3),
    NormalizeLayer(),
    ShiftedReluLayer(),
    LinearLayer(5),
    LinearLayer(5, bias=False),
    *(ActivationLayer(kind) for kind in ACTIVATIONS),  # type: ignore[arg-type]
    DropoutLayer(0.5),
    BatchNormLayer(),
    LayerNormLayer("node"),
    LayerNormLayer("graph"),
    GraphNormLayer(),
    PoolLayer("mean"),
    PoolLayer("sum"),
    PoolLayer("max"),
    PoolLayer("attention"),
]


@pytest.mark.parametrize("dtype", RTOL, ids=str)
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_each_layer_is_the_same_in_both_forms(layer: Layer, dtype: torch.dtype) -> None:
    module = build(layer, 3, EDGE_FEATURES)
    assert isinstance(module, GraphLayer)
    randomised(module, 1, dtype)
    graphs = random_graphs(2, 3, dtype)
    dense = to_dense(graphs, nodes=14)
    with torch.no_grad():
        sparse_rows = module.sparse(to_sparse(graphs).features, to_sparse(graphs))
        dense_rows = module.dense(dense.features, dense)
    if not isinstance(layer, PoolLayer):
        dense_rows = dense_rows[dense.mask]
    assert_equal_logits(dense_rows, sparse_rows)


@settings(max_examples=30, deadline=None)
@given(spec=specs(), seed=seeds, padding=st.integers(1, 6))
def test_padding_changes_nothing(spec: GnnSpec, seed: int, padding: int) -> None:
    gnn = random_gnn(spec, seed, torch.float64)
    graphs = random_graphs(seed, spec.features, torch.float64)
    widest = max(graph.node_count for graph in graphs)
    with torch.no_grad():
        alone = torch.cat([gnn.dense(to_dense([graph])) for graph in graphs])
        assert_equal_logits(gnn.dense(to_dense(graphs, nodes=widest + padding)), alone)


@settings(max_examples=30, deadline=None)
@given(spec=specs(), seed=seeds)
def test_order_of_nodes_changes_nothing(spec: GnnSpec, seed: int) -> None:
    gnn = random_gnn(spec, seed, torch.float64)
    graphs = random_graphs(seed, spec.features, torch.float64)
    rng = torch.Generator().manual_seed(seed)
    shuffled = []
    for graph in graphs:
        order = torch.randperm(graph.node_count, generator=rng)
        position = torch.argsort(order)
        ends = torch.sort(position[graph.edges], dim=0).values
        moved = Graph(graph.features[order], ends, edge_attributes=graph.edge_attributes)
        shuffled.append(moved)
    with torch.no_grad():
        assert_equal_logits(gnn(to_sparse(shuffled)), gnn(to_sparse(graphs)))
        assert_equal_logits(gnn.dense(to_dense(shuffled)), gnn.dense(to_dense(graphs)))


def soft_batch(features: int, seed: int = 0) -> DenseGraphs:
    """Two graphs, one padded, with edge weights strictly between 0 and 1."""
    rng = torch.Generator().manual_seed(seed)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    values = torch.randn(2, 5, features, generator=rng, dtype=torch.float64) * mask[:, :, None]
    empty = DenseGraphs(torch.zeros(2, 5, 5, dtype=torch.float64), values, mask)
    weights = torch.rand(2, 5, 5, generator=rng, dtype=torch.float64)
    upper = torch.triu(weights, diagonal=1)
    attributes = torch.randn(2, 5, 5, EDGE_FEATURES, generator=rng, dtype=torch.float64)
    symmetric = attributes + attributes.transpose(1, 2)
    soft = empty.with_adjacency((upper + upper.mT) * empty.pair_mask)
    return replace(soft, edge_attributes=symmetric)


@pytest.mark.parametrize("layer", [GcnLayer(4), GinLayer(4, 6), SageLayer(4)], ids=str)
def test_soft_edges_are_pyg_edge_weights(layer: GcnLayer | GinLayer | SageLayer) -> None:
    """GCNConv takes edge weights itself; the others' truth is GraphConv-style weighted addition."""
    module = build(layer, 3)
    randomised(module, 5, torch.float64)
    graphs = soft_batch(3)
    with torch.no_grad():
        actual = module.dense(graphs.features, graphs)
        for number in range(graphs.count):
            size = int(graphs.mask[number].sum())
            source, target = graphs.pair_mask[number].nonzero().T
            weight = graphs.adjacency[number, source, target]
            values = graphs.features[number, :size]
            if isinstance(layer, GcnLayer):
                expected = module.conv(values, torch.stack([source, target]), weight)
                assert_equal_logits(actual[number, :size], expected)
                continue
            adding = pyg.SimpleConv(aggr="sum")
            summed = adding(values, torch.stack([source, target]), weight)
            if isinstance(layer, SageLayer):
                total = adding(torch.ones_like(values), torch.stack([source, target]), weight)
                assert (total[:, 0] > 1).any()  # where it is a weighted mean
                mean = summed / total.clamp(min=1)
                expected = module.conv.lin_l(mean) + module.conv.lin_r(values)
            else:
                expected = module.conv.nn(summed + (1 + module.conv.eps) * values)
            assert_equal_logits(actual[number, :size], expected)


@pytest.mark.parametrize("mode", ["cat", "max"])
def test_a_stack_with_jumping_knowledge_is_pyg_s_own(mode: str) -> None:
    """PyG's BasicGNN with jk, which has its own order of convolutions and activations."""
    layers = (
        *(GcnLayer(5), ActivationLayer("relu"), KeepLayer()) * 3,
        JumpLayer(mode),  # type: ignore[arg-type]
        LinearLayer(4),
        PoolLayer("sum"),
        LinearLayer(2),
    )
    spec = GnnSpec(3, 2, layers)
    gnn = random_gnn(spec, 7, torch.float64)
    theirs = pyg.GCN(3, 5, num_layers=3, out_channels=4, jk=mode).double().eval()
    state = gnn.state_dict()
    for number in range(3):
        for name in ("lin.weight", "bias"):
            theirs.state_dict()[f"convs.{number}.{name}"].copy_(
                state[f"layers.{3 * number}.conv.{name}"]
            )
    theirs.lin.weight.data.copy_(state["layers.10.linear.weight"])
    theirs.lin.bias.data.copy_(state["layers.10.linear.bias"])
    graphs = to_sparse(random_graphs(3, 3, torch.float64))
    with torch.no_grad():
        rows = theirs(graphs.features, graphs.edge_index)
        pooled = pyg.global_add_pool(rows, graphs.graph_of_node, size=graphs.count)
        expected = pooled @ state["layers.12.linear.weight"].T + state["layers.12.linear.bias"]
        assert_equal_logits(gnn(graphs), expected)


def test_a_jump_joins_exactly_the_kept_values() -> None:
    layers = (KeepLayer(), LinearLayer(2), JumpLayer("cat"), LinearLayer(3), KeepLayer())
    spec = GnnSpec(4, 2, (*layers, JumpLayer("cat"), PoolLayer("sum"), LinearLayer(2)))
    assert [spec.value_widths[n] for n in range(9)] == [4, 4, 2, 4, 3, 3, 7, 7, 2]
    gnn = random_gnn(spec, 0, torch.float64)
    graph = random_graphs(1, 4, torch.float64)[1]
    state = gnn.state_dict()
    rows = graph.features @ state["layers.3.linear.weight"].T + state["layers.3.linear.bias"]
    pooled = torch.cat([graph.features, rows], dim=1).sum(dim=0, keepdim=True)
    expected = pooled @ state["layers.7.linear.weight"].T + state["layers.7.linear.bias"]
    with torch.no_grad():
        assert_equal_logits(gnn(to_sparse([graph])), expected)
        assert_equal_logits(gnn.dense(to_dense([graph])), expected)


def test_add_uses_the_last_kept_values() -> None:
    layers = (KeepLayer(), LinearLayer(3), KeepLayer(), LinearLayer(3), AddLayer(), AddLayer())
    spec = GnnSpec(4, 2, (*layers, PoolLayer("sum"), LinearLayer(2)))
    assert [spec.value_widths[n] for n in range(9)] == [4, 4, 3, 3, 3, 3, 3, 3, 2]
    gnn = random_gnn(spec, 0, torch.float64)
    graph = random_graphs(1, 4, torch.float64)[1]
    with torch.no_grad():
        first = gnn.layers[1].rows(graph.features)
        rows = gnn.layers[3].rows(first) + first + first
        expected = gnn.layers[7].rows(rows.sum(dim=0, keepdim=True))
        assert_equal_logits(gnn(to_sparse([graph])), expected)
        assert_equal_logits(gnn.dense(to_dense([graph])), expected)


def test_states_are_normed_and_added_to() -> None:
    block = (KeepLayer(), GatLayer(4), GraphNormLayer(), AddLayer(), ActivationLayer("relu"))
    layers = (LinearLayer(4), *block, KeepLayer(), SageLayer(4), LayerNormLayer("node"))
    spec = GnnSpec(2, 2, (*layers, PoolLayer("sum"), LinearLayer(2)))
    assert spec.state_values == (6, 9)
    assert spec.convolutions == 2


@pytest.mark.parametrize("layer", [GraphNormLayer(), LayerNormLayer("graph")], ids=str)
def test_values_of_padding_do_not_reach_the_norms_of_a_graph(layer: Layer) -> None:
    module = build(layer, 3)
    randomised(module, 1, torch.float64)
    graphs = to_dense(random_graphs(2, 3, torch.float64), nodes=14)
    loud = graphs.features.masked_fill(~graphs.mask[:, :, None], 1e6)
    with torch.no_grad():
        expected = module.dense(graphs.features, graphs)[graphs.mask]
        assert_equal_logits(module.dense(loud, graphs)[graphs.mask], expected)


GRADIENT_SPECS = (
    [
        spec_of(2, 2, (conv, ActivationLayer("tanh"), conv, BatchNormLayer(), pool, LinearLayer(2)))
        for conv in (
            GcnLayer(4),
            GinLayer(4, 5),
            SageLayer(4),
            SageLayer(4, aggr="max"),
            GraphConvLayer(4),
            GraphConvLayer(4, aggr="mean"),
            GraphConvLayer(4, aggr="max"),
            GatLayer(4),
            GatLayer(2, heads=2),
            GatV2Layer(4),
            GatV2Layer(4, heads=3, concat=False),
            *(PnaLayer(4, (aggregator,), SCALERS) for aggregator in ("sum", "mean", "min", "max")),
            PnaLayer(4, AGGREGATORS, ("identity",), towers=2, divide_input=True),
            TagLayer(4, 2),
            ChebLayer(4, 3),
            GineLayer(4, 5),
            GatLayer(2, heads=2, edges=True),
            GatV2Layer(4, heads=2, concat=False, edges=True),
        )
        for pool in map(PoolLayer, ("mean", "sum", "max", "attention"))
    ]
    + [
        GnnSpec(2, 2, (GcnLayer(4), KeepLayer(), conv, norm, PoolLayer("mean"), *tail))
        for conv in (GcnLayer(4), GatLayer(2, heads=2))
        for norm in (LayerNormLayer("node"), LayerNormLayer("graph"), GraphNormLayer())
        for tail in ((ActivationLayer("tanh"), LinearLayer(2)),)
    ]
    + [
        GnnSpec(2, 2, (LinearLayer(4), KeepLayer(), SageLayer(4), AddLayer(), GcnLayer(4), *tail))
        for tail in ((PoolLayer("sum"), LinearLayer(2)),)
    ]
    + [
        spec_of(2, 2, (*stack, PoolLayer("sum"), LinearLayer(1)))
        for stack in (
            (GineSumLayer(project=False), LinearLayer(4), ActivationLayer("tanh")),
            (GinSumLayer(), LinearLayer(4), ActivationLayer("tanh")),
            (LinearLayer(4), KeepLayer(), *(EgnnLayer(4, 0.1, 0.2), ShiftedReluLayer()) * 2),
        )
    ]
)


@pytest.mark.parametrize(
    "spec", GRADIENT_SPECS, ids=lambda spec: "-".join(map(str, spec.layers[:5]))
)
def test_gradient_in_the_adjacency_is_the_derivative(spec: GnnSpec) -> None:
    gnn = random_gnn(spec, 3, torch.float64).requires_grad_(False)
    graphs = soft_batch(2)
    adjacency = graphs.adjacency.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda weights: gnn.dense(graphs.with_adjacency(weights)), (adjacency,)
    )


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "spec", GRADIENT_SPECS, ids=lambda spec: "-".join(map(str, spec.layers[:5]))
)
def test_gradient_is_finite_and_reaches_edges(spec: GnnSpec, weight: float) -> None:
    gnn = random_gnn(spec, 4, torch.float32).requires_grad_(False)
    template = soft_batch(2)
    graphs = DenseGraphs(
        (template.pair_mask * weight).float(),
        template.features.float(),
        template.mask,
        edge_attributes=template.edge_attributes.float(),
    )
    adjacency = graphs.adjacency.clone().requires_grad_()
    logits = gnn.dense(graphs.with_adjacency(adjacency))
    (gradient,) = torch.autograd.grad(logits[:, 1].sum(), adjacency)
    assert torch.isfinite(gradient).all()
    assert (gradient[graphs.pair_mask] != 0).any()


@pytest.mark.parametrize("op", ["mean", "sum", "max", "attention"])
def test_pooling_a_slot_without_nodes_gives_zeros_as_pyg(op: str) -> None:
    pool = build(PoolLayer(op), 3)  # type: ignore[arg-type]
    mask = torch.tensor([[True, True], [False, False]])
    values = torch.full((2, 2, 3), -2.0, requires_grad=True)
    graphs = DenseGraphs(torch.zeros(2, 2, 2), torch.zeros(2, 2, 3), mask)
    pooled = pool.dense(values, graphs)
    if op == "attention":
        by_pyg = pool.pool(values[0], torch.tensor([0, 0]), dim_size=2)
    else:
        by_pyg = POOLS[op](values[0], torch.tensor([0, 0]), size=2)
    torch.testing.assert_close(pooled, by_pyg)
    (gradient,) = torch.autograd.grad(pooled.sum(), values)
    assert torch.isfinite(gradient).all()
    assert (gradient[1] == 0).all()


def test_a_large_dense_batch_equals_its_parts() -> None:
    """Without gradients a batch is computed in pieces; pieces must not show."""
    spec = GnnSpec(1, 2, (GinLayer(64, 64), PoolLayer("sum"), LinearLayer(2)))
    gnn = random_gnn(spec, 0, torch.float64)
    graphs = [graph for seed in range(60) for graph in random_graphs(seed, 1, torch.float64)]
    batch = to_dense(graphs, nodes=40)
    with_gradient = gnn.dense(batch).detach()
    with torch.no_grad():
        assert_equal_logits(gnn.dense(batch), with_gradient)
        assert gnn.dense(batch.select(torch.arange(0))).shape == (0, 2)


@settings(max_examples=30, deadline=None)
@given(spec=specs(), seed=seeds, with_gradient=st.booleans())
def test_shared_features_are_computed_once_with_equal_results(
    spec: GnnSpec, seed: int, with_gradient: bool
) -> None:
    gnn = random_gnn(spec, seed, torch.float64).requires_grad_(False)
    graph = random_graphs(seed, spec.features, torch.float64)[2]
    graphs = to_dense([graph]).repeat(5)
    rng = torch.Generator().manual_seed(seed)
    adjacency = torch.rand(graphs.adjacency.shape, generator=rng, dtype=torch.float64)
    adjacency = (adjacency + adjacency.mT) / 2 * graphs.pair_mask
    adjacency.requires_grad_(with_gradient)
    copied = graphs.with_adjacency(adjacency)
    attributes = graphs.edge_attributes[:1].expand(5, -1, -1, -1)
    features = graphs.features[:1].expand(5, -1, -1)
    shared = replace(copied, features=features, edge_attributes=attributes)
    with torch.set_grad_enabled(with_gradient):
        assert_equal_logits(gnn.dense(shared).detach(), gnn.dense(copied).detach())


def test_dense_refuses_training_mode() -> None:
    gnn = Gnn(GnnSpec(1, 2, (PoolLayer("sum"), LinearLayer(2)))).train()
    with pytest.raises(RuntimeError, match="training mode"):
        gnn.dense(to_dense(random_graphs(0, 1, torch.float32)))


def test_tensors_have_the_names_and_shapes_of_the_vocabulary() -> None:
    layers = (
        GcnLayer(4),
        GinLayer(5, 6),
        GinLayer(7, 8, train_eps=True),
        BatchNormLayer(),
        ActivationLayer("relu"),
        DropoutLayer(0.1),
        PoolLayer("sum"),
        LinearLayer(3, bias=False),
        LinearLayer(2),
    )
    gnn = Gnn(GnnSpec(3, 2, layers))
    assert {name: tuple(tensor.shape) for name, tensor in gnn.state_dict().items()} == {
        "layers.0.conv.lin.weight": (4, 3),
        "layers.0.conv.bias": (4,),
        "layers.1.conv.eps": (1,),
        "layers.1.conv.nn.0.weight": (6, 4),
        "layers.1.conv.nn.0.bias": (6,),
        "layers.1.conv.nn.2.weight": (5, 6),
        "layers.1.conv.nn.2.bias": (5,),
        "layers.2.conv.eps": (1,),
        "layers.2.conv.nn.0.weight": (8, 5),
        "layers.2.conv.nn.0.bias": (8,),
        "layers.2.conv.nn.2.weight": (7, 8),
        "layers.2.conv.nn.2.bias": (7,),
        "layers.3.norm.weight": (7,),
        "layers.3.norm.bias": (7,),
        "layers.3.norm.running_mean": (7,),
        "layers.3.norm.running_var": (7,),
        "layers.3.norm.num_batches_tracked": (),
        "layers.7.linear.weight": (3, 7),
        "layers.8.linear.weight": (2, 3),
        "layers.8.linear.bias": (2,),
    }
    trainable = {name for name, _ in gnn.named_parameters()}
    assert "layers.2.conv.eps" in trainable
    assert "layers.1.conv.eps" not in trainable


def test_predictions_keep_the_order_of_the_graphs() -> None:
    spec = GnnSpec(2, 3, (GinLayer(4, 4), DropoutLayer(0.5), PoolLayer("mean"), LinearLayer(3)))
    gnn = random_gnn(spec, 0, torch.float64).train()
    some = random_graphs(0, 2, torch.float64) + random_graphs(1, 2, torch.float64)
    # 40 nodes and all 780 edges each: enough rows that one pass does not hold them.
    complete = Graph(
        torch.ones(40, 2, dtype=torch.float64),
        torch.triu_indices(40, 40, 1),
        edge_attributes=torch.zeros(780, EDGE_FEATURES, dtype=torch.float64),
    )
    graphs = [*some, *([complete] * 70), *reversed(some)]
    probabilities = predict(gnn, graphs, CPU)
    assert gnn.training
    alone = torch.cat([predict(gnn, [graph], CPU) for graph in graphs])
    torch.testing.assert_close(probabilities, alone, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(
        probabilities.sum(dim=1), torch.ones(len(graphs), dtype=torch.float64)
    )
    assert predict(gnn, [], CPU).shape == (0, 3)


def test_a_device_is_chosen_by_name_or_automatically() -> None:
    first = "cuda:0" if torch.cuda.is_available() else "cpu"
    assert choose_device("auto") == torch.device(first)
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu", "meta", "", "cuda:99"])
def test_a_device_that_does_not_exist_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=name or "''"):
        choose_device(name)


POOLED = (PoolLayer("sum"), LinearLayer(2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GcnLayer(0), r"gcn: out .* got 0"),
        (lambda: GinLayer(4, -1), r"gin: hidden .* got -1"),
        (lambda: SageLayer(0), r"sage: out .* got 0"),
        (lambda: SageLayer(4, aggr="add"), r"sage: aggr .* mean, max; got 'add'"),
        (lambda: GraphConvLayer(0), r"graph_conv: out .* got 0"),
        (lambda: GraphConvLayer(4, aggr="min"), r"graph_conv: aggr .* got 'min'"),
        (lambda: GatLayer(0), r"gat: out .* got 0"),
        (lambda: GatLayer(4, heads=0), r"gat: heads .* got 0"),
        (lambda: GatV2Layer(4, heads=True), r"gatv2: heads .* got True"),
        (lambda: GatV2Layer(4, negative_slope=-0.1), r"gatv2: negative_slope .* got -0.1"),
        (lambda: PnaLayer(4, (), SCALERS), r"pna: aggregators .* got \(\)"),
        (lambda: PnaLayer(4, ("var",), SCALERS), r"pna: aggregators .* got 'var'"),
        (lambda: PnaLayer(4, AGGREGATORS, ("linear",) * 2), r"pna: scalers .* different"),
        (lambda: PnaLayer(4, AGGREGATORS, SCALERS, 3), r"pna: 3 towers cannot share 4"),
        (
            lambda: GnnSpec(3, 2, (PnaLayer(4, AGGREGATORS, SCALERS, 2, True), *POOLED)),
            r"layers\[0\]: 2 towers cannot divide 3 values",
        ),
        (lambda: TagLayer(4, 0), r"tag: k .* got 0"),
        (lambda: ChebLayer(4, 1), r"cheb: k must be at least 2.* got 1"),
        (lambda: EgnnLayer(4, 0.6, 0.6), r"egnn: alpha and beta .* got 0.6 and 0.6"),
        (lambda: EgnnLayer(4, -0.1, 0.6), r"egnn: alpha .* got -0.1"),
        (
            lambda: GnnSpec(3, 2, (EgnnLayer(4, 0.1, 0.1), *POOLED)),
            r"layers\[0\]: EgnnLayer has no KeepLayer",
        ),
        (
            lambda: GnnSpec(
                3, 2, (KeepLayer(), GcnLayer(4), KeepLayer(), EgnnLayer(4, 0.1, 0.1), *POOLED)
            ),
            r"layers\[3\]: EgnnLayer gets 4 values per node but 3 were kept first",
        ),
        (lambda: GineLayer(0, 1), r"gine: out .* got 0"),
        (lambda: GineLayer(1, 0), r"gine: hidden .* got 0"),
        (
            lambda: GnnSpec(3, 2, (GineLayer(4, 5), *POOLED)),
            r"layers\[0\] reads edge attributes, but edge_features is 0",
        ),
        (
            lambda: GnnSpec(3, 2, (GatLayer(4), *POOLED), 2),
            r"no layer reads edge attributes, but edge_features is 2",
        ),
        (
            lambda: GnnSpec(3, 2, (GineSumLayer(project=False), *POOLED), 2),
            r"layers\[0\]: 2 edge attributes cannot be added to 3 values",
        ),
        (lambda: GnnSpec(3, 2, POOLED, -1), r"edge_features .* got -1"),
        (lambda: LinearLayer(True), r"linear: out .* got True"),
        (lambda: DropoutLayer(1.0), r"dropout: p .* got 1.0"),
        (lambda: DropoutLayer(float("nan")), r"dropout: p .* got nan"),
        (lambda: ActivationLayer("swish"), r"activation: kind .* relu.* got 'swish'"),
        (lambda: LayerNormLayer("batch"), r"layer_norm: mode .* node, graph; got 'batch'"),
        (lambda: GnnSpec(1, 2, (AddLayer(), *POOLED)), r"layers\[0\]: AddLayer has no KeepLayer"),
        (
            lambda: GnnSpec(1, 2, (KeepLayer(), GcnLayer(4), AddLayer(), *POOLED)),
            r"layers\[2\]: AddLayer gets 4 values per node but 1 were kept",
        ),
        (
            lambda: GnnSpec(1, 2, (KeepLayer(), *POOLED[:1], AddLayer(), *POOLED[1:])),
            r"layers\[2\]: AddLayer needs nodes",
        ),
        (
            lambda: GnnSpec(1, 2, (*POOLED[:1], GraphNormLayer(), *POOLED[1:])),
            r"layers\[1\]: GraphNormLayer needs nodes",
        ),
        (
            lambda: GnnSpec(1, 2, (*POOLED[:1], LayerNormLayer("graph"), *POOLED[1:])),
            r"layers\[1\]: LayerNormLayer needs nodes",
        ),
        (
            lambda: GnnSpec(1, 2, (GcnLayer(2), GraphNormLayer(), LinearLayer(2))),
            r"layers\[1\]: GraphNormLayer\(\) reads the whole graph",
        ),
        (
            lambda: GnnSpec(1, 2, (GcnLayer(2), LayerNormLayer("graph"), LinearLayer(2))),
            r"layers\[1\]: .*'graph'\) reads the whole graph",
        ),
        (lambda: PoolLayer("min"), r"pool: op .* got 'min'"),
        (lambda: JumpLayer("lstm"), r"jump: mode .* cat, max; got 'lstm'"),
        (lambda: ActivationLayer("relu", 0.1), r"slope is for leaky_relu"),
        (lambda: ActivationLayer("leaky_relu", 2.0), r"from 0 to 1; got 2.0"),
        (lambda: JumpLayer("cat", 0), r"jump: last"),
        (
            lambda: GnnSpec(1, 2, (KeepLayer(), JumpLayer("cat", 2), *POOLED)),
            r"layers\[1\]: JumpLayer joins the last 2 kept values, but 1 were kept",
        ),
        (lambda: GnnSpec(1, 2, (JumpLayer("cat"), *POOLED)), r"layers\[0\]: .* no KeepLayer"),
        (
            lambda: GnnSpec(
                1, 2, (KeepLayer(), GcnLayer(4), KeepLayer(), JumpLayer("max"), *POOLED)
            ),
            r"layers\[3\]: .* one width; got \[1, 4\]",
        ),
        (lambda: GnnSpec(1, 2, (*POOLED, KeepLayer())), r"layers\[2\]: KeepLayer needs nodes"),
        (
            lambda: GnnSpec(1, 2, (KeepLayer(), *POOLED, JumpLayer("cat"))),
            r"layers\[3\]: JumpLayer needs nodes",
        ),
        (
            lambda: GnnSpec(1, 2, (KeepLayer(), JumpLayer("cat"), PoolLayer("sum"))),
            r"linear, combine or columns; got JumpLayer",
        ),
        (lambda: GnnSpec(0, 2, POOLED), r"features .* got 0"),
        (lambda: GnnSpec(1, 1, POOLED), r"classes.* got 1"),
        (lambda: GnnSpec(1, 2, (*POOLED, *POOLED)), r"layers\[2\]: PoolLayer needs nodes"),
        (lambda: GnnSpec(1, 2, (KeepLayer(), JumpLayer("cat"))), r"or columns; got JumpLayer"),
        (lambda: GnnSpec(1, 2, (GcnLayer(3),)), r"GcnLayer must give 2 classes; got 3"),
        (lambda: GnnSpec(1, 2, (GatLayer(2, heads=2),)), r"GatLayer must give 2 .* got 4"),
        (
            lambda: GnnSpec(1, 2, (GcnLayer(2), KeepLayer(), JumpLayer("cat"))),
            r"a convolution, linear, combine or columns; got JumpLayer",
        ),
        (
            lambda: GnnSpec(1, 2, (*POOLED, GcnLayer(2))),
            r"layers\[2\]: GcnLayer needs nodes, but comes after the pool",
        ),
        (lambda: GnnSpec(1, 2, (GcnLayer(2), PoolLayer("sum"))), r"or columns; got GcnLayer"),
        (lambda: GnnSpec(1, 2, (PoolLayer("sum"),)), r"got none"),
        (lambda: GnnSpec(1, 3, POOLED), r"must give 3 classes; got 2"),
        (lambda: GnnSpec(1, 3, (*POOLED[:1], LinearLayer(1))), r"must give 3 classes; got 1"),
        (lambda: GnnSpec(1, 2, ("pool", *POOLED)), r"layers\[0\].* got 'pool'"),
    ],
)
def test_an_invalid_spec_names_the_value(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
