"""Signed statements: an in-toto Statement v1 in a DSSE envelope, signed with Ed25519.

https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import ConfigDict, Field, ValidationError

from d4explain.contracts.receipts.receipt import ReceiptPart

# The project owns no domain, so the types are URNs, as those of problems are; they name a version.
RECEIPT = "urn:d4explain:receipt:v1"
AUDIT_HEAD = "urn:d4explain:audit-head:v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"

_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----\s*", re.DOTALL)
_SHOWN = 64


class VerificationError(Exception):
    """What does not fit: the envelope, its signature, or what it signs."""


class Signature(ReceiptPart):
    keyid: str = Field(description="SHA-256 of the public key in DER form.")
    sig: str = Field(description="Ed25519 signature of type and payload, base64.")


class Envelope(ReceiptPart):
    """A DSSE envelope with one signature."""

    payloadType: Literal["application/vnd.in-toto+json"]  # noqa: N815 - the name in DSSE
    payload: str = Field(description="The statement as JSON, base64.")
    signatures: list[Signature] = Field(min_length=1, max_length=1)


class Digest(ReceiptPart):
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Subject(ReceiptPart):
    name: str
    digest: Digest


class Statement(ReceiptPart):
    """What a deployment says about one document, which it names by its digest."""

    model_config = ConfigDict(populate_by_name=True)

    type: Literal["https://in-toto.io/Statement/v1"] = Field(
        "https://in-toto.io/Statement/v1", alias="_type"
    )
    subject: list[Subject] = Field(min_length=1, max_length=1)
    predicateType: str  # noqa: N815 - the name in in-toto
    predicate: dict[str, Any]

    @property
    def name(self) -> str:
        return self.subject[0].name

    @property
    def sha256(self) -> str:
        return self.subject[0].digest.sha256


def statement(kind: str, name: str, sha256: str, predicate: Mapping[str, Any]) -> Statement:
    return Statement(
        subject=[Subject(name=name, digest=Digest(sha256=sha256))],
        predicateType=kind,
        predicate=dict(predicate),
    )


def signed(said: Statement, key: Ed25519PrivateKey) -> Envelope:
    """Ed25519 is deterministic: the same statement and key give the same envelope."""
    payload = said.model_dump_json(by_alias=True).encode()
    signature = Signature(keyid=key_id(key.public_key()), sig=_encoded(key.sign(_pae(payload))))
    return Envelope(payloadType=_PAYLOAD_TYPE, payload=_encoded(payload), signatures=[signature])


def opened(text: str | bytes, keys: Mapping[str, Ed25519PublicKey], kind: str) -> Statement:
    """The statement of an envelope that one of the keys, given by id, has signed."""
    try:
        envelope = Envelope.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise VerificationError(f"this is no signed envelope: {_first(error)}") from None
    (signature,) = envelope.signatures
    key = keys.get(signature.keyid)
    if key is None:
        raise VerificationError(
            f"it is signed by the key {signature.keyid[:_SHOWN]!r}; given: "
            f"{', '.join(keys) or 'no key'}"
        )
    payload = _decoded(envelope.payload, "payload")
    try:
        key.verify(_decoded(signature.sig, "signature"), _pae(payload))
    except InvalidSignature:
        raise VerificationError(
            "the signature does not fit: the statement or the signature was changed"
        ) from None
    try:
        said = Statement.model_validate_json(payload)
    except ValidationError as error:
        raise VerificationError(f"the signed statement is not readable: {_first(error)}") from None
    if said.predicateType != kind:
        raise VerificationError(
            f"it is a {said.predicateType[:_SHOWN]!r}; expected a {kind!r} of this version"
        )
    return said


def unverified(text: bytes) -> dict[str, Any] | None:
    """What an envelope claims to say, before its signature is checked; None if it is none."""
    try:
        said = json.loads(base64.b64decode(json.loads(text)["payload"]))
    except (ValueError, KeyError, TypeError):
        return None
    return said if isinstance(said, dict) else None


def key_id(key: Ed25519PublicKey) -> str:
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(der).hexdigest()


def public_pem(key: Ed25519PublicKey) -> str:
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()


def public_keys(pem: bytes) -> dict[str, Ed25519PublicKey]:
    """The Ed25519 keys of a file by their id; after a rotation there are several."""
    found = {}
    for block in _PEM.findall(pem):
        try:
            key = serialization.load_pem_public_key(block)
        except (ValueError, UnsupportedAlgorithm):
            raise VerificationError("the file with the public keys has a damaged key") from None
        if not isinstance(key, Ed25519PublicKey):
            raise VerificationError("the file with the public keys has a key that is not Ed25519")
        found[key_id(key)] = key
    if not found:
        raise VerificationError("the file has no public key in PEM form")
    return found


def _pae(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding, which signs the type with the payload."""
    parts: Sequence[bytes] = (_PAYLOAD_TYPE.encode(), payload)
    return b" ".join([b"DSSEv1", *(b"%d %b" % (len(part), part) for part in parts)])


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str, what: str) -> bytes:
    """Only the one way to write the bytes is accepted, so that no change goes unnoticed."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise VerificationError(f"the {what} is not base64") from None
    if _encoded(data) != text:
        raise VerificationError(f"the {what} is not base64 in its usual form")
    return data


def _first(error: ValidationError) -> str:
    fault = error.errors()[0]
    place = "/".join(str(part) for part in fault["loc"])[:_SHOWN]
    return f"{place} {fault['msg']}".strip()
