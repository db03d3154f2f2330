"""Whose turn it is: no tenant, and no denoiser of a tenant, waits for all jobs of another."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from store.jobs import FairGroup, Waiting

_REMEMBERED = 1000


class FairScheduler:
    """Round robin: first comes who has waited longest since it came or was served last.

    Tenants take turns, and the parties of a tenant do when it is its turn.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._served_at: OrderedDict[Hashable, float] = OrderedDict()

    def served(self, party: FairGroup) -> None:
        """Its turn is over."""
        for key in (party.tenant, party):
            self._served_at[key] = self._clock()
            self._served_at.move_to_end(key)
        while len(self._served_at) > _REMEMBERED:
            self._served_at.popitem(last=False)

    def next(self, waiting: Sequence[Waiting]) -> Waiting:
        now = self._clock()
        tenant_waits: dict[str, float] = {}  # the longest of its parties' seconds
        for one in waiting:
            tenant = one.group.tenant
            tenant_waits[tenant] = max(tenant_waits.get(tenant, 0.0), one.seconds)

        def since(key: Hashable, seconds: float) -> float:
            return max(now - seconds, self._served_at.get(key, now - seconds))

        def place(one: Waiting) -> tuple[float, str, float, str]:
            tenant = one.group.tenant
            return (
                since(tenant, tenant_waits[tenant]),
                tenant,
                since(one.group, one.seconds),
                one.job_id,
            )

        return min(waiting, key=place)
