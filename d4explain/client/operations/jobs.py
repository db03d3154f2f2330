"""Requests about jobs, and the health of the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from d4explain.client.job_waiting import OnProgress, get_job, wait_for_job
from d4explain.client.operations.resource_paths import GnnReference, reference_of
from d4explain.client.options import ListFilters, list_query
from d4explain.client.resources import Health, Job
from d4explain.client.transport.http_transport import UNAVAILABLE, HttpTransport
from d4explain.client.transport.operation import Listing, Operation
from d4explain.contracts.job_states import JobKind, JobState


class JobOperations:
    _transport: HttpTransport

    @Operation
    async def health(self) -> Health:
        """The state of database, broker and workers, even if the server is not ready."""
        answer = await self._transport.send("GET", "/readyz", accept=(UNAVAILABLE,))
        return Health.model_validate(answer.json())

    @Operation
    async def job(self, job_id: str) -> Job:
        """One job."""
        return await get_job(self._transport, job_id)

    @Listing
    async def jobs(
        self,
        *,
        state: JobState | str | None = None,
        kind: JobKind | str | None = None,
        gnn: GnnReference | None = None,
        **filters: Unpack[ListFilters],
    ) -> AsyncIterator[Job]:
        """All jobs, or those of a state, a kind, a GNN or filters; newest first."""
        query = {"state": state, "kind": kind, "gnn": gnn and reference_of(gnn)}
        async for item in self._transport.items("/v1/jobs", **query, **list_query(filters)):
            yield Job.model_validate(item)

    @Operation
    async def cancel(self, job_id: str) -> Job:
        """Cancel a job; a running one ends soon after."""
        return await self._change(job_id, "cancel")

    @Operation
    async def retry(self, job_id: str) -> Job:
        """Start a new job that does the same work."""
        return await self._change(job_id, "retry")

    async def _change(self, job_id: str, action: str) -> Job:
        answer = await self._transport.send("POST", f"/v1/jobs/{job_id}/{action}")
        return Job.model_validate(answer.json())

    @Operation
    async def wait(
        self,
        job_id: str,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        check: bool = True,
    ) -> Job:
        """Wait until the job is finished, and return it.

        Calls `on_progress` after every change, with the job or with the job that it waits for.
        Follows the job's event stream, and polls if there is none. With `check`, a job that did
        not succeed raises `UnsuccessfulJobError`.
        """
        return await wait_for_job(
            self._transport, job_id, on_progress=on_progress, timeout=timeout, check=check
        )
