"""The database's own clock, so that hosts need not agree about the time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Double
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class now(FunctionElement[float]):  # noqa: N801 - reads as the SQL function it stands for
    """Seconds since the epoch when the statement runs."""

    name = "now"
    inherit_cache = True  # a function element has a cache key: its statements compile once
    type = Double()


@compiles(now, "sqlite")
def _sqlite(element: now, compiler: Any, **_: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"  # 2440587.5: the Julian day of 1970-01-01


@compiles(now, "postgresql")
def _postgresql(element: now, compiler: Any, **_: Any) -> str:
    # Not now(): that is the transaction's start, and a transaction may have waited for a lock.
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"
