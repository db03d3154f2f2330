"""The paper's network: its symmetries, its formula and where the noise level enters."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from d4explain.gnn.errors import NoMarkedNodeError
from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from models.diffusion.noise import NoiseLevel
from models.diffusion.paper.network import PaperDenoiser, PaperShape

torch.set_num_threads(1)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_graph(nodes: int, seed: int, features: int = 2) -> Graph:
    generator = rng(seed)
    upper = torch.triu(torch.rand(nodes, nodes, generator=generator) < 0.4, diagonal=1)
    x = torch.randn(nodes, features, generator=generator, dtype=torch.float64)
    return Graph(x, upper.nonzero().T)


def random_denoiser(seed: int = 0, blocks: int = 3) -> PaperDenoiser:
    """In float64, with random biases instead of the zeros of a new one."""
    denoiser = PaperDenoiser(PaperShape(2, hidden=5, blocks=blocks), rng(seed)).double()
    with torch.no_grad():
        denoiser.head_bias.normal_(generator=rng(seed + 1))
        denoiser.out_bias.normal_(generator=rng(seed + 2))
    return denoiser


def level(*flips: float) -> NoiseLevel:
    return NoiseLevel.symmetric(torch.tensor(flips, dtype=torch.float64))


@given(nodes=st.integers(2, 7), seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_logits_follow_the_order_of_the_nodes(nodes: int, seed: int) -> None:
    denoiser = random_denoiser(seed)
    graphs = to_dense([random_graph(nodes, seed)])
    order = torch.randperm(nodes, generator=rng(seed))
    reordered = DenseGraphs(
        graphs.adjacency[:, order][:, :, order], graphs.features[:, order], graphs.mask
    )
    logits = denoiser(graphs, level(0.2))
    torch.testing.assert_close(denoiser(reordered, level(0.2)), logits[:, order][:, :, order])


@given(
    nodes=st.integers(1, 6),
    padding=st.integers(0, 4),
    mate=st.integers(1, 9),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=40, deadline=None)
def test_logits_do_not_depend_on_padding_or_the_batch(
    nodes: int, padding: int, mate: int, seed: int
) -> None:
    denoiser = random_denoiser(seed)
    graph, other = random_graph(nodes, seed), random_graph(mate, seed + 1)
    alone = denoiser(to_dense([graph]), level(0.1))[0]
    width = max(nodes, mate) + padding
    batched = denoiser(to_dense([other, graph], nodes=width), level(0.4, 0.1))[1]
    torch.testing.assert_close(batched[:nodes, :nodes], alone)
    assert (batched[nodes:] == 0).all()
    assert (batched[:, nodes:] == 0).all()


def test_logits_are_symmetric_and_zero_off_the_pairs() -> None:
    graphs = to_dense([random_graph(6, 1), random_graph(4, 2)])
    logits = random_denoiser()(graphs, level(0.05, 0.2))
    assert torch.equal(logits, logits.mT)
    assert (logits[~graphs.pair_mask] == 0).all()
    assert (logits[torch.triu(graphs.pair_mask, 1)] != 0).all()


def printed(denoiser: PaperDenoiser, graph: Graph, flip: float) -> Tensor:
    """The formula of the appendix for one graph, with the concatenations written out."""
    nodes = graph.node_count
    adjacency = to_dense([graph]).adjacency[0]
    x = graph.features
    noise = denoiser.noise

    def mlp(value: Tensor) -> Tensor:
        hidden = torch.relu(value[..., None] * noise.weight_in[:, 0] + noise.bias_in)
        return hidden @ noise.weight_out[0]

    one_hot = torch.stack([1 - adjacency, adjacency], dim=-1)  # [node, node, 2]
    ends = torch.cat([x[:, None].expand(-1, nodes, -1), x[None].expand(nodes, -1, -1)], dim=-1)
    level_plane = mlp(flip * torch.eye(nodes, dtype=x.dtype))[..., None]
    state = torch.cat([one_hot, ends, level_plane], dim=-1)  # M_in, [node, node, 2d + 3]
    planes, source, target = (
        denoiser.inputs.planes,
        denoiser.inputs.source,
        denoiser.inputs.target,
    )
    maps = [torch.cat([planes[:, :2], source, target, planes[:, 2:]], dim=1), *denoiser.maps]
    outputs = []
    for layer, first in zip(denoiser.layers, maps, strict=True):
        left_in, right_in, skip = (state @ part.T for part in first.chunk(3))
        left = torch.relu(torch.relu(left_in) @ layer.left.T)
        right = torch.relu(torch.relu(right_in) @ layer.right.T)
        paths = torch.einsum("ikc,kjc->ijc", left, right) / nodes**0.5
        state = skip + paths @ layer.paths.T
        state = state - state.mean((0, 1))
        state = state / (state.square().mean((0, 1)) + 1e-5).sqrt()
        outputs.append(state)
    hidden = torch.relu(torch.cat(outputs, dim=-1) @ denoiser.head_in.T + denoiser.head_bias[:, 0])
    logits = (hidden @ denoiser.head_out.T)[..., 0] + denoiser.out_bias
    return (logits + logits.T) / 2 * (1 - torch.eye(nodes, dtype=x.dtype))


@pytest.mark.parametrize("blocks", [1, 3])
def test_logits_are_the_printed_formula(blocks: int) -> None:
    denoiser, graph = random_denoiser(3, blocks), random_graph(6, 4)
    found = denoiser(to_dense([graph]), level(0.3))[0]
    torch.testing.assert_close(found, printed(denoiser, graph, 0.3))


def test_output_is_a_map_of_the_concatenation_of_all_layers() -> None:
    denoiser = random_denoiser(blocks=3)
    assert denoiser.head_in.shape == (5, 3 * 5)
    graphs = to_dense([random_graph(6, 1)])
    logits = denoiser(graphs, level(0.2))
    for layer in range(3):
        without = random_denoiser(blocks=3)
        with torch.no_grad():
            without.head_in[:, 5 * layer : 5 * layer + 5] = 0
        assert not torch.allclose(without(graphs, level(0.2)), logits)


def test_the_noise_level_enters_on_the_diagonal_only() -> None:
    denoiser = random_denoiser()
    graphs = to_dense([random_graph(4, 1)])
    low, high = (denoiser.noise(torch.tensor([flip]).double(), graphs)[0] for flip in (0.0, 0.4))
    changed = low != high
    assert torch.equal(changed, torch.eye(4, dtype=torch.bool))
    assert not torch.allclose(denoiser(graphs, level(0.0)), denoiser(graphs, level(0.4)))


def test_features_and_edges_matter() -> None:
    denoiser = random_denoiser()
    graphs = to_dense([random_graph(6, 1)])
    logits = denoiser(graphs, level(0.2))
    other_features = DenseGraphs(graphs.adjacency, graphs.features.flip(1), graphs.mask)
    no_edges = graphs.with_adjacency(torch.zeros_like(graphs.adjacency))
    assert not torch.allclose(denoiser(other_features, level(0.2)), logits)
    assert not torch.allclose(denoiser(no_edges, level(0.2)), logits)


def test_a_marked_node_is_one_more_feature() -> None:
    denoiser = PaperDenoiser(PaperShape(1, hidden=5, blocks=2, marked=True), rng()).double()
    graph = Graph(torch.ones(4, 1, dtype=torch.float64), torch.tensor([[0, 1, 2], [1, 2, 3]]))
    ends = [Graph(graph.features, graph.edges, target) for target in (0, 3)]
    first, last = denoiser(to_dense(ends), level(0.1, 0.1))
    assert not torch.allclose(first, last)
    torch.testing.assert_close(first, last.flip(0).flip(1))  # the path read from its other end
    with pytest.raises(NoMarkedNodeError):
        denoiser(to_dense([graph]), level(0.1))


def test_plausibility_is_the_signed_log_odds_of_the_clean_graph() -> None:
    """Bayes' rule with symmetric noise: the observation of a pair adds ± log((1 - b)/b)."""
    graphs = to_dense([random_graph(6, 1)])
    denoiser = random_denoiser()
    sign = 2 * graphs.adjacency - 1
    observed = sign * torch.tensor(0.98 / 0.02).log().double()
    log_odds = (denoiser(graphs, level(0.02)) - observed) * graphs.pair_mask
    found = denoiser.read(graphs)
    assert found.effects is None
    torch.testing.assert_close(found.plausibility, (-sign * log_odds).detach())


def test_initial_weights_come_from_the_generator() -> None:
    shape = PaperShape(features=2, hidden=4, blocks=2)
    first, again, other = (PaperDenoiser(shape, rng(seed)).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_impossible_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="hidden=0"):
        PaperShape(features=1, hidden=0)
