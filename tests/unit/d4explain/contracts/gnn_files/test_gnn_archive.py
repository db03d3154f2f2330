from __future__ import annotations

import io
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.gnn_files.gnn_archive import (
    SAMPLES,
    SPEC,
    WEIGHTS,
    GnnArchive,
    write_archive,
)

MEMBERS = {SPEC: b'{"features": 1}', WEIGHTS: b"\x00" * 500, SAMPLES: b'{"graphs": []}'}


def packed(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip file with any members, also some that no archive may have."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return data.getvalue()


def refused(data: bytes) -> str:
    with pytest.raises(InvalidInput) as error:
        GnnArchive(data, "/archive")
    assert error.value.pointer == "/archive"
    return str(error.value)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_read_unchanged(method: int) -> None:
    archive = GnnArchive(packed(*MEMBERS.items(), method=method))
    assert archive.has_samples
    assert {name: archive.read(name, 1000) for name in MEMBERS} == MEMBERS


def test_written_archives_are_readable_and_reproducible() -> None:
    two = {name: MEMBERS[name] for name in (WEIGHTS, SPEC)}
    data = write_archive(two)
    assert data == write_archive(two)
    archive = GnnArchive(data)
    assert not archive.has_samples
    assert archive.read(WEIGHTS, 500) == MEMBERS[WEIGHTS]


@pytest.mark.parametrize(
    "name", ["../spec.json", "/spec.json", "a/spec.json", "spec.json/", "SPEC.JSON", "data.pkl", ""]
)
def test_other_names_are_refused(name: str) -> None:
    said = refused(packed((SPEC, b"{}"), (WEIGHTS, b""), (name, b"")))
    assert f"contains {name!r}" in said
    assert "nothing else" in said


def test_missing_and_duplicate_members_are_named() -> None:
    assert "lacks weights.safetensors" in refused(packed((SPEC, b"{}")))
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = packed((SPEC, b"{}"), (SPEC, b"{}"), (WEIGHTS, b""))
    assert "contains spec.json twice" in refused(twice)


def test_other_compression_methods_are_refused() -> None:
    assert "method 12" in refused(packed(*MEMBERS.items(), method=zipfile.ZIP_BZIP2))
    assert "method 14" in refused(packed(*MEMBERS.items(), method=zipfile.ZIP_LZMA))


def central(data: bytes) -> int:
    return data.index(b"PK\x01\x02")


def test_encryption_is_refused() -> None:
    data = bytearray(write_archive(MEMBERS))
    data[central(data) + 8] |= 1
    assert "contains spec.json encrypted" in refused(bytes(data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04",
        b"PK\x05\x06" + bytes(18),
        b"\x80\x04" + bytes(100),
        write_archive(MEMBERS) + b"more",
        write_archive(MEMBERS)[:-1],
    ],
    ids=range(6),
)
def test_other_files_are_refused(data: bytes) -> None:
    assert "is not a zip file" in refused(data)


def test_a_long_directory_is_refused_before_it_is_read() -> None:
    many = packed(*((f"{i}", b"") for i in range(5000)))
    assert "contains 5000 files" in refused(many)
    understated = many[:-14] + struct.pack("<2H", 2, 2) + many[-10:]
    assert "nothing else" in refused(understated)


def test_zip64_is_refused() -> None:
    data = write_archive(MEMBERS)
    locator = b"PK\x06\x07" + struct.pack("<LQL", 0, 0, 1)
    assert "zip64" in refused(data[:-22] + locator + data[-22:])


def test_a_declared_size_above_the_limit_is_not_inflated() -> None:
    archive = GnnArchive(write_archive({**MEMBERS, WEIGHTS: bytes(10_000_000)}))
    with pytest.raises(InvalidInput, match="of 10000000 bytes; at most 500 are accepted"):
        archive.read(WEIGHTS, 500)


def test_a_member_that_inflates_beyond_what_it_declares_is_refused() -> None:
    """The directory says 500 bytes, the stream holds ten million."""
    data = bytearray(packed((WEIGHTS, bytes(10_000_000)), (SPEC, b"{}")))
    for place in (22, central(data) + 24):  # in the local header and in the directory
        data[place : place + 4] = struct.pack("<L", 500)
    with pytest.raises(InvalidInput, match="cannot be read"):
        GnnArchive(bytes(data)).read(WEIGHTS, 1000)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_corrupted_archive_raises_only_invalid_input(data: st.DataObject) -> None:
    good = bytearray(write_archive(MEMBERS))
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(good) - 1))
        good[place] = data.draw(st.integers(0, 255))
    try:
        archive = GnnArchive(bytes(good))
        found = {name: archive.read(name, 1000) for name in (SPEC, WEIGHTS)}
    except InvalidInput as refusal:
        assert str(refusal)  # noqa: PT017 - the other outcome is checked below
    else:
        assert found == {name: MEMBERS[name] for name in (SPEC, WEIGHTS)}  # the checksums hold
