"""Rows about the graphs of an explanation, as TrustyAI's `/data/upload` takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from d4explain.contracts.counterfactual_results import CounterfactualAnswer
from service.graph_io.json_parts import JsonPart
from store.errors import Conflict

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Tensor(BaseModel):
    """One column, as a tensor of KServe's V2 protocol."""

    name: str = Field(description="Name of the column.")
    shape: list[int] = Field(description="The number of rows.")
    datatype: Literal["INT64", "FP64"] = Field(description="Type of the values.")
    data: list[int | float] = Field(description="One value per graph, or node.")


class TensorRequest(BaseModel):
    """What the GNN got."""

    id: str = Field(description="Id of the explanation.")
    inputs: list[Tensor] = Field(description="Size and prediction of the originals.")


class TensorResponse(BaseModel):
    """What the explanation found."""

    model_name: str = Field(description="The name under which TrustyAI stores the rows.")
    id: str = Field(description="Id of the explanation.")
    outputs: list[Tensor] = Field(description="Figures of the best counterfactuals.")


class TrustyaiUpload(BaseModel):
    """A body for `POST /data/upload` of TrustyAI."""

    model_name: str = Field(description="The name under which TrustyAI stores the rows.")
    data_tag: str = Field(description="The tag of the rows.")
    is_ground_truth: bool = Field(description="Always false.")
    request: TensorRequest
    response: TensorResponse


def model_name_of(gnn: str, version: int) -> str:
    """TrustyAI refuses slashes in names."""
    return f"{_UNSAFE.sub('_', gnn)}-v{version}-explanations"


def trustyai_upload(
    result: bytes, explanation_id: str, *, model_name: str, data_tag: str
) -> TrustyaiUpload:
    """One row per graph. A graph without a counterfactual has the figures of the unchanged graph:

    no edits, and its own typicality. TrustyAI wants the same columns each time, so rows without a
    typicality are those of another model.
    """
    members = JsonPart.whole(result).members()
    if "answers" not in members:
        raise Conflict("this is a class explanation; rows are about counterfactuals")
    answers = [
        CounterfactualAnswer.model_validate_json(part.text)
        for part in members["answers"].elements()
    ]
    best = [answer.counterfactuals[0] if answer.found else None for answer in answers]
    predicted = [answer.prediction for answer in answers]
    inputs = [
        _whole("node_count", [len(answer.graph.nodes) for answer in answers]),
        _whole("edge_count", [len(answer.graph.edges) for answer in answers]),
        _whole("predicted_class", [one.predicted_class for one in predicted]),
        _real("probability", [max(one.probabilities) for one in predicted]),
    ]
    outputs = [
        _whole("validity", [int(one is not None) for one in best]),
        _whole("edits", [len(one.edits) if one else 0 for one in best]),
        _real(
            "modification_ratio", [0.0 if one is None else one.modification_ratio for one in best]
        ),
        _real("fidelity", [one.fidelity if one else 0.0 for one in best]),
    ]
    typical = [
        (answer if found is None else found).typicality
        for answer, found in zip(answers, best, strict=True)
    ]
    values = [one.value for one in typical if one is not None]
    if len(values) == len(typical):
        outputs.append(_real("typicality", values))
    else:
        model_name += "-without-typicality"
    return TrustyaiUpload(
        model_name=model_name,
        data_tag=data_tag,
        is_ground_truth=False,
        request=TensorRequest(id=explanation_id, inputs=inputs),
        response=TensorResponse(model_name=model_name, id=explanation_id, outputs=outputs),
    )


def _whole(name: str, data: Sequence[int]) -> Tensor:
    return Tensor(name=name, shape=[len(data)], datatype="INT64", data=list(data))


def _real(name: str, data: Sequence[float]) -> Tensor:
    return Tensor(name=name, shape=[len(data)], datatype="FP64", data=list(data))
