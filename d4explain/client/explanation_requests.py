"""Builds and sends requests for explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from d4explain.client.http_transport import HttpTransport
from d4explain.client.resources import Estimate, Explanation, GraphJson

PATH = "/v1/explanations"


def counterfactual_body(
    gnn_id: str, dataset_id: str, graphs: Sequence[GraphJson], options: Mapping[str, Any]
) -> dict[str, Any]:
    body = {"kind": "counterfactual", "gnn": gnn_id, "dataset": dataset_id, **options}
    if len(graphs) == 1:
        body["graph"] = dict(graphs[0])
    elif graphs:
        body["graphs"] = [dict(graph) for graph in graphs]
    return body


def class_body(
    gnn_id: str, dataset_id: str, target_class: int, options: Mapping[str, Any]
) -> dict[str, Any]:
    body = {"kind": "class", "gnn": gnn_id, "dataset": dataset_id, **options}
    return {**body, "target_class": target_class}


def request_explanation(transport: HttpTransport, body: Mapping[str, Any]) -> Explanation:
    # The result may take minutes: do not wait in this request, but follow events.
    answer = transport.send("POST", PATH, json=body, headers={"Prefer": "wait=0"})
    return Explanation.model_validate(answer.json())


def request_estimate(transport: HttpTransport, body: Mapping[str, Any]) -> Estimate:
    answer = transport.send("POST", PATH, json=body, params={"dry_run": "true"})
    return Estimate.model_validate(answer.json())
