"""Finds free ports on loopback addresses and checks that a port is free."""

from __future__ import annotations

import errno
import ipaddress
import random
import socket
import time

from d4explain.errors import CommandError

LOOPBACK = "127.0.0.1"

# Linux gives outgoing connections ports from 32768. A client that polls such a port before the
# server listens there can be given the same port as its own, and then occupies it.
FREE_PORTS = range(20_000, 32_768)


def free_port(host: str = LOOPBACK) -> int:
    """A port that nobody uses, outside the range of outgoing connections."""
    for port in random.SystemRandom().sample(FREE_PORTS, 100):
        if listen_problem(host, port) is None:
            return port
    raise CommandError(f"100 random ports on {host} between 20000 and 32767 are all in use")


def listen_problem(host: str, port: int) -> str | None:
    """The reason why a server cannot listen at this port; None if it can."""
    with _socket_for(host) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            probe.bind((host, port))
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            reason = (
                "is in use by another program" if in_use else f"cannot be used: {error.strerror}"
            )
            return f"port {port} on {host} {reason}"
    return None


def require_free(host: str, port: int) -> None:
    # A stack that was just killed may hold its port slightly longer than its lock.
    deadline = time.monotonic() + 1.0
    while (problem := listen_problem(host, port)) is not None:
        if time.monotonic() > deadline:
            hint = "choose another with --port or D4_PORT (0 picks a free one)"
            raise CommandError(problem, hint)
        time.sleep(0.05)


def require_loopback(host: str) -> None:
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise CommandError(
            f"the embedded stack serves this machine only; {host} is not a loopback address",
            hint="use --host 127.0.0.1; to serve other machines, run `python -m service` "
            "behind a proxy",
        )


def _socket_for(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
