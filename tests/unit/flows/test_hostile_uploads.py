"""Hostile uploads are refused quickly, and nothing is written.

The tests measure CPU time, which does not depend on other processes.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import time
import zipfile

import numpy as np
import pytest
import safetensors.numpy
import torch

from d4explain.contracts.gnn_files.gnn_archive import SPEC, WEIGHTS, write_archive
from d4explain.contracts.gnn_spec import MAX_LAYERS

BIAS = "layers.2.linear.bias"
MAX_CPU_SECONDS = 1.0


class PickleBomb:
    def __reduce__(self):
        return (pytest.fail, ("the upload was unpickled",))


def zipped(members, method=zipfile.ZIP_DEFLATED):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return data.getvalue()


def torch_file():
    data = io.BytesIO()
    torch.save({BIAS: torch.zeros(2), "bomb": PickleBomb()}, data)
    return data.getvalue()


def pt2_file():
    """The members of a `torch.export` archive, one of them a pickle that its loader would read."""
    members = ("archive_format", "byteorder", "models/model.json", "version")
    pickled = ("data/sample_inputs/model.pt", pickle.dumps(PickleBomb()))
    return zipped([*((f"model/{name}", b"pt2") for name in members), pickled])


def torchscript_file():
    members = ("code/__torch__.py", "constants.pkl", "data.pkl", "version")
    return zipped([(f"model/{name}", pickle.dumps(PickleBomb())) for name in members])


def with_header(header, body=b""):
    return struct.pack("<Q", len(header)) + header + body


def header_and_body(weights):
    size = int.from_bytes(weights[:8], "little")
    return json.loads(weights[8 : 8 + size]), weights[8 + size :]


def with_duplicate_tensor(weights):
    """The header lists one tensor twice."""
    header, body = header_and_body(weights)
    text = json.dumps(header)
    return with_header(f'{text[:-1]}, "{BIAS}": {json.dumps(header[BIAS])}}}'.encode(), body)


def with_offsets(weights, offsets):
    header, body = header_and_body(weights)
    header[BIAS]["data_offsets"] = offsets
    return with_header(json.dumps(header).encode(), body)


def with_tensors(weights, **tensors):
    return bytes(safetensors.numpy.save({**safetensors.numpy.load(weights), **tensors}))


def with_bias(weights, value, dtype=np.float32):
    return with_tensors(weights, **{BIAS: np.array([0, value], dtype)})


def empty_tensors(count):
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return with_header(json.dumps({f"t{i}": entry for i in range(count)}).encode())


WEIGHTS_FILES = {
    "pickle": (lambda good: pickle.dumps(PickleBomb()), "it is a pickle"),
    "torch .pt": (lambda good: torch_file(), "it is a zip file, like PyTorch's .pt"),
    ".pt2": (lambda good: pt2_file(), "it is a zip file"),
    "TorchScript": (lambda good: torchscript_file(), "it is a zip file"),
    "duplicate key": (with_duplicate_tensor, "appears more than once"),
    "traversal name": (
        lambda good: with_tensors(good, **{"../../etc/passwd": np.zeros(1, np.float32)}),
        "unexpected: ../../etc/passwd",
    ),
    "100,000 empty tensors": (lambda good: empty_tensors(100_000), "header of the safetensors"),
    "10,000 empty tensors": (lambda good: empty_tensors(10_000), "10000 tensors; at most 1024"),
    "NaN": (lambda good: with_bias(good, np.nan), "not finite"),
    "infinity": (lambda good: with_bias(good, -np.inf), "not finite"),
    "float64": (lambda good: with_bias(good, 0, np.float64), "is F64[2], not float32[2]"),
    "int64": (lambda good: with_bias(good, 0, np.int64), "is int64[2], not float32[2]"),
    "huge header length": (lambda good: struct.pack("<Q", 2**63) + good[8:], "ends within"),
    "long header": (lambda good: with_header(b" " * 2**21), "at most 1048576"),
    "truncated": (lambda good: good[:-1], "not a valid safetensors"),
    "truncated header": (lambda good: good[:40], "ends within"),
    "overlap": (lambda good: with_offsets(good, [0, 8]), "not a valid safetensors"),
    "offsets beyond the end": (
        lambda good: with_offsets(good, [10**15, 10**15 + 8]),
        "not a valid",
    ),
    "trailing bytes": (lambda good: good + b"\0", "not a valid safetensors"),
    "deep header": (lambda good: with_header(b"[" * 10**6), "nested too deeply"),
    "huge shape": (
        lambda good: with_header(
            json.dumps(
                {BIAS: {"dtype": "F32", "shape": [0, 2**60], "data_offsets": [0, 0]}}
            ).encode()
        ),
        "missing",
    ),
    "huge number": (
        lambda good: with_header(b'{"x": {"dtype": "F32", "shape": [' + b"9" * 9999 + b"]}}"),
        "thousands of digits",
    ),
    "empty": (lambda good: b"", "ends within"),
}
SPECS = {
    "duplicate key": ('{"features": 1, "features": 2}', "more than once"),
    "deep nesting": ("[" * 10**6, "nested too deeply"),
    "deep layers": ('{"layers": ' + '[{"layers": ' * 5000, "is not JSON"),
    "huge integer": ('{"features": ' + "9" * 10**5 + "}", "thousands of digits"),
    "large integer": ('{"features": 1' + "0" * 30 + ', "classes": 2, "layers": []}', "64 bits"),
    "huge float": ('{"features": 1e999, "classes": 2, "layers": []}', "finite"),
    "NaN": ('{"features": NaN, "classes": 2, "layers": []}', "finite"),
    "too deep": (
        json.dumps(
            {
                "features": 1,
                "classes": 2,
                "layers": [{"type": "gcn", "out": 4}] * MAX_LAYERS
                + [{"type": "pool", "op": "sum"}, {"type": "linear", "out": 2}],
            }
        ),
        f"at most {MAX_LAYERS}",
    ),
    "too wide": (
        '{"features": 1, "classes": 2, "layers": [{"type": "gcn", "out": 1025}, '
        '{"type": "pool", "op": "sum"}, {"type": "linear", "out": 2}]}',
        "less than or equal to 1024",
    ),
    "code": ('{"features": 1, "classes": 2, "layers": ["os.system"]}', "valid"),
    "a million layers": ('{"features": 1, "classes": 2, "layers": [' + "1," * 400_000 + "1]}", ""),
    "lone surrogate": ('{"features": 1, "classes": 2, "\\ud800": 1}', "surrogate"),
}


def archive_of(api, **changes):
    members = {SPEC: api.spec().model_dump_json().encode(), WEIGHTS: api.weights(), **changes}
    return write_archive(members)


ARCHIVES = {
    "zip bomb in the weights": (
        lambda api: archive_of(api, **{WEIGHTS: bytes(50_000_000)}),
        "weights.safetensors of 50000000 bytes; at most 1048656",
    ),
    "zip bomb in the spec": (
        lambda api: archive_of(api, **{SPEC: b" " * 50_000_000}),
        "spec.json of 50000000 bytes; at most 1048576",
    ),
    "traversal": (
        lambda api: zipped([("../../spec.json", b"{}"), (WEIGHTS, b"")]),
        "contains '../../spec.json'",
    ),
    "additional pickle": (
        lambda api: zipped(
            [(SPEC, b"{}"), (WEIGHTS, b""), ("data.pkl", pickle.dumps(PickleBomb()))]
        ),
        "contains 'data.pkl'",
    ),
    "5,000 members": (
        lambda api: zipped([(str(i), b"") for i in range(5000)], zipfile.ZIP_STORED),
        "contains 5000 files",
    ),
    "torch .pt": (lambda api: torch_file(), "like PyTorch files"),
    ".pt2": (lambda api: pt2_file(), "contains"),
    "TorchScript": (lambda api: torchscript_file(), "contains"),
    "pickle": (lambda api: pickle.dumps(PickleBomb()), "is not a zip file"),
    "truncated": (lambda api: archive_of(api)[:-30], "is not a zip file"),
    "duplicate key in the spec": (
        lambda api: archive_of(api, **{SPEC: b'{"features": 1, "features": 1}'}),
        "more than once",
    ),
    "NaN weights": (
        lambda api: archive_of(api, **{WEIGHTS: with_bias(api.weights(), np.nan)}),
        "fin",
    ),
}


@pytest.fixture
def assert_refused(shared_api):
    """Posts a form; checks that the API refuses it quickly and writes nothing."""

    def post_and_check(pointer, message, **changes):
        spec = (None, shared_api.spec().model_dump_json())
        form = {"name": (None, "harmless"), "spec": spec, "weights": ("w", shared_api.weights())}
        form = {name: part for name, part in {**form, **changes}.items() if part is not None}
        before = shared_api.written()
        # Build the request first: the measured time should not include the client.
        request = shared_api.client.build_request("POST", "/v1/gnns", files=form)
        request.read()
        started = time.process_time()
        answer = shared_api.client.send(request)
        seconds = time.process_time() - started

        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        errors = answer.json()["errors"]
        assert all(error["pointer"].startswith(pointer) for error in errors), errors
        assert any(message in error["detail"] for error in errors), errors
        assert len(answer.content) < 20_000
        assert seconds < MAX_CPU_SECONDS
        assert shared_api.written() == before

    return post_and_check


@pytest.mark.parametrize("name", WEIGHTS_FILES)
def test_hostile_weights_are_refused(shared_api, assert_refused, name):
    make, message = WEIGHTS_FILES[name]
    assert_refused("/weights", message, weights=("weights.safetensors", make(shared_api.weights())))


@pytest.mark.parametrize("name", SPECS)
def test_hostile_specs_are_refused(assert_refused, name):
    text, message = SPECS[name]
    assert_refused("/spec", message, spec=("spec.json", text.encode()))


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archives_are_refused(shared_api, assert_refused, name):
    make, message = ARCHIVES[name]
    data = make(shared_api)
    assert_refused("/archive", message, spec=None, weights=None, archive=("gnn.zip", data))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 10**5, "nested too deeply"),
        ('{"graphs": [], "graphs": []}', "more than once"),
        ('{"graphs": [{"edge_index": [[0], [1]], "num_nodes": 1e999}]}', "finite"),
        ('{"graphs": [{"edge_index": [[], []], "num_nodes": 1000000000}]}', "at most 20"),
        ('{"graphs": ' + "1" * 199_000 + "}", "thousands of digits"),
        (" " * 200_001, "at most 200,000"),
    ],
    ids=["deep", "duplicate key", "infinite", "many nodes", "huge number", "long"],
)
def test_hostile_samples_are_refused(assert_refused, text, message):
    assert_refused("/samples", message, samples=("samples.json", text.encode()))


def test_a_valid_gnn_is_probed_after_hostile_uploads(shared_api, assert_refused):
    for make, message in (WEIGHTS_FILES[name] for name in ("pickle", ".pt2", "NaN", "deep header")):
        assert_refused("/weights", message, weights=("w", make(shared_api.weights())))
    assert shared_api.queued("probe") == []
    rng = np.random.default_rng(0)
    good = {
        name: rng.normal(size=tensor.shape).astype(tensor.dtype)
        for name, tensor in safetensors.numpy.load(shared_api.weights()).items()
    }
    data = archive_of(shared_api, **{WEIGHTS: bytes(safetensors.numpy.save(good))})
    files = {"name": (None, "good"), "archive": ("gnn.zip", data)}
    posted = shared_api.client.post("/v1/gnns", files=files, headers={"Prefer": "respond-async"})
    assert posted.status_code == 202, posted.text
    shared_api.work()
    probed = shared_api.client.get("/v1/gnns/good").json()
    assert probed["state"] == "ready", probed["report"]
