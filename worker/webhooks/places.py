"""How many notifications a worker sends at once, so that no receiver delays the others."""

from __future__ import annotations

from collections import Counter

from store.webhooks.deliveries import Full, Group

PLACES = 16
_PER_TENANT = 8
_PER_GROUP = 4  # for a webhook, or for the host of those that belong to requests
_PER_FAILING_GROUP = 1


class Places:
    """The places of one worker: each tenant and each group can have a part of them."""

    def __init__(self) -> None:
        self._taken: Counter[Group] = Counter()
        self._limits: dict[Group, int] = {}  # of groups that have places

    @property
    def free(self) -> int:
        return PLACES - self._taken.total()

    @property
    def full(self) -> Full:
        """Who cannot get another place."""
        tenants = {tenant for tenant, _ in self._taken if self._of(tenant) >= _PER_TENANT}
        groups = {group for group, count in self._taken.items() if count >= self._limits[group]}
        return Full(sorted(tenants), sorted(groups))

    def take(self, group: Group, is_failing: bool) -> bool:
        """Takes a place if the group may have one."""
        limit = _PER_FAILING_GROUP if is_failing else _PER_GROUP
        if self._taken[group] >= limit or self._of(group[0]) >= _PER_TENANT or not self.free:
            return False
        self._taken[group] += 1
        self._limits[group] = limit
        return True

    def give_back(self, group: Group) -> None:
        self._taken[group] -= 1
        if not self._taken[group]:
            del self._taken[group], self._limits[group]

    def _of(self, tenant: str) -> int:
        return sum(count for (other, _), count in self._taken.items() if other == tenant)
