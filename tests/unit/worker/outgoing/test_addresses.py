"""Which addresses are public, compared with `ipaddress`, and names that cannot be resolved."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.outgoing.addresses import is_public, system_addresses

# Blocks that IANA's registry calls special, where a request may reach machines of the operator.
SPECIAL = [
    ip_network(block)
    for block in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        *("::/8", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:db8::/32"),
        *("2002::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    )
]
ADDRESSES = st.ip_addresses()


def inside(block: object) -> st.SearchStrategy[IPv4Address | IPv6Address]:
    return st.ip_addresses(network=block)  # type: ignore[arg-type]


@given(ADDRESSES)
def test_no_address_is_public_that_ipaddress_calls_otherwise(
    address: IPv4Address | IPv6Address,
) -> None:
    if is_public(str(address)):
        # A connection to a mapped address reaches its IPv4 address, but older versions of Python
        # call all of `::/8` reserved: https://github.com/python/cpython/issues/122792.
        reached = getattr(address, "ipv4_mapped", None) or address
        assert reached.is_global
        others = ("private", "loopback", "link_local", "multicast", "reserved", "unspecified")
        assert not [name for name in others if getattr(reached, f"is_{name}")]


@given(st.ip_addresses(v=4))
def test_ipv4_agrees_with_ipaddress_and_so_do_its_forms_in_ipv6(address: IPv4Address) -> None:
    public = address.is_global and not address.is_multicast
    assert is_public(str(address)) is public
    assert is_public(f"::ffff:{address}") is public
    # A gateway would translate these to the IPv4 address.
    number = int(address)
    for embedded in (
        IPv6Address(number),
        IPv6Address(int(IPv6Address("64:ff9b::")) + number),
        IPv6Address((0x2002 << 112) + (number << 80)),
    ):
        assert not is_public(str(embedded))


@given(st.sampled_from(SPECIAL).flatmap(inside))
def test_special_blocks_are_never_public(address: IPv4Address | IPv6Address) -> None:
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is None:
        assert not is_public(str(address))
    else:
        assert is_public(str(address)) is is_public(str(mapped))


@given(st.ip_addresses(v=6), st.sampled_from(["eth0", "1", "lo%"]))
def test_a_zone_does_not_change_the_answer(address: IPv6Address, zone: str) -> None:
    assert is_public(f"{address}%{zone}") is is_public(str(address))


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:8.8.8.8"]
)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("host", ["does-not-exist.invalid", "x" * 80 + ".invalid"])
def test_a_name_without_addresses_is_an_os_error(host: str) -> None:
    with pytest.raises(OSError, match=r"."):
        asyncio.run(system_addresses(host, 443))


def test_a_literal_address_is_its_own() -> None:
    assert asyncio.run(system_addresses("127.0.0.1", 80)) == ["127.0.0.1"]
