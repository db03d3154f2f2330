"""Every change of a receipt, an answer or an audit log is noticed."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.contracts.receipts import envelopes
from d4explain.contracts.receipts.audit_chain import START, ChainedEntry
from d4explain.contracts.receipts.envelopes import VerificationError
from d4explain.contracts.receipts.verification import (
    is_audit_log,
    verify_audit_log,
    verify_receipt,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
KEYS = envelopes.public_keys(envelopes.public_pem(KEY.public_key()).encode())
RESULT = json.dumps({"answers": [], "receipt": {"seed": 7, "device": "cpu"}}).encode()


def envelope(kind: str = envelopes.RECEIPT, key: Ed25519PrivateKey = KEY) -> bytes:
    said = envelopes.statement(
        kind,
        "exp_1/answers/final",
        hashlib.sha256(RESULT).hexdigest(),
        {"explanation": "exp_1", "receipt": {"seed": 7, "device": "cpu"}},
    )
    return envelopes.signed(said, key).model_dump_json().encode()


def head(position: int, sha256: str, tenant: str = "default") -> bytes:
    said = envelopes.statement(
        envelopes.AUDIT_HEAD,
        f"audit-log/{tenant}",
        sha256,
        {"tenant": tenant, "position": position},
    )
    return envelopes.signed(said, KEY).model_dump_json().encode()


def entries(count: int, tenant: str = "default") -> list[ChainedEntry]:
    chained, previous = [], START
    for position in range(1, count + 1):
        entry = ChainedEntry(
            position=position,
            at=f"2026-11-18T10:00:00.{position:06d}+00:00",
            tenant=tenant,
            source="api",
            key_id=None if position % 2 else "key_1",
            action="create_explanation",
            resource=f"exp_{position} “ü”",
            content_sha256=None,
            request_id=f"req_{position}",
            outcome="done",
            chain_sha256="",
        ).chained(previous)
        chained.append(entry)
        previous = entry.chain_sha256
    return chained


def exported(log: list[ChainedEntry], end: bytes | None = None) -> bytes:
    last = log[-1] if log else None
    signed = head(len(log), last.chain_sha256 if last else START) if end is None else end
    return b"".join(entry.line().encode() + b"\n" for entry in log) + signed + b"\n"


LOG = entries(6)
EXPORT = exported(LOG)


def flipped(content: bytes, at: int, mask: int) -> bytes:
    return content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]


def test_what_was_not_changed_is_verified() -> None:
    said = verify_receipt(envelope(), KEYS, RESULT)
    assert said.name == "exp_1/answers/final"
    assert said.predicate["receipt"] == {"seed": 7, "device": "cpu"}
    assert verify_audit_log(EXPORT, KEYS).position == 6
    assert verify_audit_log(exported([]), KEYS).position == 0
    assert is_audit_log(EXPORT)
    assert is_audit_log(exported([]))
    assert not is_audit_log(envelope())


def test_the_signed_bytes_are_those_of_dsse() -> None:
    """The example of the specification, signed here by another library call."""
    signed = json.loads(envelope())
    payload = base64.b64decode(signed["payload"])
    kind = b"application/vnd.in-toto+json"
    message = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    KEY.public_key().verify(base64.b64decode(signed["signatures"][0]["sig"]), message)


@settings(max_examples=600)
@given(st.data())
def test_any_flipped_bit_of_a_receipt_is_noticed(data: st.DataObject) -> None:
    good = envelope()
    at = data.draw(st.integers(0, len(good) - 1))
    with pytest.raises(VerificationError):
        verify_receipt(flipped(good, at, 1 << data.draw(st.integers(0, 7))), KEYS)


@settings(max_examples=300)
@given(st.data())
def test_any_flipped_bit_of_an_answer_is_noticed(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(RESULT) - 1))
    with pytest.raises(VerificationError, match="the receipt is about"):
        verify_receipt(envelope(), KEYS, flipped(RESULT, at, 1 << data.draw(st.integers(0, 7))))


@settings(max_examples=1000)
@given(st.data())
def test_any_flipped_bit_of_an_audit_log_is_noticed(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(EXPORT) - 2))  # the last newline carries nothing
    with pytest.raises(VerificationError):
        verify_audit_log(flipped(EXPORT, at, 1 << data.draw(st.integers(0, 7))), KEYS)


@given(
    st.sampled_from(sorted(set(ChainedEntry.model_fields))), st.integers(0, 5), st.text(max_size=9)
)
def test_any_changed_field_of_an_entry_is_noticed(field: str, place: int, text: str) -> None:
    value = 99 if field == "position" else text
    if getattr(LOG[place], field) == value:
        return
    changed = LOG[place].model_copy(update={field: value})
    with pytest.raises(VerificationError):
        verify_audit_log(
            exported([*LOG[:place], changed, *LOG[place + 1 :]], EXPORT.splitlines()[-1]), KEYS
        )


def renumbered(log: list[ChainedEntry]) -> list[ChainedEntry]:
    """A consistent chain of the same contents, as somebody with the program could build."""
    chained, previous = [], START
    for position, entry in enumerate(log, 1):
        again = entry.model_copy(update={"position": position}).chained(previous)
        chained.append(again)
        previous = again.chain_sha256
    return chained


@pytest.mark.parametrize("rebuild", [list, renumbered])
@pytest.mark.parametrize(
    "change",
    [
        lambda log: log[1:],
        lambda log: log[:-1],
        lambda log: [],
        lambda log: [*log[:2], *log[3:]],
        lambda log: [log[1], log[0], *log[2:]],
        lambda log: [*log, log[-1]],
        lambda log: [log[0], *log],
    ],
)
def test_removed_moved_and_added_entries_are_noticed(
    change: Callable[[list[ChainedEntry]], list[ChainedEntry]],
    rebuild: Callable[[list[ChainedEntry]], list[ChainedEntry]],
) -> None:
    end = EXPORT.splitlines()[-1]
    with pytest.raises(VerificationError):
        verify_audit_log(exported(rebuild(change(LOG)), end), KEYS)


def test_a_log_without_its_signed_end_is_not_verified() -> None:
    with pytest.raises(VerificationError, match="signed end"):
        verify_audit_log(b"\n".join(EXPORT.splitlines()[:-1]), KEYS)


def test_a_log_that_was_cut_or_replaced_does_not_contain_an_earlier_end() -> None:
    earlier = head(6, LOG[-1].chain_sha256)
    assert verify_audit_log(EXPORT, KEYS, earlier).position == 6
    assert verify_audit_log(exported(entries(9)), KEYS, earlier).position == 9
    with pytest.raises(VerificationError, match="had 6 entries before"):
        verify_audit_log(exported(LOG[:4]), KEYS, earlier)
    other = renumbered([LOG[1], LOG[0], *LOG[2:]])
    with pytest.raises(VerificationError, match="was replaced"):
        verify_audit_log(exported(other), KEYS, earlier)
    with pytest.raises(VerificationError, match="another tenant"):
        verify_audit_log(EXPORT, KEYS, head(6, LOG[-1].chain_sha256, "other"))


def test_entries_of_two_tenants_do_not_make_one_chain() -> None:
    mixed = renumbered([*entries(2), *entries(2, "other")])
    with pytest.raises(VerificationError, match="another tenant"):
        verify_audit_log(exported(mixed), KEYS)


def test_only_the_given_keys_and_the_right_kind_count() -> None:
    with pytest.raises(VerificationError, match="it is signed by the key"):
        verify_receipt(envelope(key=OTHER), KEYS)
    with pytest.raises(VerificationError, match="audit-head"):
        verify_receipt(head(1, START), KEYS)
    both = envelopes.public_keys(
        b"".join(envelopes.public_pem(key.public_key()).encode() for key in (OTHER, KEY))
    )
    verify_receipt(envelope(key=OTHER), both)
    for wrong in (b"", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"):
        with pytest.raises(VerificationError):
            envelopes.public_keys(wrong)


def test_the_message_names_the_changed_part_of_a_receipt() -> None:
    changed = RESULT.replace(b'"seed": 7', b'"seed": 8')
    with pytest.raises(VerificationError, match="receipt differs in: seed"):
        verify_receipt(envelope(), KEYS, changed)
    with pytest.raises(VerificationError, match="another part was changed"):
        verify_receipt(envelope(), KEYS, RESULT + b" ")
