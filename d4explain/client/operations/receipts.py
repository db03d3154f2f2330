"""Requests that check answers: replays, receipts and the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

from d4explain.client.job_waiting import OnProgress, wait_for_job
from d4explain.client.resources import Replay
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
