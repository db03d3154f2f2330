"""Chooses the next job so that no tenant or denoiser waits for all jobs of another."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from store.jobs import FairGroup, Waiting

_MAX_REMEMBERED = 1000


class FairScheduler:
    """Round robin over tenants, and over the fair groups of each tenant.

    The one that has waited longest since it arrived or was last served comes first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._served_at: OrderedDict[Hashable, float] = OrderedDict()

    def mark_served(self, group: FairGroup) -> None:
        """Records that the time slice of a fair group is over."""
        for key in (group.tenant, group):
            self._served_at[key] = self._clock()
            self._served_at.move_to_end(key)
        while len(self._served_at) > _MAX_REMEMBERED:
            self._served_at.popitem(last=False)

    def next(self, waiting: Sequence[Waiting]) -> Waiting:
        now = self._clock()
        tenant_seconds: dict[str, float] = {}  # of its fair group that waits longest
        for entry in waiting:
            tenant = entry.group.tenant
            tenant_seconds[tenant] = max(tenant_seconds.get(tenant, 0.0), entry.seconds)

        def waits_since(key: Hashable, seconds: float) -> float:
            return max(now - seconds, self._served_at.get(key, now - seconds))

        def sort_key(entry: Waiting) -> tuple[float, str, float, str]:
            tenant = entry.group.tenant
            return (
                waits_since(tenant, tenant_seconds[tenant]),
                tenant,
                waits_since(entry.group, entry.seconds),
                entry.job_id,
            )

        return min(waiting, key=sort_key)
