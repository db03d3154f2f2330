"""The receipt of an answer: everything needed to check it and to repeat the work."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

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


class ReceiptPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Environment(ReceiptPart):
    """What rounding errors depend on: the same work in another one may give another answer."""

    device: str  # its type and, of a GPU, its name
    cpu: str  # model and instruction set
    torch: str  # version and build
    threads: int


class GraphLimits(ReceiptPart):
    """Settings of the deployment that decide which node pairs the search considers."""

    exact_nodes: int
    neighbourhood_nodes: int


class Cut(ReceiptPart):
    """Where a time budget ended the search on one graph or node."""

    case: int  # position of the graph or node in the request
    checks: int  # how often the search had asked whether to stop


class Receipt(ReceiptPart):
    """Everything needed to check and repeat an explanation."""

    request_sha256: str
    gnn: str | None = None  # its id, also if the request had a name or alias; None in old receipts
    gnn_sha256: str
    dataset: str | None = None  # its id; None in old receipts
    dataset_sha256: str
    graphs_sha256: list[str] = []  # of the posted graphs
    denoiser_sha256: str | None  # None for the explainer `search`
    denoiser_key: str | None  # hash of (GNN, reference set, objective, config); None for `search`
    witnesses_sha256: str | None = None  # None if there were no witnesses
    witnesses_key: str | None = None  # hash of (GNN, reference set, version of the training)
    witness_failure: str | None = None  # why requested witnesses did not judge
    judges: dict[str, str] = {}  # the SHA-256 of each GNN that the request named as a judge, by id
    config: dict[str, object]  # the explainer and its resolved settings
    limits: GraphLimits | None = None  # None in old receipts
    seed: int
    device: str
    environment: Environment | None = None  # None in old receipts
    versions: dict[str, str]  # of packages and plug-ins
    gnn_form: GnnForm = "dense"
    objective_fallback: ObjectiveFallback | None = None
    work: dict[str, int | float]  # samples, GNN evaluations and gradients, search depth, …
    cuts: list[Cut] = []  # where the time budget ended the search
