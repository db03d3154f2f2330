"""`/`: a page that shows queues and recent jobs; it loads nothing from other sites."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from service.routes.inline_hashes import inline_hashes

router = APIRouter(include_in_schema=False)

_PAGE = files("service.routes").joinpath("landing.html").read_text(encoding="utf-8")


_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; "
    f"style-src {inline_hashes(_PAGE, 'style')}; script-src {inline_hashes(_PAGE, 'script')}",
    "Referrer-Policy": "no-referrer",
}


@router.get("/")
async def landing() -> Response:
    return HTMLResponse(_PAGE, headers=_HEADERS)
