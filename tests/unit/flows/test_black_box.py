"""A GNN behind a URL, from its registration over HTTP to an answer; the worker runs here."""

from __future__ import annotations

import json
import math
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

torch.set_num_threads(1)
SPEC = {"features": 1, "classes": 2, "class_names": ["few", "many"]}
QUICK = {"steps": 5, "hidden": 4, "blocks": 1}


def ring(nodes: int, **more: Any) -> dict[str, Any]:
    ends = [list(range(nodes)), [(node + 1) % nodes for node in range(nodes)]]
    return {"edge_index": ends, "num_nodes": nodes, **more}


@pytest.fixture(scope="module")
def api(deployed: Callable[..., Any]) -> Any:
    return deployed(
        black_box=True, black_box_hosts="127.0.0.1", black_box_private_hosts="127.0.0.1"
    )


def register(api: Any, url: str, samples: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    files = {} if samples is None else {"samples": ("s", json.dumps({"graphs": samples}).encode())}
    parts = {"name": (None, "remote"), "spec": (None, json.dumps(SPEC)), "predict_url": (None, url)}
    answer = api.client.post(
        "/v1/gnns", files={**parts, **files}, headers={"Prefer": "respond-async"}
    )
    assert answer.status_code == 202, answer.text
    api.work()
    found: dict[str, Any] = api.client.get(answer.headers["location"]).json()
    return found


def test_a_black_box_is_registered_and_explained(
    api: Any, predict_server: Callable[..., Any]
) -> None:
    server = predict_server()
    gnn = register(api, server.url, [ring(5, label=0), ring(8, label=1), ring(9, label=0)])
    assert gnn["state"] == "ready", gnn["report"]
    assert gnn["spec"]["layers"] == [{"type": "black_box", "url": server.url}]
    assert gnn["report"]["samples"]["accuracy"] == pytest.approx(2 / 3)

    asked = api.client.post(
        "/v1/gnns/remote/predictions",
        json={"graph": ring(7)},
        headers={"Prefer": "respond-async"},
    )
    api.work()
    second = 1 / (1 + math.exp(-0.5))
    (told,) = api.client.get(asked.headers["location"]).json()["result"]["predictions"]
    assert told["probabilities"][1] == pytest.approx(second)

    graphs = [ring(nodes) for nodes in (4, 5, 6, 7, 8)]
    dataset = api.client.post("/v1/datasets", json={"name": "rings", "graphs": graphs}).json()
    body = {
        "kind": "counterfactual",
        "gnn": "remote",
        "dataset": dataset["id"],
        "graph": ring(6),
        "denoiser": QUICK,
        "max_queries": 300,
    }
    before = len(server.received_graphs)
    posted = api.client.post("/v1/explanations", json=body)
    assert posted.status_code == 202, posted.text
    api.work()
    found = api.client.get(posted.headers["location"]).json()
    assert found["state"] == "succeeded", found["job"]["error"]
    (answer,) = found["result"]["answers"]
    assert [edit["action"] for edit in answer["counterfactuals"][0]["edits"]] == ["add"]
    receipt = found["result"]["receipt"]
    assert receipt["gnn_form"] == "black_box"
    assert 0 < receipt["work"]["queries"] == len(server.received_graphs) - before <= 300


def test_a_trusted_certificate_is_accepted(
    api: Any,
    predict_server: Callable[..., Any],
    self_signed: tuple[Path, ssl.SSLContext],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certificate, context = self_signed
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = predict_server(context)
    gnn = register(api, server.url)
    assert gnn["state"] == "ready", gnn["report"]
    assert server.received_graphs


def test_another_certificate_ends_the_probe_and_is_named(
    api: Any, predict_server: Callable[..., Any], self_signed: tuple[Path, ssl.SSLContext]
) -> None:
    server = predict_server(self_signed[1])
    gnn = register(api, server.url)
    assert gnn["state"] == "rejected"
    (check,) = gnn["report"]["checks"]
    assert "the certificate of the black box is not trusted: self-signed" in check["detail"]
    assert not server.received_graphs


def test_a_certificate_of_another_host_is_refused(
    predict_server: Callable[..., Any],
    self_signed: tuple[Path, ssl.SSLContext],
    deployed: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is trusted, but for 127.0.0.1."""
    monkeypatch.setenv("SSL_CERT_FILE", str(self_signed[0]))
    other = deployed(
        black_box=True, black_box_hosts="localhost", black_box_private_hosts="localhost"
    )
    server = predict_server(self_signed[1])
    gnn = register(other, server.url.replace("127.0.0.1", "localhost"))
    assert gnn["state"] == "rejected"
    assert "is not trusted: Hostname mismatch" in gnn["report"]["checks"][0]["detail"]
    assert not server.received_graphs
