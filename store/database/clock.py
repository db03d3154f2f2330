"""The clock of the database, so that the clocks of hosts need not agree."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Double
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class now(FunctionElement[float]):  # noqa: N801 - reads like an SQL function
    """Seconds since the epoch when the statement runs."""

    name = "now"
    inherit_cache = True  # statements with it compile once
    type = Double()


@compiles(now, "sqlite")
def _sqlite(element: now, compiler: Any, **_: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"  # 2440587.5: the Julian day of 1970-01-01


@compiles(now, "postgresql")
def _postgresql(element: now, compiler: Any, **_: Any) -> str:
    # now() would be the start of the transaction, which may have waited for a lock.
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"


def timestamp(seconds: float) -> str:
    """RFC 3339 with milliseconds, in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
