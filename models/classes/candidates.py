"""Candidate patterns: visited by chains of the denoiser, or mined from the reference graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from d4explain.gnn.graphs import Graph, from_dense
from models.classes.effects import EffectMeter
from models.classes.mining import CountedPattern, count_pattern, mined_patterns, typed_codes
from models.classes.pool import Pool
from models.classes.ranking import RankedPattern, ranking
from models.classes.reference_graphs import ReferenceGraphs
from models.classes.variants import are_variants
from models.graphs.connectivity import component_counts

Source = Literal["denoiser", "data", "generator"]

_MOST_MINED = 12  # nodes; larger patterns come from the denoiser alone
_SCREENED_GRAPHS = 16  # class graphs in which every visited graph is searched
_COUNTED = 40  # visited graphs that are counted in all graphs of the search half
_SHORTLIST = 36  # patterns whose evidence is measured
_SAME_GRAPHS = 0.9  # overlap from which two patterns occur in the same graphs
_MOST_ALIKE = 4  # shortlisted variants of a pattern, not larger, that occur in the same graphs


@dataclass(frozen=True)
class Candidate:
    counted: CountedPattern
    sources: tuple[Source, ...]
    visited: int | None  # position in the pool of the chains

    @property
    def graph(self) -> Graph:
        return self.counted.graph


def shortlisted(
    reference: ReferenceGraphs,
    pool: Pool | None,
    sizes: Sequence[int],
    quick: EffectMeter,
    *,
    generator: torch.Generator,
    should_stop: Callable[[], bool],
) -> list[Candidate]:
    """The candidates of the given sizes that come first in the search half.

    `quick` estimates their effects there.
    """
    mined = mined_patterns(reference, min(max(sizes), _MOST_MINED), generator, should_stop)
    mined = [one for one in mined if one.graph.node_count >= min(sizes)]
    mined_code = typed_codes([one.graph for one in mined], reference.types)
    visited = _visited_by_code(pool, reference)
    from_data = [
        _from_data(one, pool, visited.get(code, []), reference)
        for one, code in zip(mined, mined_code, strict=True)
    ]
    new = [places[0] for code, places in visited.items() if code not in set(mined_code)]
    candidates = from_data + _from_chains(pool, new, reference)
    return shortlist(candidates, quick, reference)


def _from_data(
    mined: CountedPattern, pool: Pool | None, places: Sequence[int], reference: ReferenceGraphs
) -> Candidate:
    """A mined pattern; `places` are visited graphs with its code, which need not be isomorphic."""
    for place in places:
        assert pool is not None
        (visited,) = from_dense(pool.graphs.select(torch.tensor([place])))
        same_size = visited.node_count == mined.graph.node_count
        if same_size and reference.pattern(visited).occurrence(reference.typed(mined.graph)):
            return Candidate(mined, ("denoiser", "data"), place)
    return Candidate(mined, ("data",), None)


def _visited_by_code(pool: Pool | None, reference: ReferenceGraphs) -> dict[int, list[int]]:
    """Code → positions of the connected graphs with it."""
    if pool is None:
        return {}
    graphs = from_dense(pool.graphs)
    connected = [
        place for place, parts in enumerate(component_counts(pool.graphs).tolist()) if parts == 1
    ]
    codes = typed_codes([graphs[place] for place in connected], reference.types)
    places: dict[int, list[int]] = {}
    for code, place in zip(codes, connected, strict=True):
        places.setdefault(code, []).append(place)
    return places


def _from_chains(
    pool: Pool | None, places: Sequence[int], reference: ReferenceGraphs
) -> list[Candidate]:
    """The visited graphs that occur most often in a few graphs of the class, then counted."""
    if pool is None or not places:
        return []
    graphs = from_dense(pool.graphs.select(torch.tensor(places)))
    hosts = reference.search.in_class.typed[:_SCREENED_GRAPHS]
    found = [
        sum(reference.pattern(graph).occurrence(host) is not None for host in hosts)
        for graph in graphs
    ]
    best = sorted(range(len(graphs)), key=lambda one: -found[one])[:_COUNTED]
    return [
        Candidate(count_pattern(graphs[one], reference), ("denoiser",), places[one])
        for one in best
        if found[one]
    ]


def shortlist(
    candidates: Sequence[Candidate], quick: EffectMeter, reference: ReferenceGraphs
) -> list[Candidate]:
    """Those that explain further graphs, then in turn those of large contrast and of large gap.

    Many patterns differ by a branch and occur in the same graphs; only a few of these are taken.
    Larger variants do not keep a pattern out.
    """
    half = reference.search
    candidates = [one for one in candidates if one.counted.contrast > 0]
    gaps = [one.counted.contrast * _quick_effect(one, quick) for one in candidates]
    patterns = [
        RankedPattern(
            one.graph, one.counted.in_class, one.counted.elsewhere, one.counted.contrast, gap, 0.0
        )
        for one, gap in zip(candidates, gaps, strict=True)
    ]
    order = ranking(
        patterns,
        class_graphs=half.in_class.count,
        other_graphs=half.elsewhere.count,
        are_alike=lambda one, other: False,
    )
    places = range(len(candidates))
    by_contrast = sorted(places, key=lambda one: -candidates[one].counted.contrast)
    by_gap = sorted(places, key=lambda one: -gaps[one])
    in_turn = [place for pair in zip(by_contrast, by_gap, strict=True) for place in pair]
    chosen: list[Candidate] = []
    for place in dict.fromkeys([*order[: _SHORTLIST // 3], *in_turn]):
        own = candidates[place].counted
        if len(chosen) == _SHORTLIST:
            break
        alike = sum(
            other.graph.node_count <= own.graph.node_count
            and _overlap(own, other.counted) >= _SAME_GRAPHS
            and are_variants(own.graph, other.graph, reference)
            for other in chosen
        )
        if alike < _MOST_ALIKE:
            chosen.append(candidates[place])
    return chosen


def _quick_effect(candidate: Candidate, quick: EffectMeter) -> float:
    change = quick.inserted(candidate.graph, {})
    return 0.0 if change is None else change.mean


def _overlap(one: CountedPattern, other: CountedPattern) -> float:
    """Jaccard index of the graphs of the class that contain them."""
    return len(one.in_class & other.in_class) / max(len(one.in_class | other.in_class), 1)
