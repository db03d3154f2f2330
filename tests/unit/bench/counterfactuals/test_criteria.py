"""Criteria: what purification measures, and the order of the alternatives."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bench.counterfactuals.criteria import best_first, purified_shares
from bench.counterfactuals.figures import MethodResult, toggle_pairs
from bench.counterfactuals.instances import EditableInstance
from bench.counterfactuals.methods import CHOSEN_METHODS, METHODS, Criterion
from d4explain.gnn.graphs import DenseGraphs, Graph
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.diffusion.noise import NoiseLevel
from models.diffusion.typicality import typicality_scores
from models.graphs.edits import EditRules
from tests.unit.models.small_gnns import edge_counter, random_graph

torch.set_num_threads(1)
CPU = torch.device("cpu")


class Completing(Denoiser):
    """Denoises every graph to the complete one."""

    def forward(self, noisy: DenseGraphs, noise: NoiseLevel) -> Tensor:
        return 1e3 * noisy.pair_mask.to(noisy.adjacency.dtype)


def small_denoiser(graph: Graph) -> Denoiser:
    shape = DenoiserShape(graph.features.shape[1], hidden=4, blocks=1)
    return Denoiser(shape, torch.Generator().manual_seed(0)).eval()


def test_an_answer_that_denoising_takes_away_is_not_purified() -> None:
    """The GNN counts edges: a path is below its threshold, the complete graph above it."""
    gnn = edge_counter(9.5).eval()
    path = Graph(torch.ones(5, 1), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]))
    complete = replace(path, edges=torch.combinations(torch.arange(5)).T.contiguous())
    denoiser = Completing(DenoiserShape(1, hidden=1, blocks=1))
    assert purified_shares(gnn, denoiser, [path, complete], seed=0).tolist() == [0, 1]


@pytest.mark.parametrize("criterion", Criterion)
def test_alternatives_are_only_reordered(criterion: Criterion) -> None:
    graph = replace(random_graph(0, 8), features=torch.ones(8, 1))
    instance = EditableInstance(graph, EditRules(), restricted=False)
    found = tuple(((0, other),) for other in range(1, 5))
    answer = MethodResult(instance, found, 10, 1, 0.5)
    gnn, denoiser = edge_counter(2.5).eval(), small_denoiser(graph)
    ordered = best_first(answer, criterion, gnn, denoiser, seed=1)
    assert sorted(ordered.found) == sorted(found)
    assert ordered.cpu_seconds > answer.cpu_seconds
    assert best_first(answer, criterion, gnn, denoiser, seed=1).found == ordered.found
    assert ordered.gnn_evaluations >= answer.gnn_evaluations
    if criterion is Criterion.TYPICALITY:
        scores = typicality_scores(
            denoiser, [toggle_pairs(graph, edits) for edits in ordered.found], CPU
        )
        assert scores.tolist() == sorted(scores.tolist(), reverse=True)


def test_a_single_answer_costs_nothing() -> None:
    graph = replace(random_graph(0, 8), features=torch.ones(8, 1))
    instance = EditableInstance(graph, EditRules(), restricted=False)
    answer = MethodResult(instance, (((0, 1),),), 10, 1, 0.5)
    gnn, denoiser = edge_counter(2.5).eval(), small_denoiser(graph)
    assert best_first(answer, Criterion.PURIFICATION, gnn, denoiser, seed=1) is answer


def test_chosen_methods_reorder_known_methods() -> None:
    assert {chosen.base for chosen in CHOSEN_METHODS.values()} <= set(METHODS)
