"""Chooses the instances of an evaluation and splits a reference set."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.evaluations.requests import EvaluatedSet
from d4explain.contracts.requests import CanonicalGraph
from service.http.faults import reject
from store.artifacts import graph_sets
from store.catalogue import datasets
from store.database.tables import Dataset
from store.store import Store


@dataclass(frozen=True)
class Instances:
    """The graphs of an evaluation, packed, and what is left of a split reference set."""

    test: EvaluatedSet
    positions: list[int]  # in the part
    packed: bytes
    sizes: list[tuple[int, int]]  # nodes and edges of each
    rest: list[CanonicalGraph] | None  # the reference set without its held-out part


def chosen_instances(
    store: Store,
    dataset: Dataset,
    *,
    count: int | None,
    seed: int,
    held_out_share: float | None = None,
) -> Instances:
    """The instances of a test set, or of the held-out part of a reference set."""
    graphs = graph_sets.unpack(store.artifacts.of(dataset.tenant_id).get(dataset.graphs_digest))
    rest = None
    if held_out_share is not None:
        held, kept = split(dataset, len(graphs), held_out_share)
        rest = [graphs[position] for position in kept]
        graphs = [graphs[position] for position in held]
    positions = drawn(len(graphs), count, seed)
    chosen = [graphs[position] for position in positions]
    return Instances(
        test=EvaluatedSet(
            dataset=dataset.id,
            sha256=dataset.sha256,
            part="whole" if held_out_share is None else "held_out",
            graph_count=len(graphs),
            held_out_share=held_out_share,
        ),
        positions=positions,
        packed=graph_sets.pack(chosen),
        sizes=[(len(graph.node_ids), len(graph.edges)) for graph in chosen],
        rest=rest,
    )


def split(dataset: Dataset, count: int, share: float) -> tuple[list[int], list[int]]:
    """Positions of the held-out graphs and of the others, in the order of the set.

    It depends on the set's content and the share alone, so that every evaluation trains for the
    same rest. Graphs that occur twice may be in both parts.
    """
    held_count = round(share * count)
    if not 1 <= held_count < count:
        reject(
            "/test/held_out",
            f"is {share:g}; of {count} graphs that leaves {held_count} to evaluate and "
            f"{count - held_count} to train on",
        )
    held = set(_by_hash(dataset.sha256, count)[:held_count])
    return sorted(held), [position for position in range(count) if position not in held]


def drawn(count: int, wanted: int | None, seed: int) -> list[int]:
    """Positions of `wanted` of `count` graphs, in ascending order; all if it is None or more."""
    if wanted is None or wanted >= count:
        return list(range(count))
    return sorted(_by_hash(str(seed), count)[:wanted])


def rest_set(
    session: Session, dataset: Dataset, rest: Sequence[CanonicalGraph], digest: str
) -> Dataset:
    """The reference set without its held-out part: an existing one with this content, or new."""
    sha256 = graph_sets.canonical_set_hash(rest)
    existing = session.scalar(
        select(Dataset)
        .where(Dataset.tenant_id == dataset.tenant_id, Dataset.sha256 == sha256)
        .order_by(Dataset.created_at.desc())
        .limit(1)
    )
    if existing is not None:
        return existing
    figures = graph_sets.describe(rest)
    return datasets.create(
        session,
        name=_rest_name(dataset.name, len(rest)),
        gnn_features=figures.features,
        edge_features=figures.edge_features,
        graphs_digest=digest,
        sha256=sha256,
        graph_count=figures.graph_count,
        label_counts=figures.label_counts,
        max_nodes=figures.max_nodes,
        mean_nodes=figures.mean_nodes,
        mean_edges=figures.mean_edges,
        tenant=dataset.tenant_id,
        warnings=[f"the {len(rest)} graphs of {dataset.id} that no evaluation holds out"],
    )


def _rest_name(name: str, count: int) -> str:
    return f"{name[:160]}, {count} not held out"


def _by_hash(salt: str, count: int) -> list[int]:
    """A permutation that is the same on every machine and in every version."""

    def key(position: int) -> str:
        return hashlib.sha256(f"{salt}:{position}".encode()).hexdigest()

    return sorted(range(count), key=key)
