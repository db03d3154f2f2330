"""Hostile uploads and black-box URLs, sent to a real service with a real worker."""

from __future__ import annotations

import io
import json
import pickle
import ssl
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
import safetensors.numpy
import torch
from torch import nn

from d4explain import Client, RefusedError
from d4explain.cli.main import main
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.gnn_files.gnn_archive import SPEC, WEIGHTS, write_archive
from d4explain.contracts.job_states import GnnState

if TYPE_CHECKING:
    from tests.processes import EdgeCounter, Stack, WorkerProcess

QUICK = {"steps": 10, "hidden": 4, "blocks": 1}
MAX_CPU_SECONDS = 1.0  # of the service; CPU time does not depend on other processes
BIAS = "layers.2.linear.bias"


def ring(nodes: int) -> dict[str, Any]:
    ends = [list(range(nodes)), [(node + 1) % nodes for node in range(nodes)]]
    return {"edge_index": ends, "num_nodes": nodes}


@dataclass
class Deployed:
    client: Client
    service: psutil.Process
    worker: WorkerProcess

    def explain(self, gnn: str, nodes: int, **options: Any) -> CounterfactualResult:
        """Explains a ring with this number of nodes."""
        dataset = self.client.create_dataset("rings", [ring(n) for n in (4, 5, 6, 7, 8)])
        explanation = self.client.explain_counterfactual(
            gnn, dataset.id, [ring(nodes)], denoiser=QUICK, **options
        )
        result = self.client.result(explanation, timeout=100)
        assert isinstance(result, CounterfactualResult)
        return result


@pytest.fixture(scope="module")
def deployed_stack(black_box_stack: Stack) -> Iterator[Deployed]:
    worker = black_box_stack.start_worker()
    service = black_box_stack.start_service()
    black_box_stack.wait_for(worker)
    with Client(service.url) as client:
        yield Deployed(client, psutil.Process(service.process.pid), worker)


class PickleBomb:
    def __reduce__(self) -> Any:
        return (print, ("the upload was unpickled",))


def torchscript_file(_: bytes) -> bytes:
    data = io.BytesIO()
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        torch.jit.save(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)), data)
    return data.getvalue()


def pt2_file(_: bytes) -> bytes:
    data = io.BytesIO()
    torch.export.save(torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),)), data)
    return data.getvalue()


def with_header(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + body


def with_duplicate_key(weights: bytes) -> bytes:
    size = int.from_bytes(weights[:8], "little")
    header, body = weights[8 : 8 + size].strip(), weights[8 + size :]
    again = json.dumps({BIAS: json.loads(header)[BIAS]}).encode()
    return with_header(header[:-1] + b", " + again[1:], body)


def with_tensors(weights: bytes, **tensors: Any) -> bytes:
    return bytes(safetensors.numpy.save({**safetensors.numpy.load(weights), **tensors}))


def empty_tensors(_: bytes) -> bytes:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return with_header(json.dumps({f"t{i}": entry for i in range(100_000)}).encode())


def traversing_archive(_: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("../../spec.json", "{}")
    return data.getvalue()


HOSTILE_WEIGHTS: dict[str, Callable[[bytes], bytes]] = {
    "pickle renamed": lambda _: pickle.dumps(PickleBomb()),
    ".pt2": pt2_file,
    "TorchScript": torchscript_file,
    "duplicate keys": with_duplicate_key,
    "traversal name": lambda good: with_tensors(
        good, **{"../../etc/cron": np.zeros(1, np.float32)}
    ),
    "100,000 empty tensors": empty_tensors,
    "NaN": lambda good: with_tensors(good, **{BIAS: np.array([0, np.nan], np.float32)}),
    "wrong dtype": lambda good: with_tensors(good, **{BIAS: np.zeros(2)}),
    "huge header": lambda good: struct.pack("<Q", 2**62) + good[8:],
}
HOSTILE_ARCHIVES: dict[str, Callable[[bytes], bytes]] = {
    "zip bomb": lambda _: write_archive({SPEC: b"{}", WEIGHTS: bytes(200_000_000)}),
    "traversal names": traversing_archive,
}


def test_hostile_uploads_are_refused_and_the_next_gnn_is_explained(
    deployed_stack: Deployed, edge_counter: EdgeCounter
) -> None:
    children = {child.pid for child in deployed_stack.worker.children()}

    def upload(name: str, data: bytes) -> None:
        if name in HOSTILE_ARCHIVES:
            deployed_stack.client.register_archive(name, data)
        else:
            deployed_stack.client.register_gnn(name, edge_counter.spec, data)

    for name, make in {**HOSTILE_WEIGHTS, **HOSTILE_ARCHIVES}.items():
        data = make(edge_counter.weights)
        before = deployed_stack.service.cpu_times()
        with pytest.raises(RefusedError) as refused:
            upload(name, data)
        after = deployed_stack.service.cpu_times()
        assert refused.value.status == 422, name
        assert after.user + after.system - before.user - before.system < MAX_CPU_SECONDS, name
    assert not list(deployed_stack.client.gnns())

    gnn = deployed_stack.client.register_gnn("good", edge_counter.spec, edge_counter.weights)
    assert gnn.state is GnnState.READY, gnn.report
    (answer,) = deployed_stack.explain(gnn.id, 5).answers
    assert [edit.action for edit in answer.counterfactuals[0].edits] == ["add"]
    assert {child.pid for child in deployed_stack.worker.children()} == children


def test_a_black_box_behind_https_is_explained(
    deployed_stack: Deployed,
    predict_server: Callable[..., Any],
    self_signed: tuple[Path, ssl.SSLContext],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = predict_server(self_signed[1])
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"features": 1, "classes": 2}))
    samples = tmp_path / "samples.json"
    graphs = [{**ring(5), "label": 0}, {**ring(9), "label": 1}]
    samples.write_text(json.dumps({"graphs": graphs, "min_accuracy": 1.0}))
    files = (str(spec), "--samples", str(samples), "--predict-url", server.url)
    with pytest.raises(SystemExit) as ended:
        main(("register", *files, "--name", "remote", "--url", deployed_stack.client.url))
    output = capsys.readouterr()
    assert ended.value.code in (0, None), output.err
    assert "is ready: remote@1" in output.out

    before = len(server.received_graphs)
    result = deployed_stack.explain("remote", 6, max_queries=200)
    (answer,) = result.answers
    assert [edit.action for edit in answer.counterfactuals[0].edits] == ["add"]
    assert 0 < result.receipt.work["queries"] == len(server.received_graphs) - before <= 200
    assert result.receipt.gnn_form == "black_box"


def test_a_black_box_on_an_unlisted_host_is_refused(deployed_stack: Deployed) -> None:
    with pytest.raises(RefusedError, match="is not in D4_BLACK_BOX_HOSTS"):
        deployed_stack.client.register_black_box(
            "elsewhere", {"features": 1, "classes": 2}, "http://169.254.169.254/latest"
        )
