"""A GNN behind a URL is registered and explained over HTTP."""

from __future__ import annotations

import json
import math
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.unit.flows.api_flow import ApiFlow

torch.set_num_threads(1)
SPEC = {"features": 1, "classes": 2, "class_names": ["few", "many"]}


def ring(nodes: int, **more: Any) -> dict[str, Any]:
    ends = [list(range(nodes)), [(node + 1) % nodes for node in range(nodes)]]
    return {"edge_index": ends, "num_nodes": nodes, **more}


@pytest.fixture(scope="module")
def flow(deployed: Callable[..., Any]) -> ApiFlow:
    return flow_that_calls(deployed, "127.0.0.1")


def flow_that_calls(deployed: Callable[..., Any], host: str) -> ApiFlow:
    """An API that accepts black boxes on this host."""
    return ApiFlow(
        deployed(black_box=True, black_box_hosts=host, black_box_private_hosts=host),
        denoiser={"steps": 5, "hidden": 4, "blocks": 1},
    )


def register(
    flow: ApiFlow, url: str, samples: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    files = {} if samples is None else {"samples": ("s", json.dumps({"graphs": samples}).encode())}
    parts = {"name": (None, "remote"), "spec": (None, json.dumps(SPEC)), "predict_url": (None, url)}
    answer = flow.client.post(
        "/v1/gnns", files={**parts, **files}, headers={"Prefer": "respond-async"}
    )
    assert answer.status_code == 202, answer.text
    flow.work()
    gnn: dict[str, Any] = flow.client.get(answer.headers["location"]).json()
    return gnn


@pytest.mark.parametrize("explainer", ["d4", "search"])
def test_a_black_box_is_registered_and_explained(
    flow: ApiFlow, predict_server: Callable[..., Any], explainer: str
) -> None:
    server = predict_server()
    gnn = register(flow, server.url, [ring(5, label=0), ring(8, label=1), ring(9, label=0)])
    assert gnn["state"] == "ready", gnn["report"]
    assert gnn["spec"]["layers"] == [{"type": "black_box", "url": server.url}]
    assert gnn["report"]["samples"]["accuracy"] == pytest.approx(2 / 3)

    class_1 = 1 / (1 + math.exp(-0.5))
    flow.gnn = "remote"
    (prediction,) = flow.predict(graph=ring(7))
    assert prediction["probabilities"][1] == pytest.approx(class_1)

    flow.dataset = flow.create_dataset([ring(nodes) for nodes in (4, 5, 6, 7, 8)])["id"]
    before = len(server.received_graphs)
    explanation = flow.explain(graph=ring(6), explainer=explainer, max_queries=300)
    # A provisional answer would use up queries.
    assert [one["stage"] for one in explanation["answers"]] == ["final"]
    result = explanation["result"]
    (answer,) = result["answers"]
    assert [edit["action"] for edit in answer["counterfactuals"][0]["edits"]] == ["add"]
    receipt = result["receipt"]
    assert receipt["gnn_form"] == "black_box"
    assert 0 < receipt["work"]["queries"] == len(server.received_graphs) - before <= 300


def test_a_trusted_certificate_is_accepted(
    flow: ApiFlow,
    predict_server: Callable[..., Any],
    self_signed: tuple[Path, ssl.SSLContext],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certificate, context = self_signed
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = predict_server(context)
    gnn = register(flow, server.url)
    assert gnn["state"] == "ready", gnn["report"]
    assert server.received_graphs


def test_an_untrusted_certificate_fails_the_probe_with_a_message(
    flow: ApiFlow, predict_server: Callable[..., Any], self_signed: tuple[Path, ssl.SSLContext]
) -> None:
    server = predict_server(self_signed[1])
    gnn = register(flow, server.url)
    assert gnn["state"] == "rejected"
    (check,) = gnn["report"]["checks"]
    expected = "the certificate of the host '127.0.0.1' is not trusted: self-signed certificate; "
    assert f"{expected}set SSL_CERT_FILE" in check["detail"]
    assert not server.received_graphs


def test_a_certificate_for_another_host_fails_the_probe(
    predict_server: Callable[..., Any],
    self_signed: tuple[Path, ssl.SSLContext],
    deployed: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trusted certificate is for 127.0.0.1 only."""
    monkeypatch.setenv("SSL_CERT_FILE", str(self_signed[0]))
    other = flow_that_calls(deployed, "localhost")
    server = predict_server(self_signed[1])
    gnn = register(other, server.url.replace("127.0.0.1", "localhost"))
    assert gnn["state"] == "rejected"
    assert "is not trusted: Hostname mismatch" in gnn["report"]["checks"][0]["detail"]
    assert not server.received_graphs
