"""`/docs`: the API in Swagger UI, whose files are part of this package; no internet is needed."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from service.routes.inline_hashes import inline_hashes
from store.errors import NotFound

router = APIRouter(include_in_schema=False)

_PAGE = files("service.routes").joinpath("docs.html").read_text(encoding="utf-8")
_ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
_HEADERS = {
    # Swagger UI sets styles of elements and has images in its style sheet.
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; img-src 'self' data:; "
    "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    f"frame-ancestors 'none'; script-src 'self' {inline_hashes(_PAGE, 'script')}",
    "Referrer-Policy": "no-referrer",
}


@router.get("/docs")
async def docs() -> Response:
    return HTMLResponse(_PAGE, headers=_HEADERS)


@router.get("/docs/{asset}")
def docs_asset(asset: str) -> Response:
    if asset not in _ASSETS:
        raise NotFound("page", f"/docs/{asset}")
    content = files("service.routes").joinpath("swagger_ui", asset).read_bytes()
    return Response(
        content, media_type=_ASSETS[asset], headers={"Cache-Control": "public, max-age=86400"}
    )
