"""Verifies receipts, answers and exports of the audit log offline, with public keys alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from d4explain.contracts.receipts.audit_chain import BrokenChainError, ChainEnd, verified
from d4explain.contracts.receipts.envelopes import (
    AUDIT_HEAD,
    RECEIPT,
    TEST_RESULT,
    Statement,
    VerificationError,
    opened,
    unverified,
)

Keys = Mapping[str, Ed25519PublicKey]
_ENVELOPE_START = '{"payloadType"'


def verify_receipt(envelope: bytes, keys: Keys, result: bytes | None = None) -> Statement:
    """The statement about an answer; `result` is the answer document, byte for byte."""
    said = opened(envelope, keys, RECEIPT)
    if result is None:
        return said
    found = hashlib.sha256(result).hexdigest()
    if found != said.sha256:
        raise VerificationError(
            f"the result has the SHA-256 {found}; the receipt is about {said.sha256}. "
            f"{_changed_parts(result, said)}"
        )
    return said


def verify_audit_log(export: bytes, keys: Keys, earlier_head: bytes | None = None) -> ChainEnd:
    """The end of the log; the last line of an export is its signed end.

    `earlier_head` was kept elsewhere: the log has to contain that entry, too.
    """
    try:
        lines = export.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise VerificationError("the audit log is not UTF-8") from None
    if not lines[-1].startswith(_ENVELOPE_START):
        raise VerificationError(
            "the last line is not the signed end of the log, so entries may be missing there"
        )
    end = _verified(lines[:-1])
    head = _head(lines[-1].encode(), keys)
    if (end.position, end.chain_sha256) != (head.position, head.chain_sha256):
        raise VerificationError(
            f"the log ends with entry {end.position}, and its signed end is entry {head.position}: "
            "entries were removed or added at the end"
        )
    if end.tenant not in (None, head.tenant):
        raise VerificationError("the entries and the signed end are of different tenants")
    if earlier_head is not None:
        _require_earlier(lines[:-1], head, _head(earlier_head, keys))
    return head


def is_audit_log(content: bytes) -> bool:
    """Whether a file looks like an export of the audit log rather than a receipt."""
    first = content.split(b"\n", 1)[0]
    if b'"chain_sha256"' in first:
        return True
    # A log without entries is its signed end alone.
    return (unverified(first) or {}).get("predicateType") == AUDIT_HEAD


def is_test_result(content: bytes) -> bool:
    """Whether a file looks like the signed result of a gate rather than a receipt."""
    return (unverified(content) or {}).get("predicateType") == TEST_RESULT


def _require_earlier(lines: list[str], head: ChainEnd, earlier: ChainEnd) -> None:
    if earlier.tenant != head.tenant:
        raise VerificationError("the earlier end is of another tenant")
    if earlier.position > head.position:
        raise VerificationError(
            f"the log ends with entry {head.position}, but had {earlier.position} entries before"
        )
    before = _verified(lines[: earlier.position])
    if before.chain_sha256 != earlier.chain_sha256:
        raise VerificationError(
            f"entry {earlier.position} is not the one that was signed before: the log was replaced"
        )


def _verified(lines: list[str]) -> ChainEnd:
    try:
        return verified(lines)
    except BrokenChainError as error:
        raise VerificationError(str(error)) from None


def _head(envelope: bytes, keys: Keys) -> ChainEnd:
    said = opened(envelope, keys, AUDIT_HEAD)
    return ChainEnd(said.predicate["tenant"], said.predicate["position"], said.sha256)


def _changed_parts(result: bytes, said: Statement) -> str:
    """Which parts of the result's own receipt are not those that were signed."""
    signed: dict[str, Any] = said.predicate["receipt"]
    try:
        found = json.loads(result)["receipt"]
        changed = sorted(name for name in signed | found if signed.get(name) != found.get(name))
    except (ValueError, KeyError, TypeError):
        return "It is no answer document with a receipt."
    if changed:
        return f"Its own receipt differs in: {', '.join(changed)[:200]}."
    return "Its own receipt is the signed one, so another part was changed."
