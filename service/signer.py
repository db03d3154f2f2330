"""Signs what the API says about stored answers and about the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from d4explain.contracts.evaluations.gate_results import GateResult
from d4explain.contracts.job_states import Stage
from d4explain.contracts.receipts import envelopes
from d4explain.contracts.receipts.audit_chain import ChainEnd
from d4explain.contracts.receipts.envelopes import Envelope
from d4explain.contracts.receipts.receipt import Receipt
from store import signing
from store.store import Store


class Signer:
    """The key is read at its first use, and its public part is published before it signs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def key_id(self) -> str:
        return envelopes.key_id(self._key.public_key())

    def receipt(
        self, tenant: str, explanation: str, stage: Stage, sha256: str, receipt: Receipt
    ) -> Envelope:
        """`sha256` is that of the stored answer, from which `receipt` was read."""
        predicate = {
            "tenant": tenant,
            "explanation": explanation,
            "stage": stage.value,
            "receipt": receipt.model_dump(mode="json"),
        }
        name = f"{explanation}/answers/{stage}"
        return self._signed(envelopes.RECEIPT, name, sha256, predicate)

    def test_result(self, gnn: str, sha256: str, found: GateResult) -> Envelope:
        """What a gate found about a GNN, whose spec and weights have this SHA-256."""
        return self._signed(envelopes.TEST_RESULT, gnn, sha256, found.model_dump(mode="json"))

    def audit_head(self, head: ChainEnd, at: str) -> Envelope:
        predicate = {"tenant": head.tenant, "position": head.position, "at": at}
        return self._signed(
            envelopes.AUDIT_HEAD, f"audit-log/{head.tenant}", head.chain_sha256, predicate
        )

    @cached_property
    def _key(self) -> Ed25519PrivateKey:
        key = signing.signing_key(self._store.settings)
        with self._store.database.transaction() as session:
            signing.publish(session, key)
        return key

    def _signed(
        self, kind: str, name: str, sha256: str, predicate: Mapping[str, object]
    ) -> Envelope:
        said = envelopes.statement(kind, name, sha256, predicate)
        return envelopes.signed(said, self._key)
