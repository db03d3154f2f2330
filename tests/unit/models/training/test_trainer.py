"""Training: it learns, it resumes to the same bits, it stops, and it draws from its own seed."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import networkx as nx
import pytest
import safetensors.torch
import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, to_dense
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import ActivationLayer, GcnLayer, GnnSpec, LinearLayer, PoolLayer
from models.diffusion.gnn_sensitivity import drawn_toggles, gnn_sensitivity, logit_changes
from models.diffusion.recipes import Objective, PaperRecipe, Recipe, recipe_for
from models.diffusion.typicality import Typicality, typicalities
from models.graphs.edits import EditRules, EditSpace
from models.graphs.subgraphs import connected_subgraph, neighbours_of
from models.training.batches import HELD_OUT_PAIRS, SUBGRAPH_NODES, Batches, split
from models.training.detection import area_under_roc
from models.training.early_stopping import MIN_GAIN, Plateau
from models.training.progress import NonFiniteGradientError
from models.training.trainer import Trainer
from models.training.validation import pool_needed, predicted_validity

torch.set_num_threads(1)

CPU = torch.device("cpu")
NO_EDGES = torch.zeros(2, 0, dtype=torch.int64)


def cycle(nodes: int, features: int = 1) -> Graph:
    ends = [tuple(sorted((node, (node + 1) % nodes))) for node in range(nodes)]
    return Graph(torch.ones(nodes, features), torch.tensor(sorted(set(ends))).T)


def cycles() -> list[Graph]:
    return [cycle(nodes) for nodes in (6, 7, 8, 9, 10)] * 6


def small_gnn() -> Gnn:
    layers = (GcnLayer(6), ActivationLayer("relu"), PoolLayer("sum"), LinearLayer(2))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Gnn(GnnSpec(features=1, classes=2, layers=layers)).eval()


def small(objective: Objective, steps: int = 12) -> Recipe:
    recipe = recipe_for(objective, steps=steps, hidden=6, blocks=2)
    return replace(recipe, batch_graphs=8)


def trainer(recipe: Recipe, seed: int = 3) -> Trainer:
    return Trainer(cycles(), small_gnn(), recipe, seed=seed, device=CPU)


def finished(training: Trainer) -> dict[str, Tensor]:
    for _ in training.run():
        pass
    return {name: value for name, value in training.state().items() if name != "seconds"}


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def test_training_learns_what_the_graphs_have_in_common() -> None:
    recipe = replace(
        recipe_for(Objective.COUNTERFACTUAL, steps=200, hidden=16, blocks=2),
        batch_graphs=16,
        learning_rate=5e-3,
        predicts_effects=False,
    )
    progress = list(trainer(recipe).run())
    first, last = progress[0], progress[-1]
    assert (last.step, last.steps) == (200, 200)
    assert last.loss_dist < 0.7 * first.loss_dist
    assert last.detection_auc is not None
    # on cycles every flip can be seen; suspecting every present edge alike gives .72
    assert last.detection_auc > 0.95
    assert last.loss_cf is None
    assert all(one.seconds < other.seconds for one, other in pairwise(progress))


def test_the_effect_head_learns_what_edits_do_to_the_gnn() -> None:
    recipe = replace(
        recipe_for(Objective.COUNTERFACTUAL, steps=300, hidden=16, blocks=2),
        batch_graphs=16,
        learning_rate=5e-3,
    )
    gnn, graphs = small_gnn(), to_dense(cycles())
    training = trainer(recipe)
    untrained = training.denoiser()
    for _ in training.run():
        pass
    toggles = drawn_toggles(graphs, graphs.pair_mask, 12, torch.Generator().manual_seed(7))
    change = logit_changes(gnn, graphs, toggles)
    view = gnn_sensitivity(gnn, graphs)
    missed = []
    for denoiser in (untrained, training.denoiser()):
        effects = denoiser.read(graphs, view).effects
        assert effects is not None
        missed.append(float((toggles.of(effects) - change).square().mean()))
    # An untrained denoiser predicts the slopes.
    assert missed[0] == pytest.approx(
        float((toggles.of(view.slopes) - change).square().mean()), rel=1e-4
    )
    assert missed[1] < 0.2 * missed[0]


def test_the_effect_head_alone_leaves_the_edge_logits_as_they_were() -> None:
    """They start at 0, and without L_dist nothing changes them."""
    recipe = replace(small(Objective.COUNTERFACTUAL), learns_distribution=False)
    alone, both = trainer(recipe), trainer(small(Objective.COUNTERFACTUAL))
    finished(alone), finished(both)
    weights, of_both = alone.denoiser().state_dict(), both.denoiser().state_dict()
    assert not weights["head_out"].any()
    assert of_both["head_out"].any()
    assert weights["effect_out"].any()
    with pytest.raises(ValueError, match="trains nothing"):
        replace(recipe, predicts_effects=False)


@pytest.mark.parametrize("objective", list(Objective))
def test_resuming_from_any_step_ends_in_the_same_bits(objective: Objective) -> None:
    recipe = small(objective)
    uninterrupted = finished(trainer(recipe))
    for stop in (0, 3, 10):
        before = trainer(recipe)
        for _ in before.run(until=stop):
            pass
        assert before.step == stop
        checkpoint = safetensors.torch.save(before.state())
        after = trainer(recipe)
        after.load_state(safetensors.torch.load(checkpoint))
        assert after.step == stop
        assert_same(finished(after), uninterrupted)


def test_a_state_is_not_changed_by_training_on() -> None:
    training = trainer(small(Objective.COUNTERFACTUAL))
    for _ in training.run(until=4):
        pass
    state = training.state()
    copies = {name: value.clone() for name, value in state.items()}
    other = trainer(small(Objective.COUNTERFACTUAL))
    other.load_state(state)
    finished(training)
    finished(other)
    assert_same(state, copies)


def test_the_seed_decides_the_weights() -> None:
    recipe = small(Objective.COUNTERFACTUAL)
    first = finished(trainer(recipe, seed=1))
    torch.manual_seed(99)  # the global generator has no say
    assert_same(finished(trainer(recipe, seed=1)), first)
    other = finished(trainer(recipe, seed=2))
    assert not torch.equal(other["weights.planes"], first["weights.planes"])


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    finished(trainer(small(Objective.COUNTERFACTUAL)))
    finished(trainer(small(Objective.CLASS)))
    assert torch.equal(torch.get_rng_state(), before)


def test_training_stops_on_request_and_resumes() -> None:
    recipe = small(Objective.COUNTERFACTUAL)
    training = trainer(recipe)
    seen = 0

    def told() -> bool:
        return seen == 5

    for progress in training.run(should_stop=told):
        seen = progress.step
    assert (seen, training.step) == (5, 5)
    assert_same(finished(training), finished(trainer(recipe)))


def test_training_stopped_at_once_takes_no_step() -> None:
    training = trainer(small(Objective.CLASS))
    assert list(training.run(should_stop=lambda: True)) == []
    assert training.step == 0


def test_only_the_papers_recipe_has_an_alpha() -> None:
    with pytest.raises(ValueError, match=r"'default' has no alpha; got 0.2"):
        recipe_for(Objective.COUNTERFACTUAL, "default", alpha=0.2)
    assert recipe_for(Objective.COUNTERFACTUAL, "paper", alpha=0.2) == PaperRecipe(alpha=0.2)


def test_class_objective_needs_no_gnn_and_counterfactual_does() -> None:
    class_trainer = Trainer(cycles(), None, small(Objective.CLASS), seed=0, device=CPU)
    assert next(class_trainer.run()).loss_cf is None
    with pytest.raises(ValueError, match="needs the GNN"):
        Trainer(cycles(), None, small(Objective.COUNTERFACTUAL), seed=0, device=CPU)


def test_the_gnn_is_left_as_it_was() -> None:
    gnn = small_gnn().train()
    finished(Trainer(cycles(), gnn, small(Objective.COUNTERFACTUAL), seed=0, device=CPU))
    assert gnn.training
    assert all(parameter.requires_grad for parameter in gnn.parameters())
    assert all(parameter.grad is None for parameter in gnn.parameters())


def test_the_result_is_the_average_and_not_the_last_weights() -> None:
    training = trainer(replace(small(Objective.COUNTERFACTUAL), patience=0))
    state = finished(training)
    denoiser = training.denoiser()
    assert not denoiser.training
    for name, value in denoiser.state_dict().items():
        assert torch.equal(value, state[f"average.{name}"])
    assert not torch.equal(state["average.planes"], state["weights.planes"])


def test_training_stops_at_a_plateau_with_the_best_weights() -> None:
    recipe = replace(small(Objective.COUNTERFACTUAL, steps=400), patience=2, learning_rate=1e-9)
    training = trainer(recipe)
    state = finished(training)
    assert training.finished
    # the first measurement, after 50 steps, is as good as the next two: nothing is learnt
    assert (training.step, training.steps) == (150, 400)
    for name, value in training.denoiser().state_dict().items():
        assert torch.equal(value, state[f"plateau.best.{name}"])
    assert not list(training.run())
    patient = trainer(replace(recipe, patience=0, steps=20))
    assert sum(1 for _ in patient.run()) == 20


def test_gains_add_up_and_the_best_weights_are_kept() -> None:
    def plateau(*scores: float) -> tuple[Plateau, int]:
        """The plateau, and after how many measurements it was reached; 0 for never."""
        result = Plateau(2)
        for place, score in enumerate(scores):
            result.measured(score, {"score": torch.tensor(score)})
            if result.reached:
                return result, place + 1
        return result, 0

    slow = [0.6 * MIN_GAIN * step for step in range(8)]  # every second gain counts
    assert plateau(*slow)[1] == 0
    flat, at = plateau(0.5, 0.9, 0.9 + 0.4 * MIN_GAIN, 0.9 + 0.2 * MIN_GAIN, 5.0)
    assert at == 4
    assert float(flat.best["score"]) == pytest.approx(0.9 + 0.4 * MIN_GAIN)
    again = Plateau(2)
    again.load_state(flat.state(), CPU)
    assert again.reached
    assert torch.equal(again.best["score"], flat.best["score"])
    never = Plateau(0)
    for _ in range(5):
        never.measured(0.0, {})
    assert not never.reached


def test_the_best_weights_survive_a_resumption() -> None:
    recipe = replace(small(Objective.COUNTERFACTUAL, steps=80), patience=2)
    first = trainer(recipe)
    for _ in first.run(until=60):
        pass
    kept = first.state()
    assert float(kept["plateau.score"]) > 0
    again = trainer(recipe)
    again.load_state(kept)
    assert_same(finished(again), finished(first))


def test_large_graphs_get_as_many_flips_as_small_ones() -> None:
    recipe = recipe_for(Objective.COUNTERFACTUAL)
    assert recipe.fitted([cycle(30)] * 3) == recipe
    assert recipe.fitted([cycle(8)] * 3) == recipe
    large = recipe.fitted([cycle(100)] * 3)
    assert large.noise_low * 4950 == pytest.approx(recipe.noise_low * 435)
    assert large.shape(1).clean_flip == large.clean_flip < recipe.clean_flip


def test_validity_counts_flips_by_predicted_edits() -> None:
    graphs = cycles()
    training = trainer(small(Objective.COUNTERFACTUAL))
    denoiser, gnn = training.denoiser(), small_gnn()
    measured = predicted_validity(denoiser, gnn, graphs, ratio=0.1, device=CPU)
    by_hand = []
    for graph in graphs:
        (slopes,) = gnn_sensitivity(gnn, to_dense([graph])).slopes[:1]
        before = int(predict(gnn, [graph], CPU)[0].argmax())
        towards = slopes[0] * (1 if before else -1)
        pairs = list(combinations(range(graph.node_count), 2))
        source, target = max(pairs, key=lambda pair: float(towards[pair]))
        edges = {tuple(edge) for edge in graph.edges.T.tolist()} ^ {(source, target)}
        edited = Graph(graph.features, torch.tensor(sorted(edges)).T)
        by_hand.append(int(predict(gnn, [edited], CPU)[0].argmax()) != before)
    assert measured == pytest.approx(sum(by_hand) / len(by_hand))


def test_a_pool_contains_a_decisive_pair_for_98_percent_of_graphs() -> None:
    rng = torch.Generator().manual_seed(0)
    # features that differ, so that no two toggles are alike
    graphs = [
        replace(graph, features=torch.rand(graph.features.shape, generator=rng))
        for graph in (cycles()[:5] * 20)[:99]
    ]
    training = trainer(small(Objective.COUNTERFACTUAL))
    gnn, denoiser = small_gnn(), training.denoiser()
    needed = pool_needed(denoiser, gnn, graphs, CPU)
    ranks = []
    for graph in graphs:
        space = EditSpace.of(graph, EditRules())
        own = predict(gnn, [graph], CPU)[0].logit()  # of two classes: what the margin is made of
        before = int(own.argmax())
        after = predict(gnn, space.apply_all([(pair,) for pair in range(space.count)]), CPU).logit()
        slopes = gnn_sensitivity(gnn, to_dense([graph])).slopes[
            1 - before, 0
        ]  # untrained, it foretells these
        order = space.of_pairs(slopes).argsort(descending=True, stable=True).tolist()
        flips = (after.argmax(dim=1) != before).nonzero()[:, 0].tolist()
        moved = after[:, 1 - before] - own[1 - before]
        wanted = flips or (moved >= 0.8 * moved.max()).nonzero()[:, 0].tolist()
        ranks.append(1 + min(order.index(pair) for pair in wanted))
    assert needed == sorted(ranks)[97] > 1
    assert denoiser.shape.pool is None  # trained on too few to know


def test_too_few_graphs_give_no_pool_size() -> None:
    gnn, denoiser = small_gnn(), trainer(small(Objective.COUNTERFACTUAL)).denoiser()
    graphs = (cycles() * 49)[:49]
    assert pool_needed(denoiser, gnn, graphs, CPU) is not None
    assert pool_needed(denoiser, gnn, graphs[:48], CPU) is None


@pytest.mark.parametrize(("nodes", "calibrating"), [(12, 80), (64, 60)])
def test_large_graphs_give_a_pool_size(nodes: int, calibrating: int) -> None:
    graphs = [cycle(nodes) for _ in range(800)]
    parts = split(graphs, 128, torch.Generator().manual_seed(0))
    assert len(parts.calibrating) == calibrating
    assert len(parts.training) == 800 - calibrating
    assert sum(graph.node_count**2 for graph in parts.held_out) <= HELD_OUT_PAIRS


TINY_SETS = {
    "one graph": [cycle(5)],
    "one node": [Graph(torch.ones(1, 1), NO_EDGES)],
    "two nodes": [Graph(torch.ones(2, 1), torch.tensor([[0], [1]]))],
    "no edges": [Graph(torch.ones(4, 1), NO_EDGES)] * 3,
    "mixed": [
        Graph(torch.ones(1, 1), NO_EDGES),
        Graph(torch.ones(2, 1), NO_EDGES),
        cycle(3),
        Graph(torch.ones(5, 1), torch.tensor([[0], [4]])),
    ],
}


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("graphs", TINY_SETS.values(), ids=TINY_SETS.keys())
def test_tiny_reference_sets_train_to_finite_weights(
    graphs: list[Graph], objective: Objective
) -> None:
    recipe = small(objective, steps=6)
    state = finished(Trainer(graphs, small_gnn(), recipe, seed=0, device=CPU))
    weights = [value for name, value in state.items() if name.startswith(("weights", "average"))]
    assert all(torch.isfinite(value).all() for value in weights)


def test_an_empty_reference_set_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Trainer([], None, small(Objective.CLASS), seed=0, device=CPU)


def test_a_gnn_that_overflows_fails_the_training_with_the_step() -> None:
    gnn = small_gnn()
    with torch.no_grad():
        for parameter in gnn.parameters():
            parameter.fill_(1e30)
    training = Trainer(cycles(), gnn, small(Objective.COUNTERFACTUAL), seed=0, device=CPU)
    with pytest.raises(NonFiniteGradientError, match="step 0"):
        next(training.run())


def test_a_tenth_of_a_larger_set_is_held_out() -> None:
    # the size of a cycle names it
    graphs = [cycle(nodes) for nodes in range(3, 33)]
    parts = split(graphs, 128, torch.Generator().manual_seed(0))
    assert len(parts.held_out) == 3
    sizes = [graph.node_count for graph in (*parts.training, *parts.held_out)]
    assert sorted(sizes) == list(range(3, 33))


def named(count: int, nodes: int = 5) -> list[Graph]:
    """Graphs that a number at each node names."""
    return [Graph(torch.full((nodes, 1), float(name)), cycle(nodes).edges) for name in range(count)]


def names(graphs: list[Graph]) -> list[float]:
    return [float(graph.features[0, 0]) for graph in graphs]


@pytest.mark.parametrize(
    ("graphs", "spared"), [(20, 0), (499, 0), (500, 100), (1200, 120), (8000, 500)]
)
def test_a_set_that_can_spare_them_holds_out_graphs_for_typicality(
    graphs: int, spared: int
) -> None:
    parts = split(named(graphs), 128, torch.Generator().manual_seed(0), with_typicality=True)
    plain = split(named(graphs), 128, torch.Generator().manual_seed(0))
    assert len(parts.typicality) == spared
    assert plain.typicality == []
    # nothing else changes: they are the training graphs that are missing
    assert names(parts.held_out) == names(plain.held_out)
    assert names(parts.calibrating) == names(plain.calibrating)
    assert sorted(names(parts.training) + names(parts.typicality)) == names(plain.training)


def test_graphs_that_are_trained_on_in_parts_do_not_calibrate_typicality() -> None:
    graphs = [*named(600), *named(600, nodes=9)]
    parts = split(graphs, 8, torch.Generator().manual_seed(0), with_typicality=True)
    assert len(parts.typicality) == 100
    assert {graph.node_count for graph in parts.typicality} == {5}


def test_only_counterfactual_denoisers_of_large_sets_have_a_calibration() -> None:
    large = cycles() * 20
    for graphs, objective, calibrating in (
        (large, Objective.COUNTERFACTUAL, 100),
        (large, Objective.CLASS, 0),
        (cycles(), Objective.COUNTERFACTUAL, 0),
    ):
        training = Trainer(graphs, small_gnn(), small(objective, steps=2), seed=0, device=CPU)
        finished(training)
        denoiser = training.denoiser()
        assert denoiser.shape.calibration_graphs == calibrating
        (figure,) = typicalities(denoiser, [cycle(8)], CPU)
        assert isinstance(figure, Typicality) == bool(calibrating)


def test_a_state_of_another_split_is_refused() -> None:
    recipe = small(Objective.COUNTERFACTUAL)
    state = trainer(recipe).state()
    other = Trainer(cycles()[:20], small_gnn(), recipe, seed=3, device=CPU)
    with pytest.raises(RuntimeError, match="27 training graphs, not 18"):
        other.load_state(state)
    del state["batches.graphs"]  # as in a checkpoint of an earlier version
    with pytest.raises(KeyError):
        trainer(recipe).load_state(state)


def test_a_state_with_the_counterfactual_loss_is_refused() -> None:
    """Denoisers of earlier versions had a switch for it; the worker then starts at step 0."""
    recipe = small(Objective.COUNTERFACTUAL)
    state = {**trainer(recipe).state(), "weights.switch": torch.zeros(6)}
    with pytest.raises(RuntimeError, match="switch"):
        trainer(recipe).load_state(state)


def test_larger_graphs_are_trained_on_in_parts() -> None:
    recipe = replace(small(Objective.CLASS), max_nodes=6, subgraph_share=0.0)
    batches = Batches([cycle(9), cycle(5)], recipe, torch.Generator().manual_seed(0))
    widths = {int(size) for _ in range(4) for size in batches.draw().mask.sum(1)}
    assert widths == {5, 6}


def test_a_round_of_batches_holds_every_graph_and_keeps_to_the_budget() -> None:
    graphs = [cycle(nodes) for nodes in range(3, 43)]
    recipe = replace(small(Objective.COUNTERFACTUAL), pair_budget=2000)
    batches = Batches(graphs, recipe, torch.Generator().manual_seed(0))
    seen: list[int] = []
    while len(seen) < len(graphs):
        drawn = batches.draw()
        assert drawn.count <= recipe.batch_graphs
        assert drawn.count * drawn.mask.shape[1] ** 2 <= recipe.pair_budget
        seen.extend(drawn.mask.sum(1).tolist())
    assert sorted(seen) == list(range(3, 43))


def test_connected_subgraphs_are_connected_and_induced() -> None:
    grid = torch.tensor(
        [(row * 4 + column, row * 4 + column + 1) for row in range(4) for column in range(3)]
        + [(row * 4 + column, row * 4 + column + 4) for row in range(3) for column in range(4)]
    ).T
    # a feature that names its node shows which nodes were taken
    graph = Graph(torch.arange(16.0)[:, None], grid)
    edges = {tuple(edge) for edge in grid.T.tolist()}
    generator = torch.Generator().manual_seed(0)
    for nodes in range(1, 17):
        part = connected_subgraph(graph, neighbours_of(graph), nodes, generator)
        assert part.node_count == nodes
        drawn = nx.Graph(part.edges.T.tolist())
        drawn.add_nodes_from(range(nodes))
        assert nx.is_connected(drawn)
        assert bool((part.edges[0] < part.edges[1]).all())
        names = part.features[:, 0].int().tolist()
        taken = {tuple(sorted((names[a], names[b]))) for a, b in part.edges.T.tolist()}
        assert taken == {edge for edge in edges if set(edge) <= set(names)}


def test_class_batches_are_mostly_small_subgraphs() -> None:
    recipe = small(Objective.CLASS)
    batches = Batches([cycle(30)], recipe, torch.Generator().manual_seed(0))
    widths = [int(batches.draw().mask.sum(1).max()) for _ in range(200)]
    share = sum(width <= SUBGRAPH_NODES[1] for width in widths) / len(widths)
    assert share == pytest.approx(recipe.subgraph_share, abs=0.12)


def test_area_under_roc_by_counting_pairs() -> None:
    scores = torch.tensor([0.1, 0.4, 0.4, 0.8, 0.3])
    positive = torch.tensor([False, True, False, True, False])
    # 6 pairs: .4 beats .1 and .3, ties with .4; .8 beats all three
    assert area_under_roc(scores, positive) == pytest.approx(5.5 / 6)
    assert area_under_roc(scores, torch.zeros(5, dtype=torch.bool)) is None


def test_recipes_by_name_and_what_can_be_chosen() -> None:
    chosen = recipe_for(Objective.CLASS, steps=7, hidden=5, blocks=1)
    assert (chosen.steps, chosen.hidden, chosen.blocks) == (7, 5, 1)
    assert chosen.shape(3).features == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [("steps", 0), ("learning_rate", -1.0), ("subgraph_share", 1.5), ("noise_high", 0.6)],
)
def test_recipes_refuse_invalid_values(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=str(value)):
        replace(recipe_for(Objective.CLASS), **{field: value})  # type: ignore[arg-type]


def test_unknown_recipes_are_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"'fast'.*default.*paper"):
        recipe_for(Objective.CLASS, "fast")
