"""Global counterfactuals: k graphs of another class that are near to many graphs of a class.

A graph is covered by a counterfactual if an explicit edit path (edges, nodes and node types, each
edit costs 1) leads to it whose cost, divided by the nodes and edges of both graphs, is at most the
radius. Paths are found by alignment, so a cost is an upper bound of the edit distance and coverage
a lower bound of what these counterfactuals cover (Huang et al., WSDM 2023, ask the same question
and estimate the distance by a network).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.errors import TooManyTypesError, UnknownClassError
from models.global_counterfactuals.config import MAX_TYPES, RADII, GlobalConfig
from models.global_counterfactuals.edit_paths import EditPath
from models.global_counterfactuals.edit_rules import EditRule, recurring_rules
from models.global_counterfactuals.growing import Grower, Grown
from models.global_counterfactuals.nearest import Nearest
from models.global_counterfactuals.pattern_classes import PatternClasses
from models.global_counterfactuals.population import Population, pattern_rules, usual_rows
from models.global_counterfactuals.search import PatternSearch
from models.global_counterfactuals.typed_graphs import TypedGraph
from models.realism.node_types import NodeTypes

_RULES = 20  # that are reported


@dataclass(frozen=True)
class Covered:
    """A graph of the class, the counterfactual nearest to it and the path there."""

    graph: int  # its number among the graphs given
    counterfactual: int
    distance: float
    path: EditPath


@dataclass(frozen=True)
class NearGraph:
    """A graph within the radius of a counterfactual."""

    graph: int  # its number among the graphs given
    distance: float
    cost: int


@dataclass(frozen=True)
class GlobalCounterfactual:
    graph: Graph
    probabilities: Tensor  # [class], by the sparse GNN
    types: Tensor  # [node]
    gain: int  # graphs that it covers and those before it do not
    near: list[NearGraph]  # closest first


@dataclass(frozen=True)
class GlobalExplanation:
    counterfactuals: list[GlobalCounterfactual]
    covered: list[Covered]
    asked: list[int]  # numbers of the graphs that the GNN gives the class
    too_large: int  # of them, graphs with too many nodes; they count as not covered
    coverage: dict[float, list[float]]  # radius -> share covered by the first 1, 2, … of them
    mean_costs: dict[float, list[float | None]]  # edits of the covered graphs, likewise
    median_distance: list[float | None]  # to the nearest of the first 1, 2, …; None if too far
    rules: list[EditRule]
    types: NodeTypes
    usual_rows: Tensor  # [type, feature] what counterfactuals have as features
    ignores_features: bool  # whether some features are no part of node types
    evaluations: int
    reason: str | None  # why there is no counterfactual

    @property
    def share(self) -> float:
        """Share of the asked graphs that are covered."""
        return len(self.covered) / len(self.asked) if self.asked else 0.0


def explain_globally(
    gnn: Gnn,
    graphs: Sequence[Graph],
    config: GlobalConfig,
    *,
    seed: int,
    device: torch.device,
    should_stop: Callable[[], bool] = lambda: False,
    on_step: Callable[[int, int], None] = lambda step, steps: None,
) -> GlobalExplanation:
    """Explains a class of the GNN over a set of graphs. Stopped early, it returns fewer graphs."""
    for label in (config.source_class, config.target_class):
        if label is not None and not 0 <= label < gnn.spec.classes:
            raise UnknownClassError(label, gnn.spec.classes)
    gnn.eval()
    generator = torch.Generator().manual_seed(seed)
    types = NodeTypes.of(graphs, free_of_degree=True)
    if types.unknown > MAX_TYPES:  # the number of known types
        raise TooManyTypesError(types.unknown, MAX_TYPES)
    classes = predict(gnn, graphs, device).argmax(dim=1).cpu()
    asked: list[int] = (classes == config.source_class).nonzero()[:, 0].tolist()
    taking_part = [row for row in asked if graphs[row].node_count <= config.max_nodes]
    rows = usual_rows(graphs, types)
    judge = PatternClasses(gnn, config, rows, _usual(graphs), device)
    others = [
        row
        for row in _of_wanted_class(classes, config)
        if graphs[row].node_count <= config.max_nodes
    ]
    typed = {row: TypedGraph.of(graphs[row], types) for row in (*taking_part, *others)}
    population = Population.of([typed[row] for row in taking_part], types.count)
    chosen: list[Grown] = []
    is_stopped = False
    if taking_part:
        rules = pattern_rules((TypedGraph.of(graph, types) for graph in graphs), types.count)
        grower = Grower(population, judge, rules, config, generator)
        search = PatternSearch(grower, [typed[row] for row in others], config, generator)
        chosen = search.run(should_stop, on_step)
        is_stopped = search.is_stopped
    nearest = Nearest.of([one.pattern for one in chosen], population, generator)
    covered = [
        Covered(taking_part[one.graph], one.pattern, one.distance, one.path)
        for one in nearest.covered(config.radius)
    ]
    radii = sorted({*RADII, config.radius})
    return GlobalExplanation(
        [
            GlobalCounterfactual(
                judge.graph(grown.pattern),
                judge.probabilities([grown.pattern])[0],
                grown.pattern.types,
                nearest.gain(number, config.radius),
                [
                    NearGraph(taking_part[graph], distance, cost)
                    for graph, distance, cost in nearest.near(number, config.radius)
                ],
            )
            for number, grown in enumerate(chosen)
        ],
        covered,
        asked,
        len(asked) - len(taking_part),
        {radius: nearest.coverage(radius, len(asked)) for radius in radii},
        {radius: nearest.mean_costs(radius) for radius in radii},
        nearest.medians(len(asked)),
        recurring_rules([(typed[one.graph], one.path) for one in covered], _RULES),
        types,
        rows,
        any(types.ignores_features(graph) for graph in graphs),
        judge.evaluations,
        _reason(chosen, asked, taking_part, config, is_stopped=is_stopped),
    )


def _of_wanted_class(classes: Tensor, config: GlobalConfig) -> list[int]:
    if config.target_class is None:
        wanted = classes != config.source_class
    else:
        wanted = classes == config.target_class
    rows: list[int] = wanted.nonzero()[:, 0].tolist()
    return rows


def _usual(graphs: Sequence[Graph]) -> UsualAttributes | None:
    if any(graph.edge_attributes is None for graph in graphs):
        return None
    return UsualAttributes.seen(
        [graph.features for graph in graphs],
        [graph.edges for graph in graphs],
        [graph.edge_attributes for graph in graphs if graph.edge_attributes is not None],
    )


def _reason(
    chosen: Sequence[Grown],
    asked: Sequence[int],
    taking_part: Sequence[int],
    config: GlobalConfig,
    *,
    is_stopped: bool,
) -> str | None:
    if chosen:
        return None
    if not asked:
        return f"the GNN gives no graph class {config.source_class}"
    if not taking_part:
        return f"all graphs of the class have more than {config.max_nodes} nodes"
    if is_stopped:
        return "the search ended before it found a counterfactual"
    return "no graph of the wanted class was found within theta of a graph of the class"
