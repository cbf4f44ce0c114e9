"""The rule of public addresses, held against IANA's registries, the standard library and libc."""

from __future__ import annotations

import ipaddress
import os
import random
import socket
import sys
import textwrap
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ohmo.tools.results import ToolError
from ohmo.tools.web_addresses import is_elsewhere, is_own, is_public, literal, name_problem
from ohmo.tools.webfetch import checked_url
from tests.programs import run_process

# IANA, "IPv4 Special-Purpose Address Registry" (2024-10-22), each row; with RFC 5771 and hosts
ROWS4 = """
0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12
192.0.0.0/24 192.0.0.0/29 192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/32 192.0.0.171/32
192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.88.99.2/32 192.168.0.0/16
192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 255.255.255.255/32
224.0.0.0/4
100.100.100.200/32 168.63.129.16/32 192.0.0.192/32 161.26.0.0/16 166.8.0.0/14
169.254.169.254/32 169.254.170.2/32 169.254.0.23/32 169.254.42.42/32
"""
# IANA, "IPv6 Special-Purpose Address Registry" (2024-10-22; RFC 9780), each row but the
# well-known NAT64 prefix, which is judged by what it holds; what IANA keeps; clouds
ROWS6 = """
::1/128 ::/128 ::ffff:0:0/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32
2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28
2001:20::/28 2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7
fe80::/10
::/8 100::/8 200::/7 400::/6 800::/5 1000::/4 4000::/3 6000::/3 8000::/3 a000::/3 c000::/3
e000::/4 f000::/5 f800::/6 fe00::/9 fec0::/10 ff00::/8 ::ffff:0:0:0/96 3ffe::/16
fd00:ec2::254/128 fd00:ec2::23/128 fd20:ce::254/128 fd00:42::42/128 fe80::a9fe:a9fe/128
"""
REGISTRY4, REGISTRY6 = ROWS4.split(), ROWS6.split()
NAT64 = int(IPv6Address("64:ff9b::"))


def inside(network: IPv4Network | IPv6Network, count: int = 40) -> Iterator[int]:
    """Both ends and some between."""
    first, last = int(network.network_address), int(network.broadcast_address)
    dice = random.Random(str(network))
    yield from (first, last, *(dice.randint(first, last) for _ in range(count)))


def wrapped(four: int) -> Iterator[IPv6Address]:
    """Every way an IPv6 address leads to an IPv4 address."""
    yield IPv6Address((0xFFFF << 32) | four)  # mapped
    yield IPv6Address(four)  # compatible
    yield IPv6Address((0xFFFF << 48) | four)  # translated
    yield IPv6Address(NAT64 | four)
    yield IPv6Address(int(IPv6Address("64:ff9b:1::")) | four)
    yield IPv6Address((0x2002 << 112) | (four << 80) | 1)  # 6to4
    yield IPv6Address((0x20010000 << 96) | (0x08080808 << 64) | (four ^ 0xFFFFFFFF))  # Teredo
    yield IPv6Address((0x20010000 << 96) | (four << 64) | (0x08080808 ^ 0xFFFFFFFF))
    for middle in (0x00005EFE, 0x02005EFE):  # ISATAP
        yield IPv6Address((0x2A001450 << 96) | (middle << 32) | four)


@pytest.mark.parametrize("entry", REGISTRY4)
def test_no_special_ipv4_address_is_public_in_any_wrapping(entry: str) -> None:
    for number in inside(IPv4Network(entry)):
        assert not is_public(IPv4Address(number))
        for six in wrapped(number):
            assert not is_public(six), six


@pytest.mark.parametrize("entry", REGISTRY6)
def test_no_special_ipv6_address_is_public(entry: str) -> None:
    for number in inside(IPv6Network(entry)):
        six = IPv6Address(number)
        if six not in IPv6Network("64:ff9b::/96"):
            assert not is_public(six), six


@pytest.mark.parametrize("entry", REGISTRY4)
def test_the_neighbours_of_a_special_block_are_judged_by_themselves(entry: str) -> None:
    """A mask that is one bit too wide would close a part of the web."""
    special = [IPv4Network(one) for one in REGISTRY4]
    block = IPv4Network(entry)
    for number in (int(block.network_address) - 1, int(block.broadcast_address) + 1):
        if 0 <= number < 2**32:
            address = IPv4Address(number)
            assert is_public(address) is not any(address in one for one in special), address


IPS = st.one_of(
    st.integers(0, 2**32 - 1).map(IPv4Address),
    st.integers(0, 2**128 - 1).map(IPv6Address),
    st.integers(0, 2**125 - 1).map(lambda number: IPv6Address(2**125 + number)),
    st.integers(0, 2**32 - 1).map(lambda four: IPv6Address(NAT64 | four)),
)


@given(IPS)
def test_what_the_standard_library_calls_special_is_never_public(
    ip: IPv4Address | IPv6Address,
) -> None:
    """Ours is the stricter one of the two, without an exception."""
    special = (ip.is_private, ip.is_reserved, ip.is_multicast, ip.is_link_local, ip.is_loopback)
    if ip in IPv6Network("64:ff9b::/96"):  # "reserved" to the library: it lies in ::/8
        assert is_public(ip) is is_public(IPv4Address(int(ip) & 0xFFFFFFFF))
    elif not ip.is_global or ip.is_unspecified or any(special):
        assert not is_public(ip)


def test_what_only_we_refuse_is_known() -> None:
    """Every other address the library calls global is public: the rule closes nothing by chance."""
    ours = [IPv4Network(one) for one in REGISTRY4]
    dice = random.Random(4)
    for _ in range(20_000):
        four = IPv4Address(dice.getrandbits(32))
        assert is_public(four) is (four.is_global and not any(four in one for one in ours)), four


@pytest.mark.parametrize(
    "address",
    """
        2a00:1450:4001::200e 2606:4700:4700::1111 2400:cb00::1 2804::1 2c0f::1 2001:200::1
        2001:4860::8888
    """.split(),
)
def test_given_out_ipv6_space_is_public(address: str) -> None:
    assert is_public(IPv6Address(address))


def spellings(four: int) -> Iterator[str]:
    """What inet_aton(3) reads as this address: one to four numbers, each in three bases."""
    a, b, c, d = four.to_bytes(4, "big")
    for parts in ((four,), (a, four & 0xFFFFFF), (a, b, four & 0xFFFF), (a, b, c, d)):
        for form in ("{:d}", "0x{:x}", "0X{:X}", "0{:o}", "000{:o}", "0x00{:x}"):
            for end in ("", "."):
                yield ".".join(form.format(part) for part in parts) + end


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "8.8.8.8", "0.0.0.0"]
)
def test_no_spelling_of_an_address_reaches_libc(address: str) -> None:
    """Either we read the address ourselves, as libc does, or nobody looks it up."""
    four = IPv4Address(address)
    read_by_libc = 0
    for text in spellings(int(four)):
        with_libc = text.removesuffix(".")
        read_by_libc += IPv4Address(socket.inet_aton(with_libc)) == four
        host = (checked_url(f"http://{text}/").raw_host or "").casefold()
        own = literal(host)
        assert own == four if own is not None else name_problem(host), text
    assert read_by_libc > 30


@given(st.text(alphabet="0123456789abcdefx.X", min_size=1, max_size=20))
def test_whatever_libc_reads_as_an_address_we_read_the_same_or_refuse(text: str) -> None:
    try:
        read = IPv4Address(socket.inet_aton(text))
        host = (checked_url(f"http://{text}/").raw_host or "").casefold()
    except (OSError, ToolError):
        return
    own = literal(host)
    assert own == read if own is not None else name_problem(host)


@pytest.mark.parametrize(
    "name",
    """
        localhost a.localhost printer.local metadata.google.internal host.docker.internal
        router.home.arpa metadata instance-data kubernetes.default.svc x.svc.cluster.local
        metadata.goog metadata.packet.net api.metadata.cloud.ibm.com metadata.tencentyun.com
    """.split(),
)
def test_names_of_this_machine_and_its_cloud_are_not_looked_up(name: str) -> None:
    for host in (name, name + "."):
        assert name_problem(host)
    assert not name_problem(f"{name.replace('.', '-')}.example.org")


def test_an_address_of_this_machine_is_told_from_others() -> None:
    assert is_own(IPv4Address("127.0.0.1"))
    assert not is_own(IPv4Address("192.0.2.1"))


NAMESPACE = textwrap.dedent("""
    import ipaddress, sys
    from ohmo.tools.web_addresses import is_elsewhere, is_own, is_public
    mine, other = map(ipaddress.ip_address, ("8.8.8.8", "8.8.4.4"))
    assert is_public(mine) and is_own(mine) and not is_elsewhere(mine)
    assert is_elsewhere(other)
    print("told apart")
""")


@pytest.mark.needs("network")
def test_a_public_address_of_this_very_machine_is_refused() -> None:
    """A server's own public address leads past its firewall to what listens on it."""
    lay = (
        "ip link set lo up && ip addr add 8.8.8.8/32 dev lo && exec " + sys.executable + ' -c "$0"'
    )
    words = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", lay, NAMESPACE]
    done = run_process(*words, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    assert done.stdout == "told apart\n", done.stderr


def test_the_rule_for_an_address_elsewhere_holds_both_halves() -> None:
    assert not is_elsewhere(ipaddress.ip_address("127.0.0.1"))
    assert not is_elsewhere(ipaddress.ip_address("168.63.129.16"))
