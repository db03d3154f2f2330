"""The rows of an evaluation: one per instance and explainer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from d4explain.contracts.counterfactual_results import Judge
from d4explain.contracts.results import Document

Pair = tuple[int, int]


class EvaluationRow(Document):
    """The first answer of one explainer for one instance. Pairs are positions of nodes."""

    instance: int = Field(description="Its number in the evaluation, from 0.")
    graph: int = Field(description="Its position in the test set, from 0.")
    graph_sha256: str = Field(description="Hash of features, edges and edge attributes.")
    explainer: str
    node_count: int
    edge_count: int
    label: int | None = Field(description="Of the test set; null without one.")
    predicted_class: int = Field(description="The GNN's class for the unedited graph.")
    probability: float = Field(description="The GNN's probability of that class, 0 to 1.")
    found: bool = Field(description="Whether there is a verified counterfactual.")
    reason: str | None = Field(description="Why there is none; null if there is one.")
    new_class: int | None
    new_probability: float | None = Field(description="The GNN's probability of the new class.")
    added: list[Pair] = Field(description="Added edges, as positions of their ends.")
    removed: list[Pair] = Field(description="Removed edges, as positions of their ends.")
    edits: int | None = Field(description="Number of edits; null without an answer.")
    modification_ratio: float | None = Field(description="Edits over edges of the original.")
    fidelity: float | None = Field(
        description="Fall of the probability of the class predicted before, -1 to 1."
    )
    connected: bool | None = Field(description="Whether the edited graph is connected.")
    verdict: Literal["meaningful", "brittle", "unjudged"] | None = Field(
        description="By the judges; null if none was asked or there is no answer."
    )
    judges_agree: list[bool] = Field(
        description="Per judge: whether it gives the original the GNN's class."
    )
    judges_share: list[bool] = Field(description="Per judge: whether it shares the flip.")
    typicality_before: float | None = Field(description="Of the original, 0 to 1.")
    typicality: float | None = Field(description="Of the edited graph, 0 to 1.")
    answer_count: int = Field(description="Number of answers, with the first.")
    diversity: float | None = Field(
        description="Mean Jaccard distance of the answers' edits, 0 to 1."
    )
    robustness_before: float | None = Field(
        description="Share of noisy copies of the original that keep the class, 0 to 1."
    )
    robustness: float | None = Field(
        description="Share of noisy copies of the answer that keep the new class, 0 to 1."
    )
    stability: float | None = Field(
        description="Mean Jaccard similarity of the edits with those of other seeds, 0 to 1."
    )
    gnn_evaluations: int = Field(description="Graphs in forward passes of the GNN.")
    gnn_gradients: int = Field(description="Graphs in backward passes of the GNN.")
    cpu_seconds: float = Field(description="CPU time of the explanation, in seconds.")
    seconds: float = Field(description="Time of the explanation, in seconds.")


TIMES = ("cpu_seconds", "seconds")  # the columns that another run changes


class ShardRows(Document):
    """What one shard stores."""

    rows: list[EvaluationRow]
    judges: list[Judge] = Field(default_factory=list)  # those used, in the order of the votes
    unjudged_reason: str | None = None
    warnings: list[str] = Field(default_factory=list)
