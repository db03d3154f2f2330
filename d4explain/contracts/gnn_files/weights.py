"""Checks untrusted weights: a safetensors file with exactly the tensors of the spec."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from d4explain.contracts.defaults import MIB
from d4explain.contracts.errors import Fault, InvalidInput, printable, quoted
from d4explain.contracts.gnn_files.gnn_tensors import expected_tensors
from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.contracts.plugins import TensorShape
from d4explain.contracts.strict_json import MalformedJsonError, parse_json

_DTYPES = {"F32": "float32", "I64": "int64"}
_SIZES = {"float32": 4, "int64": 8}
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip file, like PyTorch's .pt, .pt2 and TorchScript files",
    b"\x80": "a pickle",
}
_MAX_LISTED = 5  # faults of one kind in a message


@dataclass(frozen=True)
class WeightLimits:
    max_bytes: int = 64 * MIB
    max_header_bytes: int = MIB
    max_tensors: int = 1024  # a GNN of 32 layers has about two hundred

    def file_bytes(self, spec: GnnSpecDocument) -> int:
        """Maximum size of a file with the tensors of the spec."""
        tensors = expected_tensors(spec).values()
        values = sum(math.prod(tensor.shape) * _SIZES[tensor.dtype] for tensor in tensors)
        return min(self.max_bytes, 8 + self.max_header_bytes + values)


def check_weights(
    data: bytes, spec: GnnSpecDocument, limits: WeightLimits | None = None, pointer: str = ""
) -> None:
    """Raises InvalidInput unless the file has exactly the tensors of the spec, all finite."""
    limits = limits or WeightLimits()
    header = _header(data, limits, pointer)
    _compare(header, expected_tensors(spec), pointer)
    try:
        tensors = safetensors.numpy.load(data)  # checks every offset against shape and file
    except SafetensorError as error:
        raise InvalidInput(f"not a valid safetensors file: {error}", pointer) from None
    bad = [name for name, values in tensors.items() if not np.isfinite(values).all()]
    if bad:
        raise InvalidInput(
            f"weights must be finite; NaN or infinity in {_list(bad)}",
            pointer,
            faults=[Fault(pointer, f"{name} has values that are not finite") for name in bad],
        )


def _header(data: bytes, limits: WeightLimits, pointer: str) -> dict[str, TensorShape]:
    if len(data) > limits.max_bytes:
        raise InvalidInput(
            f"the weights file has {len(data)} bytes; this deployment accepts at most "
            f"{limits.max_bytes}",
            pointer,
            allowed=limits.max_bytes,
        )
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        formats = [name for start, name in _OTHER_FORMATS.items() if data.startswith(start)]
        reason = f"it is {formats[0]}" if formats else "it ends within its header"
        raise InvalidInput(f"not a safetensors file: {reason}", pointer)
    if size > limits.max_header_bytes:
        raise InvalidInput(
            f"the header of the safetensors file has {size} bytes; at most "
            f"{limits.max_header_bytes} are accepted",
            pointer,
            allowed=limits.max_header_bytes,
        )
    try:
        entries = parse_json(data[8 : 8 + size])
    except (MalformedJsonError, InvalidInput) as error:
        raise InvalidInput(f"not a valid safetensors file: header: {error}", pointer) from None
    if not isinstance(entries, dict):
        raise InvalidInput("not a safetensors file: its header is not an object", pointer)
    if len(entries) > limits.max_tensors:
        raise InvalidInput(
            f"the file has {len(entries)} tensors; at most {limits.max_tensors} are accepted",
            pointer,
            allowed=limits.max_tensors,
        )
    return {name: _entry(name, e, pointer) for name, e in entries.items() if name != "__metadata__"}


def _entry(name: str, entry: object, pointer: str) -> TensorShape:
    if isinstance(entry, dict):
        shape, dtype = entry.get("shape"), entry.get("dtype")
        is_shape = isinstance(shape, list) and all(type(size) is int for size in shape)
        if is_shape and isinstance(shape, list) and isinstance(dtype, str):
            return TensorShape(tuple(shape), _DTYPES.get(dtype, dtype[:20]))
    raise InvalidInput(f"the safetensors header has no shape and dtype for {quoted(name)}", pointer)


def _compare(found: dict[str, TensorShape], expected: dict[str, TensorShape], pointer: str) -> None:
    missing = [name for name in expected if name not in found]
    unexpected = [name for name in found if name not in expected]
    different = [name for name in expected if name in found and found[name] != expected[name]]
    parts = []
    if missing:
        parts.append(f"missing: {_list(missing)}")
    if unexpected:
        parts.append(f"unexpected: {_list(unexpected)}")
    if different:
        details = [
            f"{name} is {_text(found[name])}, not {_text(expected[name])}" for name in different
        ]
        parts.append(f"different: {_list(details)}")
    if parts:
        raise InvalidInput(
            "the weights do not match the spec; " + "; ".join(parts),
            pointer,
            faults=[Fault(pointer, part) for part in parts],
        )


def _text(tensor: TensorShape) -> str:
    return f"{tensor.dtype}{list(tensor.shape)[:8]}"


def _list(names: list[str]) -> str:
    shown = ", ".join(printable(name) for name in names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
