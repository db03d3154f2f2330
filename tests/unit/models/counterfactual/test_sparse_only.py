"""GNNs without a dense form: evaluation, search and training use the sparse form alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from d4explain.gnn.errors import NoDenseFormError, PluginLayerError
from d4explain.gnn.graphs import DenseGraphs, Graph, side_by_side, to_dense, to_sparse
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import GineLayer, GinLayer, GnnSpec, LinearLayer, PluginLayer, PoolLayer
from models.classes.explain import ClassConfig, explain_class
from models.counterfactual.explain import CounterfactualConfig, EditRules, explain
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.diffusion.gnn_sensitivity import gnn_sensitivity
from models.diffusion.paper import counterfactual_loss as loss_module
from models.diffusion.paper.counterfactual_loss import (
    counterfactual_loss,
    sampled_counterfactual_loss,
)
from models.diffusion.recipes import PaperRecipe
from models.training.paper_trainer import PaperTrainer
from worker.probing.conformance import probe
from worker.probing.labelled_samples import Samples

torch.set_num_threads(1)
CPU = torch.device("cpu")


class Gin(nn.Module):
    """The layer `gin` of the vocabulary, for sparse graphs only."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.conv = GINConv(nn.Sequential(nn.Linear(width, out), nn.ReLU(), nn.Linear(out, out)))

    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.conv(values, edge_index)


def sparse_gin(width: int, out: int) -> PluginLayer:
    return PluginLayer("sparse_gin", out, lambda: Gin(width, out), hops=1)


def sparse_and_dense(features: int = 2, *, pool: bool = True) -> tuple[Gnn, Gnn]:
    """The same GNN, without and with a dense form."""
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
def test_side_by_side_equals_to_sparse(graphs: list[Graph]) -> None:
    converted, expected = side_by_side(to_dense(graphs)), to_sparse(graphs)
    assert converted.count == expected.count
    assert torch.equal(converted.features, expected.features)
    assert torch.equal(converted.graph_of_node, expected.graph_of_node)
    assert set(zip(*converted.edge_index.tolist(), strict=True)) == set(
        zip(*expected.edge_index.tolist(), strict=True)
    )
    if expected.targets is None:
        assert converted.targets is None
    else:
        assert converted.targets is not None
        assert torch.equal(converted.targets, expected.targets)


@settings(max_examples=25, deadline=None)
@given(graph_lists())
def test_answers_and_states_equal_those_of_the_dense_form(graphs: list[Graph]) -> None:
    plugged, known = sparse_and_dense(pool=graphs[0].target is None)
    dense = to_dense(graphs)
    assert not plugged.has_dense
    with torch.no_grad():
        torch.testing.assert_close(plugged.answers(dense), known.dense(dense))
        ours, theirs = gnn_sensitivity(plugged, dense), gnn_sensitivity(known, dense)
    torch.testing.assert_close(ours.logits, theirs.logits)
    torch.testing.assert_close(ours.states[dense.mask], theirs.states[dense.mask])
    assert ours.slopes.shape == theirs.slopes.shape
    assert not ours.slopes.any()


def test_the_error_names_the_layer_without_a_dense_form() -> None:
    plugged, _ = sparse_and_dense()
    with pytest.raises(NoDenseFormError, match="sparse_gin"):
        plugged.dense(to_dense([ring(4)]))


@pytest.mark.parametrize(
    ("output", "message"),
    [(lambda x: x[:1], r"\(1, 2\) from forward; expected \(4, 2\)"), (lambda x: None, "NoneType")],
)
def test_the_error_names_a_layer_with_a_wrong_output(output: object, message: str) -> None:
    class Wrong(nn.Module):
        def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> object:
            return output(values)  # type: ignore[operator]

    layer = PluginLayer("wrong", 2, Wrong, hops=1)
    gnn = Gnn(GnnSpec(2, 2, (layer, PoolLayer("sum"), LinearLayer(2)))).eval()
    with pytest.raises(PluginLayerError, match=f"'wrong' returned {message}"):
        predict(gnn, [ring(4)], CPU)


def ring(nodes: int, features: int = 2) -> Graph:
    edges = [(i, i + 1) for i in range(nodes - 1)] + [(0, nodes - 1)]
    return Graph(torch.ones(nodes, features), torch.tensor(sorted(edges)).T.contiguous())


def test_the_score_function_gradient_is_unbiased() -> None:
    """Compares it with the exact gradient of E[L_cf], enumerated on three nodes."""
    plugged, _ = sparse_and_dense()
    graph = Graph(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([[0], [1]]))
    graphs = to_dense([graph])
    pairs = list(combinations(range(3), 2))
    pair_logits = torch.tensor([0.3, -0.4, 0.8], requires_grad=True)
    with torch.no_grad():
        predicted = plugged.answers(graphs).argmax(1)
    exact = torch.zeros(())
    for bits in range(8):
        present = torch.tensor([bits >> n & 1 for n in range(3)])
        chosen = [pair for pair, is_edge in zip(pairs, present.tolist(), strict=True) if is_edge]
        with torch.no_grad():
            drawn = to_dense([replace(graph, edges=_edges(chosen))])
            loss = counterfactual_loss(plugged.answers(drawn), predicted)[0]
        probability = torch.where(
            present.bool(), pair_logits.sigmoid(), 1 - pair_logits.sigmoid()
        ).prod()
        exact = exact + loss * probability
    (expected,) = torch.autograd.grad(exact, pair_logits)

    repeats = 4000
    many = graphs.repeat(repeats)
    logits = torch.zeros(1, 3, 3)
    for (one, other), value in zip(pairs, pair_logits, strict=True):
        logits = logits.index_put(
            (torch.tensor([0, 0]), torch.tensor([one, other]), torch.tensor([other, one])),
            value.expand(2),
        )
    sampled = sampled_counterfactual_loss(
        plugged,
        logits.repeat(repeats, 1, 1),
        many,
        temperature=0.5,
        generator=torch.Generator().manual_seed(0),
    )
    (estimate,) = torch.autograd.grad(sampled.loss.mean(), pair_logits)
    torch.testing.assert_close(sampled.loss.mean(), exact, rtol=0.03, atol=0)
    # With 16,000 draws, the standard error is about 1 % of the standard deviation.
    assert float((estimate - expected).norm()) < 0.06 * float(expected.norm())


def _edges(pairs: list[tuple[int, int]]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T.contiguous()


def test_the_baseline_needs_at_least_two_draws() -> None:
    assert loss_module.DRAWS >= 2


def test_training_without_gradients_raises_the_flip_rate() -> None:
    """The GNN counts edges; the paper's denoiser learns to propose flips."""
    gnn = edge_counter(threshold=8.5)

    def flip_rate(alpha: float) -> float:
        recipe = PaperRecipe(
            steps=80,
            hidden=8,
            blocks=1,
            alpha=alpha,
            batch_graphs=8,
            noise_levels=2,
            learning_rate=0.02,
        )
        trainer = PaperTrainer([ring(6), ring(7), ring(8)] * 4, gnn, recipe, seed=0, device=CPU)
        assert trainer.without_gradient
        *_, last = trainer.run()
        assert last.flip_rate is not None
        return last.flip_rate

    # Compared with the same training and a negligible weight of L_cf.
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
    layer = PluginLayer("count", 2, lambda: CountEdges(threshold), hops=None, pools=True)
    return Gnn(GnnSpec(2, 2, (layer,))).eval()


def denoiser(classes: int = 0) -> Denoiser:
    return Denoiser(DenoiserShape(features=2, hidden=4, blocks=1, classes=classes, pool=None))


@pytest.mark.parametrize("classes", [0, 2, None])
@pytest.mark.parametrize(("threshold", "edits"), [(6.5, 1), (7.5, 2), (4.5, 2)])
def test_a_counterfactual_of_a_plugin_gnn_has_the_fewest_edits(
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


def test_a_class_of_a_plugged_gnn_is_explained() -> None:
    gnn = edge_counter(4.5)
    config = ClassConfig(target_class=1, nodes=5, chains=2, candidates=6, steps=4, sampler="paper")
    graphs = [ring(6), ring(7)]
    explanation = explain_class(gnn, denoiser(), graphs, [True, True], config, seed=0, device=CPU)
    assert explanation.patterns
    for pattern in explanation.patterns:
        assert int(pattern.probabilities.argmax()) == (pattern.graph.edge_count > 4.5)


def test_the_probe_reports_a_missing_dense_form() -> None:
    report = probe(sparse_and_dense(features=3)[0], CPU)
    assert report.passed, report.checks
    assert report.dense == "absent"
    assert "dense_equals_sparse" not in [check.name for check in report.checks]
    (sees_edges,) = [check for check in report.checks if check.name == "sees_edges"]
    assert "toggled" in sees_edges.detail
    assert probe(sparse_and_dense(features=3)[1], CPU).dense == "present"


@pytest.mark.parametrize("plugged", [False, True])
def test_the_probe_adds_edge_attributes_if_the_gnn_reads_them(plugged: bool) -> None:
    torch.manual_seed(2)
    second = sparse_gin(4, 4) if plugged else GinLayer(4, 4)
    layers = (GineLayer(4, 4), second, PoolLayer("mean"), LinearLayer(3))
    gnn = Gnn(GnnSpec(2, 3, layers, edge_features=2)).eval()
    sample = replace(ring(5), edge_attributes=torch.rand(5, 2))
    (label,) = predict(gnn, [sample], CPU).argmax(dim=1).tolist()
    report = probe(gnn, CPU, Samples([sample], [label], min_accuracy=1.0))
    assert report.passed, report.checks
    assert report.dense == ("absent" if plugged else "present")


class IgnoresEdges(nn.Module):
    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return values


def test_the_probe_detects_a_gnn_that_ignores_edges_without_gradients() -> None:
    layer = PluginLayer("ignores_edges", 3, IgnoresEdges, hops=1)
    torch.manual_seed(0)
    gnn = Gnn(GnnSpec(3, 2, (layer, PoolLayer("sum"), LinearLayer(2))))
    failed = [check.name for check in probe(gnn, CPU).checks if not check.passed]
    assert failed == ["sees_edges"]


def test_the_receptive_field_of_plugin_layers_is_not_underestimated() -> None:
    spec = GnnSpec(2, 3, (sparse_gin(2, 4), sparse_gin(4, 3)))
    assert (spec.convolutions, spec.receptive_field, spec.classifies_nodes) == (2, 3, True)
    with pytest.raises(ValueError, match="reads the whole graph"):
        GnnSpec(2, 3, (PluginLayer("all", 3, IgnoresEdges, hops=None),))


def test_answers_keep_the_order_of_the_batch() -> None:
    """Also if the batch takes several passes."""
    gnn = edge_counter(0.0)
    graphs: DenseGraphs = to_dense([ring(n) for n in (3, 7, 4, 6)])
    with torch.no_grad():
        assert gnn.answers(graphs)[:, 1].tolist() == [3.0, 7.0, 4.0, 6.0]
