"""Which addresses belong to the public internet, and how a host in a URL is read."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

Ip = IPv4Address | IPv6Address

_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))  # RFC 6052, RFC 8215
_COMPATIBLE = IPv6Network("::/96")  # RFC 4291 2.5.5.1
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")  # RFC 2765
_ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214: the middle of the interface identifier
_PRIVATE_NAMES = (
    "localhost",
    "local",
    "internal",
    "intranet",
    "home",
    "lan",
    "corp",
    "home.arpa",
    "localdomain",
    "private",
    "onion",
    "test",
    "invalid",
)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMERIC = re.compile(r"0x[0-9a-f]*|[0-9]+")


def embedded(ip: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address carries to a gateway, if it does."""
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    if any(ip in network for network in _NAT64) or ip in _COMPATIBLE or ip in _TRANSLATED or (int(ip) >> 32) & 0xFFFFFFFF in _ISATAP:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return None


def is_public(ip: Ip) -> bool:
    """Global unicast only; what an IPv6 address wraps must be public too."""
    if isinstance(ip, IPv6Address):
        if ip.scope_id is not None:
            return False
        inner = embedded(ip)
        if inner is not None:
            return ip.ipv4_mapped is None and not _special(inner) and int(ip) > 0xFFFFFFFF
    return not _special(ip)


def _special(ip: Ip) -> bool:
    return (
        not ip.is_global
        or ip.is_multicast
        or ip.is_reserved
        or ip.is_unspecified
        or ip.is_loopback
        or ip.is_link_local
        or ip.is_private
        or (isinstance(ip, IPv6Address) and ip.is_site_local)
    )


def literal(host: str) -> Ip | None:
    """The address a host spells out, None for a name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def name_problem(host: str) -> str:
    """Why a host name is not looked up; "" when it may be. Numbers that some resolvers take for addresses are refused, not guessed."""
    labels = host.rstrip(".").split(".")
    if not host.isascii() or not all(_LABEL.fullmatch(label) for label in labels) or len(host) > 253:
        return "it is no host name"
    if all(_NUMERIC.fullmatch(label) for label in labels) or _NUMERIC.fullmatch(labels[-1]):
        return "it is an address in an unusual spelling"
    if any(host.rstrip(".") == name or host.rstrip(".").endswith("." + name) for name in _PRIVATE_NAMES):
        return "it names this machine or a private network"
    if len(labels) < 2:
        return "it names a machine of the local network; give a full domain"
    return ""
