"""Select the instances to explain, limit their edits and find the fewest edits that flip them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
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
MAX_PAIRS = 2000  # larger instances are restricted to this many pairs, for every method
# Edits of a restricted node instance. A greedy step takes seconds there, and 0.3 of the edges would
# mean hundreds of steps.
MAX_NODE_EDITS = 6
NEAR_TARGET = 2  # hops; in a restricted node instance, added edges have one end this near
EXHAUSTIVE_PAIRS = 600  # exhaustive search covers instances with at most this many pairs
EXHAUSTIVE_EDITS = 2
MIN_HELD_OUT = 60  # graphs to compare with; fewer validation graphs are filled up
_CELLS_PER_PASS = 2**19  # entries of the adjacencies of one dense pass


@dataclass(frozen=True)
class EditableInstance:
    """One graph and the edits that every method may make."""

    graph: Graph
    rules: EditRules
    restricted: bool  # only some pairs may be edited
    node: NodeInstance | None = None  # position in the whole graph, for a node task
    from_validation: bool = False


class InstancePart(StrEnum):
    """The part of the data that is explained: settings are chosen on validation instances."""

    TEST = "test"
    VALIDATION = "validation"


def select_instances(
    task: Task, count: int, seed: int, part: InstancePart = InstancePart.TEST
) -> list[EditableInstance]:
    """Select `count` instances of the part in seeded random order, regardless of class.

    If a node set has too few test nodes, validation nodes are added: they selected the GNN but did
    not train it. Training nodes are never explained.
    """
    generator = torch.Generator().manual_seed(seed)
    if part is InstancePart.VALIDATION:
        return _validation_instances(task, count, seed, generator)
    order = torch.randperm(len(task.test.graphs), generator=generator).tolist()[:count]
    if task.whole is None:
        return [_graph_instance(task.test.graphs[position], seed) for position in order]
    result = [_node_instance(task.whole.test[position], seed) for position in order]
    return result + _validation_instances(task, count - len(result), seed, generator)


def _validation_instances(
    task: Task, count: int, seed: int, generator: torch.Generator
) -> list[EditableInstance]:
    order = torch.randperm(len(task.validation.graphs), generator=generator).tolist()[:count]
    if task.whole is None:
        instances = [_graph_instance(task.validation.graphs[index], seed) for index in order]
    else:
        instances = [_node_instance(task.whole.validation[index], seed) for index in order]
    return [replace(instance, from_validation=True) for instance in instances]


def held_out_graphs(
    task: Task, instances: Sequence[EditableInstance], part: InstancePart
) -> list[Graph]:
    """The graphs that edited graphs are compared with.

    They are the validation graphs. Where validation instances are explained, they are the others,
    filled up with training graphs if there are few.
    """
    if part is InstancePart.TEST:
        return task.validation.graphs
    explained = {id(instance.graph) for instance in instances}
    others = [graph for graph in task.validation.graphs if id(graph) not in explained]
    return others + task.train.graphs[: max(MIN_HELD_OUT - len(others), 0)]


def deletion_rules(instance: EditableInstance) -> EditRules:
    return replace(instance.rules, add=False)


def _node_instance(node: NodeInstance, seed: int) -> EditableInstance:
    rules = node.rules(EditRules(max_ratio=MAX_RATIO))
    space = EditSpace.of(node.graph, rules)
    if space.count <= MAX_PAIRS:
        return EditableInstance(node.graph, rules, restricted=False, node=node)
    kept = pairs_near_target(space, node.hops, MAX_PAIRS, torch.Generator().manual_seed(seed))
    allowed = set(zip(space.sources.tolist(), space.targets.tolist(), strict=True))
    frozen = rules.frozen_pairs | allowed.difference(kept)
    restricted = replace(rules, frozen_pairs=frozen, max_edits=MAX_NODE_EDITS)
    return EditableInstance(node.graph, restricted, restricted=True, node=node)


def pairs_near_target(
    space: EditSpace, hops: torch.Tensor, most: int, generator: torch.Generator
) -> list[tuple[int, int]]:
    """Existing edges, then absent pairs with an end at most two hops from the target.

    Both groups are sorted by the sum of their ends' `hops` [node], ties in random order.
    """
    shuffled = torch.randperm(space.count, generator=generator)
    distance = hops[space.sources] + hops[space.targets]  # [pair]
    by_distance = shuffled[distance[shuffled].argsort(stable=True)]
    is_near = torch.minimum(hops[space.sources], hops[space.targets]) <= NEAR_TARGET
    present = space.present
    order = torch.cat(
        [by_distance[present[by_distance]], by_distance[(is_near & ~present)[by_distance]]]
    )[:most]
    return list(zip(space.sources[order].tolist(), space.targets[order].tolist(), strict=True))


def _graph_instance(graph: Graph, seed: int) -> EditableInstance:
    rules = EditRules(max_ratio=MAX_RATIO)
    nodes = graph.node_count
    if nodes * (nodes - 1) // 2 <= MAX_PAIRS:
        return EditableInstance(graph, rules, restricted=False)
    all_pairs = set(combinations(range(nodes), 2))
    kept = candidate_pairs(graph, MAX_PAIRS, torch.Generator().manual_seed(seed))
    frozen = frozenset(all_pairs.difference(kept))
    return EditableInstance(graph, replace(rules, frozen_pairs=frozen), restricted=True)


def candidate_pairs(graph: Graph, most: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """Existing edges, then absent pairs by hop distance; ties in random order."""
    network = nx.empty_graph(graph.node_count)
    network.add_edges_from(graph.edges.T.tolist())
    hops = dict(nx.all_pairs_shortest_path_length(network))
    pairs = list(combinations(range(graph.node_count), 2))
    order = torch.randperm(len(pairs), generator=generator).tolist()
    shuffled = [pairs[position] for position in order]
    unreachable = graph.node_count  # more than any distance
    shuffled.sort(key=lambda pair: hops[pair[0]].get(pair[1], unreachable))
    return shuffled[:most]


def fewest_edits(gnn: Gnn, instance: EditableInstance) -> int | None:
    """1 or 2 if one or two edits flip the GNN, else None; tries every edit set."""
    space = EditSpace.of(instance.graph, instance.rules)
    goal = FlipGoal(int(predict(gnn, [instance.graph], CPU)[0].argmax()), None)
    if space.budget < 1:
        return None
    singles = torch.arange(space.count)[:, None]
    effects = _margins(gnn, space, goal, singles)
    if _any_verified_flip(gnn, space, goal, singles[effects > 0]):
        return 1
    if space.budget < 2:
        return None
    # Start with the largest single effects, because the first flip ends the search.
    by_effect = effects.argsort(descending=True)
    ranks = torch.combinations(torch.arange(space.count))
    doubles = by_effect[ranks[ranks.sum(dim=1).argsort()]]
    per_pass = max(1, _CELLS_PER_PASS // instance.graph.node_count**2)
    for batch in torch.split(doubles, 16 * per_pass):
        flips = batch[_margins(gnn, space, goal, batch) > 0]
        if _any_verified_flip(gnn, space, goal, flips):
            return 2
    return None


def is_covered(instance: EditableInstance) -> bool:
    """Whether exhaustive search to two edits is affordable."""
    return EditSpace.of(instance.graph, instance.rules).count <= EXHAUSTIVE_PAIRS


def _margins(gnn: Gnn, space: EditSpace, goal: FlipGoal, sets: torch.Tensor) -> torch.Tensor:
    """Margins of the dense GNN for edit sets of equal size, given as [set, edit]: [set]."""
    margins = []
    per_pass = max(1, _CELLS_PER_PASS // space.graph.node_count**2)
    with torch.inference_mode():
        for batch in torch.split(sets, per_pass):
            row = torch.arange(len(batch))[:, None]
            source, target = space.sources[batch], space.targets[batch]
            adjacency = space.base.repeat(len(batch), 1, 1)
            toggled = (~space.present[batch]).to(adjacency.dtype)
            adjacency[row, source, target] = toggled
            adjacency[row, target, source] = toggled
            features = space.graph.features.expand(len(batch), -1, -1)
            mask = torch.ones(adjacency.shape[:2], dtype=torch.bool)
            node = space.graph.target
            targets = None if node is None else torch.full((len(batch),), node)
            graphs = DenseGraphs(adjacency, features, mask, targets)
            margins.append(goal.margin(gnn.dense(graphs)))
    return torch.cat(margins) if margins else torch.empty(0)


def _any_verified_flip(gnn: Gnn, space: EditSpace, goal: FlipGoal, flips: torch.Tensor) -> bool:
    """Whether one of the edit sets also flips the sparse GNN."""
    if not len(flips):
        return False
    graphs = space.apply_all([tuple(sorted(edits)) for edits in flips[:64].tolist()])
    return bool((goal.margin(predict(gnn, graphs, CPU)) > 0).any())


def restricted_count(instances: Sequence[EditableInstance]) -> int:
    return sum(instance.restricted for instance in instances)
