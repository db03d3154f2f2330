"""Finds the address of the API and the key if the caller gives none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from d4explain.contracts.defaults import API_HOST, API_PORT, DATA_DIR

URL_VARIABLE = "D4_URL"
KEY_VARIABLE = "D4_API_KEY"


def api_address(given: str | None = None) -> str:
    """The first of: `given`, D4_URL, the running stack of the data folder, the default address."""

    def setting(name: str, default: str) -> str:
        return os.environ.get(name) or default

    if given or os.environ.get(URL_VARIABLE):
        return given or os.environ[URL_VARIABLE]
    from d4explain.stack.folder_lock import running_stack  # noqa: PLC0415 - needs a POSIX system

    stack = running_stack(Path(setting("D4_DATA_DIR", DATA_DIR)))
    if stack is not None:
        return stack.address
    return f"http://{setting('D4_HOST', API_HOST)}:{setting('D4_PORT', str(API_PORT))}"


def api_key_headers(headers: Mapping[str, str] | None, given: str | None) -> dict[str, str]:
    """The headers with the key: `given`, or D4_API_KEY; none if they have an Authorization."""
    key = (given or os.environ.get(KEY_VARIABLE, "")).strip()
    has_own = any(name.lower() == "authorization" for name in headers or {})
    own = {"Authorization": f"Bearer {key}"} if key and not has_own else {}
    return {**own, **(headers or {})}
