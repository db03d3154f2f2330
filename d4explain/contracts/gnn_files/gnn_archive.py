"""A GNN as one zip file: spec.json, weights.safetensors and, optionally, samples.json.

The reader works in memory and never extracts files. It checks sizes before and while it inflates a
member.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping

from d4explain.contracts.errors import InvalidInput, quoted

SPEC, WEIGHTS, SAMPLES = "spec.json", "weights.safetensors", "samples.json"

_REQUIRED = (SPEC, WEIGHTS)
_ALLOWED = (*_REQUIRED, SAMPLES)
_END_RECORD = struct.Struct("<4s4H2LH")  # at the end of a zip file
_MAX_DIRECTORY = 4096  # bytes; three entries need a few hundred
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
# What zipfile raises for broken and hostile files.
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    UnicodeError,
    ValueError,
    OSError,
)


class GnnArchive:
    """Checks the list of members at once and reads each member on demand."""

    def __init__(self, data: bytes, pointer: str = "") -> None:
        self._pointer = pointer
        self._check_end(data)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except UNREADABLE as error:
            raise self._error(f"is not a valid zip file: {error}") from None
        self._members = self._check_members(self._zip.infolist())

    @property
    def has_samples(self) -> bool:
        return SAMPLES in self._members

    def read(self, name: str, max_bytes: int) -> bytes:
        """Reads one member; inflates at most `max_bytes` of it."""
        member = self._members[name]
        if member.file_size > max_bytes:
            size = f"contains {name} of {member.file_size} bytes"
            raise self._error(f"{size}; at most {max_bytes} are accepted")
        try:
            with self._zip.open(member) as file:
                data = file.read(max_bytes + 1)
        except UNREADABLE as error:
            raise self._error(f"contains {name}, but it cannot be read: {error}") from None
        if len(data) > max_bytes:
            raise self._error(f"contains more bytes of {name} than it declares")
        return data

    def _check_end(self, data: bytes) -> None:
        """Checks the end record first, because zipfile reads a directory of any length."""
        if len(data) < _END_RECORD.size or not data.startswith(b"PK\x03\x04"):
            raise self._error("is not a zip file")
        signature, *_, entries, size, _, comment = _END_RECORD.unpack(data[-_END_RECORD.size :])
        if signature != b"PK\x05\x06" or comment:
            raise self._error("is not a zip file, or bytes follow its end")
        if data[-_END_RECORD.size - 20 :].startswith(b"PK\x06\x07"):
            raise self._error("uses the zip64 format, like PyTorch files; use plain zip")
        if entries > len(_ALLOWED) or size > _MAX_DIRECTORY:
            raise self._error(f"contains {entries} files; {_RULE}")

    def _check_members(self, listed: list[zipfile.ZipInfo]) -> Mapping[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        for member in listed:
            name = member.orig_filename
            if name not in _ALLOWED:
                raise self._error(f"contains {quoted(name)}; {_RULE}")
            if name in members:
                raise self._error(f"contains {name} twice")
            if member.flag_bits & _ENCRYPTED:
                raise self._error(f"contains {name} encrypted")
            if member.compress_type not in _METHODS:
                compressed = f"contains {name} compressed by method {member.compress_type}"
                raise self._error(f"{compressed}; use stored or deflated")
            members[name] = member
        missing = [name for name in _REQUIRED if name not in members]
        if missing:
            raise self._error(f"lacks {' and '.join(missing)}; {_RULE}")
        return members

    def _error(self, detail: str) -> InvalidInput:
        return InvalidInput(f"the archive {detail}", self._pointer)


def write_archive(members: Mapping[str, bytes]) -> bytes:
    """Writes an archive; the same members always give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _ALLOWED:
            if name in members:
                archive.writestr(zipfile.ZipInfo(name), members[name], zipfile.ZIP_DEFLATED)
    return packed.getvalue()


_RULE = f"it must contain {SPEC}, {WEIGHTS} and optionally {SAMPLES}, and nothing else"
