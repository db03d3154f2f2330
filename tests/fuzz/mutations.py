"""Changes inputs without breaking their outer form, so that fuzzing reaches the code behind it."""

from __future__ import annotations

import copy
import io
import json
import random
import struct
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

from d4explain.contracts.gnn_files.gnn_archive import UNREADABLE
from tests.fuzz.targets import Target

_SMILES_PARTS = (
    rb"C N O c1ccccc1 ( ) [ ] = # 1 %10 @ @@ / \ . - [NH4+] [13CH4] [*] $ ~ -> | [C:1]".split()
)
BytesMutator = Callable[[bytes, int], bytes]  # of the fuzzer: input and largest size

# Values at the edges of what readers accept.
_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 255, 4096, 4097, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63),
    10**40, 0.5, -0.0, 1e-320, 3.4e38, 3.5e38, 1e308, float("nan"), float("inf"), "", "a", "\x00",
    "\ud800", "é" * 70, "a" * 300, [], {}, [[]], [{}], [0, 1], [[0], [1]], {"id": 0}, "CCO", "c1cc",
]  # fmt: skip


def mutate(target: Target, data: bytes, size: int, seed: int, by_bytes: BytesMutator) -> bytes:
    """A changed input: its bytes in a third of all cases, its content otherwise."""
    rng = random.Random(seed)
    if rng.random() < 1 / 3:
        return by_bytes(data, size)
    try:
        changed = _CONTENT[target](data, rng, by_bytes)
    except (struct.error, IndexError, RecursionError, *UNREADABLE):
        return by_bytes(data, size)  # an earlier change broke the outer form
    return changed[:size]


def _mutate_json(data: bytes, rng: random.Random, _: BytesMutator) -> bytes:
    document = [json.loads(data)]
    for _step in range(rng.randint(1, 4)):
        _change(document, rng)
    return json.dumps(document[0]).encode()


def _mutate_ndjson(data: bytes, rng: random.Random, by_bytes: BytesMutator) -> bytes:
    lines = data.split(b"\n")
    position = rng.randrange(len(lines))
    lines[position] = _mutate_json(lines[position], rng, by_bytes)
    if rng.random() < 0.2:
        lines.insert(position, rng.choice(lines))
    return b"\n".join(lines)


def _change(root: Any, rng: random.Random) -> None:
    """Replaces, copies, removes or adds one value somewhere in a document."""
    holders = [root]
    for holder in holders:  # grows while it is read
        values = holder.values() if isinstance(holder, dict) else holder
        holders += [value for value in values if isinstance(value, dict | list)]
    holder = rng.choice(holders)
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    if not keys:
        return
    key, action = rng.choice(keys), rng.random()
    if action < 0.5:
        holder[key] = copy.deepcopy(rng.choice(_VALUES))
    elif action < 0.7:
        holder[key] = copy.deepcopy(rng.choice(holders[1:] or [0]))
    elif action < 0.85 and holder is not root:
        del holder[key]
    elif isinstance(holder, list) and holder is not root:
        holder.insert(key, copy.deepcopy(rng.choice(holder)))
    elif isinstance(holder, dict):
        name = rng.choice(["x", "y", "label", "id", "edge_attr", "type", "out", ""])
        holder[name] = copy.deepcopy(holder[key])


def _mutate_weights(data: bytes, rng: random.Random, by_bytes: BytesMutator) -> bytes:
    """Changes the header of a safetensors file; its length usually stays true."""
    (length,) = struct.unpack("<Q", data[:8])
    header, values = data[8 : 8 + length], data[8 + length :]
    if rng.random() < 0.5:
        header = _mutate_json(header, rng, by_bytes)
    else:
        header, values = by_bytes(header, len(header) + 16), values[: rng.randint(0, len(values))]
    length = len(header) if rng.random() < 0.9 else rng.choice([0, 2**32, 2**63, len(data)])
    return struct.pack("<Q", length) + header + values


def _mutate_npz(data: bytes, rng: random.Random, by_bytes: BytesMutator) -> bytes:
    """Changes one array of the archive, or its name."""
    members = _members(data)
    position = rng.randrange(len(members))
    name, content = members[position]
    if rng.random() < 0.1:
        name = rng.choice(["x.npy", "edge_index.npy", "edge_attr.npy", "../x.npy", "", "x"])
    elif rng.random() < 0.5:
        shape = tuple(rng.choice([0, 1, 2, 3, 10**6, 2**40, -1]) for _ in range(rng.randint(0, 3)))
        kind = rng.choice(["<i8", "<f4", "<f8", "|O", "|b1", "<U9", "<i2", ">u4", "<c16", "<M8[s]"])
        header = f"{{'descr': '{kind}', 'fortran_order': {rng.random() < 0.3}, 'shape': {shape}}}\n"
        start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
        content = start + content[128:]
    else:
        content = by_bytes(content, len(content) + 32)
    members[position] = (name, content)
    return _zipped(members, rng)


def _mutate_archive(data: bytes, rng: random.Random, by_bytes: BytesMutator) -> bytes:
    """Changes one file of a GNN's archive, adds one or leaves one out."""
    members = _members(data)
    position = rng.randrange(len(members))
    name, content = members[position]
    match rng.randrange(3):
        case 0:
            members[position] = (name, by_bytes(content, len(content) + 32))
        case 1:
            del members[position]
        case _:
            members.insert(position, (rng.choice([name, "samples.json", "../a", "é"]), content))
    return _zipped(members, rng)


def _mutate_smiles(data: bytes, rng: random.Random, _: BytesMutator) -> bytes:
    """Replaces or repeats a part of the text by characters of the notation."""
    start, end = sorted(rng.randint(0, len(data)) for _ in range(2))
    some = rng.choice([data[start:end] * rng.randint(0, 5), *_SMILES_PARTS])
    return data[:start] + some + data[end if rng.random() < 0.5 else start :]


def _members(data: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(one.filename, archive.read(one)) for one in archive.infolist()]


def _zipped(members: list[tuple[str, bytes]], rng: random.Random) -> bytes:
    file = io.BytesIO()
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    with zipfile.ZipFile(file, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that occur twice
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


_CONTENT: dict[Target, Callable[[bytes, random.Random, BytesMutator], bytes]] = {
    Target.GRAPHS: _mutate_json,
    Target.SPEC: _mutate_json,
    Target.WEIGHTS: _mutate_weights,
    Target.NPZ: _mutate_npz,
    Target.NDJSON: _mutate_ndjson,
    Target.ARCHIVE: _mutate_archive,
    Target.MOLECULES: _mutate_smiles,
}
