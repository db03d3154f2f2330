"""Checks a deployment from the settings of this process: each finding says what to fix."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version

import redis
from sqlalchemy import make_url, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import Queue
from d4explain.contracts.scopes import DEFAULT_TENANT
from store.artifacts.artifact_store import ArtifactStore
from store.database import schema
from store.database.clock import now
from store.database.sessions import Database, read_clock
from store.database.tables import Explanation, Lead, Worker
from store.errors import ArtifactsUnavailable, ManyMachines, SchemaMismatch
from store.jobs import workers
from store.queue.redis_urls import for_redis_py
from store.settings import Settings
from store.store import Store

_TIMEOUT_SECONDS = 3.0
_SKEW_NOTE_SECONDS = 2.0
_SKEW_SECONDS = 240.0  # signatures of requests are valid for five minutes
_RESULTS = 20  # newest results that must be in the artifacts
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Status(Enum):
    OK = "ok"
    NOTE = "note"  # not a fault, but worth knowing
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    name: str
    status: Status
    detail: str
    fix: str = ""


def findings(settings: Settings) -> Iterator[Finding]:
    """All checks; those that need an unreachable part are left out."""
    yield _listening(settings)
    yield from _broker(settings.redis_url)
    database = Database(settings.database_url)
    try:
        reached = _database(database, settings.database_url)
        yield reached
        if reached.status is not Status.FAILED:
            yield from _rows(database)
    finally:
        database.close()
    yield from _artifacts(settings, reached.status is not Status.FAILED)


def _listening(settings: Settings) -> Finding:
    if settings.host in _LOOPBACK:
        return Finding("address", Status.OK, f"the API listens on {settings.host} only")
    if "*" in settings.allowed_hosts.split(","):
        return Finding(
            "address",
            Status.NOTE,
            f"the API listens on {settings.host} and accepts any Host",
            "list the names of the API in D4_ALLOWED_HOSTS: web pages could reach it by DNS "
            "rebinding",
        )
    names = settings.allowed_hosts or "none besides loopback"
    return Finding("address", Status.OK, f"it listens on {settings.host}; other names: {names}")


def _database(database: Database, url: str) -> Finding:
    shown = make_url(url).render_as_string(hide_password=True)
    try:
        with database.engine.connect().execution_options(reading=True) as connection:
            found = schema.version(connection)
    except (SQLAlchemyError, OSError) as error:
        reason = type(error).__name__
        fix = "start the database, or correct D4_DATABASE_URL"
        return Finding("database", Status.FAILED, f"{shown} does not answer ({reason})", fix)
    if found is None:
        fix = "run `python -m store migrate`, or start an API"
        return Finding("database", Status.FAILED, f"{shown} is empty", fix)
    try:
        schema.require(database.engine)
    except SchemaMismatch as error:  # it says what to do
        return Finding("database", Status.FAILED, str(error))
    return Finding("database", Status.OK, f"{shown} answers and has schema {found}")


def _rows(database: Database) -> Iterator[Finding]:
    with database.reading() as session:
        yield _clock(session)
        if database.is_sqlite:
            yield _one_machine(session)
        yield _leader(session)
        yield from _workers(workers.live(session))


def _clock(session: Session) -> Finding:
    skew = time.time() - read_clock(session)
    detail = f"this machine is {skew:+.1f} s from the database"
    fix = "synchronise the clocks (NTP)"
    if abs(skew) > _SKEW_SECONDS:
        return Finding("clock", Status.FAILED, f"{detail}; signatures become invalid", fix)
    if abs(skew) > _SKEW_NOTE_SECONDS:
        return Finding("clock", Status.NOTE, f"{detail}; times in logs differ", fix)
    return Finding("clock", Status.OK, detail)


def _one_machine(session: Session) -> Finding:
    try:
        workers.require_one_machine(session)
    except ManyMachines as error:
        return Finding("SQLite", Status.FAILED, str(error), "use PostgreSQL")
    return Finding("SQLite", Status.OK, "all live workers run on this machine")


def _leader(session: Session) -> Finding:
    leading = select(Lead.owner).where(Lead.lease_until > now())
    owners = list(session.scalars(leading))
    if owners:
        return Finding("dispatcher", Status.OK, f"{owners[0]} leads")
    detail = "no API dispatches jobs"
    return Finding("dispatcher", Status.FAILED, detail, "start an API (`python -m service`)")


def _workers(live: list[Worker]) -> Iterator[Finding]:
    for queue in Queue:
        serving = [worker for worker in live if queue in worker.queues.split(",")]
        if serving:
            shown = ", ".join(f"{one.name} on {one.device}" for one in serving)
            yield Finding(f"queue {queue}", Status.OK, shown)
        else:
            fix = f"start a worker: `python -m worker --queues {queue}`"
            yield Finding(f"queue {queue}", Status.FAILED, "no live worker serves it", fix)
    own = version("d4explain")
    others = sorted({f"{one.name} has {one.version}" for one in live if one.version != own})
    if others:
        fix = "update all processes to one version"
        yield Finding("versions", Status.NOTE, f"this is {own}; {', '.join(others)}", fix)
    elif live:
        yield Finding("versions", Status.OK, f"all live workers have version {own}")


def _broker(url: str | None) -> Iterator[Finding]:
    if url is None:
        fix = "set D4_REDIS_URL; `d4explain up` starts a broker of its own"
        yield Finding("broker", Status.FAILED, "D4_REDIS_URL is not set", fix)
        return
    try:
        client = redis.Redis.from_url(
            for_redis_py(url),
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            decode_responses=True,
        )
        with client:
            client.ping()
            yield Finding("broker", Status.OK, "Redis answers")
            yield from _broker_settings(client)
    except (redis.RedisError, OSError, ValueError) as error:
        fix = "start Redis, or correct D4_REDIS_URL"
        detail = f"Redis does not answer ({type(error).__name__})"
        yield Finding("broker", Status.FAILED, detail, fix)


def _broker_settings(client: redis.Redis) -> Iterator[Finding]:
    try:
        policy = client.config_get("maxmemory-policy")["maxmemory-policy"]
        is_kept = client.config_get("appendonly")["appendonly"] == "yes"
    except redis.ResponseError:  # managed servers refuse CONFIG
        detail = "the server does not show its settings"
        fix = "check that maxmemory-policy is noeviction and that appendonly is on"
        yield Finding("broker settings", Status.NOTE, detail, fix)
        return
    if policy == "noeviction":
        yield Finding("broker eviction", Status.OK, "Redis never evicts messages")
    else:
        detail = f"maxmemory-policy is {policy}: Redis may evict messages, and jobs start late"
        yield Finding("broker eviction", Status.FAILED, detail, "set it to noeviction")
    if is_kept:
        yield Finding("broker file", Status.OK, "messages survive a restart (appendonly)")
    else:
        detail = "appendonly is off: after a restart, jobs are announced again"
        yield Finding("broker file", Status.NOTE, detail, "set `appendonly yes`")


def _artifacts(settings: Settings, has_rows: bool) -> Iterator[Finding]:
    fix = "correct D4_ARTIFACTS, or the rights of this user or key"
    try:
        artifacts = ArtifactStore(settings.artifacts).of(DEFAULT_TENANT)
        probe = os.urandom(32)
        digest = artifacts.put(probe)
        is_same = artifacts.get(digest) == probe
        artifacts.delete(digest)
    except (OSError, ArtifactsUnavailable) as error:
        detail = str(error) if isinstance(error, ArtifactsUnavailable) else str(error.strerror)
        yield Finding("artifacts", Status.FAILED, f"{settings.artifacts}: {detail}", fix)
        return
    assert is_same  # `get` compares the digest
    yield Finding("artifacts", Status.OK, f"{settings.artifacts} is writable and readable")
    if has_rows:
        with Store.open(settings, migrate=False) as store:
            yield _newest_results(store)
            shortage = store.disk.shortage()
            if shortage is None:
                yield Finding("disk", Status.OK, store.disk.free_space())
            else:
                yield Finding("disk", Status.FAILED, shortage, "free some space")


def _newest_results(store: Store) -> Finding:
    newest = (
        select(Explanation.tenant_id, Explanation.result_digest)
        .where(Explanation.result_digest.is_not(None))
        .order_by(Explanation.created_at.desc())
        .limit(_RESULTS)
    )
    with store.database.reading() as session:
        found = session.execute(newest).all()
    digests = [(tenant, digest) for tenant, digest in found if digest is not None]
    missing = sum(not store.artifacts.of(tenant).exists(digest) for tenant, digest in digests)
    if not missing:
        return Finding("results", Status.OK, f"the newest {len(digests)} are in the artifacts")
    return Finding(
        "results",
        Status.FAILED,
        f"{missing} of the newest {len(digests)} results are not in the artifacts",
        "give all processes the same D4_ARTIFACTS; `python -m store check` lists what is missing",
    )
