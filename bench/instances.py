"""Which held-out graphs are explained, with which edits allowed, and how few edits could do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import networkx as nx
import torch

from bench.tasks import Task
from models.edits import EditRules, EditSpace
from models.flips import FlipGoal
from models.gnn.network import Gnn, predict
from models.graphs import DenseGraphs, Graph

CPU = torch.device("cpu")
MAX_RATIO = 0.3
MOST_PAIRS = 2000  # that any method may edit; larger graphs get a stated choice of so many
EXHAUSTIVE_PAIRS = 600  # of graphs whose every one or two edits are tried
_CELLS_AT_ONCE = 2**19


@dataclass(frozen=True)
class Explained:
    """One graph and what every method may do to it."""

    graph: Graph
    rules: EditRules
    restricted: bool  # not all pairs may be edited


def chosen(task: Task, count: int, seed: int) -> list[Explained]:
    """`count` test graphs in seeded random order, all classes alike."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(task.test.graphs), generator=generator).tolist()
    return [_explained(task.test.graphs[position], seed) for position in order[:count]]


def delete_only(instance: Explained) -> EditRules:
    return replace(instance.rules, add=False)


def _explained(graph: Graph, seed: int) -> Explained:
    rules = EditRules(max_ratio=MAX_RATIO)
    nodes = graph.node_count
    if nodes * (nodes - 1) // 2 <= MOST_PAIRS:
        return Explained(graph, rules, restricted=False)
    everything = set(combinations(range(nodes), 2))
    kept = candidate_pairs(graph, MOST_PAIRS, torch.Generator().manual_seed(seed))
    frozen = frozenset(everything.difference(kept))
    return Explained(graph, replace(rules, frozen_pairs=frozen), restricted=True)


def candidate_pairs(graph: Graph, most: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """The edges, then the pairs nearest to one another by hops; pairs alike in random order."""
    network = nx.empty_graph(graph.node_count)
    network.add_edges_from(graph.edges.T.tolist())
    hops = dict(nx.all_pairs_shortest_path_length(network))
    pairs = list(combinations(range(graph.node_count), 2))
    shuffled = [pairs[place] for place in torch.randperm(len(pairs), generator=generator).tolist()]
    apart = graph.node_count  # more than any distance
    shuffled.sort(key=lambda pair: hops[pair[0]].get(pair[1], apart))
    return shuffled[:most]


def fewest_edits(gnn: Gnn, instance: Explained) -> int | None:
    """1 or 2 if one or two edits flip the GNN, else None; tries every set of them."""
    space = EditSpace.of(instance.graph, instance.rules)
    goal = FlipGoal(int(predict(gnn, [instance.graph], CPU)[0].argmax()), None)
    if space.budget < 1:
        return None
    singles = torch.arange(space.count)[:, None]
    effects = _margins(gnn, space, goal, singles)
    if _verified(gnn, space, goal, singles[effects > 0]):
        return 1
    if space.budget < 2:
        return None
    # those with the greatest single effects first: a flip ends the search
    rank = effects.argsort(descending=True)
    places = torch.combinations(torch.arange(space.count))
    doubles = rank[places[places.sum(dim=1).argsort()]]
    step = max(1, _CELLS_AT_ONCE // instance.graph.node_count**2)
    for some in torch.split(doubles, 16 * step):
        flips = some[_margins(gnn, space, goal, some) > 0]
        if _verified(gnn, space, goal, flips):
            return 2
    return None


def is_covered(instance: Explained) -> bool:
    """Whether every one or two edits of the graph are tried."""
    nodes = instance.graph.node_count
    return not instance.restricted and nodes * (nodes - 1) // 2 <= EXHAUSTIVE_PAIRS


def _margins(gnn: Gnn, space: EditSpace, goal: FlipGoal, sets: torch.Tensor) -> torch.Tensor:
    """By the dense GNN, of sets of equally many pairs given as [set, place]: [set]."""
    found = []
    step = max(1, _CELLS_AT_ONCE // space.graph.node_count**2)
    with torch.inference_mode():
        for some in torch.split(sets, step):
            row = torch.arange(len(some))[:, None]
            source, target = space.sources[some], space.targets[some]
            after = space.base.repeat(len(some), 1, 1)
            toggled = (~space.present[some]).to(after.dtype)
            after[row, source, target] = toggled
            after[row, target, source] = toggled
            features = space.graph.features.expand(len(some), -1, -1)
            mask = torch.ones(after.shape[:2], dtype=torch.bool)
            found.append(goal.margin(gnn.dense(DenseGraphs(after, features, mask))))
    return torch.cat(found) if found else torch.empty(0)


def _verified(gnn: Gnn, space: EditSpace, goal: FlipGoal, flips: torch.Tensor) -> bool:
    """Whether one of the sets flips the sparse GNN too."""
    if not len(flips):
        return False
    graphs = space.apply_all([tuple(sorted(edits)) for edits in flips[:64].tolist()])
    return bool((goal.margin(predict(gnn, graphs, CPU)) > 0).any())


def restricted_count(instances: Sequence[Explained]) -> int:
    return sum(instance.restricted for instance in instances)
