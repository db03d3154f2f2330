"""Liveness, readiness and metrics."""

from __future__ import annotations

import logging
from functools import partial
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import PlainTextResponse, Response

from service import examples
from service.context import Context, ContextOf, run_in_health_thread
from service.http.openapi import response
from service.http.principals import Admin, Reader
from service.http.responses import json_response
from service.resources import Resource
from service.telemetry.collectors import TenantMetrics
from service.telemetry.metric_queries import (
    UnknownFormat,
    live_workers,
    queue_counts,
    served_queues,
    unknown_formats,
)
from store.database.clock import timestamp
from store.database.sessions import Database
from store.database.tables import Worker
from store.store import Store

log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])


class Check(Resource):
    ok: bool
    detail: str


class WorkerSeen(Resource):
    name: str
    queues: list[str]
    device: str
    seen_at: str


class QueueState(Resource):
    queued: int
    waiting: int
    running: int


class Readiness(Resource):
    status: Literal["ready", "not ready"]
    accepts_submissions: bool
    reasons: list[str]
    checks: dict[Literal["database", "disk", "broker", "workers"], Check]
    workers: list[WorkerSeen]
    queues: dict[str, QueueState]


@router.get(
    "/livez",
    summary="Liveness",
    response_class=PlainTextResponse,
    responses={200: response("The process is running.", example="ok\n", media_type="text/plain")},
)
async def livez() -> Response:
    return PlainTextResponse("ok\n")


@router.get(
    "/readyz",
    summary="Readiness",
    description="503 if the database is unavailable or a disk is full: the API then accepts no "
    "work. A missing broker or worker is listed in `checks` and `reasons` with status 200: the API "
    "still accepts jobs, which start later.",
    responses={
        200: response("Ready.", Readiness, examples.READY),
        503: response("Not ready, with reasons.", Readiness, examples.NOT_READY),
    },
)
async def readyz(context: ContextOf) -> Response:
    state = await run_in_health_thread(context, partial(readiness, context))
    ready = state.status == "ready"
    return json_response(state, HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    description="Figures of the whole deployment; no label names a tenant. With keys it needs the "
    "scope `admin`. `/v1/metrics` has the figures of a tenant with the names of its models.",
    response_class=PlainTextResponse,
    responses={
        200: response(
            "The metrics.",
            example='d4_queue_depth{queue="train",state="queued"} 1.0\n',
            media_type="text/plain",
        )
    },
)
async def metrics(request: Request, context: ContextOf, _: Admin) -> Response:
    registry: CollectorRegistry = request.app.state.registry
    text = await run_in_health_thread(context, partial(generate_latest, registry))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


@router.get(
    "/v1/metrics",
    summary="Prometheus metrics of the tenant",
    description="Jobs of the tenant, and validity, transfer, edits, typicality and MMD of its "
    "final answers by GNN, version, reference set and class. At most `D4_METRIC_GROUPS` pairs of "
    "a GNN version and a reference set are named; further ones are counted as `other`.",
    response_class=PlainTextResponse,
    responses={
        200: response(
            "The metrics.",
            example='d4_validity_ratio{gnn="motifs",version="1",dataset="motifs",'
            'dataset_version="1",class="house"} 0.97\n',
            media_type="text/plain",
        )
    },
)
async def tenant_metrics(context: ContextOf, principal: Reader) -> Response:
    registry = CollectorRegistry()
    registry.register(TenantMetrics(context.store, principal.tenant))
    text = await run_in_health_thread(context, partial(generate_latest, registry))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def readiness(context: Context) -> Readiness:
    database, live, queue_states, unknown = _read_database(context.store.database)
    disk, broker = _check_disk(context.store), _check_broker(context)
    unserved = [queue.value for queue, count in served_queues(live).items() if count == 0]
    if not database.ok:
        workers = Check(ok=False, detail="unknown while the database is unavailable")
    elif unserved:
        workers = Check(ok=False, detail=f"no live worker serves {', '.join(unserved)}")
    elif unknown:
        workers = Check(ok=False, detail="; ".join(map(_unknown_format, unknown)))
    else:
        workers = Check(ok=True, detail="every queue has a worker")
    checks = {"database": database, "disk": disk, "broker": broker, "workers": workers}
    ready = database.ok and disk.ok
    return Readiness(
        status="ready" if ready else "not ready",
        accepts_submissions=ready,
        reasons=[f"{name}: {check.detail}" for name, check in checks.items() if not check.ok],
        checks=checks,
        workers=[
            WorkerSeen(
                name=worker.name,
                queues=worker.queues.split(","),
                device=worker.device,
                seen_at=timestamp(worker.seen_at),
            )
            for worker in live
        ],
        queues=queue_states,
    )


def _unknown_format(jobs: UnknownFormat) -> str:
    return (
        f"{jobs.count} jobs in the queue {jobs.queue} have format {jobs.format}, but its live "
        f"workers know formats up to {jobs.newest_known}; start workers of the API's version"
    )


def _read_database(
    database: Database,
) -> tuple[Check, list[Worker], dict[str, QueueState], list[UnknownFormat]]:
    try:
        with database.reading() as session:
            live = live_workers(session)
            unknown = unknown_formats(session, live)
            queue_states = {
                queue.value: QueueState(
                    queued=counts.queued, waiting=counts.waiting, running=counts.running
                )
                for queue, counts in queue_counts(session).items()
            }
    except Exception:
        log.warning("database unavailable", exc_info=True)
        return Check(ok=False, detail="unavailable; the API accepts no work"), [], {}, []
    return Check(ok=True, detail="available"), live, queue_states, unknown


def _check_disk(store: Store) -> Check:
    unavailable = store.artifacts.problem()
    if unavailable is not None:
        return Check(ok=False, detail=f"{unavailable}; the API rejects new work until it answers")
    shortage = store.disk.shortage()
    if shortage is not None:
        return Check(ok=False, detail=f"{shortage}; the API rejects new work until there is space")
    return Check(ok=True, detail="has space")


def _check_broker(context: Context) -> Check:
    if context.ping_broker is None:
        missing = "not configured (D4_REDIS_URL); jobs are accepted but workers are not notified"
        return Check(ok=False, detail=missing)
    if not context.ping_broker():
        unavailable = "unavailable; jobs are accepted and start when it is back"
        return Check(ok=False, detail=unavailable)
    return Check(ok=True, detail="available")
