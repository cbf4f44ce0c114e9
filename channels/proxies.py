"""Which proxy the environment names for an address. HTTP clients that look themselves also take passwords out of a ~/.netrc."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Whether an address stays on this machine: no proxy is ever asked for it."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def proxy_for(url: str) -> str | None:
    """The address of the proxy (``HTTPS_PROXY``, ``HTTP_PROXY``), with the credentials that stand in it; None for loopback and for what
    ``NO_PROXY`` names."""
    from urllib.request import getproxies, proxy_bypass  # late: the covers of the platforms are read by every command

    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get("https" if parts.scheme in {"https", "wss"} else "http")
