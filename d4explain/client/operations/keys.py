"""Requests about API keys and links."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Unpack

from d4explain.client.options import ListFilters, Metadata, list_query
from d4explain.client.resources import ApiKey, Link, NewApiKey, NewLink
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.client.transport.operation import Listing, Operation
from d4explain.contracts.scopes import KeyState, Scope

_KEYS = "/v1/keys"


class KeyOperations:
    _transport: HttpTransport

    @Operation
    async def create_key(
        self,
        name: str,
        scopes: Sequence[Scope | str],
        days: float | None = None,
        metadata: Metadata | None = None,
    ) -> NewApiKey:
        """Make an API key; keep the `key` of the result: the API shows it only once."""
        body: dict[str, Any] = {"name": name, "scopes": list(scopes)}
        if days is not None:
            body["days"] = days
        if metadata:
            body["metadata"] = dict(metadata)
        answer = await self._transport.send("POST", _KEYS, json=body)
        return NewApiKey.model_validate(answer.json())

    @Listing
    async def keys(
        self, *, state: KeyState | str | None = None, **filters: Unpack[ListFilters]
    ) -> AsyncIterator[ApiKey]:
        """All keys of the tenant, also expired and revoked ones; newest first."""
        async for item in self._transport.items(_KEYS, state=state, **list_query(filters)):
            yield ApiKey.model_validate(item)

    @Operation
    async def key(self, key_id: str) -> ApiKey:
        """One key, without its text."""
        return ApiKey.model_validate(await self._transport.get(f"{_KEYS}/{key_id}"))

    @Operation
    async def rotate_key(self, key_id: str, overlap_hours: float = 24.0) -> NewApiKey:
        """Replace a key; the old one works until the overlap has passed."""
        body = {"overlap_hours": overlap_hours}
        answer = await self._transport.send("POST", f"{_KEYS}/{key_id}/rotate", json=body)
        return NewApiKey.model_validate(answer.json())

    @Operation
    async def revoke_key(self, key_id: str) -> None:
        """End a key, its sessions and its links."""
        await self._transport.send("DELETE", f"{_KEYS}/{key_id}")

    @Operation
    async def create_link(self, explanation_id: str, seconds: int = 3600) -> NewLink:
        """Make a URL that opens one explanation without a key; `&format=svg` draws it."""
        path = f"/v1/explanations/{explanation_id}/links"
        answer = await self._transport.send("POST", path, json={"seconds": seconds})
        link = NewLink.model_validate(answer.json())
        return link.model_copy(update={"url": f"{self._transport.url}{link.url}"})

    @Listing
    async def links(self, explanation_id: str) -> AsyncIterator[Link]:
        """The links to an explanation that have not expired; newest first."""
        async for item in self._transport.items(f"/v1/explanations/{explanation_id}/links"):
            yield Link.model_validate(item)

    @Operation
    async def delete_link(self, explanation_id: str, link_id: str) -> None:
        """Remove a link to an explanation."""
        await self._transport.send("DELETE", f"/v1/explanations/{explanation_id}/links/{link_id}")
