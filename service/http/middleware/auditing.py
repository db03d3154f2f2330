"""Names the action of every state-changing request, for the audit log.

A route needs no code for it: the transaction in which it changes something also stores who did it
(`store/database/audit_entries.py`). This middleware records refusals, which change nothing.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from http import HTTPStatus

import anyio.to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.principals import principal_in
from store.database import audit_entries
from store.database.audit_entries import Action
from store.database.sessions import OUTAGES, Database
from store.database.tables.audit import Outcome

log = logging.getLogger(__name__)

REQUEST_ID = "d4explain.request_id"  # in the ASGI scope
_MAX_REQUEST_ID = 32
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
# What a client may not do, or not to this resource. Invalid requests are mistakes, not actions.
_REFUSED = frozenset(
    {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.GONE}
)


class Auditing:
    """Innermost middleware: the client is known, and the transactions are still to come."""

    def __init__(self, app: ASGIApp, database: Database) -> None:
        self.app = app
        self.database = database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _READING:
            await self.app(scope, receive, send)
            return
        status = 0

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with audit_entries.acting(partial(_action, scope)):
            await self.app(scope, receive, send_noting_status)
        if status in _REFUSED and "route" in scope:
            refusal = replace(_action(scope), outcome=Outcome.REFUSED)
            await anyio.to_thread.run_sync(_record, self.database, refusal)


def _action(scope: Scope) -> Action:
    principal = principal_in(scope)
    return Action(
        name=scope["route"].name,
        tenant=principal.tenant,
        resource="/".join(str(part) for part in scope.get("path_params", {}).values()) or None,
        key_id=principal.key_id,
        request_id=_recorded(scope.get(REQUEST_ID)),
    )


def _recorded(request_id: str | None) -> str | None:
    """The column has 32 characters, those of a UUID without hyphens."""
    if request_id is None or len(request_id) <= _MAX_REQUEST_ID:
        return request_id
    return request_id.replace("-", "")[:_MAX_REQUEST_ID]


def _record(database: Database, refusal: Action) -> None:
    try:
        with database.transaction() as session:
            audit_entries.note(session, refusal)
    except OUTAGES:  # nothing was changed, and the client has its answer
        log.warning("could not record a refused request", exc_info=True)
