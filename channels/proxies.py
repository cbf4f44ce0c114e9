"""Which proxy the environment names for an address. HTTP clients that look themselves also take
passwords out of a ~/.netrc."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from channels.loopback import is_loopback


def proxy_for(url: str) -> str | None:
    """The address of the proxy (``HTTPS_PROXY``, ``HTTP_PROXY``), with the credentials that stand
    in it; None for loopback and for what ``NO_PROXY`` names."""
    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get("https" if parts.scheme in {"https", "wss"} else "http")
