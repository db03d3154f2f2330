"""What strangers send to a real service with a real worker: files that mean harm, and URLs."""

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
from d4explain.contracts.gnn_archive import SPEC, WEIGHTS, write_archive
from d4explain.contracts.job_states import GnnState
from d4explain.contracts.results import CounterfactualResult

if TYPE_CHECKING:
    from conftest import EdgeCounter, Stack, WorkerProcess

QUICK = {"steps": 10, "hidden": 4, "blocks": 1}
LIMIT_SECONDS = 1.0  # of the service's processor, so that other work on the machine does not count
BIAS = "layers.2.linear.bias"


def ring(nodes: int) -> dict[str, Any]:
    ends = [list(range(nodes)), [(node + 1) % nodes for node in range(nodes)]]
    return {"edge_index": ends, "num_nodes": nodes}


@dataclass
class Running:
    client: Client
    service: psutil.Process
    worker: WorkerProcess

    def explained(self, gnn: str, nodes: int, **options: Any) -> CounterfactualResult:
        """The answer for a ring of so many nodes."""
        dataset = self.client.create_dataset("rings", [ring(n) for n in (4, 5, 6, 7, 8)])
        explanation = self.client.explain_counterfactual(
            gnn, dataset.id, [ring(nodes)], denoiser=QUICK, **options
        )
        result = self.client.result(explanation, timeout=100)
        assert isinstance(result, CounterfactualResult)
        return result


@pytest.fixture(scope="module")
def running(asking_stack: Stack) -> Iterator[Running]:
    worker = asking_stack.start_worker()
    service = asking_stack.start_service()
    asking_stack.wait_for(worker)
    with Client(service.url) as client:
        yield Running(client, psutil.Process(service.process.pid), worker)


class Bomb:
    def __reduce__(self) -> Any:
        return (print, ("something was unpickled",))


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


def doubled(weights: bytes) -> bytes:
    size = int.from_bytes(weights[:8], "little")
    header, body = weights[8 : 8 + size].strip(), weights[8 + size :]
    again = json.dumps({BIAS: json.loads(header)[BIAS]}).encode()
    return with_header(header[:-1] + b", " + again[1:], body)


def changed(weights: bytes, **tensors: Any) -> bytes:
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
    "pickle renamed": lambda _: pickle.dumps(Bomb()),
    ".pt2": pt2_file,
    "TorchScript": torchscript_file,
    "duplicate keys": doubled,
    "traversal name": lambda good: changed(good, **{"../../etc/cron": np.zeros(1, np.float32)}),
    "100,000 empty tensors": empty_tensors,
    "NaN": lambda good: changed(good, **{BIAS: np.array([0, np.nan], np.float32)}),
    "wrong dtype": lambda good: changed(good, **{BIAS: np.zeros(2)}),
    "huge header": lambda good: struct.pack("<Q", 2**62) + good[8:],
}
HOSTILE_ARCHIVES: dict[str, Callable[[bytes], bytes]] = {
    "zip bomb": lambda _: write_archive({SPEC: b"{}", WEIGHTS: bytes(200_000_000)}),
    "traversal names": traversing_archive,
}


def test_hostile_uploads_are_refused_and_the_next_gnn_is_explained(
    running: Running, edge_counter: EdgeCounter
) -> None:
    children = {child.pid for child in running.worker.children()}

    def upload(name: str, data: bytes) -> None:
        if name in HOSTILE_ARCHIVES:
            running.client.register_archive(name, data)
        else:
            running.client.register_gnn(name, edge_counter.spec, data)

    for name, make in {**HOSTILE_WEIGHTS, **HOSTILE_ARCHIVES}.items():
        data = make(edge_counter.weights)
        before = running.service.cpu_times()
        with pytest.raises(RefusedError) as refused:
            upload(name, data)
        after = running.service.cpu_times()
        assert refused.value.status == 422, name
        assert after.user + after.system - before.user - before.system < LIMIT_SECONDS, name
    assert not list(running.client.gnns())

    gnn = running.client.register_gnn("good", edge_counter.spec, edge_counter.weights)
    assert gnn.state is GnnState.READY, gnn.report
    (answer,) = running.explained(gnn.id, 5).answers
    assert [edit.action for edit in answer.counterfactuals[0].edits] == ["add"]
    assert {child.pid for child in running.worker.children()} == children


def test_a_black_box_behind_https_is_explained(
    running: Running,
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
        main(("register", *files, "--name", "remote", "--url", running.client.url))
    said = capsys.readouterr()
    assert ended.value.code in (0, None), said.err
    assert "is ready: remote@1" in said.out

    before = len(server.asked)
    result = running.explained("remote", 6, max_queries=200)
    (answer,) = result.answers
    assert [edit.action for edit in answer.counterfactuals[0].edits] == ["add"]
    assert 0 < result.receipt.work["queries"] == len(server.asked) - before <= 200
    assert result.receipt.gnn_form == "black_box"


def test_a_host_that_is_not_listed_is_not_called(running: Running) -> None:
    with pytest.raises(RefusedError, match="is not in D4_BLACK_BOX_HOSTS"):
        running.client.register_black_box(
            "elsewhere", {"features": 1, "classes": 2}, "http://169.254.169.254/latest"
        )
