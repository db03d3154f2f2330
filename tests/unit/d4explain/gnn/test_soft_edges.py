"""What the dense forms say between 0 and 1, and what their slopes mean."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs
from d4explain.gnn.layers import tiles
from d4explain.gnn.layers.aggregation import aggregate
from d4explain.gnn.layers.build import build
from d4explain.gnn.layers.forms import GraphLayer
from d4explain.gnn.layers.pna import Pna
from d4explain.gnn.spec import (
    ChebLayer,
    GatLayer,
    GatV2Layer,
    GineLayer,
    GineSumLayer,
    Layer,
    PnaAggregator,
    PnaLayer,
    TagLayer,
)

torch.set_num_threads(1)


def random_weights(seed: int, batch: int = 2, nodes: int = 5) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    upper = torch.rand(batch, nodes, nodes, generator=rng, dtype=torch.float64).triu(1)
    return upper + upper.mT


def random_values(seed: int, batch: int = 2, nodes: int = 5, width: int = 3) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(batch, nodes, width, generator=rng, dtype=torch.float64)


def discrete(seed: int) -> Tensor:
    return (random_weights(seed) > 0.5).double()


def test_the_soft_maximum_is_the_expectation_over_all_subsets_of_neighbours() -> None:
    values, weights = random_values(0), random_weights(1)
    expected = torch.zeros_like(values)
    for there in itertools.product([False, True], repeat=5):
        chosen = torch.tensor(there)
        chance = torch.where(chosen, weights, 1 - weights).prod(dim=2)  # [batch, node]
        if chosen.any():
            expected += chance[:, :, None] * values[:, chosen].amax(dim=1)[:, None]
    torch.testing.assert_close(aggregate("max", values, weights), expected)


def test_the_gradient_of_the_maximum_is_the_change_by_a_flip() -> None:
    values, adjacency = random_values(2), discrete(3)
    (slope,) = torch.autograd.functional.jacobian(
        lambda weights: aggregate("max", values, weights), (adjacency,)
    )  # [batch, node, width, batch, node, node]
    flipped = torch.empty_like(slope)
    for place in itertools.product(range(2), range(5), range(5)):
        present, absent = adjacency.clone(), adjacency.clone()
        present[place], absent[place] = 1, 0
        change = aggregate("max", values, present) - aggregate("max", values, absent)
        flipped[(..., *place)] = change
    torch.testing.assert_close(slope, flipped)


def test_equal_neighbours_share_no_slope() -> None:
    """Either of two equal maxima may go and nothing changes."""
    values = torch.tensor([[[0.0], [2.0], [2.0]]])
    weights = torch.tensor([[[0.0, 1, 1], [1, 0, 0], [1, 0, 0]]], requires_grad=True)
    (slope,) = torch.autograd.grad(aggregate("max", values, weights)[0, 0, 0], weights)
    assert (slope == 0).all()


@pytest.mark.parametrize("numbers", [2**24, 4 * 5 * 5 * 3, 4 * 2 * 5 * 3, 1])
def test_tiles_do_not_change_the_maximum(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole batch, graph by graph, two rows at a time, row by row."""
    values, soft, hard = random_values(4), random_weights(5), discrete(6)
    expected = aggregate("max", values, soft)
    slope = torch.autograd.functional.jacobian(lambda w: aggregate("max", values, w), soft)
    monkeypatch.setattr(tiles, "_NUMBERS", numbers)
    torch.testing.assert_close(aggregate("max", values, soft), expected)
    again = torch.autograd.functional.jacobian(lambda w: aggregate("max", values, w), soft)
    torch.testing.assert_close(again, slope)
    torch.testing.assert_close(
        aggregate("max", values, hard), aggregate("max", values, hard.requires_grad_()).detach()
    )


def test_a_batch_without_graphs_has_no_maximum() -> None:
    assert aggregate("max", torch.zeros(0, 4, 3), torch.zeros(0, 4, 4)).shape == (0, 4, 3)


def random_attributes(seed: int, width: int = 2) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    drawn = torch.randn(2, 5, 5, width, generator=rng, dtype=torch.float64)
    return drawn + drawn.transpose(1, 2)


def edge_module(layer: Layer) -> GraphLayer:
    module = build(layer, 3, 2).double().eval().requires_grad_(False)
    assert isinstance(module, GraphLayer)
    rng = torch.Generator().manual_seed(7)
    for tensor in module.state_dict().values():
        tensor.copy_(torch.randn(tensor.shape, generator=rng, dtype=torch.float64))
    return module


def test_a_soft_edge_is_a_weight_of_its_message() -> None:
    """PyG's own messages, weighted by hand."""
    module = edge_module(GineSumLayer())
    values, weights, attributes = random_values(1), random_weights(2), random_attributes(3)
    mask = torch.ones(2, 5, dtype=torch.bool)
    graphs = DenseGraphs(weights, values, mask, edge_attributes=attributes)
    expected = values * (1 + module.conv.eps)
    for graph, i, j in itertools.product(range(2), range(5), range(5)):
        message = module.conv.message(values[graph, j], attributes[graph, i, j])
        expected[graph, i] += weights[graph, i, j] * message
    followed = graphs.with_adjacency(weights.clone().requires_grad_())
    torch.testing.assert_close(module.dense(values, graphs), expected)
    torch.testing.assert_close(module.dense(values, followed).detach(), expected)


@pytest.mark.parametrize("numbers", [2**24, 4 * 5 * 5 * 6, 4 * 2 * 5 * 6, 1])
@pytest.mark.parametrize(
    "layer",
    [GineLayer(3, 4), GatLayer(3, heads=2, edges=True), GatV2Layer(3, 2, edges=True)],
    ids=str,
)
@pytest.mark.parametrize("shared", [False, True])
def test_tiles_do_not_change_edge_convolutions(
    layer: Layer, numbers: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = edge_module(layer)
    values, attributes = random_values(4), random_attributes(5)
    if shared:
        attributes = attributes[:1].expand(2, -1, -1, -1)

    def found(weights: Tensor) -> Tensor:
        mask = torch.ones(2, 5, dtype=torch.bool)
        return module.dense(values, DenseGraphs(weights, values, mask, None, attributes))

    soft = random_weights(6)
    expected, slope = found(soft), torch.autograd.functional.jacobian(found, soft)
    attributes = attributes.clone()  # no longer shared
    monkeypatch.setattr(tiles, "_NUMBERS", numbers)
    torch.testing.assert_close(found(soft), expected)
    torch.testing.assert_close(torch.autograd.functional.jacobian(found, soft), slope)


def test_a_self_loop_gets_the_mean_of_its_node_s_edges() -> None:
    """With one edge of weight w, half of nothing and half of the edge at w = 1/2."""
    module = edge_module(GatLayer(3, edges=True))
    values = random_values(7, batch=1, nodes=2)
    attributes = random_attributes(8)[:1, :2, :2]
    weights = torch.tensor([[[0.0, 0.5], [0.5, 0.0]]], dtype=torch.float64)
    mask = torch.ones(1, 2, dtype=torch.bool)
    graphs = DenseGraphs(weights, values, mask, edge_attributes=attributes)
    conv, edge = module.conv, attributes[0, 0, 1]
    sources = conv.lin(values[0])

    def logit(i: int, j: int, carried: Tensor) -> Tensor:
        parts = sources[j] * conv.att_src[0, 0] + sources[i] * conv.att_dst[0, 0]
        parts = parts + conv.lin_edge(carried) * conv.att_edge[0, 0]
        return torch.nn.functional.leaky_relu(parts.sum(), 0.2).exp()

    own, other = logit(0, 0, edge / 2), 0.5 * logit(0, 1, edge)
    expected = (own * sources[0] + other * sources[1]) / (own + other) + conv.bias
    torch.testing.assert_close(module.dense(values, graphs)[0, 0], expected)


ATTENTIONS: list[Layer] = [GatLayer(3, heads=2), GatV2Layer(3, heads=2)]


def attention_module(layer: Layer, scale: float = 1.0) -> GraphLayer:
    module = build(layer, 3).double().eval().requires_grad_(False)
    assert isinstance(module, GraphLayer)
    rng = torch.Generator().manual_seed(7)
    for tensor in module.state_dict().values():
        tensor.copy_(torch.randn(tensor.shape, generator=rng, dtype=torch.float64) * scale)
    return module


@pytest.mark.parametrize("layer", ATTENTIONS, ids=str)
def test_soft_attention_is_the_softmax_of_logits_plus_log_weights(layer: Layer) -> None:
    """The logits are PyG's own, told from the attention that it gives to complete graphs."""
    module = attention_module(layer)
    values, weights = random_values(8), random_weights(9)
    mask = torch.ones(2, 5, dtype=torch.bool)
    found = module.dense(values, DenseGraphs(weights, values, mask))
    source, target = (~torch.eye(5, dtype=torch.bool)).nonzero().T
    for number in range(2):
        _, (edges, attention) = module.conv(
            values[number], torch.stack([source, target]), return_attention_weights=True
        )
        logits = torch.zeros(5, 5, 2, dtype=torch.float64)  # [target, source, head]
        logits[edges[1], edges[0]] = attention.log()
        loops = weights[number] + torch.eye(5)
        shares = (logits + loops.log()[:, :, None]).softmax(dim=1)
        linear = module.conv.lin if isinstance(layer, GatLayer) else module.conv.lin_l
        rows = linear(values[number]).unflatten(1, (2, 3))
        expected = torch.einsum("tsh,shc->thc", shares, rows).flatten(1) + module.conv.bias
        torch.testing.assert_close(found[number], expected)


@pytest.mark.parametrize("scale", [10.0, 100.0])
@pytest.mark.parametrize("weight", [0.0, 1e-30, 0.5, 1.0])
@pytest.mark.parametrize("layer", ATTENTIONS, ids=str)
def test_logits_of_any_size_leave_attention_finite(
    layer: Layer, weight: float, scale: float
) -> None:
    module = attention_module(layer, scale).float()
    values = random_values(10).float()
    adjacency = weight * (1 - torch.eye(5)).repeat(2, 1, 1)
    adjacency[:, 0] = adjacency[:, :, 0] = 0  # a node of its own
    adjacency.requires_grad_()
    rows = module.dense(values, DenseGraphs(adjacency, values, torch.ones(2, 5).bool()))
    (slope,) = torch.autograd.grad(rows.sum(), adjacency)
    assert torch.isfinite(rows).all()
    assert torch.isfinite(slope).all()


@pytest.mark.parametrize("layer", ATTENTIONS, ids=str)
def test_tiles_do_not_change_attention(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    module, values, soft = attention_module(layer), random_values(11), random_weights(12)
    mask = torch.ones(2, 5, dtype=torch.bool)

    def rows(weights: Tensor) -> Tensor:
        return module.dense(values, DenseGraphs(weights, values, mask))

    whole, slope = rows(soft), torch.autograd.functional.jacobian(rows, soft)
    for numbers in (4 * 5 * 5 * 6, 4 * 2 * 5 * 6, 1):
        monkeypatch.setattr(tiles, "_NUMBERS", numbers)
        torch.testing.assert_close(rows(soft), whole)
        torch.testing.assert_close(torch.autograd.functional.jacobian(rows, soft), slope)


def soft(module: GraphLayer, values: Tensor, weights: Tensor) -> Tensor:
    mask = torch.ones(weights.shape[:2], dtype=torch.bool)
    return module.dense(values, DenseGraphs(weights, values, mask))


def one_aggregator(aggregator: PnaAggregator) -> Pna:
    """A PNA layer that gives nothing but the aggregated messages of 3 values."""
    module = build(PnaLayer(3, (aggregator,), ("identity",)), 3).double().requires_grad_(False)
    assert isinstance(module, Pna)
    rng = torch.Generator().manual_seed(3)
    for tensor in module.conv.pre_nns[0].state_dict().values():
        tensor.copy_(torch.randn(tensor.shape, generator=rng, dtype=torch.float64))
    eye, nothing = torch.eye(3), torch.zeros(3, 3)
    module.conv.post_nns[0][0].weight.copy_(torch.cat([nothing, eye], dim=1))
    module.conv.lin.weight.copy_(eye)
    for linear in (module.conv.post_nns[0][0], module.conv.lin):
        linear.bias.zero_()
    return module


def messages(module: Pna, values: Tensor) -> Tensor:
    """[batch, target, source, width]."""
    pairs = torch.broadcast_tensors(values[:, :, None], values[:, None])
    result: Tensor = module.conv.pre_nns[0](torch.cat(pairs, dim=3))
    return result


@pytest.mark.parametrize("aggregator", ["max", "min"])
def test_pna_expects_the_largest_and_smallest_message(aggregator: PnaAggregator) -> None:
    module, values, weights = one_aggregator(aggregator), random_values(0), random_weights(1)
    sent = messages(module, values)
    expected = torch.zeros_like(values)
    for there in itertools.product([False, True], repeat=5):
        chosen = torch.tensor(there)
        chance = torch.where(chosen, weights, 1 - weights).prod(dim=2)  # [batch, node]
        if chosen.any():
            among = sent[:, :, chosen]
            extreme = among.amax(dim=2) if aggregator == "max" else among.amin(dim=2)
            expected += chance[:, :, None] * extreme
    torch.testing.assert_close(soft(module, values, weights), expected)


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_pna_takes_the_mean_and_deviation_of_weighted_messages(scale: float) -> None:
    """Both fade with the degree where it is below one edge, the deviation with its root."""
    weights = random_weights(1) * scale
    values = random_values(0)
    degree = weights.sum(dim=2, keepdim=True)
    assert (degree > 1).all() if scale == 1 else (degree < 1).all()
    fading = degree.clamp(max=1)
    shares = (weights / degree)[..., None]
    mean, deviation = one_aggregator("mean"), one_aggregator("std")
    sent = messages(mean, values)
    centre = (shares * sent).sum(dim=2)
    spread = (shares * (sent - centre[:, :, None]).square()).sum(dim=2)
    torch.testing.assert_close(soft(mean, values, weights), fading * centre)
    torch.testing.assert_close(soft(deviation, values, weights), (fading * spread).sqrt())


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_the_slope_of_a_deviation_is_finite(weight: float) -> None:
    """No deviation is left without neighbours, nor a slope: one edge would not change that."""
    module, values = one_aggregator("std"), random_values(2)
    adjacency = (weight * (1 - torch.eye(5, dtype=torch.float64))).repeat(2, 1, 1).requires_grad_()
    (slope,) = torch.autograd.grad(soft(module, values, adjacency).sum(), adjacency)
    assert torch.isfinite(slope).all()
    assert (slope != 0).any() == (weight > 0)


@pytest.mark.parametrize("layer", [TagLayer(4, 3), ChebLayer(4, 4)], ids=str)
def test_soft_polynomials_are_pyg_s_of_weighted_edges(layer: Layer) -> None:
    """PyG takes edge weights itself; where degrees are 1 or more, both mean the same."""
    module = build(layer, 3).double().requires_grad_(False)
    assert isinstance(module, GraphLayer)
    values, weights = random_values(4), random_weights(5)
    assert (weights.sum(dim=2) >= 1).all()
    found = soft(module, values, weights)
    source, target = (~torch.eye(5, dtype=torch.bool)).nonzero().T
    for number in range(2):
        given = weights[number, source, target]
        expected = module.conv(values[number], torch.stack([source, target]), given)
        torch.testing.assert_close(found[number], expected)
