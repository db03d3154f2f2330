"""Requests of jobs: the service validates and stores them, the worker reads them.

Graphs are in canonical form: `edges` holds positions in `node_ids`, each edge once.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from d4explain.contracts.results import NodeId, renamed_field

Pair = tuple[int, int]
Preset = Literal["fast", "balanced", "thorough"]  # how much to search
# Those of `models.explainers`: of the literature, and plain searches. No denoiser, no witnesses.
PlainExplainer = Literal[
    "greedy",
    "random",
    "gnnexplainer",
    "saliency",
    "gradcam",
    "integrated-gradients",
    "pgexplainer",
    "pgm-explainer",
    "cxplain",
    "cf-gnnexplainer",
]
PLAIN_EXPLAINERS: tuple[PlainExplainer, ...] = get_args(PlainExplainer)
# Those that work without gradients, and so explain GNNs behind a URL.
NO_GRADIENTS: tuple[PlainExplainer, ...] = ("greedy", "random", "pgm-explainer")
# Our search with a denoiser, the paper's sampler, our search without a denoiser, or a plain one.
Explainer = Literal["d4", "d4-paper", "search", PlainExplainer]
# Patterns by evidence, with or without a denoiser (`mined`), and graphs by confidence alone.
ClassExplainer = Literal["d4", "d4-paper", "mined", "xgnn", "hill-climbing"]
# Fewest edits; or fewest that also convince witnesses and look like the reference set; or both.
Aim = Literal["believable", "minimal", "both"]
_OLD_SAMPLERS = {"guided": "d4", "paper": "d4-paper"}


class RequestDocument(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


_FROM_OLD_NAME = BeforeValidator(lambda name: _OLD_SAMPLERS.get(str(name), name))


class Smiles(RequestDocument):
    """A molecule; its nodes are its atoms, in the order of the text."""

    text: str
    hydrogens: bool  # whether hydrogens are nodes; implicit hydrogens come last


class CanonicalGraph(RequestDocument):
    node_ids: list[NodeId]
    x: list[list[float]]  # [node][feature]
    edges: list[Pair]  # positions, source < target, sorted, distinct
    label: int | None = None
    molecule: Smiles | None = None  # None if the graph was not posted as SMILES
    edge_attr: list[list[float]] | None = None  # [edge][attribute]


class DenoiserConfig(RequestDocument):
    """How a denoiser is trained; part of its identity. None means the recipe's value.

    `alpha` weights the counterfactual loss of the recipe `paper`; `default` has none.
    """

    recipe: Literal["default", "paper"] = "default"
    steps: Annotated[int, Field(ge=1, le=100_000)] | None = None
    hidden: Annotated[int, Field(ge=4, le=256)] | None = None
    blocks: Annotated[int, Field(ge=1, le=12)] | None = None
    alpha: Annotated[float, Field(ge=0, le=10)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**53)] = 0


def has_unknown_loss(config: DenoiserConfig) -> bool:
    """Whether the config weights the counterfactual loss of a recipe that has none."""
    return config.recipe == "default" and bool(config.alpha)


class Constraints(RequestDocument):
    """What a counterfactual may change; node pairs are positions."""

    max_edits: Annotated[int, Field(ge=1, le=64)] | None = None
    max_ratio: Annotated[float, Field(gt=0, le=1)] = 0.3
    actions: Literal["both", "add", "remove"] = "both"
    frozen_nodes: list[list[int]] = []  # per graph: no edit touches these nodes
    frozen_edges: list[list[Pair]] = []  # per graph: these pairs stay as they are
    keep_connected: bool = False
    valid_molecule: bool = False  # no atom gets more bonds than its valence allows
    only_seen: bool = True  # believable answers have only patterns of the reference set


class CounterfactualRequest(RequestDocument):
    kind: Literal["counterfactual"] = "counterfactual"
    # One graph if nodes are explained; none if they are nodes of a large graph, the reference set.
    graphs: list[CanonicalGraph]
    nodes: list[int] | None = None  # positions of the nodes to explain; None explains the graphs
    target_class: int | None = None
    alternatives: Annotated[int, Field(ge=1, le=16)] = 3
    aim: Aim = "minimal"  # requests of earlier versions lack it
    judges: list[str] | Literal["none"] = []  # ids of GNNs that judge besides the witnesses
    no_witnesses: str | None = None  # why none were trained; None if they were
    constraints: Constraints = Constraints()
    explainer: Annotated[Explainer, _FROM_OLD_NAME] = renamed_field("explainer", "sampler", "d4")
    preset: Preset = "balanced"  # how wide `d4` and `search` search
    time_budget: Annotated[float, Field(gt=0, le=3600)] | None = None  # seconds for the whole job
    max_queries: int | None = None  # graphs that may be sent to a black box
    seed: int = 0
    warnings: list[str] = []  # what was left out of the posted graphs


RegulariserName = Literal["likelihood", "connectivity", "valence", "recurrence", "sparsity", "size"]


class ClassRequest(RequestDocument):
    kind: Literal["class"] = "class"
    target_class: int
    # None means chosen automatically.
    node_count: Annotated[int, Field(ge=2, le=128)] | None = renamed_field(
        "node_count", "nodes", None
    )
    # R in the paper: the number of chains.
    example_count: Annotated[int, Field(ge=1, le=64)] = renamed_field(
        "example_count", "examples", 8
    )
    preset: Preset = "balanced"
    candidates: Annotated[int, Field(ge=1, le=200)] | None = None  # K; None means the preset's
    steps: Annotated[int, Field(ge=1, le=1000)] | None = None  # T; None means the preset's
    regularisers: dict[RegulariserName, float] = {}
    explainer: Annotated[ClassExplainer, _FROM_OLD_NAME] = renamed_field(
        "explainer", "sampler", "d4"
    )
    time_budget: Annotated[float, Field(gt=0, le=3600)] | None = None
    seed: int = 0


class PredictionRequest(RequestDocument):
    kind: Literal["prediction"] = "prediction"
    graphs: list[CanonicalGraph]
    nodes: list[int] | None = None  # nodes of the one graph, for a node classifier; None means all
    warnings: list[str] = []  # what was left out of the posted graphs


class ProbeRequest(RequestDocument):
    """Labelled samples of a registration, and the accuracy that the GNN must reach."""

    kind: Literal["probe"] = "probe"
    graphs: list[CanonicalGraph]
    nodes: list[list[int]] | None = None  # labelled nodes per graph, for a node classifier
    labels: list[int]  # one per graph, or one per node in `nodes`
    min_accuracy: Annotated[float, Field(ge=0, le=1)]
    warnings: list[str] = []  # what was left out of the posted graphs
