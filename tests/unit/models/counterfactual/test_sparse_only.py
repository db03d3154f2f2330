"""GNNs without a dense form: judged, searched and steered by their sparse form alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from d4explain.gnn.errors import NoDenseFormError, PluggedLayerError
from d4explain.gnn.graphs import DenseGraphs, Graph, side_by_side, to_dense, to_sparse
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import GineLayer, GinLayer, GnnSpec, LinearLayer, PluggedLayer, PoolLayer
from models.classes.explain import ClassConfig, explain_class
from models.counterfactual.explain import CounterfactualConfig, EditRules, explain
from models.diffusion import counterfactual_loss as steering_module
from models.diffusion.counterfactual_loss import sampled_counterfactual_loss
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.diffusion.gnn_sensitivity import gnn_sensitivity
from models.diffusion.losses import counterfactual_loss
from models.diffusion.recipes import Objective, recipe_for
from models.training.trainer import Trainer
from worker.probing.conformance import probe
from worker.probing.labelled_samples import Samples

torch.set_num_threads(1)
CPU = torch.device("cpu")


class Gin(nn.Module):
    """As the vocabulary's `gin`, but only on sparse graphs."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.conv = GINConv(nn.Sequential(nn.Linear(width, out), nn.ReLU(), nn.Linear(out, out)))

    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.conv(values, edge_index)


def sparse_gin(width: int, out: int) -> PluggedLayer:
    return PluggedLayer("sparse_gin", out, lambda: Gin(width, out), hops=1)


def twins(features: int = 2, *, pool: bool = True) -> tuple[Gnn, Gnn]:
    """The same GNN without and with a dense form."""
    ending = (PoolLayer("sum"), LinearLayer(3)) if pool else (LinearLayer(3),)
    torch.manual_seed(1)
    known = Gnn(GnnSpec(features, 3, (GinLayer(4, 4), GinLayer(4, 4), *ending))).eval()
    layers = (sparse_gin(features, 4), sparse_gin(4, 4), *ending)
    plugged = Gnn(GnnSpec(features, 3, layers)).eval()
    state = {
        name.replace(".conv.", ".module.conv.") if ".conv." in name else name: tensor
        for name, tensor in known.state_dict().items()
    }
    plugged.load_state_dict(state)
    return plugged, known


@st.composite
def graph_lists(draw: st.DrawFn) -> list[Graph]:
    marked = draw(st.booleans())
    return [_graph(draw, marked) for _ in range(draw(st.integers(1, 4)))]


def _graph(draw: st.DrawFn, marked: bool) -> Graph:
    nodes = draw(st.integers(1, 6))
    pairs = list(combinations(range(nodes), 2))
    edges = [pair for pair in pairs if draw(st.booleans())]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return Graph(
        torch.randn(nodes, 2, generator=generator),
        torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T.contiguous(),
        target=draw(st.integers(0, nodes - 1)) if marked else None,
    )


@settings(max_examples=40, deadline=None)
@given(graph_lists())
def test_a_batch_side_by_side_is_the_graphs_themselves(graphs: list[Graph]) -> None:
    laid, wanted = side_by_side(to_dense(graphs)), to_sparse(graphs)
    assert laid.count == wanted.count
    assert torch.equal(laid.features, wanted.features)
    assert torch.equal(laid.graph_of_node, wanted.graph_of_node)
    assert set(zip(*laid.edge_index.tolist(), strict=True)) == set(
        zip(*wanted.edge_index.tolist(), strict=True)
    )
    if wanted.targets is None:
        assert laid.targets is None
    else:
        assert laid.targets is not None
        assert torch.equal(laid.targets, wanted.targets)


@settings(max_examples=25, deadline=None)
@given(graph_lists())
def test_answers_and_states_are_those_of_the_dense_form(graphs: list[Graph]) -> None:
    plugged, known = twins(pool=graphs[0].target is None)
    dense = to_dense(graphs)
    assert not plugged.has_dense
    with torch.no_grad():
        torch.testing.assert_close(plugged.answers(dense), known.dense(dense))
        ours, theirs = gnn_sensitivity(plugged, dense), gnn_sensitivity(known, dense)
    torch.testing.assert_close(ours.logits, theirs.logits)
    torch.testing.assert_close(ours.states[dense.mask], theirs.states[dense.mask])
    assert ours.slopes.shape == theirs.slopes.shape
    assert not ours.slopes.any()


def test_gradients_are_refused_by_name() -> None:
    plugged, _ = twins()
    with pytest.raises(NoDenseFormError, match="sparse_gin"):
        plugged.dense(to_dense([ring(4)]))


@pytest.mark.parametrize(
    ("given_back", "said"),
    [(lambda x: x[:1], r"\(1, 2\) from forward, expected \(4, 2\)"), (lambda x: None, "NoneType")],
)
def test_a_layer_that_gives_something_else_is_named(given_back: object, said: str) -> None:
    class Wrong(nn.Module):
        def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> object:
            return given_back(values)  # type: ignore[operator]

    layer = PluggedLayer("wrong", 2, Wrong, hops=1)
    gnn = Gnn(GnnSpec(2, 2, (layer, PoolLayer("sum"), LinearLayer(2)))).eval()
    with pytest.raises(PluggedLayerError, match=f"'wrong' gave {said}"):
        predict(gnn, [ring(4)], CPU)


def ring(nodes: int, features: int = 2) -> Graph:
    edges = [(i, i + 1) for i in range(nodes - 1)] + [(0, nodes - 1)]
    return Graph(torch.ones(nodes, features), torch.tensor(sorted(edges)).T.contiguous())


def test_the_score_function_gradient_is_unbiased() -> None:
    """Against the exact gradient of E[L_cf], which three nodes allow to be enumerated."""
    plugged, _ = twins()
    graph = Graph(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([[0], [1]]))
    graphs = to_dense([graph])
    pairs = list(combinations(range(3), 2))
    at = torch.tensor([0.3, -0.4, 0.8], requires_grad=True)
    with torch.no_grad():
        predicted = plugged.answers(graphs).argmax(1)
    exact = torch.zeros(())
    for bits in range(8):
        present = torch.tensor([bits >> n & 1 for n in range(3)])
        chosen = [pair for pair, one in zip(pairs, present.tolist(), strict=True) if one]
        with torch.no_grad():
            drawn = to_dense([replace(graph, edges=_edges(chosen))])
            loss = counterfactual_loss(plugged.answers(drawn), predicted)[0]
        probability = torch.where(present.bool(), at.sigmoid(), 1 - at.sigmoid()).prod()
        exact = exact + loss * probability
    (wanted,) = torch.autograd.grad(exact, at)

    repeats = 4000
    many = graphs.repeat(repeats)
    logits = torch.zeros(1, 3, 3)
    for (one, other), value in zip(pairs, at, strict=True):
        logits = logits.index_put(
            (torch.tensor([0, 0]), torch.tensor([one, other]), torch.tensor([other, one])),
            value.expand(2),
        )
    found = sampled_counterfactual_loss(
        plugged,
        logits.repeat(repeats, 1, 1),
        many,
        temperature=0.5,
        generator=torch.Generator().manual_seed(0),
    )
    (estimate,) = torch.autograd.grad(found.loss.mean(), at)
    torch.testing.assert_close(found.loss.mean(), exact, rtol=0.03, atol=0)
    # 16,000 draws: the error of a mean is about 1 % of what single draws spread
    assert float((estimate - wanted).norm()) < 0.06 * float(wanted.norm())


def _edges(pairs: list[tuple[int, int]]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T.contiguous()


def test_a_single_draw_cannot_be_its_own_baseline() -> None:
    assert steering_module.DRAWS >= 2


def test_training_without_gradients_raises_the_flip_rate() -> None:
    """A GNN that counts edges; the switched-on denoiser learns to propose flips."""
    gnn = edge_counter(threshold=8.5)

    def flip_rate(alpha: float) -> float:
        recipe = replace(
            recipe_for(Objective.COUNTERFACTUAL, steps=80, hidden=8, blocks=1, alpha=alpha),
            batch_graphs=8,
            counterfactual_share=1.0,
            effect_toggles=2,
            patience=0,
            learning_rate=0.02,
        )
        trainer = Trainer([ring(6), ring(7), ring(8)] * 4, gnn, recipe, seed=0, device=CPU)
        assert trainer.without_gradient
        *_, last = trainer.run()
        assert trainer.denoiser().shape.classes == 2
        assert last.flip_rate is not None
        return last.flip_rate

    # beside the same training in which L_cf weighs nothing to speak of
    assert flip_rate(alpha=20.0) > flip_rate(alpha=1e-9) + 0.2


class CountEdges(nn.Module):
    """The logits -(edges - threshold) and edges - threshold, from the sparse graph alone."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold

    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        graphs = int(batch.max()) + 1
        ends = torch.bincount(batch[edge_index[0]], minlength=graphs).to(values.dtype)
        above = ends / 2 - self.threshold
        return torch.stack([-above, above], dim=1)


def edge_counter(threshold: float) -> Gnn:
    layer = PluggedLayer("count", 2, lambda: CountEdges(threshold), hops=None, pools=True)
    return Gnn(GnnSpec(2, 2, (layer,))).eval()


def denoiser(classes: int = 0) -> Denoiser:
    return Denoiser(DenoiserShape(features=2, hidden=4, blocks=1, classes=classes, pool=None))


@pytest.mark.parametrize("classes", [0, 2, None])
@pytest.mark.parametrize(("threshold", "edits"), [(6.5, 1), (7.5, 2), (4.5, 2)])
def test_a_counterfactual_of_a_whole_gnn_is_as_small_as_can_be(
    classes: int | None, threshold: float, edits: int
) -> None:
    outcome = explain(
        edge_counter(threshold),
        None if classes is None else denoiser(classes),
        ring(6),
        EditRules(max_ratio=1.0),
        CounterfactualConfig(),
        seed=0,
        device=CPU,
    )
    assert outcome.found
    assert len(outcome.found[0].edits) == edits
    before, after = outcome.probabilities, outcome.found[0].probabilities
    assert before.argmax() != after.argmax()


def test_a_class_is_explained() -> None:
    gnn = edge_counter(4.5)
    config = ClassConfig(target_class=1, nodes=5, chains=2, candidates=6, steps=4)
    found = explain_class(gnn, denoiser(), [ring(6), ring(7)], config, seed=0, device=CPU)
    assert found
    for example in found:
        assert int(example.probabilities.argmax()) == (example.graph.edge_count > 4.5)


def test_the_probe_says_that_the_dense_form_is_absent() -> None:
    report = probe(twins(features=3)[0], CPU)
    assert report.passed, report.checks
    assert report.dense == "absent"
    assert "dense_equals_sparse" not in [check.name for check in report.checks]
    (sees,) = [check for check in report.checks if check.name == "sees_edges"]
    assert "toggled" in sees.detail
    assert probe(twins(features=3)[1], CPU).dense == "present"


@pytest.mark.parametrize("plugged", [False, True])
def test_the_probe_gives_edges_attributes_where_they_are_read(plugged: bool) -> None:
    torch.manual_seed(2)
    second = sparse_gin(4, 4) if plugged else GinLayer(4, 4)
    layers = (GineLayer(4, 4), second, PoolLayer("mean"), LinearLayer(3))
    gnn = Gnn(GnnSpec(2, 3, layers, edge_features=2)).eval()
    sample = replace(ring(5), edge_attributes=torch.rand(5, 2))
    (found,) = predict(gnn, [sample], CPU).argmax(dim=1).tolist()
    report = probe(gnn, CPU, Samples([sample], [found], min_accuracy=1.0))
    assert report.passed, report.checks
    assert report.dense == ("absent" if plugged else "present")


class Blind(nn.Module):
    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return values


def test_the_probe_finds_a_gnn_that_reads_no_edges_without_gradients() -> None:
    layer = PluggedLayer("blind", 3, Blind, hops=1)
    torch.manual_seed(0)
    gnn = Gnn(GnnSpec(3, 2, (layer, PoolLayer("sum"), LinearLayer(2))))
    failed = [check.name for check in probe(gnn, CPU).checks if not check.passed]
    assert failed == ["sees_edges"]


def test_what_a_plugged_layer_sees_is_not_taken_to_be_less_than_it_is() -> None:
    spec = GnnSpec(2, 3, (sparse_gin(2, 4), sparse_gin(4, 3)))
    assert (spec.convolutions, spec.sight, spec.classifies_nodes) == (2, 3, True)
    with pytest.raises(ValueError, match="reads the whole graph"):
        GnnSpec(2, 3, (PluggedLayer("all", 3, Blind, hops=None),))


def test_dense_graphs_are_what_sparse_answers_are_given_for() -> None:
    """The answers keep the order of the batch also where it takes several passes."""
    gnn = edge_counter(0.0)
    graphs: DenseGraphs = to_dense([ring(n) for n in (3, 7, 4, 6)])
    with torch.no_grad():
        assert gnn.answers(graphs)[:, 1].tolist() == [3.0, 7.0, 4.0, 6.0]
