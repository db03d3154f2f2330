"""Whether the process lives, whether it can accept work, and what to measure it by."""

from __future__ import annotations

import logging
from functools import partial
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import PlainTextResponse, Response

from service import examples
from service.context import Context, ContextOf, in_health_thread
from service.http.openapi import answer
from service.http.responses import reply
from service.metric_queries import live_workers, queues, served_queues
from service.resources import Resource, timestamp
from store.artifacts.disk_space import DiskSpace
from store.database.sessions import Database
from store.database.tables import Worker

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
    summary="The process lives",
    response_class=PlainTextResponse,
    responses={200: answer("It does.", example="ok\n", media_type="text/plain")},
)
async def livez() -> Response:
    return PlainTextResponse("ok\n")


@router.get(
    "/readyz",
    summary="The API can accept work",
    description="503 when the database does not answer or a disk is full: then nothing is "
    "accepted. The broker and the workers are listed in `checks` and `reasons` but are no 503: "
    "without them jobs are accepted all the same and start when they are back.",
    responses={
        200: answer("Ready.", Readiness, examples.READY),
        503: answer("Not ready, with reasons.", Readiness, examples.NOT_READY),
    },
)
async def readyz(context: ContextOf) -> Response:
    state = await in_health_thread(context, partial(readiness, context))
    ready = state.status == "ready"
    return reply(state, HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=PlainTextResponse,
    responses={
        200: answer(
            "The metrics.",
            example='d4_queue_depth{queue="train",state="queued"} 1.0\n',
            media_type="text/plain",
        )
    },
)
async def metrics(request: Request, context: ContextOf) -> Response:
    registry: CollectorRegistry = request.app.state.registry
    text = await in_health_thread(context, partial(generate_latest, registry))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def readiness(context: Context) -> Readiness:
    database, alive, waiting = _read_database(context.store.database)
    disk, broker = _disk(context.store.disk), _broker(context)
    unserved = [queue.value for queue, count in served_queues(alive).items() if count == 0]
    if not database.ok:
        workers = Check(ok=False, detail="unknown while the database does not answer")
    elif unserved:
        workers = Check(ok=False, detail=f"no live worker serves {', '.join(unserved)}")
    else:
        workers = Check(ok=True, detail="every queue is served")
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
            for worker in alive
        ],
        queues=waiting,
    )


def _read_database(database: Database) -> tuple[Check, list[Worker], dict[str, QueueState]]:
    try:
        with database.reading() as session:
            alive = live_workers(session)
            found = {
                queue.value: QueueState(
                    queued=figures.queued, waiting=figures.waiting, running=figures.running
                )
                for queue, figures in queues(session).items()
            }
    except Exception:
        log.warning("database unavailable", exc_info=True)
        return Check(ok=False, detail="does not answer; nothing can be accepted"), [], {}
    return Check(ok=True, detail="answers"), alive, found


def _disk(space: DiskSpace) -> Check:
    shortage = space.shortage()
    if shortage is not None:
        return Check(ok=False, detail=f"{shortage}; new work is refused until there is room")
    return Check(ok=True, detail="has room")


def _broker(context: Context) -> Check:
    if context.broker_answers is None:
        none = "none is configured (D4_REDIS_URL); jobs are accepted but nobody is told of them"
        return Check(ok=False, detail=none)
    if not context.broker_answers():
        away = "does not answer; jobs are accepted and start when it is back"
        return Check(ok=False, detail=away)
    return Check(ok=True, detail="answers")
