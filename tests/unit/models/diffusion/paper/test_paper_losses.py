"""The paper's losses against values computed by hand and by torch's own functions."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import ActivationLayer, GcnLayer, GnnSpec, LinearLayer, PoolLayer
from models.diffusion.noise import NoiseLevel, add_noise, symmetric_uniform
from models.diffusion.paper.counterfactual_loss import concrete_sample, counterfactual_loss
from models.diffusion.paper.distribution_loss import noise_weight, weighted_distribution_loss
from models.diffusion.paper.network import PaperDenoiser, PaperShape

torch.set_num_threads(1)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def triangle_and_path() -> DenseGraphs:
    """Four nodes with a pendant triangle, and a path of three nodes that is padded."""
    triangle = torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]])
    path = torch.tensor([[0, 1], [1, 2]])
    return to_dense([Graph(torch.ones(4, 1), triangle), Graph(torch.ones(3, 1), path)])


def symmetric_logits(graphs: DenseGraphs, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(graphs.adjacency.shape, generator=rng(seed))
    return (drawn + drawn.mT) * graphs.pair_mask


def test_distribution_loss_is_the_weighted_mean_cross_entropy_over_pairs() -> None:
    graphs = triangle_and_path()
    logits = symmetric_logits(graphs)
    flip = torch.tensor([0.1, 0.4])
    for position, nodes in enumerate((4, 3)):
        source, target = torch.triu_indices(nodes, nodes, offset=1)
        entropy = F.binary_cross_entropy(
            torch.sigmoid(logits[position, source, target]),
            graphs.adjacency[position, source, target],
        )
        weight = 1 - 2 * float(flip[position]) + 1 / 10
        found = weighted_distribution_loss(logits, graphs, flip, 10)[position]
        torch.testing.assert_close(found, weight * entropy)


def test_distribution_loss_ignores_padding() -> None:
    graphs = triangle_and_path()
    logits = symmetric_logits(graphs)
    wider = F.pad(logits, (0, 3, 0, 3), value=50.0)
    padded = DenseGraphs(
        F.pad(graphs.adjacency, (0, 3, 0, 3)),
        F.pad(graphs.features, (0, 0, 0, 3)),
        F.pad(graphs.mask, (0, 3)),
    )
    flip = torch.tensor([0.1, 0.4])
    torch.testing.assert_close(
        weighted_distribution_loss(wider, padded, flip, 10),
        weighted_distribution_loss(logits, graphs, flip, 10),
    )


def test_weights_of_noise_levels_are_the_printed_formula() -> None:
    flip = torch.tensor([0.0, 0.1, 0.5])
    assert noise_weight(flip, 50).tolist() == pytest.approx([1.02, 0.82, 0.02])


def test_counterfactual_loss_by_hand() -> None:
    logits = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.5, 0.5]])
    predicted = torch.tensor([0, 2])
    probability = math.exp(2) / (math.exp(2) + 1 + math.exp(-1))
    expected = [-math.log(1 - probability), -math.log(2 / 3)]
    assert counterfactual_loss(logits, predicted).tolist() == pytest.approx(expected, rel=1e-6)


def test_counterfactual_loss_of_a_very_confident_gnn_is_finite_and_has_a_gradient() -> None:
    logits = torch.tensor([[300.0, 0.0, 0.0]], requires_grad=True)
    loss = counterfactual_loss(logits, torch.tensor([0]))
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert loss.item() == pytest.approx(300 - math.log(2))
    assert gradient[0].tolist() == pytest.approx([1.0, -0.5, -0.5])


def test_concrete_sample_is_a_graph_drawn_with_the_logits_probabilities() -> None:
    graphs = triangle_and_path()
    logits = symmetric_logits(graphs, seed=1)
    draws = 20_000
    sample = concrete_sample(
        logits.repeat_interleave(draws, dim=0), graphs.repeat(draws), 0.5, rng(2)
    ).adjacency
    assert torch.equal(sample, sample.mT)
    assert ((sample == 0) | (sample == 1)).all()
    probability = torch.sigmoid(logits) * graphs.pair_mask
    frequency = sample.view(2, draws, 4, 4).mean(1)
    deviation = (probability * (1 - probability) / draws).sqrt()
    assert ((frequency - probability).abs() <= 6 * deviation + 1e-9).all()


def test_concrete_sample_has_the_gradient_of_its_relaxation() -> None:
    graphs = triangle_and_path()
    logits = symmetric_logits(graphs, seed=1).requires_grad_()
    temperature = 0.7
    sample = concrete_sample(logits, graphs, temperature, rng(3)).adjacency
    (gradient,) = torch.autograd.grad(sample.sum(), logits)
    # dσ(z/λ)/dz = σ(z/λ)·(1 - σ(z/λ)) / λ on pairs, with the same noise; nothing elsewhere
    uniform = symmetric_uniform(logits, rng(3)).double()
    noise = uniform.log() - (1 - uniform).log()
    relaxed = 1 / (1 + (-(logits.detach().double() + noise) / temperature).exp())
    expected = relaxed * (1 - relaxed) / temperature * graphs.pair_mask
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-4, atol=1e-6)


def test_counterfactual_loss_reaches_every_weight_of_the_denoiser() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        gnn = Gnn(
            GnnSpec(
                features=1,
                classes=2,
                layers=(GcnLayer(8), ActivationLayer("relu"), PoolLayer("sum"), LinearLayer(2)),
            )
        ).eval()
    graphs = triangle_and_path()
    denoiser = PaperDenoiser(PaperShape(features=1, hidden=6, blocks=2), rng())
    noise = NoiseLevel.symmetric(torch.tensor([0.2, 0.3]))
    sample = concrete_sample(denoiser(add_noise(graphs, noise, rng(2)), noise), graphs, 0.5, rng(3))
    predicted = gnn.dense(graphs).argmax(1)
    counterfactual_loss(gnn.dense(sample), predicted).sum().backward()  # type: ignore[no-untyped-call]
    for name, parameter in denoiser.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
