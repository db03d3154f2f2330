"""Requests that check answers: replays, receipts and the audit log."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Literal

from d4explain.client.errors import IncompleteLogError
from d4explain.client.job_waiting import OnProgress, wait_for_job
from d4explain.client.operations.explanation_requests import get_explanation
from d4explain.client.resources import Replay, SigningKey
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.client.transport.operation import Listing, Operation
from d4explain.contracts.job_states import Stage


class ReceiptOperations:
    _transport: HttpTransport

    @Operation
    async def replay(
        self,
        explanation_id: str,
        stage: Stage | Literal["provisional", "final"] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> Replay:
        """Repeat the work of an answer, by default the newest, and wait for the comparison."""
        answer = await self._transport.send(
            "POST",
            f"/v1/explanations/{explanation_id}/replay",
            params=None if stage is None else {"stage": Stage(stage).value},
        )
        replay = Replay.model_validate(answer.json())
        await wait_for_job(self._transport, replay.job.id, on_progress=on_progress, timeout=timeout)
        return Replay.model_validate(await self._transport.get(f"/v1/replays/{replay.id}"))

    @Listing
    async def replays(self, explanation_id: str) -> AsyncIterator[Replay]:
        """All replays of an explanation, newest first."""
        async for item in self._transport.items(f"/v1/explanations/{explanation_id}/replays"):
            yield Replay.model_validate(item)

    @Operation
    async def receipt(
        self, explanation_id: str, stage: Stage | Literal["provisional", "final"] | None = None
    ) -> bytes:
        """The signed receipt of an answer, by default the newest: a JSON envelope."""
        answer = await self._transport.send(
            "GET",
            f"/v1/explanations/{explanation_id}/receipt",
            params=None if stage is None else {"stage": Stage(stage).value},
        )
        return answer.content

    @Operation
    async def answer_file(
        self, explanation_id: str, stage: Stage | Literal["provisional", "final"] | None = None
    ) -> bytes:
        """An answer, by default the newest, byte for byte: its receipt signs its SHA-256."""
        if stage is None:
            explanation = await get_explanation(self._transport, explanation_id)
            existing = [answer.stage for answer in explanation.answers if answer.sha256]
            stage = existing[-1] if existing else Stage.FINAL
        path = f"/v1/explanations/{explanation_id}/answers/{Stage(stage).value}"
        return (await self._transport.send("GET", path)).content

    @Operation
    async def signing_keys(self) -> list[SigningKey]:
        """The public keys that verify receipts, newest first."""
        document = await self._transport.get("/v1/signing-keys")
        return [SigningKey.model_validate(key) for key in document["keys"]]

    @Operation
    async def audit_log(self) -> bytes:
        """The whole audit log: one entry per line, and last its signed end."""
        head = (await self._transport.send("GET", "/v1/audit-log/head")).content
        lines: list[bytes] = []
        end = position_of(head)
        while len(lines) < end:  # entries that came after the end was signed are left out
            page = await self._transport.send(
                "GET", "/v1/audit-log", params={"after": str(len(lines)), "limit": "5000"}
            )
            read = page.content.splitlines()
            if not read:
                raise IncompleteLogError(len(lines), end)
            lines += read[: end - len(lines)]
        return b"".join(line + b"\n" for line in [*lines, head])


def position_of(head: bytes) -> int:
    """The number of entries before a signed end; the signature is not verified here."""
    payload = base64.b64decode(json.loads(head)["payload"])
    return int(json.loads(payload)["predicate"]["position"])
