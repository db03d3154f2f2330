"""What a finished explanation says: written by the worker, read by the service and the client.

Node ids are the caller's own everywhere.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

NodeId = int | str
Finder = Annotated[
    Literal["denoiser", "search"],
    Field(
        description="`denoiser`: the edits come from a denoiser sample, or from a pool of node "
        "pairs that the denoiser ranked first. `search`: the search evaluated all pairs (on small "
        "graphs, with the preset `thorough`, or if the denoiser predicts no effects), or the "
        "explainer is `search`. All edits of one counterfactual have the same value."
    ),
]


class Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _renamed(name: str, old_name: str, default: Any = ...) -> Any:
    """A field that stored results of version 0.1 have under another name."""
    return Field(default, validation_alias=AliasChoices(name, old_name))


class Prediction(Document):
    predicted_class: int
    probabilities: list[float]  # one per class


class NodePrediction(Prediction):
    node: NodeId


class NodePredictions(Document):
    """What a node classifier says about nodes of one graph."""

    nodes: list[NodePrediction]


class ResultNode(Document):
    id: NodeId
    x: list[float]


EdgeAttributes = Annotated[
    list[float] | None,
    Field(
        description="Left out where edges have no attributes. An added edge has those that are "
        "most frequent in the reference set between nodes of such types; an added bond is single.",
        exclude_if=lambda attributes: attributes is None,
    ),
]


class ResultEdge(Document):
    source: NodeId
    target: NodeId
    edge_attr: EdgeAttributes = None


class ResultGraph(Document):
    nodes: list[ResultNode]
    edges: list[ResultEdge]


class Edit(Document):
    action: Literal["add", "remove"]
    source: NodeId
    target: NodeId
    # Log-odds that the denoiser gives this edit on the input graph; None without a denoiser.
    plausibility: float | None
    proposed_by: Finder
    edge_attr: EdgeAttributes = None


class Atom(Document):
    node: NodeId
    element: str


class Bond(Document):
    source: NodeId
    target: NodeId
    order: float  # 1, 2, 3, or 1.5 if aromatic


class Molecule(Document):
    """A molecule as it was posted."""

    smiles: str
    hydrogens: bool  # whether they are nodes
    atoms: list[Atom]
    bonds: list[Bond]


class ValenceViolation(Document):
    node: NodeId
    element: str
    valence: int  # of its bonds
    allowed: int


class EditedMolecule(Document):
    """What a molecule becomes by edits; added bonds are single, hydrogens fill what is left open.

    Without a SMILES if valences are broken: nobody could read it.
    """

    smiles: str | None
    valid: bool
    valence_violations: list[ValenceViolation]


class GeneratedMolecule(EditedMolecule):
    """What the atoms of a generated graph make, if all its edges are single bonds.

    The GNN knows no other bonds; hydrogens fill what is left open.
    """

    atoms: list[Atom]  # "*" for an element that the featuriser has no column for


class Mmd(Document):
    """Distance of a set of graphs to the reference set, and what the reference has to itself."""

    degree: float
    clustering: float
    spectrum: float
    sum: float
    null_quantiles: dict[str, float]  # of the sum, e.g. {"0.05": …, "0.5": …, "0.95": …}
    p_value: float  # share of null draws at least as far away
    graph_count: int = _renamed("graph_count", "n")  # graphs compared
    reference_count: int = _renamed("reference_count", "n_reference")


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
    molecule: EditedMolecule | None = None  # None if the posted graph is no molecule


class ClosestMiss(Document):
    """The edited graph nearest to a flip when none was found within the budget."""

    edits: list[Edit]
    prediction: Prediction
    fidelity: float
    modification_ratio: float
    molecule: EditedMolecule | None = None  # None if the posted graph is no molecule


class ExplainedNode(Document):
    """The node that an answer is about, and the part of the posted graph that was edited for it."""

    id: NodeId
    hops: int  # from the node to the farthest that its class depends on
    # Sizes of the part within these hops. No edit touches its frozen pairs, besides those that the
    # caller froze.
    node_count: int = _renamed("node_count", "nodes")
    edge_count: int = _renamed("edge_count", "edges")
    frozen_pair_count: int = _renamed("frozen_pair_count", "frozen_pairs")
    complete: bool = Field(
        True,
        description="Whether the part has all nodes within `hops`; of hubs' neighbourhoods in "
        "large graphs the nearest nodes stay, and edits of others are not looked for.",
    )
    exact: bool = Field(
        True,
        description="Whether predictions are surely those in the whole graph: not where even what "
        "answers are verified on had to be cut.",
    )


class Restriction(Document):
    """A large graph is not edited at all node pairs."""

    # Pairs that were tried: edges, pairs near each other, some far apart.
    candidate_count: int = _renamed("candidate_count", "candidates")
    pair_count: int = _renamed("pair_count", "of_pairs")  # all pairs of the graph


class CounterfactualAnswer(Document):
    """All that was found for one posted graph, or for one node of it; best first.

    About a node, graphs hold the nodes within `node.hops`, edits are relative to their edges, and
    predictions are those of the node in the whole graph.
    """

    graph: ResultGraph  # as it was posted
    molecule: Molecule | None = None  # all of it, if the graph was posted as SMILES
    node: ExplainedNode | None = None  # None if the GNN classifies graphs
    restricted: Restriction | None = None  # None if all pairs were looked at
    prediction: Prediction
    found: bool
    reason: str | None  # why nothing was found
    counterfactuals: list[Counterfactual]
    closest_miss: ClosestMiss | None
    diversity: float | None  # mean Jaccard distance of the alternatives' edit sets
    gnn_evaluations: Annotated[
        int, Field(description="Graphs that went through the GNN, in forward passes.")
    ]
    gnn_gradients: Annotated[
        int | None,
        Field(
            description="Graphs that went backward through the GNN, once for each number that was "
            "differentiated: these passes come on top of `gnn_evaluations`. Null in results from "
            "before they were counted."
        ),
    ] = None
    seconds: float


class ClassExample(Document):
    graph: ResultGraph
    prediction: Prediction
    confidence: float
    denoiser_likelihood: float  # log-likelihood per node under the denoiser
    density: Annotated[
        float,
        Field(
            description="The paper's Density |E| / |V|², which counts each edge in both "
            "directions: 2·edges / nodes². A 5-cycle has 0.4."
        ),
    ]
    connected: bool
    # of the class, as far as the GNN is sure of it: counted so, the examples together look like the
    # class, with a preference for what recurs; None with the explainer `d4-paper`
    share: float | None = None
    # share of the class's reference graphs that contain it; None if counting takes too long
    recurrence: float | None = None
    node: NodeId | None = None  # of a node classifier: the node that prediction and class are about
    molecule: GeneratedMolecule | None = None  # if the GNN has a featuriser for SMILES


class Summary(Document):
    """Figures over all graphs, or nodes, of one counterfactual explanation."""

    graph_count: int = _renamed("graph_count", "graphs")
    found_count: int = _renamed("found_count", "found")
    flip_rate: float
    mean_edits: float | None
    mean_modification_ratio: float | None
    mean_fidelity: float | None
    mean_confidence: float | None
    edits_by_denoiser: int  # by the edits' `proposed_by`
    edits_by_search: int


class Timings(Document):
    load_seconds: float
    explain_seconds: float
    mmd_seconds: float


GnnForm = Annotated[
    Literal["dense", "sparse", "black_box"],
    Field(
        description="How candidates were judged: `dense`, in batches that also give gradients; "
        "`sparse`, by PyG's form alone, as the GNN has a plug-in without a dense form; "
        "`black_box`, by asking its URL. Answers are verified by the sparse form in the first two "
        "cases, by asking in the last."
    ),
]
ObjectiveFallback = Annotated[
    Literal["score_function", "distribution"],
    Field(
        description="What took the place of the GNN's gradient in the denoiser's counterfactual "
        "loss, and `null` if nothing did. `score_function`: the score-function estimate from drawn "
        "graphs; the effect head then starts without the GNN's slopes. `distribution`: nothing, "
        "since the denoiser of a black box has neither that loss nor an effect head."
    ),
]


class Receipt(Document):
    """Everything needed to check and repeat an explanation."""

    request_sha256: str
    gnn: str | None = None  # its id, whatever name or alias the request had; None in old receipts
    gnn_sha256: str
    dataset_sha256: str
    denoiser_sha256: str | None  # None for the explainer `search`
    denoiser_key: str | None  # hash of (GNN, reference set, objective, config); None for `search`
    config: dict[str, object]  # the explainer and its resolved settings
    seed: int
    device: str
    versions: dict[str, str]  # those of plug-ins among them
    gnn_form: GnnForm = "dense"
    objective_fallback: ObjectiveFallback | None = None
    work: dict[str, int | float]  # samples, GNN evaluations and gradients, depth reached …


class CounterfactualResult(Document):
    kind: Literal["counterfactual"] = "counterfactual"
    answers: list[CounterfactualAnswer]
    summary: Summary
    mmd: Mmd | None  # of the best counterfactual per graph; None if none was found
    timings: Timings
    receipt: Receipt
    warnings: list[str]


class ClassResult(Document):
    kind: Literal["class"] = "class"
    target_class: int
    examples: list[ClassExample]  # those with the greatest share of the class first
    mmd: Mmd | None
    timings: Timings
    receipt: Receipt
    warnings: list[str]


class ProbeExample(Document):
    """A graph that a check failed on."""

    sample: int | None  # its position among the samples; None: the probe drew it itself
    graph: str  # "graph 3 of the samples, 17 nodes and 19 edges"
    expected: str
    came_out: str


class ProbeCheck(Document):
    name: str
    passed: bool
    detail: str
    example: ProbeExample | None = None


class SampledClass(Document):
    """How the samples of one class came out."""

    labelled: int  # samples, graphs or nodes, with this label
    predicted: int  # samples that the GNN gives this class
    correct: int


class SampleFigures(Document):
    """What the GNN makes of the labelled samples it was registered with."""

    graph_count: int = _renamed("graph_count", "graphs")
    # labelled nodes of these graphs; None if the GNN classifies graphs
    node_count: int | None = _renamed("node_count", "nodes", None)
    accuracy: float
    min_accuracy: float
    classes: list[SampledClass]  # one per class of the GNN


class ProbeReport(Document):
    passed: bool
    checks: list[ProbeCheck]
    dense: Literal["present", "absent"] = "present"  # the form of the GNN that gives gradients
    samples: SampleFigures | None = None


class PredictionResult(Document):
    kind: Literal["prediction"] = "prediction"
    predictions: list[Prediction] | list[NodePredictions]  # one per graph
