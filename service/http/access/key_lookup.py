"""Finds the principal of a key or token; what the database said counts for two seconds."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio.to_thread
from cachetools import LRUCache

from d4explain.contracts.scopes import Scope, TokenKind
from service.http.principals import Principal
from store.access import api_keys, temporary_tokens
from store.access.temporary_tokens import ValidToken
from store.database.sessions import OUTAGES, Database, read_clock

log = logging.getLogger(__name__)

# A revoked key stops working within this time in every process.
FRESH_SECONDS = 2.0
_MAX_KEYS = 10_000


@dataclass(frozen=True)
class _Found:
    principal: Principal
    fresh_until: float  # of the process's clock


class KeyLookup:
    """Looks up API keys, in a thread and once for concurrent requests."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        # By the hash of a valid key: the memory holds no keys, and wrong keys take no space.
        self._found: LRUCache[bytes, _Found] = LRUCache(_MAX_KEYS)
        self._running: dict[bytes, asyncio.Task[Principal | None]] = {}
        self._notes: set[asyncio.Task[None]] = set()
        self._needs_keys = False
        self._asked_at: float | None = None

    async def needs_keys(self) -> bool:
        """Whether the deployment has keys; once it has, it always needs one."""
        if self._needs_keys:
            return True
        if self._asked_at is None or self._clock() - self._asked_at >= FRESH_SECONDS:
            self._asked_at = self._clock()
            self._needs_keys = await anyio.to_thread.run_sync(keys_exist, self._database)
        return self._needs_keys

    def is_known(self, text: str) -> bool:
        """Whether this key was valid the last time that the database was asked."""
        return _digest(text) in self._found

    def forget(self, text: str) -> None:
        """Asks the database again the next time, because the key or token has ended."""
        self._found.pop(_digest(text), None)

    async def principal(self, text: str) -> Principal | None:
        """The principal of a valid key or token."""
        digest = _digest(text)
        found = self._found.get(digest)
        if found is not None and self._clock() < found.fresh_until:
            return found.principal
        running = self._running.get(digest)
        if running is None:
            running = self._running[digest] = asyncio.create_task(self._look_up(text, digest))
            running.add_done_callback(lambda _: self._running.pop(digest))
        # Shielded: the other requests with this key wait for it, too.
        return await asyncio.shield(running)

    async def _look_up(self, text: str, digest: bytes) -> Principal | None:
        asked_at = self._clock()
        key = await anyio.to_thread.run_sync(_authenticate, self._database, text)
        if key is None:
            self._found.pop(digest, None)
            return None
        seconds = min(FRESH_SECONDS, key.seconds_left)
        self._found[digest] = _Found(key.principal, asked_at + seconds)
        if key.needs_note:
            note = asyncio.create_task(self._note_use(key.principal.key_id or ""))
            self._notes.add(note)
            note.add_done_callback(self._notes.discard)
        return key.principal

    async def _note_use(self, key_id: str) -> None:
        """Not in the way of the request: a write may have to wait."""
        try:
            await anyio.to_thread.run_sync(_note_use, self._database, key_id)
        except OUTAGES:
            log.warning("could not record the use of a key", exc_info=True)


@dataclass(frozen=True)
class _Valid:
    principal: Principal
    seconds_left: float
    needs_note: bool


def _authenticate(database: Database, text: str) -> _Valid | None:
    with database.reading() as session:
        if api_keys.is_well_formed(text):
            key = api_keys.authenticate(session, text)
            if key is None:
                return None
            principal = Principal(key.tenant_id, frozenset(map(Scope, key.scopes)), key.id)
            expires_at = key.expires_at
        else:
            token = temporary_tokens.authenticate(session, text)
            if token is None:
                return None
            principal, key, expires_at = _principal(token), token.key, token.expires_at
        at = read_clock(session)
        last_used_at = at if key is None else key.last_used_at
        return _Valid(
            principal,
            float("inf") if expires_at is None else expires_at - at,
            last_used_at is None or last_used_at < at - api_keys.LAST_USE_SECONDS,
        )


def _principal(token: ValidToken) -> Principal:
    row = token.row
    if row.kind is TokenKind.SESSION:
        scopes = frozenset(Scope) if token.key is None else frozenset(map(Scope, token.key.scopes))
        return Principal(row.tenant_id, scopes, row.key_id, session_id=row.id)
    scopes = frozenset({Scope.READ})
    return Principal(row.tenant_id, scopes, row.key_id, explanation_id=row.explanation_id)


def keys_exist(database: Database) -> bool:
    with database.reading() as session:
        return api_keys.exist(session)


def _note_use(database: Database, key_id: str) -> None:
    with database.transaction() as session:
        api_keys.note_use(session, key_id)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
