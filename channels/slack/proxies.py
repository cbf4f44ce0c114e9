"""Which proxy a call goes through: the SDK asks neither NO_PROXY nor whether an address is on this machine."""

from __future__ import annotations

import ipaddress
import urllib.request
from urllib.parse import urlsplit


def proxy_for(url: str) -> str | None:
    """The environment's proxy for an address; none for loopback and for what NO_PROXY names."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if loopback or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get("https" if parts.scheme in {"https", "wss"} else "http")
