"""Class explanation: patterns that recur in a class, are rare elsewhere and move the GNN to it.

The sampler `guided` takes candidates from reverse chains of the denoiser, in which the GNN judges
graphs inside graphs of other classes, and from the reference graphs. It measures them on reference
graphs that took no part in the search, and keeps those whose contrast and effect are positive.
The sampler `paper` is Algorithm 1 of D4Explainer: the GNN judges graphs standing alone, and all of
them are answers. The samplers of `models.classes.alone` do so without a denoiser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, from_dense, to_dense
from d4explain.gnn.network import Gnn, predict
from models.classes.alone.build import build_alone
from models.classes.candidates import Candidate, Source, shortlisted
from models.classes.config import ALONE, ClassConfig
from models.classes.effects import EffectMeter, class_log_odds
from models.classes.evidence import Evidence, EvidenceMeter
from models.classes.node_features import ClassParts
from models.classes.pool import ChainStep, Pool
from models.classes.ranking import RankedPattern, ranking
from models.classes.reference_graphs import ReferenceGraphs
from models.classes.reverse_sampling import ChainConfig, Chains
from models.classes.variants import are_variants
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.errors import UnknownClassError
from models.metrics.scores import is_connected

# Sizes of patterns if none is given; larger ones mix a motif with pieces of its surroundings.
_SIZES = (3, 4, 5, 6, 7)
_HOSTS = 3  # graphs of other classes in which chains judge candidates
_MAX_HOST_NODES = 60
_SMALL_GRAPHS = 200  # parts of reference graphs that the GNN classifies alone
# The GNN tells small graphs apart if the standard deviation of their log-odds is above this, and
# above this share of that of whole graphs.
_MIN_SPREAD = 1e-3
_MIN_SPREAD_SHARE = 0.02


@dataclass(frozen=True)
class ClassPattern:
    graph: Graph
    probabilities: Tensor  # [class], of the pattern alone, by the sparse GNN
    likelihood: float | None  # log-likelihood per node under the denoiser; None without one
    connected: bool
    sources: tuple[Source, ...]
    evidence: Evidence
    chain: tuple[ChainStep, ...]  # steps that led to it; empty if no chain did


@dataclass(frozen=True)
class ClassExplanation:
    patterns: list[ClassPattern]
    reason: str | None  # why there is no pattern; None if there are some
    tells_small_graphs_apart: bool  # whether the GNN does, standing alone
    reference: ReferenceGraphs


def explain_class(
    gnn: Gnn,
    denoiser: EdgeDenoiser | None,
    graphs: Sequence[Graph],
    is_in_class: Sequence[bool],
    config: ClassConfig,
    *,
    seed: int,
    device: torch.device,
    should_stop: Callable[[], bool] = lambda: False,
    on_step: Callable[[int, int], None] = lambda step, steps: None,
) -> ClassExplanation:
    """Explains a class by patterns, no two alike, best first.

    `graphs` are reference graphs and `is_in_class` says which the GNN gives the class. Without a
    denoiser, all candidates come from the reference graphs. If stopped early, it uses what the
    chains visited so far.
    """
    if not 0 <= config.target_class < gnn.spec.classes:
        raise UnknownClassError(config.target_class, gnn.spec.classes)
    if denoiser is None and config.sampler == "paper":
        raise ValueError("the sampler 'paper' needs a denoiser")
    generator = torch.Generator().manual_seed(seed)
    gnn.eval()
    reference = ReferenceGraphs.of(graphs, is_in_class, generator)
    label, totals = config.target_class, reference.totals
    if not totals.in_class:
        reason = f"the GNN gives no reference graph class {label}"
        return ClassExplanation([], reason, True, reference)
    parts = ClassParts(reference.search.in_class.graphs, generator)
    sizes = _sizes(parts) if config.nodes is None else (config.nodes,)
    per_chain = [sizes[chain % len(sizes)] for chain in range(config.chains)]
    chains, pool = None, None
    if denoiser is not None:
        chains = Chains(
            gnn,
            denoiser.eval(),
            _chain_config(config),
            parts=parts,
            sizes=sizes,
            hosts=_hosts(reference) if config.sampler == "guided" else [],
            generator=generator,
            device=device,
        )
        pool = chains.run(
            per_chain, config.steps, should_stop, lambda step: on_step(step, config.steps)
        )
    small = [parts.draw(sizes[draw % len(sizes)]) for draw in range(_SMALL_GRAPHS)]
    apart = _tells_small_graphs_apart(gnn, small, reference, label, device)
    meter = EvidenceMeter(gnn, label, reference, generator=generator, device=device)
    if config.sampler == "paper":
        found = _all_visited(pool, meter)
        reason = "the sampling was stopped before its first step"
    elif config.sampler in ALONE:
        built = build_alone(
            gnn,
            config,
            parts,
            reference.search.in_class.graphs,
            sizes=per_chain,
            generator=generator,
            device=device,
            should_stop=should_stop,
            on_step=lambda step: on_step(step, len(per_chain)),
        )
        found = [_Found(graph, ("generator",), None, meter.measure(graph)) for graph in built]
        reason = "the sampling was stopped before its first graph"
    elif totals.elsewhere:
        quick = EffectMeter(
            gnn, label, reference.search, generator=generator, device=device, is_quick=True
        )
        candidates = shortlisted(
            reference, pool, sizes, quick, generator=generator, should_stop=should_stop
        )
        found = _convincing(candidates, meter, reference)[: config.chains]
        reason = _nothing_convinces(label, apart)
    else:
        found = []
        reason = f"the GNN gives every reference graph class {label}: nothing is rarer elsewhere"
    patterns = _patterns(gnn, found, pool, chains, device)
    if config.sampler != "guided":
        patterns.sort(key=lambda one: -float(one.probabilities[label]))
    return ClassExplanation(patterns, None if patterns else reason, apart, reference)


@dataclass(frozen=True)
class _Found:
    graph: Graph
    sources: tuple[Source, ...]
    visited: int | None  # position in the pool
    evidence: Evidence


def _sizes(parts: ClassParts) -> tuple[int, ...]:
    """The sizes that the class's graphs have room for."""
    largest = max(2, parts.typical_size(max(_SIZES)))
    return tuple(size for size in _SIZES if size <= largest) or (largest,)


def _chain_config(config: ClassConfig) -> ChainConfig:
    return ChainConfig(
        target_class=config.target_class,
        candidates=config.candidates,
        guided=config.sampler == "guided",
        repeats=config.repeats,
        regularisers=config.resolved_regularisers,
    )


def _hosts(reference: ReferenceGraphs) -> list[Graph]:
    small = [
        graph for graph in reference.search.elsewhere.graphs if graph.node_count <= _MAX_HOST_NODES
    ]
    return small[:_HOSTS]


def _tells_small_graphs_apart(
    gnn: Gnn,
    small: Sequence[Graph],
    reference: ReferenceGraphs,
    label: int,
    device: torch.device,
) -> bool:
    """Whether log-odds of small graphs spread at all, compared with those of whole graphs."""
    half = reference.measured
    whole = [*half.in_class.graphs, *half.elsewhere.graphs]
    spread = [
        float(class_log_odds(gnn, some, label, device).std(correction=0)) for some in (small, whole)
    ]
    return spread[0] > max(_MIN_SPREAD, _MIN_SPREAD_SHARE * spread[1])


def _all_visited(pool: Pool | None, meter: EvidenceMeter) -> list[_Found]:
    graphs = [] if pool is None else from_dense(pool.graphs)
    return [
        _Found(graph, ("denoiser",), place, meter.measure(graph))
        for place, graph in enumerate(graphs)
    ]


def _convincing(
    candidates: Sequence[Candidate], meter: EvidenceMeter, reference: ReferenceGraphs
) -> list[_Found]:
    """The candidates with positive contrast and effect, in order."""
    measured = [
        _Found(one.graph, one.sources, one.visited, meter.measure(one.graph)) for one in candidates
    ]
    found = [one for one in measured if one.evidence.is_positive]
    order = ranking(
        [
            RankedPattern(
                one.graph,
                one.evidence.in_class,
                one.evidence.elsewhere,
                *_explained_gap(one, reference),
            )
            for one in found
        ],
        class_graphs=reference.measured.in_class.count,
        other_graphs=reference.measured.elsewhere.count,
        are_alike=lambda one, other: are_variants(found[one].graph, found[other].graph, reference),
    )
    return [found[position] for position in order]


def _explained_gap(found: _Found, reference: ReferenceGraphs) -> tuple[float, float, float]:
    """The occurrences beyond those elsewhere, the gap that they explain, and its standard error."""
    count = reference.measured.count_contrast(reference.pattern(found.graph))
    inserted = found.evidence.effect.inserted
    if inserted is None:
        return count, 0.0, 0.0
    return count, count * inserted.mean, abs(count) * inserted.error


def _nothing_convinces(label: int, apart: bool) -> str:
    reason = (
        f"no pattern is more frequent in class {label} than elsewhere and moves the GNN towards it"
    )
    return reason if apart else f"{reason}; the GNN cannot tell small graphs apart"


def _patterns(
    gnn: Gnn,
    found: Sequence[_Found],
    pool: Pool | None,
    chains: Chains | None,
    device: torch.device,
) -> list[ClassPattern]:
    if not found:
        return []
    graphs = [one.graph for one in found]
    probabilities = predict(gnn, graphs, device)
    likelihood: list[float] | None = None
    if chains is not None:
        likelihood = chains.clean_log_likelihood(to_dense(graphs)).tolist()
    return [
        ClassPattern(
            graph=one.graph,
            probabilities=probabilities[place],
            likelihood=None if likelihood is None else likelihood[place] / one.graph.node_count,
            connected=is_connected(one.graph),
            sources=one.sources,
            evidence=one.evidence,
            chain=() if pool is None or one.visited is None else tuple(pool.history(one.visited)),
        )
        for place, one in enumerate(found)
    ]
