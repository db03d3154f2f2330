"""Rankings of a graph's edits, most relevant first, up to a modification ratio.

- `d4`: by the effect of each edit on the denoised graph. If the ranking does not flip the GNN, the
  fewest edits that `explain` needs for a flip replace its last ones.
- `d4_answers`: the edits that `explain` returns, best answer first, then as `d4`.
- `greedy`: in the order of greedy search, continued after the flip.
- the other explainers of `models.explainers`: as their counterfactual curves, so removals only for
  those that score edges; `cf-gnnexplainer` returns the edits of its smallest flip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import cast

import torch

from bench.counterfactuals.instances import CPU
from bench.counterfactuals.methods import ALTERNATIVES
from bench.robustness.smoothing import Smoothing, smoothed_scores
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.explain import CounterfactualConfig, explain
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.explainers.algorithms.greedy import Greedy
from models.explainers.catalogue import EXPLAINERS, ExplainerName, make_explainer
from models.explainers.curve import counterfactual_curve, edit_order
from models.explainers.interface import EditedGraphs, Explainer
from models.graphs.edits import EditRules, EditSpace

RANKINGS = ("d4", "d4_answers", *EXPLAINERS)
WITH_DENOISER = ("d4", "d4_answers")

Edit = tuple[int, int, bool]  # source < target, added
Ranking = Callable[[Graph, EditRules, int], list[Edit]]  # graph, rules with the ratio, seed


def make_ranking(
    name: str,
    gnn: Gnn,
    denoiser: EdgeDenoiser | None,
    reference: Sequence[Graph] = (),
    seed: int = 0,
) -> Ranking:
    """Return the ranking function with this name; reference and seed are for the training."""
    if name in WITH_DENOISER:
        if denoiser is None:
            raise ValueError(f"Ranking {name!r} needs a denoiser.")
        rank = rank_by_score if name == "d4" else rank_answers_first
        return lambda graph, rules, seed: rank(gnn, denoiser, graph, rules, seed=seed)
    explainer: Explainer = (
        Greedy(stop_at_flip=False)
        if name == "greedy"
        else make_explainer(cast(ExplainerName, name), gnn, reference, seed=seed, device=CPU)
    )
    return lambda graph, rules, seed: _by_explainer(gnn, explainer, graph, rules, seed)


def flips_gnn(gnn: Gnn, graph: Graph, edits: Sequence[Edit]) -> bool:
    """Whether any prefix of the edits changes the predicted class."""
    prefixes = [_edited(graph, edits[: length + 1]) for length in range(len(edits))]
    before, *after = predict(gnn, [graph, *prefixes], CPU).argmax(dim=1).tolist()
    return any(label != before for label in after)


def rank_by_score(
    gnn: Gnn,
    denoiser: EdgeDenoiser,
    graph: Graph,
    rules: EditRules,
    *,
    seed: int,
    smoothing: Smoothing | None = None,
) -> list[Edit]:
    """Rank by smoothed score; complete the ranking to a flip if necessary."""
    space = EditSpace.of(graph, rules)
    by_score = _by_score(gnn, denoiser, space, smoothing or Smoothing())
    length = min(space.budget, len(by_score))
    if flips_gnn(gnn, graph, by_score[:length]):
        return by_score[:length]
    for kept in range(length - 1, -1, -1):
        head = by_score[:kept]
        completion = _answers(
            gnn,
            denoiser,
            _edited(graph, head),
            replace(
                rules,
                max_edits=length - kept,
                frozen_pairs=rules.frozen_pairs.union((a, b) for a, b, _ in head),
            ),
            seed,
            alternatives=1,
        )
        if completion:
            return _without_repeats([*head, *completion, *by_score], length)
    return by_score[:length]


def rank_answers_first(
    gnn: Gnn, denoiser: EdgeDenoiser, graph: Graph, rules: EditRules, *, seed: int
) -> list[Edit]:
    """Rank the edits that users get first, then the others by smoothed score."""
    space = EditSpace.of(graph, rules)
    answers = _answers(gnn, denoiser, graph, rules, seed, alternatives=ALTERNATIVES)
    by_score = _by_score(gnn, denoiser, space, Smoothing())
    return _without_repeats([*answers, *by_score], space.budget)


def _answers(
    gnn: Gnn,
    denoiser: EdgeDenoiser,
    graph: Graph,
    rules: EditRules,
    seed: int,
    *,
    alternatives: int,
) -> list[Edit]:
    config = CounterfactualConfig(alternatives=alternatives)
    outcome = explain(gnn, denoiser, graph, rules, config, seed=seed, device=CPU)
    return [
        (edit.source, edit.target, edit.added) for answer in outcome.found for edit in answer.edits
    ]


def _by_score(
    gnn: Gnn, denoiser: EdgeDenoiser, space: EditSpace, smoothing: Smoothing
) -> list[Edit]:
    goal = _goal(gnn, space.graph)
    scores = smoothed_scores(gnn, denoiser, space, goal, smoothing)
    return _edits(space, scores.argsort(descending=True, stable=True).tolist())


def _by_explainer(
    gnn: Gnn, explainer: Explainer, graph: Graph, rules: EditRules, seed: int
) -> list[Edit]:
    space = EditSpace.of(graph, rules)
    oracle = CounterfactualOracle(gnn, space, _goal(gnn, graph), CPU)
    generator = torch.Generator().manual_seed(seed)
    explanation = explainer.explain(oracle, generator)
    if isinstance(explanation, EditedGraphs):
        flip = counterfactual_curve(oracle, explanation, generator).smallest_flip
        return _edits(space, () if flip is None else flip.edits)
    return _edits(space, edit_order(space, explanation, generator))[: space.budget]


def _goal(gnn: Gnn, graph: Graph) -> FlipGoal:
    return FlipGoal(int(predict(gnn, [graph], CPU)[0].argmax()), None)


def _edits(space: EditSpace, pairs: Iterable[int]) -> list[Edit]:
    source, target = space.sources.tolist(), space.targets.tolist()
    present = space.present.tolist()
    return [(source[pair], target[pair], not present[pair]) for pair in pairs]


def _edited(graph: Graph, edits: Iterable[Edit]) -> Graph:
    edges = set(map(tuple, graph.edges.T.tolist()))
    edges = edges.symmetric_difference((source, target) for source, target, _ in edits)
    sorted_edges = torch.tensor(sorted(edges)).view(-1, 2).T.long().contiguous()
    return replace(graph, edges=sorted_edges)


def _without_repeats(edits: Iterable[Edit], length: int) -> list[Edit]:
    return list(dict.fromkeys(edits))[:length]
