"""Turns a request of KServe's V1 protocol into one for an explanation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.http.bodies import PostedBody
from service.http.faults import reject
from service.http.json_bodies import parse_model
from store.catalogue import gnns
from store.database.tables import Dataset, Gnn
from store.store import Store

DATASET_TAG = "dataset"  # of a GNN: the reference set of requests that name none
_MAX_LISTED = 5
# The path and `instances` say these.
_NOT_PARAMETERS = frozenset({"kind", "gnn", "graph", "graphs", "node", "nodes"})


class KserveIn(BaseModel):
    """The body of `:explain`."""

    model_config = ConfigDict(extra="forbid")

    instances: Annotated[
        list[JsonValue],
        Field(
            min_length=1,
            description="Graphs in any format that `POST /v1/explanations` takes, or nodes of the "
            'reference set if it is one large graph: `{"node": 17}`.',
        ),
    ]
    parameters: dict[str, JsonValue] = Field(
        {},
        description="`dataset` and further fields of `POST /v1/explanations`, such as "
        "`target_class` and `constraints`.",
    )


def explanation_body(
    store: Store, tenant: str, model: str, posted: PostedBody
) -> tuple[bytes, int]:
    """The body of `POST /v1/explanations` that asks the same, and the number of instances."""
    body = parse_model(posted.read(), KserveIn)
    for name in sorted(_NOT_PARAMETERS & body.parameters.keys()):
        reject(f"/parameters/{name}", "is not a parameter: the path and `instances` say it")
    with store.database.reading() as session:
        gnn = gnns.require_ready(session, model, tenant, lock=False)
        dataset = body.parameters.get("dataset", gnn.tags.get(DATASET_TAG))
        if dataset is None:
            dataset = _only_fitting(session, gnn).id
    document = {
        "kind": "counterfactual",
        **body.parameters,
        "gnn": gnn.id,
        "dataset": dataset,
        **_asked(body.instances),
    }
    return json.dumps(document).encode(), len(body.instances)


def _asked(instances: Sequence[JsonValue]) -> dict[str, Any]:
    nodes = [one["node"] for one in instances if isinstance(one, dict) and one.keys() == {"node"}]
    if not nodes:
        return {"graphs": instances}
    if len(nodes) < len(instances):
        reject("/instances", "should be graphs or nodes, not both")
    return {"nodes": nodes}


def _only_fitting(session: Session, gnn: Gnn) -> Dataset:
    fitting = session.scalars(
        select(Dataset)
        .where(
            Dataset.tenant_id == gnn.tenant_id,
            Dataset.features == gnn.spec["features"],
            Dataset.large.is_(gnns.classifies_nodes(gnn)),
        )
        .order_by(Dataset.created_at.desc())
        .limit(_MAX_LISTED)
    ).all()
    if len(fitting) != 1:
        found = ", ".join(f"{one.name}@{one.version}" for one in fitting) or "none"
        reject(
            "/parameters/dataset",
            f"is required: no or several reference sets fit this GNN ({found}). Name one, or give "
            f"the GNN the tag `{DATASET_TAG}`",
        )
    return fitting[0]
