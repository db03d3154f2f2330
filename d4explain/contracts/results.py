"""Results of explanations and predictions: the worker writes them, service and client read them.

`counterfactual_results` has those of counterfactual explanations. Node ids are those of the caller.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

NodeId = int | str
Finder = Annotated[
    Literal["denoiser", "search"],
    Field(
        description="`denoiser`: the edits come from a pool of node pairs that the denoiser ranked "
        "first, or the explainer is `d4-paper`. `search`: the search evaluated all pairs (on small "
        "graphs, with the preset `thorough`, or if the denoiser predicts no effects), or the "
        "explainer is `search`. All edits of one counterfactual have the same value."
    ),
]


class Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def renamed_field(name: str, old_name: str, default: Any = ...) -> Any:
    """A field that has another name in documents that version 0.1 stored."""
    return Field(default, validation_alias=AliasChoices(name, old_name))


class Prediction(Document):
    predicted_class: int
    class_name: str | None = None  # None if the GNN's spec has no class names
    probabilities: list[float]  # one per class


class NodePrediction(Prediction):
    node: NodeId


class NodePredictions(Document):
    """A node classifier's predictions for nodes of one graph."""

    nodes: list[NodePrediction]


class ResultNode(Document):
    id: NodeId
    x: list[float]


EdgeAttributes = Annotated[
    list[float] | None,
    Field(
        description="Omitted if edges have no attributes. An added edge gets the most frequent "
        "attributes of reference edges between nodes of the same types; an added bond is single.",
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


TypeName = Annotated[
    str | None,
    Field(
        description="Type of the node: the name of its one-hot feature in the GNN's spec. Omitted "
        "if the features have no names or are not one-hot.",
        exclude_if=lambda name: name is None,
    ),
]


class Edit(Document):
    action: Literal["add", "remove"]
    source: NodeId
    target: NodeId
    source_type: TypeName = None
    target_type: TypeName = None
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
    hydrogens: bool  # whether hydrogens are nodes
    atoms: list[Atom]
    bonds: list[Bond]


class ValenceViolation(Document):
    node: NodeId
    element: str
    valence: int  # sum of its bond orders
    allowed: int


class EditedMolecule(Document):
    """A molecule after edits: added bonds are single, and hydrogens fill free valences."""

    smiles: str | None  # None if the molecule is not valid
    valid: bool
    valence_violations: list[ValenceViolation]


class GeneratedMolecule(EditedMolecule):
    """A generated graph read as a molecule of single bonds; hydrogens fill free valences."""

    atoms: list[Atom]  # "*" for an element that the featuriser has no column for


class Mmd(Document):
    """MMD of a set of graphs to the reference set, and the null distribution of the MMD.

    The null distribution comes from sets of the same size drawn from the reference set.
    """

    degree: float
    clustering: float
    spectrum: float
    sum: float
    null_quantiles: dict[str, float]  # of the sum, e.g. {"0.05": …, "0.5": …, "0.95": …}
    p_value: float  # share of null draws that are at least as large
    graph_count: int = renamed_field("graph_count", "n")  # graphs compared
    reference_count: int = renamed_field("reference_count", "n_reference")


class Typicality(Document):
    """How usual one graph is among graphs of the reference set."""

    value: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="Share of held-out reference graphs that are, for their size, no likelier "
            "under the denoiser than this graph, which counts as one of them. Graphs of the data "
            "have every value equally often.",
        ),
    ]
    low: Annotated[bool, Field(description="Whether `value` is below 0.05.")]
    calibration_graphs: int  # held-out reference graphs


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
    # The example's weight in the class: the weighted examples are closest to the class in MMD, with
    # a preference for patterns that recur. None for the explainer `d4-paper`.
    share: float | None = None
    # Share of the class's reference graphs that contain the example; None if counting takes too
    # long.
    recurrence: float | None = None
    node: NodeId | None = None  # the classified node; None if the GNN classifies graphs
    molecule: GeneratedMolecule | None = None  # None if the GNN has no featuriser for SMILES


class Timings(Document):
    load_seconds: float
    explain_seconds: float
    mmd_seconds: float


GnnForm = Annotated[
    Literal["dense", "sparse", "black_box"],
    Field(
        description="The form of the GNN that evaluated candidates. `dense`: in batches, with "
        "gradients. `sparse`: PyG's form alone, because the GNN has a plug-in without a dense "
        "form. `black_box`: requests to its URL. The sparse form verifies answers in the first two "
        "cases, the URL in the last."
    ),
]
ObjectiveFallback = Annotated[
    Literal["score_function", "distribution"],
    Field(
        description="The training without the GNN's gradient. `null`: the training needed no "
        "fallback, or there is no denoiser. `score_function`: the counterfactual loss of the "
        "recipe `paper` was estimated from sampled graphs. `distribution`: the denoiser of a black "
        "box learned the distribution of the data alone."
    ),
]


class Receipt(Document):
    """Everything needed to check and repeat an explanation."""

    request_sha256: str
    gnn: str | None = None  # its id, also if the request had a name or alias; None in old receipts
    gnn_sha256: str
    dataset_sha256: str
    denoiser_sha256: str | None  # None for the explainer `search`
    denoiser_key: str | None  # hash of (GNN, reference set, objective, config); None for `search`
    witnesses_sha256: str | None = None  # None if there were no witnesses
    witnesses_key: str | None = None  # hash of (GNN, reference set, version of the training)
    config: dict[str, object]  # the explainer and its resolved settings
    seed: int
    device: str
    versions: dict[str, str]  # of packages and plug-ins
    gnn_form: GnnForm = "dense"
    objective_fallback: ObjectiveFallback | None = None
    work: dict[str, int | float]  # samples, GNN evaluations and gradients, search depth, …


class ClassResult(Document):
    kind: Literal["class"] = "class"
    target_class: int
    examples: list[ClassExample]  # largest share first
    mmd: Mmd | None
    timings: Timings
    receipt: Receipt
    warnings: list[str]


class PredictionResult(Document):
    kind: Literal["prediction"] = "prediction"
    predictions: list[Prediction] | list[NodePredictions]  # one per graph
