"""Options of explanations: fields of POST /v1/explanations; docs/glossary.md describes each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from d4explain.contracts.requests import (
    Aim,
    ClassExplainer,
    DenoiserConfig,
    Explainer,
    Preset,
    RegulariserName,
)
from d4explain.contracts.results import NodeId

ClassReference = int | str  # the number of a class, or its name in the spec of the GNN


Metadata = Mapping[str, str | int | float | bool]  # at most 16 keys, texts of 256 characters


class TimeFilters(TypedDict, total=False):
    """When the items of a list were created."""

    created_after: datetime | str  # from this time on; a text as in `created_at`, or a date
    created_before: datetime | str  # earlier than this time


class ListFilters(TimeFilters, total=False):
    """What lists are filtered by; all of it has to match."""

    metadata: Mapping[str, str | int | float | bool]


def list_query(filters: Mapping[str, object]) -> dict[str, str]:
    """The parameters of a list; a `datetime` without a zone is one of this machine's zone."""
    metadata = filters.get("metadata", {})
    assert isinstance(metadata, Mapping)
    query = {
        f"metadata.{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in metadata.items()
    }
    for name in ("created_after", "created_before"):
        moment = filters.get(name)
        if isinstance(moment, datetime):
            query[name] = moment.astimezone().isoformat()
        elif moment is not None:
            query[name] = str(moment)
    return query


class Constraints(TypedDict, total=False):
    """Limits for the edits of a counterfactual."""

    max_edits: int
    max_ratio: float  # of edits to edges, above 0 and at most 1
    actions: Literal["both", "add", "remove"]
    keep_connected: bool
    valid_molecule: bool
    only_seen: bool
    # Of one graph; for several graphs, one such list per graph.
    frozen_nodes: Sequence[NodeId] | Sequence[Sequence[NodeId]]
    frozen_edges: Sequence[Sequence[NodeId]] | Sequence[Sequence[Sequence[NodeId]]]


class RequestWebhook(TypedDict):
    """Where to send one notification when the request has ended; docs/webhooks.md describes it."""

    url: str
    secret: str  # `whsec_` and 24 to 64 random bytes in base64


class CounterfactualOptions(TypedDict, total=False):
    """What `explain` and `estimate` accept besides the graphs; the API has the defaults."""

    node: NodeId
    nodes: Sequence[NodeId]
    target_class: ClassReference
    alternatives: int
    aim: Aim
    judges: Sequence[str] | Literal["none"]
    constraints: Constraints
    explainer: Explainer
    preset: Preset
    seed: int
    time_budget: float  # seconds
    max_queries: int
    denoiser: str | DenoiserConfig | dict[str, Any]  # an id, or how to train one
    webhook: RequestWebhook
    idempotency_key: str  # a request with the same key and body returns the same explanation
    metadata: Metadata


class GlobalOptions(TypedDict, total=False):
    """What `explain_global` accepts besides the class; the API has the defaults."""

    target_class: ClassReference  # of the counterfactuals; by default any other class
    count: int
    theta: float
    preset: Preset
    seed: int
    time_budget: float  # seconds
    webhook: RequestWebhook
    idempotency_key: str  # a request with the same key and body returns the same explanation
    metadata: Metadata


class ClassOptions(TypedDict, total=False):
    """What `explain_class` accepts besides the class; the API has the defaults."""

    node_count: int
    example_count: int
    preset: Preset
    candidates: int
    steps: int
    regularisers: dict[RegulariserName, float]
    explainer: ClassExplainer
    seed: int
    time_budget: float  # seconds
    denoiser: str | DenoiserConfig | dict[str, Any]  # an id, or how to train one
    webhook: RequestWebhook
    idempotency_key: str  # a request with the same key and body returns the same explanation
    metadata: Metadata
