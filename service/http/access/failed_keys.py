"""Slows clients that try keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from cachetools import LRUCache

# A client may send this many wrong keys at once, and afterwards one in each interval.
MAX_FAILURES = 10
SECONDS_PER_FAILURE = 6.0
_MAX_CLIENTS = 10_000
_IPV6_HOST_BITS = 64  # one client usually has a whole /64 network


class FailedKeys:
    """Counts wrong keys per client address; the least recent clients are forgotten first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # When the client's failures will be forgiven, all of them.
        self._forgiven_at: LRUCache[str, float] = LRUCache(_MAX_CLIENTS)

    def note(self, client: str) -> None:
        network = _network(client)
        at = max(self._forgiven_at.get(network, 0.0), self._clock())
        self._forgiven_at[network] = at + SECONDS_PER_FAILURE

    def seconds_until_next(self, client: str) -> float:
        """How long the client has to wait before it may try another key; 0 if not at all."""
        forgiven_at = self._forgiven_at.get(_network(client), 0.0)
        return max(0.0, forgiven_at - self._clock() - (MAX_FAILURES - 1) * SECONDS_PER_FAILURE)


def _network(client: str) -> str:
    try:
        address = ip_address(client)
    except ValueError:  # a Unix socket
        return client
    if isinstance(address, IPv6Address):
        return str(int(address) >> _IPV6_HOST_BITS)
    return client
