"""`/`: a page that shows queues and recent jobs; it loads nothing from other sites."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

router = APIRouter(include_in_schema=False)

_PAGE = files("service.routes").joinpath("landing.html").read_text(encoding="utf-8")


def _hashes(tag: str) -> str:
    """Hashes of the page's inline scripts or styles; the policy below allows nothing else."""
    parts = re.findall(rf"<{tag}>(.*?)</{tag}>", _PAGE, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts]
    return " ".join(f"'sha256-{digest}'" for digest in digests)


_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; "
    f"style-src {_hashes('style')}; script-src {_hashes('script')}",
    "Referrer-Policy": "no-referrer",
}


@router.get("/")
async def landing() -> Response:
    return HTMLResponse(_PAGE, headers=_HEADERS)
