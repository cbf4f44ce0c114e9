"""Which proxy the environment names for an address, and which addresses stay on this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def is_loopback(url: str) -> bool:
    """No proxy is ever asked for such an address, and a secret may go there without TLS."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def proxy_for(url: str) -> str | None:
    """The address of the proxy (``HTTPS_PROXY``, ``HTTP_PROXY``), with the credentials that stand
    in it; None for loopback and for what ``NO_PROXY`` names."""
    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get("https" if parts.scheme in {"https", "wss"} else "http")
