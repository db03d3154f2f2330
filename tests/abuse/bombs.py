"""Small uploads that would need much memory if they were unpacked or believed.

Each function returns bodies with their media types.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping

import numpy as np

from tests.abuse.exchange import MIB

_UNPACKED_BYTES = 512 * MIB
_BOUNDARY = "abuse"
_NPZ = "application/x-npz"


def large_graphs() -> list[tuple[str, bytes]]:
    """Arrays that are too large, larger than they say, and smaller than they say."""
    edge = bytes(8) + (1).to_bytes(8, "little")
    edges = {"edge_index.npy": _array((2, 1), np.int64) + edge}
    huge = (2**20, 2**20)
    return [
        (_NPZ, _archive({**edges, "x.npy": _array(huge)}, zeros_in="x.npy")),
        (_NPZ, _archive({**edges, "x.npy": _array((2, 1))}, zeros_in="x.npy")),
        (_NPZ, _archive({"edge_index.npy": _array((2, 2**40), np.int64)})),
    ]


def archives() -> list[tuple[str, bytes]]:
    """Archives of a GNN with a spec, or weights, of half a gigabyte of zeros."""
    spec = json.dumps({"features": 1, "classes": 2, "layers": []}).encode()
    return [
        _form({"name": b"bomb"}, {"archive": packed})
        for packed in (
            _archive({"spec.json": b"", "weights.safetensors": b""}, zeros_in="spec.json"),
            _archive({"spec.json": spec, "weights.safetensors": b""}, "weights.safetensors"),
        )
    ]


def wide_specs() -> list[tuple[str, bytes]]:
    """Specs whose weights would have up to 10^18 numbers."""
    specs = []
    for width, count in ((10**9, 2), (10**9, 1000), (4096, 64), (1024, 1000), (-1, 1), (2**63, 1)):
        layers = [{"type": "linear", "out": width} for _ in range(count)]
        layers += [{"type": "pool", "op": "sum"}, {"type": "linear", "out": 2}]
        specs.append({"features": min(abs(width), 4096), "classes": 2, "layers": layers})
    weights = (2).to_bytes(8, "little") + b"{}"  # a safetensors file without tensors
    return [
        _form({"name": b"wide"}, {"spec": json.dumps(spec).encode(), "weights": weights})
        for spec in specs
    ]


def _array(shape: tuple[int, ...], kind: type = np.float32) -> bytes:
    """The header of an npy file of this shape."""
    file = io.BytesIO()
    header = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def _archive(members: Mapping[str, bytes], zeros_in: str = "") -> bytes:
    """A zip file; one member goes on with zeros."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, start in members.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(start)
                for _ in range(_UNPACKED_BYTES // MIB if name == zeros_in else 0):
                    member.write(bytes(MIB))
    return packed.getvalue()


def _form(texts: Mapping[str, bytes], files: Mapping[str, bytes]) -> tuple[str, bytes]:
    """The media type and the body of a form."""
    parts = []
    for name, data in [*texts.items(), *files.items()]:
        file = f'; filename="{name}"' if name in files else ""
        head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        parts.append(head.encode() + data + b"\r\n")
    return f"multipart/form-data; boundary={_BOUNDARY}", b"".join(parts) + (
        f"--{_BOUNDARY}--\r\n".encode()
    )
