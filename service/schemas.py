"""Strict models of request bodies: no unknown fields, no coercion, bounded values."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    SkipValidation,
    Tag,
)

from d4explain.contracts.global_counterfactuals.requests import MAX_COUNT, MAX_THETA
from d4explain.contracts.requests import (
    Aim,
    ClassExplainer,
    DenoiserConfig,
    Explainer,
    Preset,
    RegulariserName,
)
from d4explain.resource_names import MAX_NAME_LENGTH, is_printable, name_fault
from service.graph_io.schemas import MAX_LABEL, MAX_SAFE_INTEGER, GraphIn, NodeIdIn
from service.metadata_models import Metadata, MetadataChanges
from store.catalogue.gnn_labels import MAX_TAGS
from store.catalogue.gnn_names import MAX_REFERENCE_LENGTH
from store.outgoing_urls import MAX_URL_LENGTH
from store.webhooks.endpoints import is_secret

# These types only define the OpenAPI schema. `graph_io` parses graphs, because that needs the
# deployment's limits and the GNN's features.
PostedGraph = Annotated[GraphIn, SkipValidation]
PostedGraphs = Annotated[list[PostedGraph], Field(min_length=1)]
NodeIds = Annotated[list[NodeIdIn], Field(min_length=1)]


def printable(text: str) -> str:
    if not is_printable(text):
        raise ValueError("should have no control characters")
    return text


def _lines(text: str) -> str:
    printable(text.replace("\n", "").replace("\t", ""))
    return text


def _valid_name(text: str) -> str:
    fault = name_fault(text)
    if fault is not None:
        raise ValueError(fault)
    return text


_NAME_LENGTH = Field(min_length=1, max_length=MAX_NAME_LENGTH)
Name = Annotated[str, _NAME_LENGTH, AfterValidator(printable)]
ResourceName = Annotated[str, _NAME_LENGTH, AfterValidator(_valid_name)]  # GNN or reference set
GnnReference = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_REFERENCE_LENGTH,
        description="`gnn_…`, `name@3`, `name@production`, or `name` for its newest ready version.",
    ),
]
DatasetReference = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_REFERENCE_LENGTH,
        description="The reference set: `set_…`, `name@2`, or `name` for its newest version.",
    ),
]
Description = Annotated[str, Field(max_length=2000), AfterValidator(_lines)]
TagKey = Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{1,64}$")]
TagValue = Annotated[str, Field(max_length=200), AfterValidator(printable)]
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=MAX_TAGS)]
ResourceId = Annotated[str, Field(min_length=1, max_length=64)]
ClassReference = Annotated[
    Annotated[int, Field(ge=0, le=MAX_LABEL)] | Annotated[str, Field(min_length=1, max_length=100)],
    Field(description="The number of a class, from 0, or its name in the GNN's `class_names`."),
]
WebhookUrl = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_URL_LENGTH,
        description="Where to send the notification, with https; a URL without user name and "
        "password.",
    ),
]
Seed = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
Seconds = Annotated[float, Field(gt=0, le=3600)]


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def _webhook_secret(text: str) -> str:
    if not is_secret(text):
        raise ValueError("should be `whsec_` and 24 to 64 random bytes in base64")
    return text


class RequestWebhookIn(Body):
    """Where to send one notification when what this request asks for has ended."""

    url: WebhookUrl
    secret: Annotated[str, Field(max_length=120), AfterValidator(_webhook_secret)] = Field(
        description="Signs the notification: `whsec_` and 24 to 64 random bytes in base64, which "
        "you choose. No response shows it."
    )


_REQUEST_WEBHOOK: Any = Field(
    None, description="Sends one notification when this has ended (docs/webhooks.md)."
)


class DatasetIn(Body):
    """A dataset: graphs of the distribution that a GNN was trained on."""

    name: ResourceName
    graphs: PostedGraphs
    gnn: GnnReference | None = Field(
        None,
        description="A GNN with the same features; required for SMILES, which its featuriser "
        "reads. Other GNNs can use the dataset, too.",
    )
    metadata: Metadata = Field(default_factory=dict)


class SamplesIn(Body):
    """Labelled graphs to measure a GNN's accuracy; the body of a dataset is accepted as well.

    For a GNN that classifies nodes, the nodes have labels: `label` of a node, or `y` of a PyG dict
    with one entry per node. Nodes without a label, or with null, are ignored.
    """

    graphs: PostedGraphs
    min_accuracy: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Smallest accepted accuracy; 1 / classes if not given."
    )
    name: Name | None = Field(None, description="Ignored.")


class GnnPatch(Body):
    """Changes after registration; omitted fields stay unchanged."""

    description: Description | None = None
    tags: Annotated[dict[TagKey, TagValue | None], Field(max_length=2 * MAX_TAGS)] = Field(
        {}, description="Merged with the existing tags; null removes a tag."
    )
    metadata: MetadataChanges = Field(default_factory=dict)


class MetadataPatch(Body):
    """Changes of the metadata of a resource."""

    metadata: MetadataChanges


class HoldIn(Body):
    """Why a resource must not be deleted."""

    reason: Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_lines)]


Days = Annotated[float, Field(ge=0, le=36_500)]


class RetentionIn(Body):
    """Days after which data is deleted; 0 keeps it, null means the deployment's time."""

    explanations: Days | None = Field(None, description="Days since the request.")
    jobs: Days | None = Field(
        None,
        description="Days since the end of a prediction, or of a job that a retry has replaced.",
    )
    networks: Days | None = Field(
        None, description="Days since a denoiser or witnesses were last used."
    )
    datasets: Days | None = Field(
        None, description="Days since a reference set was stored that nothing refers to."
    )


class AliasIn(Body):
    """The version that gets the alias: give `version` or `gnn`."""

    version: Annotated[int, Field(ge=1, le=999_999_999)] | None = None
    gnn: GnnReference | None = None


class DenoiserIn(Body):
    """The GNN, dataset and objective that a denoiser is trained for."""

    gnn: GnnReference
    dataset: DatasetReference
    objective: Literal["counterfactual", "class"]
    config: DenoiserConfig = DenoiserConfig()
    webhook: RequestWebhookIn | None = _REQUEST_WEBHOOK
    metadata: Metadata = Field(default_factory=dict)


def _denoiser_form(value: Any) -> Literal["id", "config"]:
    return "id" if isinstance(value, str) else "config"


DenoiserChoice = Annotated[
    Annotated[ResourceId, Tag("id")] | Annotated[DenoiserConfig, Tag("config")],
    Discriminator(_denoiser_form),
]


class ConstraintsIn(Body):
    """Limits for the edits of a counterfactual.

    For a single `graph`, `frozen_nodes` is a list of node ids and `frozen_edges` a list of pairs of
    node ids. For `graphs`, each is a list with one such list per graph.
    """

    max_edits: Annotated[int, Field(ge=1, le=64)] | None = None
    max_ratio: Annotated[float, Field(gt=0, le=1)] = Field(
        0.3,
        description="Largest ratio of edits to edges of the graph; for a node, to edges within "
        "`node.hops` of it.",
    )
    actions: Literal["both", "add", "remove"] = "both"
    keep_connected: bool = False
    valid_molecule: bool = Field(
        False,
        description="For graphs posted as SMILES: no atom gets more bonds than its valence allows. "
        "An added bond is single and replaces hydrogens.",
    )
    only_seen: bool = Field(
        True,
        description="Believable answers contain only node degrees, edges and neighbourhoods that "
        "the reference set contains; molecules keep their valences. If false, `unseen` lists what "
        "the reference set lacks. Minimal answers always list it.",
    )
    frozen_nodes: Annotated[list[NodeIdIn] | list[list[NodeIdIn]], SkipValidation] = []
    frozen_edges: Annotated[list[list[NodeIdIn]] | list[list[list[NodeIdIn]]], SkipValidation] = []


class CounterfactualIn(Body):
    """Asks for the smallest realistic change that changes the GNN's prediction."""

    kind: Literal["counterfactual"]
    gnn: GnnReference
    dataset: DatasetReference
    graph: PostedGraph | None = Field(None, description="One graph; or give `graphs`.")
    graphs: PostedGraphs | None = None
    node: NodeIdIn | None = Field(
        None,
        description="For GNNs that classify nodes: the node of `graph` to explain. Without "
        "`graph`, a node of `dataset`, which must be one large graph. Or give `nodes`.",
    )
    nodes: NodeIds | None = Field(
        None, description="Several nodes of `graph`; each is explained separately."
    )
    target_class: ClassReference | None = Field(
        None,
        description="The class to reach, by number or name; any but the predicted class if not "
        "given.",
    )
    alternatives: Annotated[int, Field(ge=1, le=16)] = 3
    aim: Aim | None = Field(
        None,
        description="`believable` (default): the fewest edits that also convince witnesses, small "
        "GNNs trained on the reference set, and look like its graphs; `minimal` has the smallest "
        "flip beside them. `minimal`: the fewest edits. `both`: believable and all minimal "
        "answers. Explainers other than `d4` and `search` have the aim `minimal` only, which is "
        "their default.",
    )
    judges: Literal["none"] | Annotated[list[GnnReference], Field(max_length=8)] | None = Field(
        None,
        description="GNNs with the same features and classes that judge the answers besides the "
        "witnesses. `none`: nobody judges; with the aim `minimal`, no witnesses are trained.",
    )
    # A factory, because pydantic copies a default object, which is several times slower.
    constraints: ConstraintsIn = Field(default_factory=ConstraintsIn)
    explainer: Explainer = Field(
        "d4",
        description="`d4`: the denoiser proposes edits, a search improves them, the GNN verifies "
        "them. `d4-paper`: the D4Explainer paper's method; its denoiser has the recipe `paper` "
        "unless `denoiser` names another. `search`: our verified search "
        "without the diffusion model; no training, first answer in a second; no likelihoods. "
        "`greedy` and `random` edit step by step. The others are explainers of the literature: "
        "`gnnexplainer`, `saliency`, `gradcam`, `integrated-gradients`, `pgexplainer`, "
        "`pgm-explainer` and `cxplain` score edges, `cf-gnnexplainer` removes some; answers have "
        "the smallest flip along the scores, verified, and those that score edges also have "
        "`factual`. Only `d4` and `d4-paper` accept a `denoiser`.",
    )
    preset: Preset = Field(
        "balanced",
        description="How much to search. "
        "`fast` evaluates a small pool of node pairs, for dashboards and many graphs. "
        "`balanced` evaluates a larger pool and has a wider beam; with the explainer `search` it "
        "evaluates all pairs. `thorough` evaluates all pairs, so that it misses no flip by a "
        "single edit, and has the widest beam. Of more than 2,000 pairs, only the most promising "
        "are evaluated. "
        "Explainers other than `d4` and `search` do not search and accept the default only.",
    )
    seed: Seed = 0
    time_budget: Seconds | None = Field(None, description="Seconds for the whole job.")
    max_queries: Annotated[int, Field(ge=1, le=MAX_SAFE_INTEGER)] | None = Field(
        None,
        description="For GNNs behind a URL: the largest number of graphs to send; the deployment's "
        "limit if not given.",
    )
    denoiser: DenoiserChoice | None = Field(
        None,
        description="A denoiser's id, or how to train one; the default recipe if not given. Only "
        "for the explainers `d4` and `d4-paper`.",
    )
    webhook: RequestWebhookIn | None = _REQUEST_WEBHOOK
    metadata: Metadata = Field(default_factory=dict)


class ClassIn(Body):
    """Asks which patterns recur in a class, are rare elsewhere and move the GNN towards it."""

    kind: Literal["class"]
    gnn: GnnReference
    dataset: DatasetReference
    target_class: ClassReference
    node_count: Annotated[int, Field(ge=2, le=128)] | None = Field(
        None, description="Nodes of each pattern; 3 to 7 if not given."
    )
    example_count: Annotated[int, Field(ge=1, le=64)] = Field(
        8, description="Patterns at most, and chains of the denoiser."
    )
    preset: Preset = Field(
        "balanced",
        description="Sets `candidates` and `steps` if they are not given. "
        "`fast`: 10 candidates, 10 steps, for a first look. "
        "`balanced`: 20 candidates, 30 steps. "
        "`thorough`: 30 candidates, 50 steps, for classes that are hard to reach.",
    )
    candidates: Annotated[int, Field(ge=1, le=200)] | None = Field(
        None, description="Graphs to choose from at each step; set by `preset` if not given."
    )
    steps: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Denoising steps per chain; set by `preset` if not given."
    )
    regularisers: dict[
        RegulariserName,
        Annotated[float, Field(ge=0, le=1e6)],
    ] = {}
    explainer: ClassExplainer = Field(
        "d4",
        description="`d4`: patterns by evidence, from the denoiser and from the data. `d4-paper`: "
        "the D4Explainer paper's Algorithm 1, which goes by the confidence of graphs standing "
        "alone, and, unless `denoiser` names another, its recipe. `mined`: the patterns of `d4` "
        "from the data alone. `xgnn`: a policy that learns to build graphs of which the GNN is "
        "sure. `hill-climbing`: single toggles of random graphs; `steps` at most. The last three "
        "need no `denoiser` and are at once; `xgnn` and `hill-climbing` go by confidence alone.",
    )
    seed: Seed = 0
    time_budget: Seconds | None = Field(None, description="Seconds for the whole job.")
    denoiser: DenoiserChoice | None = None
    webhook: RequestWebhookIn | None = _REQUEST_WEBHOOK
    metadata: Metadata = Field(default_factory=dict)


class GlobalIn(Body):
    """Asks for few graphs of another class that are near to many graphs of a class."""

    kind: Literal["global"]
    gnn: GnnReference
    dataset: DatasetReference
    source_class: ClassReference = Field(
        description="The class whose graphs are covered, by number or name: the graphs of the "
        "reference set that the GNN gives this class, whatever their labels."
    )
    target_class: ClassReference | None = Field(
        None,
        description="The class that the GNN gives the counterfactuals, by number or name; any but "
        "`source_class` if not given.",
    )
    count: Annotated[int, Field(ge=1, le=MAX_COUNT)] = Field(10, description="Graphs at most, k.")
    theta: Annotated[float, Field(gt=0, le=MAX_THETA)] = Field(
        0.1,
        description="Largest distance that counts as covered, θ: edits of nodes, edges and node "
        "types, divided by the nodes and edges of both graphs.",
    )
    preset: Preset = Field(
        "balanced",
        description="How much to search: each counterfactual is grown from `fast` 2 graphs of each "
        "class in 3 rounds, `balanced` 6 in 5, `thorough` 12 in 6.",
    )
    seed: Seed = 0
    time_budget: Seconds | None = Field(
        None, description="Seconds for the search; it then returns fewer or worse graphs."
    )
    webhook: RequestWebhookIn | None = _REQUEST_WEBHOOK
    metadata: Metadata = Field(default_factory=dict)


class PredictionsIn(Body):
    """Graphs to classify, or graphs whose nodes to classify."""

    graph: PostedGraph | None = Field(None, description="One graph; or give `graphs`.")
    graphs: PostedGraphs | None = None
    nodes: NodeIds | None = Field(
        None,
        description="For GNNs that classify nodes: the nodes of `graph` to classify; all if not "
        "given.",
    )
    webhook: RequestWebhookIn | None = _REQUEST_WEBHOOK
    metadata: Metadata = Field(default_factory=dict)


class GraphPreviewIn(Body):
    """A graph to read and to draw."""

    graph: PostedGraph


class WhatIfIn(Body):
    """Changes of an explained graph to ask the GNN about."""

    graph: Annotated[
        int, Field(ge=0, le=10_000, description="Index of the posted graph or explained node.")
    ] = 0
    toggles: Annotated[
        list[Annotated[list[NodeIdIn], Field(min_length=2, max_length=2)]],
        Field(
            max_length=1000,
            description="Pairs of node ids: an edge is removed, another pair gets an edge.",
        ),
    ]
    gnn: GnnReference | None = Field(
        None,
        description="Another GNN to ask instead, such as the next version: it classifies graphs, "
        "with the same features, edge attributes and classes.",
    )


class ExplanationIn(
    RootModel[Annotated[CounterfactualIn | ClassIn | GlobalIn, Field(discriminator="kind")]]
):
    """A counterfactual, a class explanation or global counterfactuals, by `kind`."""
