"""The paper's training: it learns, it resumes to the same bits, and it takes epochs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import safetensors.torch
import torch
from torch import Tensor

from d4explain.gnn.errors import NoMarkedNodeError
from d4explain.gnn.graphs import Graph, to_dense
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import ActivationLayer, GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.counterfactual.config import CounterfactualConfig
from models.counterfactual.explain import EditRules, explain
from models.diffusion.noise import NoiseLevel
from models.diffusion.paper.distribution_loss import weighted_distribution_loss
from models.diffusion.paper.network import PaperDenoiser
from models.diffusion.paper.recipe import PaperRecipe
from models.diffusion.recipes import Objective
from models.training.make_trainer import make_trainer
from models.training.paper_trainer import PaperTrainer
from models.training.progress import NonFiniteGradientError

torch.set_num_threads(1)

CPU = torch.device("cpu")
SMALL = PaperRecipe(
    hidden=16, blocks=2, batch_graphs=8, alpha=0.1, noise_levels=4, learning_rate=5e-3
)


def cycle(nodes: int) -> Graph:
    ends = [tuple(sorted((node, (node + 1) % nodes))) for node in range(nodes)]
    return Graph(torch.ones(nodes, 1), torch.tensor(sorted(set(ends))).T)


def path(nodes: int) -> Graph:
    return Graph(torch.ones(nodes, 1), torch.tensor([[i, i + 1] for i in range(nodes - 1)]).T)


def graphs() -> list[Graph]:
    return [make(nodes) for nodes in (6, 7, 8, 9) for make in (cycle, path)] * 2


def trained_gnn() -> Gnn:
    """A GNN that tells cycles from paths, fitted in a second."""
    layers = (
        GinLayer(8, 8),
        ActivationLayer("relu"),
        PoolLayer("mean"),
        LinearLayer(2),
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        gnn = Gnn(GnnSpec(features=1, classes=2, layers=layers)).eval()
        optimizer = torch.optim.Adam(gnn.parameters(), lr=0.02)
        dense = to_dense(graphs())
        labels = torch.tensor([0, 1] * (len(graphs()) // 2))
        for _ in range(150):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(gnn.dense(dense), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    assert (gnn.dense(dense).argmax(1) == labels).all()
    return gnn


def trainer(recipe: PaperRecipe, seed: int = 3) -> PaperTrainer:
    return PaperTrainer(graphs(), trained_gnn(), recipe, seed=seed, device=CPU)


def finished(training: PaperTrainer) -> dict[str, Tensor]:
    for _ in training.run():
        pass
    return {name: value for name, value in training.state().items() if name != "seconds"}


def clean_loss(denoiser: PaperDenoiser) -> float:
    """The cross-entropy per pair that the denoiser leaves on nearly clean graphs."""
    dense = to_dense(graphs())
    flip = torch.full((dense.count,), 0.02)
    with torch.no_grad():
        logits = denoiser(dense, NoiseLevel.symmetric(flip))
        return float(weighted_distribution_loss(logits, dense, flip, 10).mean())


def test_it_learns_the_graphs_and_its_samples_flip_the_gnn() -> None:
    """The loss falls far below the untrained one, and answers appear that were not there."""
    gnn = trained_gnn()
    training = PaperTrainer(graphs(), gnn, replace(SMALL, steps=300), seed=3, device=CPU)
    untrained = training.denoiser()
    progress = list(training.run())
    denoiser = training.denoiser()
    assert clean_loss(denoiser) < 0.25 * clean_loss(untrained)
    first, last = progress[0], progress[-1]
    assert last.loss < 0.6 * first.loss
    assert last.flip_rate is not None
    flipped = {}
    for name, model in (("untrained", untrained), ("trained", denoiser)):
        outcomes = [
            explain(
                gnn,
                model,
                graph,
                EditRules(max_ratio=0.3),
                CounterfactualConfig(sampler="paper"),
                seed=0,
                device=CPU,
            )
            for graph in graphs()[:8]
        ]
        flipped[name] = sum(bool(outcome.found) for outcome in outcomes)
    assert flipped["untrained"] == 0  # samples of a random graph change too many edges
    assert flipped["trained"] >= 6


@pytest.mark.parametrize("objective", list(Objective))
def test_resuming_from_any_step_ends_in_the_same_bits(objective: Objective) -> None:
    recipe = replace(SMALL, objective=objective, hidden=4, steps=8)
    uninterrupted = finished(trainer(recipe))
    for stop in (0, 1, 5):
        before = trainer(recipe)
        for _ in before.run(until=stop):
            pass
        assert before.step == stop
        checkpoint = safetensors.torch.save(before.state())
        after = trainer(recipe)
        after.load_state(safetensors.torch.load(checkpoint))
        again = finished(after)
        assert again.keys() == uninterrupted.keys()
        for name, value in again.items():
            assert torch.equal(value, uninterrupted[name]), name


def test_every_epoch_takes_each_graph_once() -> None:
    training = trainer(replace(SMALL, hidden=4, batch_graphs=6))  # 16 graphs: 6, 6 and 4
    sizes = []
    run = training.run()
    for _ in range(3):
        next(run)
        sizes.append(len(training.state()["order"]))
    assert sizes == [10, 4, 0]
    assert training.steps == 3 * 1500


def test_the_gradient_does_not_depend_on_the_number_of_passes() -> None:
    """Without L_cf, whose samples depend on the order of the draws, noise is drawn per pass."""
    recipe = replace(SMALL, alpha=0.0, hidden=4, steps=1)
    same_size = [cycle(7)] * 8
    whole, split = (PaperTrainer(same_size, None, recipe, seed=0, device=CPU) for _ in range(2))
    split._use = replace(split._use, activation_bytes=5 * 7**2 * 4 * 4)  # a small device
    for one in (whole, split):
        next(one.run())
    for name, value in whole.state().items():
        if name.startswith("adam.exp_avg."):
            torch.testing.assert_close(split.state()[name], value, rtol=1e-3, atol=1e-6)


def test_the_result_is_the_last_weights() -> None:
    training = trainer(replace(SMALL, hidden=4, steps=3))
    state = finished(training)
    weights = training.denoiser().state_dict()
    assert all(torch.equal(state[f"weights.{name}"], value) for name, value in weights.items())


def test_class_objective_needs_no_gnn_and_counterfactual_does() -> None:
    recipe = replace(SMALL, objective=Objective.CLASS, hidden=4)
    class_trainer = make_trainer(graphs(), None, recipe, seed=0, device=CPU)
    assert isinstance(class_trainer, PaperTrainer)
    assert next(class_trainer.run()).loss_cf is None
    with pytest.raises(ValueError, match="needs the GNN"):
        PaperTrainer(graphs(), None, SMALL, seed=0, device=CPU)
    with pytest.raises(ValueError, match="at least one"):
        PaperTrainer([], None, recipe, seed=0, device=CPU)


def test_marked_and_unmarked_graphs_do_not_mix() -> None:
    marked = replace(cycle(5), target=0)
    with pytest.raises(ValueError, match="marked"):
        PaperTrainer([marked, cycle(5)], None, replace(SMALL, alpha=0.0), seed=0, device=CPU)
    layers = (GinLayer(4, 4), LinearLayer(2))
    classifier = Gnn(GnnSpec(features=1, classes=2, layers=layers)).eval()
    with pytest.raises(NoMarkedNodeError):
        PaperTrainer(graphs(), classifier, SMALL, seed=0, device=CPU)


def test_a_gnn_that_overflows_fails_the_training_with_the_step() -> None:
    gnn = trained_gnn()
    with torch.no_grad():
        for parameter in gnn.parameters():
            parameter.fill_(1e30)
    training = PaperTrainer(graphs(), gnn, SMALL, seed=0, device=CPU)
    with pytest.raises(NonFiniteGradientError, match="step 0"):
        next(training.run())


def test_large_graphs_give_connected_parts() -> None:
    recipe = replace(SMALL, alpha=0.0, hidden=4, max_nodes=6)
    training = PaperTrainer([cycle(40)] * 3, None, recipe, seed=0, device=CPU)
    assert torch.isfinite(torch.tensor(next(training.run()).loss))


def test_the_distribution_loss_is_a_sum_over_levels_and_the_other_a_mean() -> None:
    """Logits 0 have the cross-entropy log 2, whatever the noise; β̄ has the mean 1/4."""
    losses = {}
    for levels in (2, 8):
        recipe = replace(SMALL, hidden=4, batch_graphs=16, noise_levels=levels, learning_rate=1e-9)
        training = trainer(recipe)
        state = training.state()
        for name in ("weights.head_out", "weights.out_bias"):
            state[name] = torch.zeros_like(state[name])
        training.load_state(state)
        *_, progress = training.run(until=20)
        assert progress.loss_cf is not None
        assert progress.loss == pytest.approx(progress.loss_dist + 0.1 * progress.loss_cf)
        assert progress.loss_dist == pytest.approx((levels / 2 + 1) * math.log(2), rel=0.1)
        losses[levels] = progress.loss_cf
    assert losses[2] == pytest.approx(losses[8], rel=0.3)
