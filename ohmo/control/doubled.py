"""What a request may say only once: a proxy could judge by one of two, and we by the other."""

from __future__ import annotations

from aiohttp import web

from ohmo.control.answers import Refusal

_ONCE = (
    "Host",
    "Authorization",
    "Cookie",
    "Origin",
    "Content-Length",
    "Content-Type",
    "Content-Encoding",
    "Transfer-Encoding",
    "Sec-Fetch-Site",
    "Sec-Fetch-Mode",
    "X-Forwarded-Proto",
    "Last-Event-ID",
    "Idempotency-Key",
    "X-Ohmo-Timestamp",
    "X-Ohmo-Signature",
    "X-Hub-Signature-256",
    "X-GitHub-Delivery",
    "X-Gitlab-Token",
    "X-Gitlab-Event-UUID",
)


def refuse_doubled(request: web.Request) -> None:
    """Raises Refusal (400) naming the header or the query's parameter."""
    for name in _ONCE:
        if len(request.headers.getall(name, ())) > 1:
            raise Refusal(400, f"{name}: this header stands twice in the request; send it once")
    if len(request.query) > len(set(request.query)):
        twice = next(name for name in request.query if len(request.query.getall(name)) > 1)
        raise Refusal(400, f"{twice[:60]!r}: this parameter stands twice; send it once")
