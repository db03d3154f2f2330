"""Converts patterns of a class to result documents."""

from __future__ import annotations

from collections.abc import Sequence

from d4explain.contracts.features.featurisers import SmilesFeaturiser
from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.results import (
    ChainStepGraph,
    ClassExample,
    ClassOccurrence,
    Effect,
    EffectChange,
    ResultEdge,
    ResultGraph,
    ResultNode,
    Support,
)
from d4explain.gnn.graphs import Graph
from models.classes import effects
from models.classes.evidence import Evidence
from models.classes.explain import ClassPattern
from models.metrics.scores import density
from worker.cases.editable_molecules import generated_molecule
from worker.reporting.documents import (
    UNNAMED,
    edge_rows,
    edges_of,
    prediction,
    rounded,
    rounded_all,
    rounded_if_known,
)

_SHOWN = 2  # occurrences whose whole graph is part of the result
_MAX_SHOWN_NODES = 60  # larger graphs would be unreadable drawings


def class_example(
    pattern: ClassPattern,
    target_class: int,
    reference: Sequence[Graph],
    featuriser: SmilesFeaturiser | None = None,
    names: GnnNames = UNNAMED,
) -> ClassExample:
    """`reference` are the graphs that the pattern's occurrences point to."""
    evidence, predicted = pattern.evidence, prediction(pattern.probabilities, names)
    return ClassExample(
        graph=numbered_graph(pattern.graph),
        support=Support(
            in_class=rounded(evidence.class_support),
            elsewhere=rounded_if_known(evidence.other_support),
            class_count=evidence.class_graphs,
            other_count=evidence.other_graphs,
        ),
        contrast=rounded_if_known(evidence.contrast),
        effect=Effect(
            mean=rounded(evidence.effect.mean),
            inserted=_change(evidence.effect.inserted),
            broken=_change(evidence.effect.broken),
        ),
        confidence=rounded_if_known(evidence.confidence),
        prediction=predicted,
        confidence_alone=predicted.probabilities[target_class],
        found_by=list(pattern.sources),
        chain=[
            ChainStepGraph(step=one.step, graph=numbered_graph(one.graph)) for one in pattern.chain
        ],
        occurrences=_occurrences(evidence, reference),
        denoiser_likelihood=rounded_if_known(pattern.likelihood),
        density=rounded(density(pattern.graph)),
        connected=pattern.connected,
        node=pattern.graph.target,
        molecule=generated_molecule(pattern.graph, featuriser),
    )


def numbered_graph(graph: Graph) -> ResultGraph:
    """The caller has no ids for its nodes, so they are numbered."""
    edges = edges_of(graph)
    rows: Sequence[list[float] | None] = edge_rows(graph) or [None] * len(edges)
    return ResultGraph(
        nodes=[
            ResultNode(id=position, x=rounded_all(x))
            for position, x in enumerate(graph.features.tolist())
        ],
        edges=[
            ResultEdge(source=source, target=target, edge_attr=row)
            for (source, target), row in zip(edges, rows, strict=True)
        ],
    )


def _change(change: effects.Change | None) -> EffectChange | None:
    if change is None:
        return None
    return EffectChange(
        mean=rounded(change.mean), standard_error=rounded(change.error), graph_count=change.graphs
    )


def _occurrences(evidence: Evidence, reference: Sequence[Graph]) -> list[ClassOccurrence]:
    """The smallest graphs first, because the first ones are drawn."""
    ordered = sorted(
        evidence.occurrences, key=lambda one: (reference[one.graph].node_count, one.graph)
    )
    return [
        ClassOccurrence(
            graph=one.graph,
            nodes=one.nodes,
            shown=numbered_graph(reference[one.graph])
            if place < _SHOWN and reference[one.graph].node_count <= _MAX_SHOWN_NODES
            else None,
        )
        for place, one in enumerate(ordered)
    ]
