"""Resolves host names, and decides which addresses are public."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from concurrent.futures import Future

_ALLOCATED = ipaddress.ip_network("2000::/3")  # the part of IPv6 with public addresses
# These addresses embed another address, so is_global says nothing about the destination.
_TUNNELS = [ipaddress.ip_network(net) for net in ("2001::/32", "2002::/16")]


def is_public(address: str) -> bool:
    """Whether everybody on the Internet may reach the address."""
    parsed = ipaddress.ip_address(address.split("%", maxsplit=1)[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return is_public(str(parsed.ipv4_mapped))
        if parsed not in _ALLOCATED or any(parsed in tunnel for tunnel in _TUNNELS):
            return False
    return parsed.is_global and not parsed.is_multicast


async def system_addresses(host: str, port: int) -> list[str]:
    """The addresses of a host, by the system's resolver; raises OSError.

    The lookup has no time limit of its own. It runs in a daemon thread, so that nobody waits for
    one whose caller has given up.
    """
    found: Future[list[str]] = Future()

    def look_up() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # a label may be too long to encode
            found.set_exception(error if isinstance(error, OSError) else OSError(str(error)))
        else:
            found.set_result(list(dict.fromkeys(str(entry[4][0]) for entry in entries)))

    if found.set_running_or_notify_cancel():  # from now on, nobody can cancel it
        threading.Thread(target=look_up, name="name lookup", daemon=True).start()
    return await asyncio.wrap_future(found)
