"""Examples of pages and problems."""

from __future__ import annotations

from http import HTTPStatus

from service.examples.shared import GNN_ID, Example


def page(item: Example) -> Example:
    return {"items": [item], "next_cursor": None}


_PROBLEMS: dict[HTTPStatus, tuple[str, str, list[dict[str, str]]]] = {
    HTTPStatus.BAD_REQUEST: (
        "malformed-json",
        "Line 3, column 17: Expecting ',' delimiter",
        [],
    ),
    HTTPStatus.UNAUTHORIZED: (
        "unauthorized",
        "The key is unknown, expired or revoked.",
        [],
    ),
    HTTPStatus.FORBIDDEN: (
        "missing-scope",
        "This request needs the scope register; the key has read, explain.",
        [],
    ),
    HTTPStatus.NOT_FOUND: (
        "not-found",
        "There is no gnn with the id 'gnn_01kaajwd2kq5w0v8yh4n'",
        [],
    ),
    HTTPStatus.CONFLICT: (
        "gnn-not-ready",
        f"GNN {GNN_ID} is probing; only a ready GNN can be used",
        [],
    ),
    HTTPStatus.GONE: (
        "gone",
        "The reference set set_01kaajwx6p3t9c2v8b5m was deleted",
        [],
    ),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: (
        "body-too-large",
        "The body has 104,857,600 bytes; this address accepts at most 33,554,432 bytes.",
        [],
    ),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: (
        "unsupported-media-type",
        "Unsupported Content-Type 'text/plain'; expected application/json.",
        [{"header": "Content-Type", "detail": "should be application/json"}],
    ),
    HTTPStatus.UNPROCESSABLE_ENTITY: (
        "invalid-input",
        '/graphs/3/edges/7/target: there is no node with the id "q"',
        [
            {
                "pointer": "/graphs/3/edges/7/target",
                "detail": 'there is no node with the id "q"',
            }
        ],
    ),
    HTTPStatus.TOO_MANY_REQUESTS: (
        "too-many-requests",
        "This client already has 128 requests, its limit at the moment; try again when one of them "
        "has ended.",
        [],
    ),
    HTTPStatus.INTERNAL_SERVER_ERROR: (
        "internal",
        "Internal error; see the service's log.",
        [],
    ),
    HTTPStatus.NOT_IMPLEMENTED: (
        "not-installed",
        "PDF reports need fpdf2, which is not installed here: pip install 'd4explain[pdf]'. "
        "format=html gives the same report.",
        [],
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "overloaded",
        "The service already has 256 requests, its limit; try again in a moment.",
        [],
    ),
    HTTPStatus.INSUFFICIENT_STORAGE: (
        "disk-full",
        "The disk is full: only 3.1 MiB are free for artifacts; 32 MiB are kept for running jobs. "
        "Nothing was accepted. Send the request again when space is available.",
        [],
    ),
}


def problem(status: HTTPStatus) -> Example:
    slug, detail, errors = _PROBLEMS[status]
    return {
        "type": f"urn:d4explain:problem:{slug}",
        "title": status.phrase,
        "status": int(status),
        "detail": detail,
        "errors": errors,
    }
