"""Registers a GNN from files, an archive or a URL, and waits for its probe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from d4explain.client.errors import RefusedError
from d4explain.client.job_waiting import wait_for_job
from d4explain.client.operations.resource_paths import checked_name, gnn_path
from d4explain.client.options import Metadata
from d4explain.client.resources import Gnn
from d4explain.client.transport.http_transport import HttpTransport

Form = dict[str, Any]  # parts of a multipart form, as httpx takes them
JsonSource = Mapping[str, Any] | Path
UNPROCESSABLE = 422


async def register_gnn(transport: HttpTransport, form: Form) -> Gnn:
    """The GNN after its probe; a rejected GNN has the report of its probe."""
    answer = await transport.send("POST", "/v1/gnns", files=form, accept=(UNPROCESSABLE,))
    if answer.status_code == UNPROCESSABLE:
        return _rejected_gnn(answer)
    gnn = answer.json()
    if gnn.get("state") == "probing":
        await wait_for_job(transport, gnn["job_id"], check=False)
        gnn = await transport.get(gnn_path(gnn["id"]))
    return Gnn.model_validate(gnn)


def registration_form(
    name: str,
    *,
    spec: JsonSource | None = None,
    weights: bytes | Path | None = None,
    archive: bytes | Path | None = None,
    predict_url: str | None = None,
    samples: JsonSource | None = None,
    description: str | None = None,
    tags: Mapping[str, str] | None = None,
    metadata: Metadata | None = None,
) -> Form:
    texts = {"name": checked_name(name), "predict_url": predict_url, "description": description}
    form: Form = {key: (None, text) for key, text in texts.items() if text is not None}
    documents = {
        "spec": spec,
        "samples": samples,
        "tags": tags or None,
        "metadata": metadata or None,
    }
    for key, document in documents.items():
        if document is not None:
            # The API expects `samples` as a file, which needs a name, and the others as text.
            file_name = "samples.json" if key == "samples" else None
            form[key] = (file_name, _json(document), "application/json")
    if weights is not None:
        form["weights"] = ("weights.safetensors", _bytes(weights), "application/octet-stream")
    if archive is not None:
        form["archive"] = ("gnn.zip", _bytes(archive), "application/zip")
    return form


def _rejected_gnn(answer: httpx.Response) -> Gnn:
    """The GNN that the probe rejected; a request that was refused before the probe raises."""
    refusal = RefusedError.from_response(answer)
    gnn = refusal.body.get("gnn") if isinstance(refusal.body, dict) else None
    if gnn is None:
        raise refusal
    return Gnn.model_validate(gnn)


def _json(document: JsonSource) -> bytes:
    return document.read_bytes() if isinstance(document, Path) else json.dumps(document).encode()


def _bytes(data: bytes | Path) -> bytes:
    return data.read_bytes() if isinstance(data, Path) else data
