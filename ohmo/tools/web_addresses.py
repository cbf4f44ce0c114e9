"""Which addresses belong to the public internet, and how a host in a URL is read."""

from __future__ import annotations

import re
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from ohmo.shell.hosts import PRIVATE_NAMES

Ip = IPv4Address | IPv6Address

SPECIAL4 = tuple(  # IANA IPv4 Special-Purpose Address Registry (RFC 6890, 8190) and multicast
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network, RFC 791
            "10.0.0.0/8",  # private use, RFC 1918
            "100.64.0.0/10",  # shared address space, RFC 6598; Alibaba Cloud's metadata
            "127.0.0.0/8",  # loopback, RFC 1122
            "169.254.0.0/16",  # link-local, RFC 3927; metadata of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # IETF protocol assignments, RFC 6890; Oracle Cloud's metadata
            "192.0.2.0/24",  # documentation, RFC 5737
            "192.31.196.0/24",  # AS112, RFC 7535
            "192.52.193.0/24",  # AMT, RFC 7450
            "192.88.99.0/24",  # 6to4 relays, RFC 7526
            "192.168.0.0/16",
            "192.175.48.0/24",  # AS112, RFC 7534
            "198.18.0.0/15",  # benchmarks, RFC 2544
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast, RFC 5771
            "240.0.0.0/4",  # reserved, RFC 1112, with the broadcast address
        ),
    )
)
HOSTS4 = tuple(  # look public, and lead from inside a cloud to the services of the host
    map(
        IPv4Network,
        (
            "168.63.129.16/32",  # Azure: "What is IP address 168.63.129.16?"
            "161.26.0.0/16",  # IBM Cloud: the service network
            "166.8.0.0/14",
        ),
    )
)
UNICAST6 = IPv6Network("2000::/3")  # IANA "IPv6 Address Space": nothing else is given out
SPECIAL6 = tuple(  # IANA IPv6 Special-Purpose Address Registry, as far as it lies in UNICAST6
    map(
        IPv6Network,
        (
            "2001::/23",  # IETF protocol assignments: Teredo, benchmarks, ORCHID, AMT, DRIP
            "2001:db8::/32",  # documentation, RFC 3849
            "2002::/16",  # 6to4, RFC 3056
            "2620:4f:8000::/48",  # AS112, RFC 7534
            "3ffe::/16",  # 6bone, given back: RFC 3701
            "3fff::/20",  # documentation, RFC 9637
        ),
    )
)
NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: how IPv6-only networks reach the rest
_ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214: the middle of the interface identifier
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMERIC = re.compile(r"0x[0-9a-f]*|[0-9]+")


def is_public(ip: Ip) -> bool:
    """Global unicast that serves no special purpose; an IPv4 address inside (NAT64, ISATAP) too.

    IPv4-mapped and -compatible addresses, 6to4, Teredo and local NAT64 are never public."""
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in (*SPECIAL4, *HOSTS4))
    if ip.scope_id is not None:
        return False
    inner = IPv4Address(int(ip) & 0xFFFFFFFF)
    if ip in NAT64:
        return is_public(inner)
    if ip not in UNICAST6 or any(ip in network for network in SPECIAL6):
        return False
    return (int(ip) >> 32) & 0xFFFFFFFF not in _ISATAP or is_public(inner)


def is_own(ip: Ip) -> bool:
    """Whether an interface of this machine has the address: from it we would speak to it.

    Nothing is sent: connect(2) of a datagram socket only chooses the way."""
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(ip), 9))
            return ip_address(probe.getsockname()[0]) == ip
    except OSError:  # no way there
        return False


def is_elsewhere(ip: Ip) -> bool:
    """Public, and not this machine: its own services may trust whoever comes from inside."""
    return is_public(ip) and not is_own(ip)


def literal(host: str) -> Ip | None:
    """The address a host spells out, None for a name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def name_problem(host: str) -> str:
    """Why a host name is not looked up; "" when it may be.

    Numbers that some resolvers take for addresses (inet_aton(3)) are refused, not guessed."""
    name = host.removesuffix(".")
    labels = name.split(".")
    if not host.isascii() or not all(map(_LABEL.fullmatch, labels)) or len(host) > 253:
        return "it is no host name"
    if _NUMERIC.fullmatch(labels[-1]):
        return "it is an address in an unusual spelling"
    if any(name == private or name.endswith("." + private) for private in PRIVATE_NAMES):
        return "it names this machine or a private network"
    if len(labels) < 2:
        return "it names a machine of the local network; give a full domain"
    return ""
