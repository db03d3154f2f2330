"""Where the API is, if nobody says so."""

from __future__ import annotations

import os

from d4explain.lock import running_stack
from store.settings import Settings

URL_VARIABLE = "D4_URL"


def api_address(given: str | None = None) -> str:
    """The given one, else D4_URL, else the stack of this data folder, else the default."""
    if given or os.environ.get(URL_VARIABLE):
        return given or os.environ[URL_VARIABLE]
    settings = Settings.from_environment()
    holder = running_stack(settings.data_dir)
    return holder.address if holder else f"http://{settings.host}:{settings.port}"
