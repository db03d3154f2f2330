"""`/` and the other pages of the dashboard; they load nothing from other sites."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from service.reports.oembed import oembed_address
from store.errors import NotFound

router = APIRouter(include_in_schema=False)

_STATIC = files("service.dashboard").joinpath("static")
_PAGE = _STATIC.joinpath("index.html").read_text(encoding="utf-8")
_ASSETS = {
    "app.js": "text/javascript",
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
    "LICENSES.txt": "text/plain",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
}


# One page shows every view: it reads its address.
@router.get("/")
@router.get("/gnns")
@router.get("/gnns/{name}")
@router.get("/explanations")
@router.get("/jobs/{name}")
@router.get("/evaluations")
@router.get("/evaluations/{name}")
@router.get("/comparisons/{name}")
@router.get("/evaluate")
@router.get("/compare")
@router.get("/ask")
@router.get("/settings")
async def page(name: str = "") -> Response:
    return HTMLResponse(_PAGE, headers=_HEADERS)


@router.get("/explanations/{name}")
async def explanation_page(request: Request, name: str) -> Response:
    """The viewer; its header tells other sites how to embed the explanation."""
    link = f'<{oembed_address(request)}>; rel="alternate"; type="application/json+oembed"'
    return HTMLResponse(_PAGE, headers={**_HEADERS, "Link": link})


@router.get("/dashboard/{asset}")
def asset(asset: str) -> Response:
    if asset not in _ASSETS:
        raise NotFound("page", f"/dashboard/{asset}")
    content = _STATIC.joinpath(asset).read_bytes()
    return Response(content, media_type=_ASSETS[asset], headers={"Cache-Control": "no-cache"})
