"""The chain of the audit log: each entry is hashed together with the hash of the one before.

chain_sha256 = SHA-256(previous chain_sha256, newline, canonical JSON of the entry without it)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field, ValidationError

from d4explain.contracts.receipts.receipt import ReceiptPart

START = "0" * 64  # in place of the hash before the first entry
_SHOWN = 64


class ChainedEntry(ReceiptPart):
    """Who did what, as the audit log exports it."""

    position: int = Field(description="In the chain of the tenant, from 1, without gaps.", ge=1)
    at: str = Field(description="Time by the database's clock, RFC 3339 in UTC.")
    tenant: str
    source: str = Field(description="`api`, `worker`, `command` or `retention`.")
    key_id: str | None = Field(description="The API key; null without keys and for workers.")
    action: str = Field(description="The operation, named as in the OpenAPI document.")
    resource: str | None = Field(description="Id of the resource that was created or changed.")
    content_sha256: str | None = Field(description="Of the stored answer; null for other actions.")
    request_id: str | None = Field(description="The `X-Request-Id` of the response.")
    outcome: str = Field(description="`done` or `refused`.")
    chain_sha256: str = Field(description="Hash of this entry and the chain before it.")

    def line(self) -> str:
        """The entry as one line of an export."""
        return canonical(self.model_dump())

    def hashed(self, previous: str) -> str:
        text = canonical(self.model_dump(exclude={"chain_sha256"}))
        return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()

    def chained(self, previous: str) -> ChainedEntry:
        return self.model_copy(update={"chain_sha256": self.hashed(previous)})


@dataclass(frozen=True)
class ChainEnd:
    """How far a chain was verified."""

    tenant: str | None
    position: int
    chain_sha256: str


class BrokenChainError(Exception):
    """An entry was changed, removed, added or moved."""


def verified(lines: Iterable[str], position: int = 0, previous: str = START) -> ChainEnd:
    """The end of an unbroken chain; raises BrokenChainError at the first entry that does not fit.

    By default the chain starts with its first entry, else after `position` and its hash.
    """
    tenant: str | None = None
    for number, line in enumerate(lines, 1):
        entry = _entry(line, number)
        if entry.position != position + 1:
            raise BrokenChainError(
                f"line {number} has position {entry.position}; expected {position + 1}: entries "
                "were removed, added or moved"
            )
        if tenant is not None and entry.tenant != tenant:
            raise BrokenChainError(f"line {number} is of another tenant")
        if entry.hashed(previous) != entry.chain_sha256:
            raise BrokenChainError(
                f"entry {entry.position} (line {number}) does not fit its hash: it, or the entry "
                "before it, was changed"
            )
        tenant, position, previous = entry.tenant, entry.position, entry.chain_sha256
    return ChainEnd(tenant, position, previous)


def _entry(line: str, number: int) -> ChainedEntry:
    try:
        entry = ChainedEntry.model_validate_json(line, strict=True)
    except ValidationError as error:
        reason = error.errors()[0]
        place = "/".join(str(part) for part in reason["loc"])[:_SHOWN]
        raise BrokenChainError(
            f"line {number} is no entry of an audit log: {place} {reason['msg']}".strip()
        ) from None
    if entry.line() != line:
        raise BrokenChainError(f"line {number} is not written as the API exports it")
    return entry


def canonical(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
