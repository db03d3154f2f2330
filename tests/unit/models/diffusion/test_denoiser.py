"""The denoiser's symmetries, its hand-written gradient and its closed-form residual."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.diffusion.noise import NoiseLevel
from models.diffusion.ppgn import PpgnBlock

torch.set_num_threads(1)


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_graph(nodes: int, seed: int, features: int = 2) -> Graph:
    generator = rng(seed)
    upper = torch.triu(torch.rand(nodes, nodes, generator=generator) < 0.4, diagonal=1)
    x = torch.randn(nodes, features, generator=generator, dtype=torch.float64)
    return Graph(x, upper.nonzero().T)


def random_denoiser(seed: int = 0) -> Denoiser:
    """In float64, with random values where a new one has zeros, which have every symmetry."""
    shape = DenoiserShape(features=2, hidden=6, blocks=2)
    denoiser = Denoiser(shape, rng(seed)).double()
    with torch.no_grad():
        denoiser.head_out.normal_(generator=rng(seed + 1))
    return denoiser


def level(add: float, remove: float, count: int = 1) -> NoiseLevel:
    return NoiseLevel(
        torch.full((count,), add, dtype=torch.float64),
        torch.full((count,), remove, dtype=torch.float64),
    )


@given(nodes=st.integers(2, 7), seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_logits_follow_the_order_of_the_nodes(nodes: int, seed: int) -> None:
    denoiser = random_denoiser(seed)
    graphs = to_dense([random_graph(nodes, seed)])
    order = torch.randperm(nodes, generator=rng(seed))
    reordered = DenseGraphs(
        graphs.adjacency[:, order][:, :, order], graphs.features[:, order], graphs.mask
    )
    logits = denoiser(graphs, level(0.05, 0.2))
    torch.testing.assert_close(denoiser(reordered, level(0.05, 0.2)), logits[:, order][:, :, order])


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
    alone = denoiser(to_dense([graph]), level(0.1, 0.3))[0]
    width = max(nodes, mate) + padding
    noise = NoiseLevel(
        torch.tensor([0.4, 0.1], dtype=torch.float64), torch.tensor([0.4, 0.3], dtype=torch.float64)
    )
    batched = denoiser(to_dense([other, graph], nodes=width), noise)[1]
    torch.testing.assert_close(batched[:nodes, :nodes], alone)
    assert (batched[nodes:] == 0).all()
    assert (batched[:, nodes:] == 0).all()


def test_logits_are_symmetric_and_zero_off_the_pairs() -> None:
    graphs = to_dense([random_graph(6, 1), random_graph(4, 2)])
    denoiser = random_denoiser()
    for logits in (
        denoiser(graphs, level(0.05, 0.2, 2)),
        denoiser.edge_log_odds(graphs, level(0.05, 0.2, 2)),
    ):
        assert torch.equal(logits, logits.mT)
        assert (logits[~graphs.pair_mask] == 0).all()
        assert (logits[torch.triu(graphs.pair_mask, 1)] != 0).all()


def test_features_edges_and_noise_all_matter() -> None:
    read = random_denoiser().edge_log_odds
    graphs = to_dense([random_graph(6, 1)])
    log_odds = read(graphs, level(0.05, 0.2))
    other_features = DenseGraphs(graphs.adjacency, graphs.features.flip(1), graphs.mask)
    no_edges = graphs.with_adjacency(torch.zeros_like(graphs.adjacency))
    assert not torch.allclose(read(other_features, level(0.05, 0.2)), log_odds)
    assert not torch.allclose(read(no_edges, level(0.05, 0.2)), log_odds)
    assert not torch.allclose(read(graphs, level(0.3, 0.2)), log_odds)
    assert not torch.allclose(read(graphs, level(0.05, 0.4)), log_odds)


def reference_block(block: PpgnBlock, state: Tensor, sizes: Tensor) -> Tensor:
    """The block's formula in plain operations, differentiated automatically."""
    channels = state.shape[0]
    normed = state / (state.square().mean(0, keepdim=True) + 1e-6).sqrt()
    first, second, skip = block.maps.split(channels)  # type: ignore[no-untyped-call]

    def mapped(weight: Tensor, values: Tensor) -> Tensor:
        return torch.einsum("oc,cbij->obij", weight, values)

    left, right = mapped(first, normed).relu(), mapped(second, normed).relu()
    paths = torch.einsum("cbik,cbkj->cbij", left, right) / sizes.sqrt()[:, None, None]
    mixed = (mapped(block.product, paths) + mapped(skip, normed)).relu()
    return state + mapped(block.out, mixed)


def test_block_and_its_gradients_are_those_of_the_formula() -> None:
    block = PpgnBlock(5, 2, rng(0)).double()
    sizes = torch.tensor([4.0, 3.0, 2.0], dtype=torch.float64)
    state = torch.randn(5, 3, 4, 4, generator=rng(1), dtype=torch.float64)
    real = torch.arange(4) < sizes[:, None]
    state = (state * (real[:, :, None] & real[:, None, :])).requires_grad_()
    towards = torch.randn(5, 3, 4, 4, generator=rng(2), dtype=torch.float64)
    inputs = [state, *block.parameters()]

    ours, reference = block(state, sizes), reference_block(block, state, sizes)
    torch.testing.assert_close(ours, reference)
    found = torch.autograd.grad((ours * towards).sum(), inputs)
    expected = torch.autograd.grad((reference * towards).sum(), inputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
        assert other.abs().max() > 0


def test_block_gradients_agree_with_finite_differences() -> None:
    block = PpgnBlock(3, 1, rng(3)).double()
    state = torch.randn(3, 2, 3, 3, generator=rng(4), dtype=torch.float64, requires_grad=True)
    sizes = torch.tensor([3.0, 3.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda values: block(values, sizes), (state,))


PAIRS = ((0, 1), (0, 2), (1, 2))


def tiny_prior() -> dict[tuple[int, ...], float]:
    """An arbitrary distribution over all eight graphs of three nodes."""
    weights = torch.rand(8, generator=rng(5), dtype=torch.float64)
    return dict(zip(product((0, 1), repeat=3), (weights / weights.sum()).tolist(), strict=True))


def transition(clean: int, noisy: int, add: float, remove: float) -> float:
    changes = remove if clean else add
    return changes if clean != noisy else 1 - changes


@pytest.mark.parametrize(("add", "remove"), [(0.02, 0.02), (0.03, 0.25), (0.5, 0.5)])
def test_residual_is_bayes_rule_for_the_pair_itself(add: float, remove: float) -> None:
    """Log-odds of an edge given all of G_t = those given the rest + (forward - edge_log_odds)."""
    prior = tiny_prior()
    denoiser = random_denoiser()
    for noisy in prior:
        edges = [pair for pair, there in zip(PAIRS, noisy, strict=True) if there]
        graph = Graph(
            torch.zeros(3, 2, dtype=torch.float64),
            torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T,
        )
        graphs = to_dense([graph])
        noise = level(add, remove)
        observation = denoiser(graphs, noise) - denoiser.edge_log_odds(graphs, noise)
        for place, (source, target) in enumerate(PAIRS):
            given_all, given_rest = [0.0, 0.0], [0.0, 0.0]
            for clean, probability in prior.items():
                factors = [transition(c, n, add, remove) for c, n in zip(clean, noisy, strict=True)]
                rest = probability
                for other in {0, 1, 2} - {place}:
                    rest *= factors[other]
                given_rest[clean[place]] += rest
                given_all[clean[place]] += rest * factors[place]
            all_odds = torch.tensor(given_all[1] / given_all[0], dtype=torch.float64).log()
            rest_odds = torch.tensor(given_rest[1] / given_rest[0], dtype=torch.float64).log()
            torch.testing.assert_close(
                observation[0, source, target], all_odds - rest_odds, atol=1e-9, rtol=0
            )


def test_logits_stay_finite_without_noise() -> None:
    graphs = to_dense([random_graph(5, 1)])
    denoiser = random_denoiser()
    assert torch.isfinite(denoiser(graphs, level(0.0, 0.0))).all()
    assert torch.isfinite(denoiser(graphs, level(1.0, 1.0))).all()


def test_huge_features_do_not_hide_the_edges() -> None:
    graphs = to_dense([random_graph(6, 1)])
    huge = DenseGraphs(graphs.adjacency, graphs.features * 1e6, graphs.mask)
    fewer = huge.with_adjacency(torch.zeros_like(graphs.adjacency))
    read = random_denoiser().edge_log_odds
    difference = read(huge, level(0.1, 0.1)) - read(fewer, level(0.1, 0.1))
    assert torch.isfinite(difference).all()
    assert difference.abs().max() > 1e-3


def test_plausibility_is_the_signed_log_odds_of_the_clean_graph() -> None:
    graphs = to_dense([random_graph(6, 1), random_graph(4, 2)])
    denoiser = random_denoiser()
    found = denoiser.read(graphs).plausibility
    log_odds = denoiser.edge_log_odds(graphs, level(0.02, 0.02, 2)).detach()
    torch.testing.assert_close(found[graphs.adjacency == 1], -log_odds[graphs.adjacency == 1])
    torch.testing.assert_close(found[graphs.adjacency == 0], log_odds[graphs.adjacency == 0])
    assert not found.requires_grad


def test_graphs_without_node_features_are_accepted() -> None:
    graphs = to_dense([Graph(torch.zeros(4, 0), torch.tensor([[0, 1], [1, 2]]))])
    denoiser = Denoiser(DenoiserShape(features=0, hidden=4, blocks=1))
    logits = denoiser(graphs, NoiseLevel.symmetric(torch.tensor([0.1])))
    assert logits.shape == (1, 4, 4)


def test_weights_come_from_the_generator_alone() -> None:
    shape = DenoiserShape(features=2, hidden=4, blocks=1)
    before = torch.get_rng_state()
    first, again, other = (Denoiser(shape, rng(seed)).state_dict() for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["planes"], other["planes"])


def test_a_denoiser_without_channels_is_refused() -> None:
    with pytest.raises(ValueError, match="hidden=0"):
        DenoiserShape(features=1, hidden=0)
