"""Limits the requests per second of each tenant."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from anyio import to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.principals import known_principal
from service.http.problems import problem
from store.database import quotas
from store.database.sessions import OUTAGES, Database

_BURST_SECONDS = 1.0  # a tenant may send the requests of one second at once
_CACHE_SECONDS = 10.0  # after which a changed quota is noticed


@dataclass
class _Bucket:
    """A token bucket: it fills at the rate, and each request takes one token."""

    rate: float  # 0: no limit
    read_at: float
    tokens: float
    filled_at: float

    def seconds_until_next(self, at: float) -> float:
        """Takes a token; if there is none, the time until there is one."""
        size = max(1.0, self.rate * _BURST_SECONDS)
        self.tokens = min(size, self.tokens + (at - self.filled_at) * self.rate)
        self.filled_at = at
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / self.rate


class RequestRates:
    """Middleware that answers 429 beyond the tenant's rate; it runs after `Authentication`.

    Every API process counts its own requests.
    """

    def __init__(
        self, app: ASGIApp, database: Database, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.app = app
        self._database = database
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = known_principal(scope)
        if principal is not None:
            bucket = await self._bucket(principal.tenant)
            seconds = bucket.seconds_until_next(self._clock()) if bucket.rate else 0.0
            if seconds > 0:
                response = problem(
                    429,
                    "quota-exceeded",
                    f"This tenant may send {bucket.rate:g} requests per second.",
                    headers={"Retry-After": str(max(1, math.ceil(seconds)))},
                    quota={"name": "requests_per_second", "limit": bucket.rate, "used": None},
                )
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def _bucket(self, tenant: str) -> _Bucket:
        at = self._clock()
        known = self._buckets.get(tenant)
        if known is not None and at - known.read_at < _CACHE_SECONDS:
            return known
        try:
            rate = await to_thread.run_sync(self._read, tenant)
        except OUTAGES:  # the route will report it
            rate = known.rate if known else 0.0
        if known is None:
            known = self._buckets[tenant] = _Bucket(rate, at, max(1.0, rate * _BURST_SECONDS), at)
        known.rate, known.read_at = rate, at
        return known

    def _read(self, tenant: str) -> float:
        with self._database.reading() as session:
            return quotas.of_tenant(session, tenant).requests_per_second
