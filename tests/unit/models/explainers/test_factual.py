"""Factual explanations against PyG's metrics, which agree where masking equals deletion."""

from __future__ import annotations

from math import exp

import pytest
import torch
from scipy.stats import entropy
from torch_geometric.explain import Explainer, Explanation, ModelConfig
from torch_geometric.explain.algorithm import DummyExplainer
from torch_geometric.explain.metric import fidelity
from torch_geometric.explain.metric import unfaithfulness as pyg_unfaithfulness

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.explain import CounterfactualConfig, explain
from models.explainers.algorithms.pyg_model import PygModel, both_directions
from models.explainers.algorithms.saliency import Saliency
from models.explainers.factual import factual_explanation
from models.explainers.interface import EdgeScores
from models.graphs.edits import EditRules
from tests.unit.models.small_gnns import edge_counter, graph_of, random_gnn, random_graph

CPU = torch.device("cpu")


@pytest.mark.parametrize("seed", range(12))
def test_metrics_are_those_of_pyg_for_sum_aggregation(seed: int) -> None:
    graph = random_graph(seed, 7)
    gnn = random_gnn(2 * (seed % 4) + 1, graph)  # GIN
    scores = torch.rand(graph.edge_count, generator=torch.Generator().manual_seed(seed))
    ours = factual_explanation(gnn, graph, EdgeScores(scores), edges=4, device=CPU)
    assert int(ours.kept.sum()) == 4
    assert float(scores[ours.kept].min()) >= float(scores[~ours.kept].max())

    explainer = Explainer(
        PygModel(gnn),
        DummyExplainer(),
        explanation_type="model",
        edge_mask_type="object",
        model_config=ModelConfig("multiclass_classification", "graph", "raw"),
    )
    edge_index = both_directions(graph)
    before = predict(gnn, [graph], CPU)
    explanation = Explanation(
        x=graph.features,
        edge_index=edge_index,
        edge_mask=ours.kept.repeat(2).float(),
        prediction=before.log(),
        target=before.argmax(dim=1),
    )
    explanation._model_args = []
    plus, minus = fidelity(explainer, explanation)
    assert (ours.fidelity_plus, ours.fidelity_minus) == (plus, minus)
    before, kept = before[0].double(), ours.probabilities_kept.double()
    assert ours.unfaithfulness == pytest.approx(1 - exp(-entropy(before, kept)), abs=1e-5)
    # PyG documents KL(before ‖ kept), as its source defines it, and computes KL(kept ‖ before).
    assert pyg_unfaithfulness(explainer, explanation) == pytest.approx(
        1 - exp(-entropy(kept, before)), abs=1e-5
    )


def test_an_explanation_that_is_necessary_and_sufficient() -> None:
    graph = graph_of(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
    gnn = edge_counter(2.5)  # three edges are enough for class 1
    ours = factual_explanation(gnn, graph, EdgeScores(torch.arange(5.0)), edges=3, device=CPU)
    assert ours.kept.tolist() == [False, False, True, True, True]
    assert (ours.fidelity_plus, ours.fidelity_minus) == (1.0, 0.0)
    assert ours.characterization == 1.0
    # Logits are 0 and 2 · (edges - 2.5).
    p, q = torch.sigmoid(torch.tensor([5.0, 1.0])).double()
    divergence = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    assert ours.unfaithfulness == pytest.approx(1 - float(torch.exp(-divergence)), abs=1e-5)


def test_an_insufficient_explanation_has_no_character() -> None:
    graph = graph_of(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
    ours = factual_explanation(
        edge_counter(2.5), graph, EdgeScores(torch.arange(5.0)), edges=1, device=CPU
    )
    assert (ours.fidelity_plus, ours.fidelity_minus, ours.characterization) == (0.0, 1.0, 0.0)


def test_nodes_have_the_mean_of_their_edges() -> None:
    graph = Graph(torch.ones(4, 1), torch.tensor([[0, 1], [1, 2]]))
    gnn: Gnn = edge_counter(0.5)
    scores = EdgeScores(torch.tensor([1.0, 4.0]))
    assert factual_explanation(gnn, graph, scores, edges=1, device=CPU).nodes.tolist() == [
        *(1.0, 2.5, 4.0),
        0.0,  # no edge
    ]


def test_explain_returns_the_curve_and_the_factual_explanation_of_an_explainer() -> None:
    graph = graph_of(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
    outcome = explain(
        edge_counter(3.5),
        None,
        graph,
        EditRules(max_ratio=0.6),
        CounterfactualConfig(sampler="explainer"),
        seed=0,
        device=CPU,
        explainer=Saliency(),
    )
    (found,) = outcome.found
    assert len(found.edits) == 2
    assert not any(edit.added or edit.by_denoiser for edit in found.edits)
    assert outcome.factual is not None
    assert int(outcome.factual.kept.sum()) == 3  # as many as may be removed
    stopped = explain(
        edge_counter(3.5),
        None,
        graph,
        EditRules(max_ratio=0.6),
        CounterfactualConfig(sampler="explainer"),
        seed=0,
        device=CPU,
        explainer=Saliency(),
        should_stop=lambda: True,
    )
    assert not stopped.found
    assert stopped.reason == "stopped before a counterfactual was found"
