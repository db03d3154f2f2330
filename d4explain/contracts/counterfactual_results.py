"""Results of counterfactual explanations."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from d4explain.contracts.job_states import Stage
from d4explain.contracts.receipts.receipt import Receipt
from d4explain.contracts.results import (
    Document,
    Edit,
    EditedMolecule,
    Finder,
    Mmd,
    Molecule,
    NodeId,
    Prediction,
    ResultGraph,
    Timings,
    Typicality,
    renamed_field,
)

Verdict = Annotated[
    Literal["meaningful", "brittle", "unjudged"],
    Field(
        description="`meaningful`: most judges share the flip. `brittle`: at most half of them do; "
        "this says something about the GNN rather than about its data. `unjudged`: there are no "
        "judges, or most of them do not give the original the GNN's class."
    ),
]


class Transfers(Document):
    """How many judges share a flip."""

    shared: int = Field(description="Judges that give the answer the GNN's new class.")
    agreeing: int = Field(
        description="Judges that give the original the GNN's class; only they can share a flip."
    )
    asked: int


class UnseenPattern(Document):
    """Something in the edited graph that the reference set does not contain."""

    kind: Literal["degree", "edge", "neighbours"]
    nodes: list[NodeId]
    detail: str


class AnswerOrder(Document):
    """The quantities by which answers are ordered: edits, then unseen patterns, then the shift."""

    edits: int
    unseen: int | None = Field(
        description="Unseen patterns; null if the reference set is too small to tell."
    )
    convinced: int | None = Field(
        description="Selection witnesses that prefer the new class; null if none was asked."
    )
    witnesses: int | None = Field(description="Selection witnesses that were asked.")
    statistics_shift: float | None = Field(
        description="How much the edits change degrees, clustering and spectrum."
    )
    reason: str = Field(description="Why the answer stands where it does, in one sentence.")


class Judge(Document):
    """A network that judged the answers: a witness, or a GNN that the request named."""

    architecture: str | None = Field(description="Of a witness, such as `gin`; else null.")
    gnn: str | None = Field(description="Id of a GNN that the request named; null for a witness.")
    labels: Literal["true", "gnn"] | None = Field(
        description="What a witness learned: the labels of the reference set, or the GNN's classes."
    )
    agreement: float | None = Field(
        description="Share of reference graphs, or nodes, to which it gives the GNN's class; null "
        "if the GNN is behind a URL."
    )
    used: bool = Field(description="Whether it agrees often enough with the GNN to judge.")


class Counterfactual(Document):
    graph: ResultGraph
    edits: list[Edit]
    prediction: Prediction  # of the edited graph, by the sparse GNN
    confidence: float  # the GNN's probability of the new class
    denoiser_likelihood: float | None  # mean plausibility of the edits; None without a denoiser
    fidelity: float  # p_before[y] − p_after[y], y the class before
    modification_ratio: float  # edits / edges of the input
    connected: bool
    found_by: Finder
    molecule: EditedMolecule | None = None  # None if the graph was not posted as SMILES
    # Results of earlier versions lack the following fields.
    typicality: Typicality | None = None  # None if it is unknown; a warning says why
    aim: Literal["minimal", "believable"] = "minimal"
    verdict: Verdict = "unjudged"
    transfers: Transfers | None = None  # None without judges
    unseen: list[UnseenPattern] = Field(default_factory=list)
    order: AnswerOrder | None = None


class ClosestMiss(Document):
    """The edited graph nearest to a flip, if no flip was found within the budget."""

    edits: list[Edit]
    prediction: Prediction
    fidelity: float
    modification_ratio: float
    molecule: EditedMolecule | None = None  # None if the graph was not posted as SMILES


class EdgeImportance(Document):
    source: NodeId
    target: NodeId
    importance: float = Field(
        description="How much the prediction rests on the edge; comparable within one graph. "
        "`integrated-gradients` may be negative: the edge speaks against the predicted class."
    )
    kept: bool = Field(description="Whether the edge belongs to the explanation.")


class NodeImportance(Document):
    id: NodeId
    importance: float = Field(
        description="The explainer's own score of the node (`gradcam`, `pgm-explainer`), or the "
        "mean importance of its edges."
    )


class FactualExplanation(Document):
    """The edges that the prediction rests on, and how good an explanation they are.

    The explanation has the edges of the highest importance, as many as `constraints` allow edits.
    Removed edges are deleted from the graph, not masked.
    """

    edges: list[EdgeImportance]  # the most important first
    nodes: list[NodeImportance]  # in the order of the graph
    prediction_kept: Prediction  # of the graph with the explanation's edges alone
    prediction_without: Prediction  # of the graph without them
    fidelity_plus: float = Field(
        description="1 if the graph without the explanation has another class, else 0: the edges "
        "are necessary."
    )
    fidelity_minus: float = Field(
        description="1 if the explanation alone has another class, else 0: the edges are not "
        "sufficient."
    )
    characterization: float = Field(
        description="Harmonic mean of `fidelity_plus` and 1 - `fidelity_minus`."
    )
    unfaithfulness: float = Field(
        description="1 - exp(-KL) between the probabilities of the graph and of the explanation "
        "alone, 0 to 1; lower is better."
    )


class ExplainedNode(Document):
    """The explained node, and the size of the neighbourhood in which edges were edited."""

    id: NodeId
    hops: int  # distance of the farthest nodes that the prediction depends on
    node_count: int = renamed_field("node_count", "nodes")
    edge_count: int = renamed_field("edge_count", "edges")
    # Pairs that no edit touches, without those that the caller froze.
    frozen_pair_count: int = renamed_field("frozen_pair_count", "frozen_pairs")
    complete: bool = Field(
        True,
        description="Whether the neighbourhood has all nodes within `hops`. If it is too large, "
        "it has only the nearest nodes, and only these are edited.",
    )
    exact: bool = Field(
        True,
        description="Whether answers were verified on all nodes that the prediction depends on. "
        "If not, predictions may differ in the whole graph.",
    )


class Restriction(Document):
    """The node pairs to which the edits of a large graph are restricted."""

    # Edges, pairs of nearby nodes and some pairs of distant nodes.
    candidate_count: int = renamed_field("candidate_count", "candidates")
    pair_count: int = renamed_field("pair_count", "of_pairs")  # all pairs of the graph


class CounterfactualAnswer(Document):
    """The counterfactuals of one posted graph, or of one node of it, best first.

    For a node, `graph` is its neighbourhood (`node.hops`), ratios refer to the edges of the
    neighbourhood, and predictions are those of the node in the whole graph.
    """

    graph: ResultGraph  # as posted
    molecule: Molecule | None = None  # the whole molecule, if the graph was posted as SMILES
    node: ExplainedNode | None = None  # None if the GNN classifies graphs
    restricted: Restriction | None = None  # None if all pairs were searched
    prediction: Prediction
    typicality: Typicality | None = None  # of `graph`; None if it is unknown
    found: bool
    reason: str | None  # why nothing was found
    counterfactuals: list[Counterfactual]  # of the requested aim
    minimal: list[Counterfactual] = Field(
        [], description="The smallest flips, beside believable ones; empty for the aim `minimal`."
    )
    closest_miss: ClosestMiss | None
    factual: FactualExplanation | None = Field(
        None,
        description="Of explainers that score edges; null for the others, and if the search was "
        "stopped.",
    )
    diversity: float | None  # mean Jaccard distance of the alternatives' edit sets
    gnn_evaluations: Annotated[
        int, Field(description="Number of graphs that the GNN evaluated in forward passes.")
    ]
    gnn_gradients: Annotated[
        int | None,
        Field(
            description="Number of graphs in backward passes through the GNN, once per "
            "differentiated number; not part of `gnn_evaluations`. Null in old results, which did "
            "not count them."
        ),
    ] = None
    seconds: float


class Summary(Document):
    """Counts and means over all graphs, or nodes, of one counterfactual explanation."""

    graph_count: int = renamed_field("graph_count", "graphs")
    found_count: int = renamed_field("found_count", "found")
    already_count: int = Field(
        0, description="Graphs, or nodes, that have the target class without any edit."
    )
    flip_rate: float | None = Field(
        description="`found_count` over the graphs, or nodes, that did not have the target class; "
        "null if all of them had it."
    )
    mean_edits: float | None
    mean_modification_ratio: float | None
    mean_fidelity: float | None
    mean_confidence: float | None
    edits_by_denoiser: int  # by the edits' `proposed_by`
    edits_by_search: int
    verdicts: dict[Verdict, int] = Field({}, description="Counts over the best counterfactuals.")
    transfer_ratio: float | None = Field(
        None, description="Share of the judged best counterfactuals that are `meaningful`."
    )


class CounterfactualResult(Document):
    kind: Literal["counterfactual"] = "counterfactual"
    stage: Stage = Field(
        Stage.FINAL,
        description="`provisional`: found at once by search, without a denoiser and without the "
        "witnesses that are still being trained; the final answer follows.",
    )
    final_adds: list[str] = Field(
        [], description="What the final answer will add; empty if this is the final answer."
    )
    answers: list[CounterfactualAnswer]
    summary: Summary
    mmd: Mmd | None  # of the best counterfactual per graph; None if none was found
    timings: Timings
    receipt: Receipt
    judges: list[Judge] = Field(default_factory=list)
    unjudged_reason: str | None = Field(
        None, description="Why nothing was judged; null if there are judges."
    )
    warnings: list[str]
