"""Receives the webhooks of MLflow; a webhook only says which model to look at now."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from d4explain.errors import CommandError
from d4explain.mlflow.webhook_signatures import Verdict, WebhookVerifier

PATH = "/mlflow-webhook"
MAX_BODY_BYTES = 256 * 1024
BODY_SECONDS = 10.0
_ENTITIES = frozenset(
    {"registered_model", "model_version", "model_version_alias", "model_version_tag"}
)
_REFUSED = {
    Verdict.UNSIGNED: 401,
    Verdict.WRONG: 401,
    Verdict.OLD: 401,
    Verdict.REPEATED: 409,
    Verdict.TOO_MANY: 503,  # MLflow sends it again
}


def webhook_app(
    verifier: WebhookVerifier, on_model: Callable[[str], None], log: Callable[[str], None]
) -> Starlette:
    """`on_model` is called with the name of the model of each accepted webhook."""

    async def receive(request: Request) -> Response:
        try:
            body = await asyncio.wait_for(_bounded_body(request), BODY_SECONDS)
        except TimeoutError:
            return _problem(408, f"the body did not arrive within {BODY_SECONDS:.0f} s")
        except ClientDisconnect:
            return _problem(400, "the body is incomplete")
        if body is None:
            return _problem(413, f"a body may have at most {MAX_BODY_BYTES:,} bytes")
        verdict = verifier.check(request.headers, body)
        if verdict is not Verdict.ACCEPTED:
            log(f"webhook refused: {verdict}")
            return _problem(_REFUSED[verdict], verdict)
        event = _event(body)
        if event is None:
            return _problem(400, 'the body is not {"entity": …, "action": …, "data": {…}}')
        entity, action, model = event
        if model is not None and entity in _ENTITIES:
            log(f"webhook {entity}.{action}: {model}")
            on_model(model)
        return Response(status_code=204)

    async def live(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[Route(PATH, receive, methods=["POST"]), Route("/livez", live, methods=["GET"])]
    )


@contextmanager
def listening(app: Starlette, address: str) -> Iterator[str]:
    """Serves the app in a thread; yields its URL."""
    listener = _listener(address)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, limit_concurrency=32, timeout_keep_alive=5,
        server_header=False, timeout_graceful_shutdown=5,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    host, port = listener.getsockname()[:2]
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()


def _listener(address: str) -> socket.socket:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise CommandError(f"{address!r} is not HOST:PORT, such as 127.0.0.1:8401")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family)
    except OSError as error:
        raise CommandError(f"cannot listen on {address}: {error.strerror or error}") from error


async def _bounded_body(request: Request) -> bytes | None:
    """None if the body is too large; no more than the limit is read."""
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _event(body: bytes) -> tuple[str, str, str | None] | None:
    """Entity, action and the name of the model, if it has one."""
    try:
        document: Any = json.loads(body)
    except ValueError:
        return None
    if not isinstance(document, dict) or not isinstance(document.get("data"), dict):
        return None
    entity, action = document.get("entity"), document.get("action")
    if not isinstance(entity, str) or not isinstance(action, str):
        return None
    name = document["data"].get("name")
    return entity, action, name if isinstance(name, str) and name else None


def _problem(status: int, detail: str) -> Response:
    document = {"title": "refused", "status": status, "detail": detail}
    headers = {"Connection": "close"}  # the rest of a body is not read
    return JSONResponse(document, status, headers, media_type="application/problem+json")
