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

from d4explain.contracts.requests import DenoiserConfig, Explainer, Preset, RegulariserName
from service.graph_io.schemas import MAX_LABEL, MAX_SAFE_INTEGER, GraphIn, NodeIdIn
from store.catalogue.gnn_labels import MAX_TAGS
from store.catalogue.gnn_names import (
    MAX_NAME_LENGTH,
    MAX_REFERENCE_LENGTH,
    is_printable,
    name_fault,
)

# `graph_io` parses graphs, since that needs the deployment's limits and the GNN's features; here
# they only define the OpenAPI schema.
PostedGraph = Annotated[GraphIn, SkipValidation]
PostedGraphs = Annotated[list[PostedGraph], Field(min_length=1)]
AskedNodes = Annotated[list[NodeIdIn], Field(min_length=1)]


def printable(text: str) -> str:
    if not is_printable(text):
        raise ValueError("should have no control characters")
    return text


def _lines(text: str) -> str:
    printable(text.replace("\n", "").replace("\t", ""))
    return text


def _gnn_name(text: str) -> str:
    fault = name_fault(text)
    if fault is not None:
        raise ValueError(fault)
    return text


_NAME_LENGTH = Field(min_length=1, max_length=MAX_NAME_LENGTH)
Name = Annotated[str, _NAME_LENGTH, AfterValidator(printable)]
GnnName = Annotated[str, _NAME_LENGTH, AfterValidator(_gnn_name)]
GnnReference = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_REFERENCE_LENGTH,
        description="`gnn_…`, `name@3`, `name@production`, or `name` for its newest ready version.",
    ),
]
Description = Annotated[str, Field(max_length=2000), AfterValidator(_lines)]
TagKey = Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{1,64}$")]
TagValue = Annotated[str, Field(max_length=200), AfterValidator(printable)]
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=MAX_TAGS)]
ResourceId = Annotated[str, Field(min_length=1, max_length=64)]
ClassIndex = Annotated[int, Field(ge=0, le=MAX_LABEL)]
Seed = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
Seconds = Annotated[float, Field(gt=0, le=3600)]
ExplainerIn = Annotated[
    Explainer,
    Field(
        description="`d4`: the denoiser proposes, a search over node pairs improves, the GNN "
        "verifies. `d4-paper`: the sampler of the D4Explainer paper."
    ),
]


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class DatasetIn(Body):
    """A dataset: graphs of the distribution that a GNN was trained on."""

    name: Name
    graphs: PostedGraphs
    gnn: GnnReference | None = Field(
        None,
        description="A GNN with the same features; required for SMILES, which its featuriser "
        "reads. Other GNNs can use the dataset, too.",
    )


class SamplesIn(Body):
    """Labelled graphs to check a GNN's predictions; the body of a reference set works, too.

    For a GNN that classifies nodes, give the labels of nodes: `label` of each node, or `y` of a PyG
    dict with one entry per node. Nodes without a label, or with null, are not checked.
    """

    graphs: PostedGraphs
    min_accuracy: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Required share of correct predictions; 1 / classes if not given."
    )
    name: Name | None = Field(None, description="Ignored.")


class GnnPatch(Body):
    """Changes after registration; omitted fields stay unchanged."""

    description: Description | None = None
    tags: Annotated[dict[TagKey, TagValue | None], Field(max_length=2 * MAX_TAGS)] = Field(
        {}, description="Merged with the existing tags; null removes a tag."
    )


class AliasIn(Body):
    """The version that gets the alias: give `version` or `gnn`."""

    version: Annotated[int, Field(ge=1, le=999_999_999)] | None = None
    gnn: GnnReference | None = None


class DenoiserIn(Body):
    """The GNN, dataset and objective that a denoiser is trained for."""

    gnn: GnnReference
    dataset: ResourceId
    objective: Literal["counterfactual", "class"]
    config: DenoiserConfig = DenoiserConfig()


def _denoiser_form(value: Any) -> Literal["id", "config"]:
    return "id" if isinstance(value, str) else "config"


DenoiserChoice = Annotated[
    Annotated[ResourceId, Tag("id")] | Annotated[DenoiserConfig, Tag("config")],
    Discriminator(_denoiser_form),
]


class ConstraintsIn(Body):
    """What a counterfactual may change.

    `frozen_nodes` and `frozen_edges` are lists of node ids and id pairs for a single `graph`, and
    one such list per graph for `graphs`.
    """

    max_edits: Annotated[int, Field(ge=1, le=64)] | None = None
    max_ratio: Annotated[float, Field(gt=0, le=1)] = Field(
        0.3,
        description="Most edits, as a share of the graph's edges; of a node's explanation, of the "
        "edges within `node.hops` of it.",
    )
    actions: Literal["both", "add", "remove"] = "both"
    keep_connected: bool = False
    valid_molecule: bool = Field(
        False,
        description="For graphs posted as SMILES: no atom gets more bonds than its valence allows, "
        "where an added bond is single and hydrogens give way.",
    )
    frozen_nodes: Annotated[list[NodeIdIn] | list[list[NodeIdIn]], SkipValidation] = []
    frozen_edges: Annotated[list[list[NodeIdIn]] | list[list[list[NodeIdIn]]], SkipValidation] = []


class CounterfactualIn(Body):
    """What is the smallest realistic change that makes the GNN answer differently?"""

    kind: Literal["counterfactual"]
    gnn: GnnReference
    dataset: ResourceId
    graph: PostedGraph | None = Field(None, description="One graph; or give `graphs`.")
    graphs: PostedGraphs | None = None
    node: NodeIdIn | None = Field(
        None,
        description="For GNNs that classify nodes: the node of `graph` to explain, or without "
        "`graph` that of the large graph `dataset`; or give `nodes`.",
    )
    nodes: AskedNodes | None = Field(
        None, description="Several nodes of `graph`, each explained by itself."
    )
    target_class: ClassIndex | None = Field(
        None, description="The class to reach; any other than the present one if not given."
    )
    alternatives: Annotated[int, Field(ge=1, le=16)] = 3
    # a factory: pydantic copies a default object, which is several times slower
    constraints: ConstraintsIn = Field(default_factory=ConstraintsIn)
    explainer: ExplainerIn = "d4"
    preset: Preset = Field(
        "balanced",
        description="How much to search. "
        "`fast` tries a small pool of node pairs, for dashboards and many graphs. "
        "`balanced` tries a larger pool and goes on from more edited graphs. "
        "`thorough` tries every pair at the start, so that no flip by a single edit is missed (of "
        "more than 2,000 pairs only the most promising are tried), and has the widest beam. "
        "`d4-paper` does not search and takes the default only.",
    )
    seed: Seed = 0
    time_budget: Seconds | None = Field(None, description="Seconds for the whole job.")
    max_queries: Annotated[int, Field(ge=1, le=MAX_SAFE_INTEGER)] | None = Field(
        None,
        description="For GNNs behind a URL: most graphs to send; the deployment's limit if not "
        "given.",
    )
    denoiser: DenoiserChoice | None = Field(
        None, description="A denoiser's id, or how to train one; the default recipe if not given."
    )


class ClassIn(Body):
    """What does a typical graph of this class look like to the GNN?"""

    kind: Literal["class"]
    gnn: GnnReference
    dataset: ResourceId
    target_class: ClassIndex
    node_count: Annotated[int, Field(ge=2, le=128)] | None = Field(
        None, description="Nodes of the pattern; chosen automatically if not given."
    )
    example_count: Annotated[int, Field(ge=1, le=64)] = 8
    preset: Preset = Field(
        "balanced",
        description="Sets `candidates` and `steps` where they are not given. "
        "`fast`: 10 candidates, 10 steps, for a first look. "
        "`balanced`: 20 candidates, 30 steps. "
        "`thorough`: 30 candidates, 50 steps, for classes that are hard to reach.",
    )
    candidates: Annotated[int, Field(ge=1, le=200)] | None = Field(
        None, description="Graphs to choose from at each step; set by `preset` if not given."
    )
    steps: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Denoising steps per example; set by `preset` if not given."
    )
    regularisers: dict[
        RegulariserName,
        Annotated[float, Field(ge=0, le=1e6)],
    ] = {}
    explainer: ExplainerIn = "d4"
    seed: Seed = 0
    time_budget: Seconds | None = Field(None, description="Seconds for the whole job.")
    denoiser: DenoiserChoice | None = None


class PredictionsIn(Body):
    """Graphs to classify, or graphs whose nodes to classify."""

    graph: PostedGraph | None = Field(None, description="One graph; or give `graphs`.")
    graphs: PostedGraphs | None = None
    nodes: AskedNodes | None = Field(
        None,
        description="For GNNs that classify nodes: those of `graph` to answer for; all if not "
        "given.",
    )


class ExplanationIn(RootModel[Annotated[CounterfactualIn | ClassIn, Field(discriminator="kind")]]):
    """A counterfactual or a class explanation, by `kind`."""
