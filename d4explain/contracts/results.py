"""Results of explanations and predictions: the worker writes them, service and client read them.

`counterfactual_results` has those of counterfactual explanations. Node ids are those of the caller.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from d4explain.contracts.job_states import Stage
from d4explain.contracts.receipts.receipt import Receipt

NodeId = int | str
Finder = Annotated[
    Literal["denoiser", "search"],
    Field(
        description="`denoiser`: the edits come from a pool of node pairs that the denoiser ranked "
        "first, or the explainer is `d4-paper`. `search`: the search evaluated all pairs (on small "
        "graphs, with the preset `thorough`, or if the denoiser predicts no effects), or the "
        "explainer has no denoiser. All edits of one counterfactual have the same value."
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


class Support(Document):
    """How often a pattern occurs as an induced subgraph with matching node types.

    The unit is a reference graph, or a node and its neighbourhood if the GNN classifies nodes; the
    pattern's marked node then lies on that node. Features that are no node type are ignored.
    """

    in_class: Annotated[
        float, Field(ge=0, le=1, description="Share of the graphs that the GNN gives the class.")
    ]
    elsewhere: Annotated[
        float | None,
        Field(ge=0, le=1, description="Share of the other graphs; `null` if there are none."),
    ]
    class_count: int  # sampled graphs of the class; the search did not use them if there are enough
    other_count: int


class EffectChange(Document):
    """Mean change of the class's log-odds beyond that of a random change of the same size."""

    mean: float
    standard_error: float
    graph_count: int  # changed graphs, each possibly several times


class Effect(Document):
    """What a pattern does to the GNN, in log-odds of the class."""

    mean: Annotated[
        float, Field(description="(inserted - broken) / 2; above 0: towards the class.")
    ]
    inserted: Annotated[
        EffectChange | None,
        Field(
            description="The pattern hangs by one random edge on graphs of other classes, compared "
            "with random connected parts of the same size. For nodes, the GNN classifies the "
            "marked node of the pattern. `null` if there are no such graphs."
        ),
    ]
    broken: Annotated[
        EffectChange | None,
        Field(
            description="Edges of its occurrences are deleted from graphs of the class until none "
            "is left (at most 12), compared with as many random deletions. `null` if fewer than "
            "two graphs contain the pattern."
        ),
    ]


class ClassOccurrence(Document):
    """One place of a pattern in the reference set."""

    # Position of the graph in the reference set; for node classifiers that of the sampled
    # neighbourhood.
    graph: int
    nodes: list[int]  # position in that graph of each node of the pattern
    shown: ResultGraph | None = None  # the whole graph; only of the first occurrences


class ChainStepGraph(Document):
    step: int
    graph: ResultGraph


class ClassExample(Document):
    """A pattern of a class with its evidence."""

    graph: ResultGraph
    support: Support
    contrast: Annotated[
        float | None, Field(description="`support.in_class` - `support.elsewhere`.")
    ]
    effect: Effect
    confidence: Annotated[
        float | None,
        Field(
            description="Mean probability of the class in reference graphs that contain the "
            "pattern; `null` if none of the sampled ones does."
        ),
    ]
    prediction: Prediction  # of the pattern alone
    confidence_alone: Annotated[
        float,
        Field(
            description="The paper's confidence: probability of the class for the pattern standing "
            "alone. The GNN may never have seen such small graphs."
        ),
    ]
    found_by: Annotated[
        list[Literal["denoiser", "data", "generator"]],
        Field(
            description="`denoiser`: a chain of the diffusion model visited it. `data`: mined from "
            "reference graphs. `generator`: built by `xgnn` or `hill-climbing`."
        ),
    ]
    chain: Annotated[
        list[ChainStepGraph],
        Field(description="Some steps of that chain, last the pattern; empty without one."),
    ]
    occurrences: list[ClassOccurrence]  # in graphs of the class, one per graph
    denoiser_likelihood: float | None  # log-likelihood per node under the denoiser
    density: Annotated[
        float,
        Field(
            description="The paper's Density |E| / |V|², which counts each edge in both "
            "directions: 2·edges / nodes². A 5-cycle has 0.4."
        ),
    ]
    connected: bool
    node: NodeId | None = None  # the classified node; None if the GNN classifies graphs
    molecule: GeneratedMolecule | None = None  # None if the GNN has no featuriser for SMILES


class Timings(Document):
    load_seconds: float
    explain_seconds: float
    mmd_seconds: float


class ClassResult(Document):
    kind: Literal["class"] = "class"
    stage: Annotated[
        Stage,
        Field(
            description="`provisional`: patterns from the reference graphs alone, found at once "
            "without a denoiser; the final answer follows."
        ),
    ] = Stage.FINAL
    final_adds: Annotated[
        list[str],
        Field(description="What the final answer will add; empty if this is the final answer."),
    ] = []
    target_class: int
    examples: list[ClassExample]  # best first
    reason: Annotated[
        str | None, Field(description="Why there is no example; `null` if there are some.")
    ] = None
    tells_small_graphs_apart: Annotated[
        bool,
        Field(
            description="Whether the GNN's log-odds differ between small parts of the class's "
            "graphs standing alone. If not, `confidence_alone` says nothing."
        ),
    ] = True
    mmd: Mmd | None
    timings: Timings
    receipt: Receipt
    warnings: list[str]


class PredictionResult(Document):
    kind: Literal["prediction"] = "prediction"
    predictions: list[Prediction] | list[NodePredictions]  # one per graph
    warnings: list[str] = []
