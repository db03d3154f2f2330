"""Which held-out graphs or nodes are explained, with which edits, and how few edits could do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import networkx as nx
import torch

from bench.data.tasks import Task
from d4explain.gnn.graphs import DenseGraphs, Graph
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.oracle import FlipGoal
from models.graphs.edits import EditRules, EditSpace
from models.graphs.neighbourhoods import NodeInstance

CPU = torch.device("cpu")
MAX_RATIO = 0.3
MOST_PAIRS = 2000  # that any method may edit; larger instances get a stated choice of so many
# and so many edits of a large node instance: a step of greedy search takes seconds there, and .3 of
# its edges are hundreds of steps
MOST_EDITS = 6
NEAR_TARGET = 2  # hops: of a large node instance, an added edge has one end so near
EXHAUSTIVE_PAIRS = 600  # allowed ones, of instances whose every one or two edits are tried
EXHAUSTIVE_EDITS = 2
_CELLS_AT_ONCE = 2**19


@dataclass(frozen=True)
class Explained:
    """One graph and what every method may do to it."""

    graph: Graph
    rules: EditRules
    restricted: bool  # not all pairs may be edited
    node: NodeInstance | None = None  # where the graph lies in the whole, if a node is explained
    from_validation: bool = False  # the test part was too small


def chosen(task: Task, count: int, seed: int) -> list[Explained]:
    """`count` test instances in seeded random order, all classes alike.

    Where a node set has fewer test nodes, validation nodes follow in seeded random order: the GNN
    was chosen on them but not trained on them. Training nodes are never explained.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(task.test.graphs), generator=generator).tolist()[:count]
    if task.whole is None:
        return [_explained_graph(task.test.graphs[position], seed) for position in order]
    result = [_explained_node(task.whole.test[position], seed) for position in order]
    spare = torch.randperm(len(task.whole.validation), generator=generator).tolist()
    for position in spare[: count - len(result)]:
        explained = _explained_node(task.whole.validation[position], seed)
        result.append(replace(explained, from_validation=True))
    return result


def delete_only(instance: Explained) -> EditRules:
    return replace(instance.rules, add=False)


def _explained_node(node: NodeInstance, seed: int) -> Explained:
    rules = node.rules(EditRules(max_ratio=MAX_RATIO))
    space = EditSpace.of(node.graph, rules)
    if space.count <= MOST_PAIRS:
        return Explained(node.graph, rules, restricted=False, node=node)
    kept = pairs_near_target(space, node.hops, MOST_PAIRS, torch.Generator().manual_seed(seed))
    allowed = set(zip(space.sources.tolist(), space.targets.tolist(), strict=True))
    frozen = rules.frozen_pairs | allowed.difference(kept)
    fewer = replace(rules, frozen_pairs=frozen, max_edits=MOST_EDITS)
    return Explained(node.graph, fewer, restricted=True, node=node)


def pairs_near_target(
    space: EditSpace, hops: torch.Tensor, most: int, generator: torch.Generator
) -> list[tuple[int, int]]:
    """Of the allowed pairs, the edges and then those with an end at most two hops from the target.

    Edges and pairs both come by how near they are to the target, by the sum of their ends' `hops`
    [node]; those alike in random order.
    """
    shuffled = torch.randperm(space.count, generator=generator)
    near = hops[space.sources] + hops[space.targets]  # [pair]
    by_distance = shuffled[near[shuffled].argsort(stable=True)]
    touching = torch.minimum(hops[space.sources], hops[space.targets]) <= NEAR_TARGET
    present = space.present
    order = torch.cat(
        [by_distance[present[by_distance]], by_distance[(touching & ~present)[by_distance]]]
    )[:most]
    return list(zip(space.sources[order].tolist(), space.targets[order].tolist(), strict=True))


def _explained_graph(graph: Graph, seed: int) -> Explained:
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
    """Whether every one or two edits that the rules allow are tried."""
    return EditSpace.of(instance.graph, instance.rules).count <= EXHAUSTIVE_PAIRS


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
            node = space.graph.target
            marked = None if node is None else torch.full((len(some),), node)
            found.append(goal.margin(gnn.dense(DenseGraphs(after, features, mask, marked))))
    return torch.cat(found) if found else torch.empty(0)


def _verified(gnn: Gnn, space: EditSpace, goal: FlipGoal, flips: torch.Tensor) -> bool:
    """Whether one of the sets flips the sparse GNN too."""
    if not len(flips):
        return False
    graphs = space.apply_all([tuple(sorted(edits)) for edits in flips[:64].tolist()])
    return bool((goal.margin(predict(gnn, graphs, CPU)) > 0).any())


def restricted_count(instances: Sequence[Explained]) -> int:
    return sum(instance.restricted for instance in instances)
