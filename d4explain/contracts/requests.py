"""What a job is asked to do: validated by the service, stored beside the job, read by the worker.

Graphs are in canonical form here: `edges` holds positions into `node_ids`, each edge once.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from d4explain.contracts.results import NodeId

Pair = tuple[int, int]
Preset = Literal["fast", "balanced", "thorough"]  # how much work an answer is worth
# Our search with a denoiser, the paper's sampler, or our search without a denoiser.
Explainer = Literal["d4", "d4-paper", "search"]
ClassExplainer = Literal["d4", "d4-paper"]
_OLD_SAMPLERS = {"guided": "d4", "paper": "d4-paper"}


class Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _renamed(name: str, old_name: str, default: Any) -> Any:
    """A field that stored requests of version 0.1 have under another name."""
    return Field(default, validation_alias=AliasChoices(name, old_name))


_FROM_OLD_NAME = BeforeValidator(lambda name: _OLD_SAMPLERS.get(str(name), name))


class Smiles(Asked):
    """A molecule; its atoms in the order in which they are written are the nodes."""

    text: str
    hydrogens: bool  # whether they are nodes; those that are not written come last


class CanonicalGraph(Asked):
    node_ids: list[NodeId]
    x: list[list[float]]  # [node][feature]
    edges: list[Pair]  # positions, source < target, sorted, distinct
    label: int | None = None
    molecule: Smiles | None = None  # what the graph was made from
    edge_attr: list[list[float]] | None = None  # [edge][attribute]


class DenoiserConfig(Asked):
    """How a denoiser is trained; part of its identity. `None` leaves the choice to the recipe."""

    recipe: Literal["default", "paper"] = "default"
    steps: Annotated[int, Field(ge=1, le=100_000)] | None = None
    hidden: Annotated[int, Field(ge=4, le=256)] | None = None
    blocks: Annotated[int, Field(ge=1, le=12)] | None = None
    alpha: Annotated[float, Field(ge=0, le=10)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**53)] = 0


class Constraints(Asked):
    """What a counterfactual may change; node pairs are positions."""

    max_edits: Annotated[int, Field(ge=1, le=64)] | None = None
    max_ratio: Annotated[float, Field(gt=0, le=1)] = 0.3
    actions: Literal["both", "add", "remove"] = "both"
    frozen_nodes: list[list[int]] = []  # per graph: no edit touches these nodes
    frozen_edges: list[list[Pair]] = []  # per graph: these pairs stay as they are
    keep_connected: bool = False
    valid_molecule: bool = False  # no atom gets more bonds than its valence allows


class CounterfactualRequest(Asked):
    kind: Literal["counterfactual"] = "counterfactual"
    # One, if nodes of it are asked about; none, if they are the reference set's, a large graph.
    graphs: list[CanonicalGraph]
    nodes: list[int] | None = None  # of a node classifier: positions, each explained by itself
    target_class: int | None = None
    alternatives: Annotated[int, Field(ge=1, le=16)] = 3
    constraints: Constraints = Constraints()
    explainer: Annotated[Explainer, _FROM_OLD_NAME] = _renamed("explainer", "sampler", "d4")
    preset: Preset = "balanced"  # how wide `d4` and `search` search
    time_budget: Annotated[float, Field(gt=0, le=3600)] | None = None  # seconds, whole job
    max_queries: int | None = None  # of a black box
    seed: int = 0


RegulariserName = Literal["likelihood", "connectivity", "valence", "recurrence", "sparsity", "size"]


class ClassRequest(Asked):
    kind: Literal["class"] = "class"
    target_class: int
    # None: chosen automatically
    node_count: Annotated[int, Field(ge=2, le=128)] | None = _renamed("node_count", "nodes", None)
    # R chains
    example_count: Annotated[int, Field(ge=1, le=64)] = _renamed("example_count", "examples", 8)
    preset: Preset = "balanced"
    candidates: Annotated[int, Field(ge=1, le=200)] | None = None  # K; None: by the preset
    steps: Annotated[int, Field(ge=1, le=1000)] | None = None  # T; None: by the preset
    regularisers: dict[RegulariserName, float] = {}
    explainer: Annotated[ClassExplainer, _FROM_OLD_NAME] = _renamed("explainer", "sampler", "d4")
    time_budget: Annotated[float, Field(gt=0, le=3600)] | None = None
    seed: int = 0


class PredictionRequest(Asked):
    kind: Literal["prediction"] = "prediction"
    graphs: list[CanonicalGraph]
    nodes: list[int] | None = None  # of a node classifier and one graph; None: all nodes


class ProbeRequest(Asked):
    """Labelled samples that a GNN is registered with, and the share it has to get right."""

    kind: Literal["probe"] = "probe"
    graphs: list[CanonicalGraph]
    nodes: list[list[int]] | None = None  # of a node classifier: per graph those with a label
    labels: list[int]  # one per graph, or per node of `nodes`
    min_accuracy: Annotated[float, Field(ge=0, le=1)]
