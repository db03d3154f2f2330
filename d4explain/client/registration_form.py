"""The multipart form that registers a GNN from files, an archive or a URL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Form = dict[str, Any]  # parts of a multipart form, as httpx takes them
JsonSource = Mapping[str, Any] | Path


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
) -> Form:
    texts = {"name": name, "predict_url": predict_url, "description": description}
    form: Form = {key: (None, text) for key, text in texts.items() if text is not None}
    documents = {"spec": spec, "samples": samples, "tags": tags or None}
    for key, document in documents.items():
        if document is not None:
            # The API expects `samples` as a file, which needs a name, and the others as text.
            file = "samples.json" if key == "samples" else None
            form[key] = (file, _json(document), "application/json")
    if weights is not None:
        form["weights"] = ("weights.safetensors", _bytes(weights), "application/octet-stream")
    if archive is not None:
        form["archive"] = ("gnn.zip", _bytes(archive), "application/zip")
    return form


def _json(document: JsonSource) -> bytes:
    return document.read_bytes() if isinstance(document, Path) else json.dumps(document).encode()


def _bytes(data: bytes | Path) -> bytes:
    return data.read_bytes() if isinstance(data, Path) else data
