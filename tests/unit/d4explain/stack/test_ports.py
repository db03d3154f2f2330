"""Free ports: nobody listens there, and no outgoing connection is given one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from d4explain.errors import CommandError
from d4explain.stack import ports


def test_a_free_port_can_be_bound() -> None:
    with socket.create_server((ports.LOOPBACK, ports.free_port())) as server:
        assert ports.listen_problem(ports.LOOPBACK, server.getsockname()[1]) is not None


def test_free_ports_are_outside_the_range_of_outgoing_connections() -> None:
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not limits.exists():
        pytest.skip("this system does not say which ports outgoing connections get")
    first, last = map(int, limits.read_text().split())
    assert not set(ports.FREE_PORTS) & set(range(first, last + 1))


def test_a_range_without_free_ports_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "listen_problem", lambda host, port: f"port {port} is in use")
    with pytest.raises(CommandError, match="all in use"):
        ports.free_port()
