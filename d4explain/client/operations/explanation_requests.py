"""Builds and sends requests for explanations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from d4explain.client.graph_formats.posted_graphs import Graphs, graph_list
from d4explain.client.operations.resource_paths import GnnReference, reference_of
from d4explain.client.options import ClassReference
from d4explain.client.resources import Dataset, Estimate, Explanation, Gnn
from d4explain.client.transport.http_transport import HttpTransport, idempotency_header
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from d4explain.contracts.job_states import Stage
from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.results import ClassResult

PATH = "/v1/explanations"
GnnAndDataset = tuple[str, str]
Result = CounterfactualResult | ClassResult | GlobalResult
_RESULT: TypeAdapter[Result] = TypeAdapter(Annotated[Result, Field(discriminator="kind")])


def counterfactual_body(
    inputs: GnnAndDataset, graphs: Graphs, options: Mapping[str, Any]
) -> dict[str, Any]:
    """`graphs` is None if the nodes are those of a large graph."""
    body = {"kind": "counterfactual", **_common(inputs, options)}
    posted = [] if graphs is None else graph_list(graphs)
    if len(posted) == 1:
        body["graph"] = posted[0]
    elif posted:
        body["graphs"] = posted
    return body


def class_body(
    inputs: GnnAndDataset, target_class: ClassReference, options: Mapping[str, Any]
) -> dict[str, Any]:
    return {"kind": "class", **_common(inputs, options), "target_class": target_class}


def global_body(
    inputs: GnnAndDataset, source_class: ClassReference, options: Mapping[str, Any]
) -> dict[str, Any]:
    return {"kind": "global", **_common(inputs, options), "source_class": source_class}


def _common(inputs: GnnAndDataset, options: Mapping[str, Any]) -> dict[str, Any]:
    gnn, dataset = inputs
    body = {"gnn": gnn, "dataset": dataset, **options}
    body.pop("idempotency_key", None)  # a header
    if isinstance(body.get("denoiser"), DenoiserConfig):
        body["denoiser"] = body["denoiser"].model_dump(exclude_none=True)
    return body


def inputs_of(gnn: GnnReference, dataset: Dataset | str | None) -> GnnAndDataset:
    """References to both; the reference set of a GNN has by default the GNN's name.

    A GNN given by its id has no name here: give a dataset, or the `Gnn` itself.
    """
    if dataset is not None:
        return reference_of(gnn), reference_of(dataset)
    if isinstance(gnn, Gnn):
        return gnn.id, gnn.name
    if gnn.startswith("gnn_"):
        raise ValueError(
            f"the GNN is {gnn!r}, an id; give its name instead, or the dataset as well"
        )
    return gnn, gnn.partition("@")[0]


async def request_explanation(
    transport: HttpTransport, body: Mapping[str, Any], options: Mapping[str, Any]
) -> Explanation:
    # The result may take minutes: do not wait in this request, but follow events.
    headers = {"Prefer": "wait=0", **idempotency_header(options.get("idempotency_key"))}
    answer = await transport.send("POST", PATH, json=body, headers=headers)
    return Explanation.model_validate(answer.json())


async def request_estimate(transport: HttpTransport, body: Mapping[str, Any]) -> Estimate:
    answer = await transport.send("POST", PATH, json=body, params={"dry_run": "true"})
    return Estimate.model_validate(answer.json())


async def get_explanation(transport: HttpTransport, explanation_id: str) -> Explanation:
    return Explanation.model_validate(await transport.get(f"{PATH}/{explanation_id}"))


async def get_answer(transport: HttpTransport, explanation_id: str, stage: Stage) -> Result:
    document = await transport.get(f"{PATH}/{explanation_id}/answers/{stage.value}")
    return _RESULT.validate_python(document)


async def graph_content(
    transport: HttpTransport,
    explanation_id: str,
    form: str,
    graph: int | None,
    alternative: int,
    *,
    stage: Stage | None = None,  # None means the newest answer
) -> bytes:
    """One graph of an explanation in a format of the API, such as svg or graphml."""
    query = {"format": form, "alternative": alternative}
    if graph is not None:
        query["graph"] = graph
    path = f"{PATH}/{explanation_id}" + ("" if stage is None else f"/answers/{stage.value}")
    answer = await transport.send("GET", path, params=query)
    return answer.content
