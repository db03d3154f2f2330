"""Requests about deletion, metadata, holds, quotas and retention times."""

from __future__ import annotations

from collections.abc import Mapping

from d4explain.client.resources import Hold, Quotas, Retention
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.client.transport.operation import Operation

_NOUNS = {
    "exp": "explanations",
    "gnn": "gnns",
    "set": "datasets",
    "den": "denoisers",
    "job": "jobs",
    "evl": "evaluations",
    "cmp": "comparisons",
}


class DataLifeOperations:
    _transport: HttpTransport

    @Operation
    async def delete_explanation(self, explanation_id: str) -> None:
        """Delete an explanation with its answers and jobs; refused before its jobs have ended."""
        await self._transport.send("DELETE", f"/v1/explanations/{explanation_id}")

    @Operation
    async def delete_denoiser(self, denoiser_id: str) -> None:
        """Delete a denoiser; refused while a job uses it."""
        await self._transport.send("DELETE", f"/v1/denoisers/{denoiser_id}")

    @Operation
    async def delete_job(self, job_id: str) -> None:
        """Delete an ended job; refused if an explanation, GNN or denoiser shows it as its own."""
        await self._transport.send("DELETE", f"/v1/jobs/{job_id}")

    @Operation
    async def change_metadata(
        self, resource_id: str, changes: Mapping[str, str | int | float | bool | None]
    ) -> dict[str, str | int | float | bool]:
        """Merge changes into the metadata of a resource; the prefix of the id tells its kind.

        A key with the value None is removed. Returns all metadata of the resource.
        """
        path = f"/v1/{_noun(resource_id)}/{resource_id}"
        answer = await self._transport.send("PATCH", path, json={"metadata": dict(changes)})
        metadata: dict[str, str | int | float | bool] = answer.json()["metadata"]
        return metadata

    @Operation
    async def hold(self, resource_id: str, reason: str) -> Hold:
        """Keep a resource, and what it needs, from being deleted; needs the scope admin."""
        answer = await self._transport.send("PUT", _path(resource_id), json={"reason": reason})
        return Hold.model_validate(answer.json())

    @Operation
    async def end_hold(self, resource_id: str) -> None:
        """End the hold of a resource; needs the scope admin."""
        await self._transport.send("DELETE", _path(resource_id))

    @Operation
    async def quotas(self) -> Quotas:
        """What the tenant may use, and what it uses."""
        return Quotas.model_validate(await self._transport.get("/v1/quotas"))

    @Operation
    async def retention(self) -> Retention:
        """After how many days data is deleted."""
        return Retention.model_validate(await self._transport.get("/v1/retention"))

    @Operation
    async def set_retention(
        self,
        *,
        explanations: float | None = None,
        jobs: float | None = None,
        networks: float | None = None,
        datasets: float | None = None,
    ) -> Retention:
        """Set all times in days: 0 keeps the data, None means the deployment's time."""
        days = {
            "explanations": explanations,
            "jobs": jobs,
            "networks": networks,
            "datasets": datasets,
        }
        answer = await self._transport.send("PUT", "/v1/retention", json=days)
        return Retention.model_validate(answer.json())

    @Operation
    async def holds(self) -> list[Hold]:
        """All holds, newest first."""
        listed = await self._transport.get("/v1/holds")
        return [Hold.model_validate(item) for item in listed["items"]]


def _path(resource_id: str) -> str:
    """The path of a resource's hold; the prefix of an id tells its kind."""
    return f"/v1/{_noun(resource_id)}/{resource_id}/hold"


def _noun(resource_id: str) -> str:
    return _NOUNS.get(resource_id.partition("_")[0], "explanations")
