"""Mining, effects and ranking of patterns, against brute force and closed forms."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import pytest
import torch

from d4explain.gnn.graphs import Graph
from models.classes.candidates import Candidate, shortlist
from models.classes.effects import Change, Effect, EffectMeter
from models.classes.mining import CountedPattern, mined_patterns, typed_codes
from models.classes.ranking import RankedPattern, ranking
from models.classes.reference_graphs import ReferenceGraphs
from models.graphs.subgraph_matching import Pattern
from tests.unit.models.small_gnns import edge_counter, graph_of

torch.set_num_threads(1)

CPU = torch.device("cpu")
HOUSE = [(0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (1, 4)]


def with_house(seed: int, *, house: bool, target: int | None = None) -> Graph:
    """A random tree of 8 nodes, with a house or a path of 5 nodes hanging on it."""
    network = nx.random_labeled_tree(8, seed=seed)
    part = HOUSE if house else [(node, node + 1) for node in range(4)]
    edges = [*network.edges, *((8 + a, 8 + b) for a, b in part), (seed % 8, 8)]
    return graph_of(13, [(min(edge), max(edge)) for edge in edges], target=target)


def reference(count: int = 60, target: int | None = None) -> ReferenceGraphs:
    graphs = [with_house(seed, house=seed % 2 == 0, target=target) for seed in range(count)]
    is_in_class = [seed % 2 == 0 for seed in range(count)]
    return ReferenceGraphs.of(graphs, is_in_class, torch.Generator().manual_seed(0))


def network_of(graph: Graph) -> nx.Graph:
    network = nx.empty_graph(graph.node_count)
    network.add_edges_from(graph.edges.T.tolist())
    return network


def test_halves_have_no_graph_in_common_if_there_are_enough() -> None:
    for count, independent in ((100, True), (30, False)):
        own = reference(count)
        assert own.independent is independent
        halves = (own.search, own.measured)
        positions = [
            set(half.in_class.positions) | set(half.elsewhere.positions) for half in halves
        ]
        assert bool(positions[0] & positions[1]) is not independent
        assert all(place % 2 == 0 for half in halves for place in half.in_class.positions)
        assert own.totals.in_class == count // 2


def test_mined_patterns_are_counted_as_networkx_counts_them() -> None:
    own = reference()
    mined = mined_patterns(own, 5, torch.Generator().manual_seed(0))
    assert {one.graph.node_count for one in mined} == {2, 3, 4, 5}
    assert len(set(typed_codes([one.graph for one in mined], own.types))) == len(mined)
    for one in mined[::5]:
        pattern = network_of(one.graph)
        assert nx.is_connected(pattern)
        for side, found in (
            (own.search.in_class, one.in_class),
            (own.search.elsewhere, one.elsewhere),
        ):
            containing = {
                index
                for index, graph in enumerate(side.graphs)
                if nx.isomorphism.GraphMatcher(network_of(graph), pattern).subgraph_is_isomorphic()
            }
            assert found == containing
    best = max(mined, key=lambda one: (one.contrast, one.graph.edge_count))
    assert best.contrast == 1
    assert nx.is_isomorphic(network_of(best.graph), nx.Graph(HOUSE))


def test_mined_patterns_of_nodes_contain_the_marked_node() -> None:
    mined = mined_patterns(reference(target=12), 5, torch.Generator().manual_seed(0))
    assert all(one.graph.target is not None for one in mined)
    best = max(mined, key=lambda one: (one.contrast, one.graph.edge_count))
    roof = best.graph.target
    assert roof is not None
    assert nx.is_isomorphic(network_of(best.graph), nx.Graph(HOUSE))
    assert network_of(best.graph).degree[roof] == 2  # node 12 is the roof of each house


def test_effects_are_those_of_the_edges_beyond_random_parts() -> None:
    """The GNN's log-odds are 2·edges + c, so effects follow from edge counts."""
    cycle = graph_of(5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)])
    trees = [graph_of(9, [(node, node + 1) for node in range(8)]) for _ in range(30)]
    cycles = [graph_of(9, [*((n, n + 1) for n in range(8)), (4, 8)]) for _ in range(30)]
    own = ReferenceGraphs.of(
        trees + cycles, [False] * 30 + [True] * 30, torch.Generator().manual_seed(0)
    )
    meter = EffectMeter(
        edge_counter(8.5), 1, own.measured, generator=torch.Generator().manual_seed(0), device=CPU
    )
    pattern = Pattern.of(cycle, [0] * 5)
    found = own.measured.in_class.occurrences(pattern)
    assert len(found) == own.measured.in_class.count
    effect = meter.effect(cycle, pattern, found)
    assert effect.inserted is not None
    assert effect.broken is not None
    # A cycle has one edge more than a path of as many nodes; one deletion breaks it.
    assert effect.inserted.mean == pytest.approx(2.0, abs=1e-5)
    assert effect.broken.mean == pytest.approx(0.0, abs=1e-5)
    assert effect.mean == pytest.approx(1.0, abs=1e-5)
    assert effect.is_positive


def test_an_effect_needs_an_insertion_beyond_chance() -> None:
    strong, weak, against = Change(3.0, 1.0, 30), Change(1.0, 1.0, 30), Change(-4.0, 1.0, 30)
    assert Effect(strong, None).is_positive
    assert Effect(strong, weak).is_positive
    assert not Effect(strong, Change(4.0, 1.0, 30)).is_positive  # breaking it helps the class
    assert not Effect(weak, against).is_positive
    assert not Effect(against, None).is_positive
    assert not Effect(None, None).is_positive
    assert Change.of(torch.tensor([1.0])) is None


def test_a_quick_meter_estimates_the_same_insertion() -> None:
    own = reference(100)
    meters = [
        EffectMeter(
            edge_counter(8.5),
            1,
            own.measured,
            generator=torch.Generator().manual_seed(0),
            device=CPU,
            is_quick=is_quick,
        )
        for is_quick in (False, True)
    ]
    # Random parts of the other graphs are trees, and a house has two edges more than a tree.
    for meter, at_least in zip(meters, (60, 25), strict=True):
        change = meter.inserted(graph_of(5, HOUSE), {})
        assert change is not None
        assert change.mean == pytest.approx(4.0, abs=1e-4)
        assert change.graphs >= at_least


class LargerIsBetter(EffectMeter):
    """Its effect is the number of nodes."""

    def inserted(self, graph: Graph, occurrences: dict[int, list[int]]) -> Change | None:
        return Change(float(graph.node_count), 0.1, 30)


def test_larger_variants_do_not_keep_a_pattern_off_the_shortlist() -> None:
    own = reference()
    quick = LargerIsBetter(
        edge_counter(8.5), 1, own.search, generator=torch.Generator(), device=CPU, is_quick=True
    )
    tails = [[(place, 5)] for place in (0, 2, 4)] + [[(place, 5), (5, 6)] for place in (0, 2, 4)]
    graphs = [graph_of(5 + len(tail), [*HOUSE, *tail]) for tail in tails]
    everywhere = frozenset(range(own.search.in_class.count))
    candidates = [
        Candidate(
            CountedPattern(graph, own.pattern(graph), everywhere, frozenset(), 1.0), ("data",), None
        )
        for graph in [*graphs, graph_of(5, HOUSE)]
    ]
    chosen = [one.graph.node_count for one in shortlist(candidates, quick, own)]
    assert 5 in chosen


def ranked(
    *patterns: tuple[int, int, set[int], set[int], float], counts: Sequence[float] = ()
) -> list[int]:
    """Nodes, rings, graphs of the class, other graphs and gap ± .5 of each; 100 graphs a side.

    `counts` are the occurrences per graph; 1 if not given.
    """
    return ranking(
        [
            RankedPattern(
                graph_of(nodes, _with_rings(nodes, rings)),
                frozenset(own),
                frozenset(others),
                counts[place] if counts else 1.0,
                gap,
                0.5,
            )
            for place, (nodes, rings, own, others, gap) in enumerate(patterns)
        ],
        class_graphs=100,
        other_graphs=100,
        are_alike=lambda one, other: {one, other} == {0, 1},
    )


def _with_rings(nodes: int, rings: int) -> list[tuple[int, int]]:
    path = [(node, node + 1) for node in range(nodes - 1)]
    chords = [(a, b) for a in range(nodes) for b in range(a + 2, nodes)]
    return path + chords[:rings]


def test_contrast_decides_then_rings_then_the_explained_gap() -> None:
    all_graphs, most, half = (set(range(count)) for count in (100, 90, 50))
    assert ranked((5, 1, half, set(), 9.0), (5, 0, all_graphs, set(), 0.0))[0] == 1
    assert ranked((5, 0, all_graphs, set(), 9.0), (5, 1, most, set(), 0.0))[0] == 1  # near
    assert ranked((5, 1, all_graphs, set(), 1.0), (5, 1, most, set(), 2.0))[0] == 1
    assert ranked((5, 1, most, set(), 1.4), (6, 1, all_graphs, set(), 2.0))[0] == 0  # as large
    assert ranked((5, 1, most, set(), 1.2), (6, 1, all_graphs, set(), 2.0))[0] == 1


def test_of_patterns_that_explain_as_much_the_more_frequent_comes_first() -> None:
    own, none = set(range(90)), set[int]()
    part, motif = (4, 1, own, none, 2.0), (6, 1, own, none, 1.6)
    assert ranked(part, motif, counts=[1.0, 1.9])[0] == 1
    assert ranked(part, motif, counts=[1.7, 1.9])[0] == 0  # about as frequent, and smaller
    assert ranked(part, (6, 1, own, none, 1.2), counts=[1.0, 1.9])[0] == 0  # explains less


def test_contrasts_are_near_within_two_errors_of_their_difference() -> None:
    """Neither 15 nor 19 of 23 graphs is near by its share of the best."""
    larger = set(range(23))
    part, others = set(range(15)), set(range(23, 42))
    assert ranked((5, 0, larger, set(), 0.0), (5, 0, part, set(), 1.0))[0] == 0  # 8 ± 2·2.8 graphs
    assert ranked((5, 0, larger, set(), 0.0), (5, 0, others, set(), 1.0))[0] == 1  # 4 ± 2·6.5


def test_later_patterns_explain_further_graphs() -> None:
    first, rest = set(range(60)), set(range(60, 90))
    order = ranked(
        (5, 0, first, set(), 1.0),
        (5, 0, first - {0}, set(), 0.0),  # like the first
        (5, 0, rest, set(), 0.0),
        (5, 0, set(range(40)), set(), 0.0),  # explains nothing further, but is like no other
        (5, 0, set(), {1}, 0.0),  # rarer in the class
    )
    assert order == [0, 2, 3]
