"""A GNN as one zip file: spec.json, weights.safetensors and, optionally, samples.json.

Read from memory, never extracted. Sizes are checked before and while a member is inflated.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping

from d4explain.contracts.errors import InvalidInput

SPEC, WEIGHTS, SAMPLES = "spec.json", "weights.safetensors", "samples.json"

_REQUIRED = (SPEC, WEIGHTS)
_ALLOWED = (*_REQUIRED, SAMPLES)
_END = struct.Struct("<4s4H2LH")  # the record at the end of a zip file
_MAX_DIRECTORY = 4096  # bytes; three entries need a few hundred
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1


class GnnArchive:
    """An archive with a checked list of members; each member is read on demand."""

    def __init__(self, data: bytes, pointer: str = "") -> None:
        self._pointer = pointer
        self._check_end(data)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _UNREADABLE as error:
            raise self._refusal(f"is not a sound zip file: {error}") from None
        self._members = self._checked(self._zip.infolist())

    @property
    def has_samples(self) -> bool:
        return SAMPLES in self._members

    def read(self, name: str, max_bytes: int) -> bytes:
        """Reads one member; inflates at most `max_bytes` of it."""
        member = self._members[name]
        if member.file_size > max_bytes:
            sent = f"holds {name} of {member.file_size} bytes"
            raise self._refusal(f"{sent}; at most {max_bytes} are accepted")
        try:
            with self._zip.open(member) as file:
                data = file.read(max_bytes + 1)
        except _UNREADABLE as error:
            raise self._refusal(f"holds {name}, which cannot be read: {error}") from None
        if len(data) > max_bytes:
            raise self._refusal(f"holds more of {name} than it declares")
        return data

    def _check_end(self, data: bytes) -> None:
        """Checks the end record first: zipfile would read a directory of any length."""
        if len(data) < _END.size or not data.startswith(b"PK\x03\x04"):
            raise self._refusal("is not a zip file")
        signature, *_, entries, size, _, comment = _END.unpack(data[-_END.size :])
        if signature != b"PK\x05\x06" or comment:
            raise self._refusal("is not a zip file, or bytes follow its end")
        if data[-_END.size - 20 :].startswith(b"PK\x06\x07"):
            raise self._refusal("is in the zip64 format, as PyTorch's files are; use plain zip")
        if entries > len(_ALLOWED) or size > _MAX_DIRECTORY:
            raise self._refusal(f"holds {entries} files; {_RULE}")

    def _checked(self, listed: list[zipfile.ZipInfo]) -> Mapping[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        for member in listed:
            name = member.orig_filename
            if name not in _ALLOWED:
                raise self._refusal(f"holds {name[:80]!r}; {_RULE}")
            if name in members:
                raise self._refusal(f"holds {name} twice")
            if member.flag_bits & _ENCRYPTED:
                raise self._refusal(f"holds {name} encrypted")
            if member.compress_type not in _METHODS:
                packing = f"holds {name} packed by method {member.compress_type}"
                raise self._refusal(f"{packing}; use stored or deflated")
            members[name] = member
        missing = [name for name in _REQUIRED if name not in members]
        if missing:
            raise self._refusal(f"lacks {' and '.join(missing)}; {_RULE}")
        return members

    def _refusal(self, detail: str) -> InvalidInput:
        return InvalidInput(f"the archive {detail}", self._pointer)


def write_archive(members: Mapping[str, bytes]) -> bytes:
    """Writes an archive; the same members always give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _ALLOWED:
            if name in members:
                archive.writestr(zipfile.ZipInfo(name), members[name], zipfile.ZIP_DEFLATED)
    return packed.getvalue()


_RULE = f"it should hold {SPEC}, {WEIGHTS} and, if wanted, {SAMPLES}, and nothing else"
_UNREADABLE = (
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
