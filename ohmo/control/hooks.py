"""The door for webhooks: no login, a signature; 202 when what came is durable."""

from __future__ import annotations

import asyncio

from aiohttp import web

from ohmo.contracts.keys_once import DoubledKey
from ohmo.control.answers import Refusal, answer
from ohmo.control.webhooks import MOST, Hooks, KeyReused, NotJson, NotSigned

_PATIENCE = 30.0  # seconds for a body: whoever sends it has shown nothing yet


class HookRoutes:
    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/hooks/{name}", self.take)]

    async def take(self, request: web.Request) -> web.Response:
        """400 not JSON where a field is wanted, 401 not signed, 404 no such webhook, 409 a key that
        was used for something else, 413 too large, 503 try again."""
        hook = self._hooks.find(request.match_info["name"])
        if hook is None:
            raise Refusal(404, "there is no such webhook; config.yaml names them under webhooks")
        body = await _body(request)
        try:
            taken = await self._hooks.take(hook, request.headers, body)
        except NotSigned as error:
            raise Refusal(401, str(error)) from error
        except (DoubledKey, NotJson) as error:
            raise Refusal(400, str(error)) from error
        except KeyReused as error:
            raise Refusal(
                409,
                "this Idempotency-Key came with another body before; a new thing needs a new key",
            ) from error
        except ValueError as error:
            raise Refusal(503, f"{error}; send it again in a moment") from error
        return answer(
            {
                "accepted": True,
                "duplicate": taken.duplicate,
                "thread": taken.thread,
                "seq": taken.seq,
            },
            status=202,
        )


async def _body(request: web.Request) -> bytes:
    if (request.content_length or 0) > MOST:
        raise Refusal(413, f"a webhook's body may have {MOST} bytes")
    found = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE):
            async for piece in request.content.iter_chunked(65_536):
                found += piece
                if len(found) > MOST:
                    raise Refusal(413, f"a webhook's body may have {MOST} bytes")
    except TimeoutError:
        raise Refusal(
            408, f"the body did not come within {_PATIENCE:.0f} s; send it again"
        ) from None
    return bytes(found)
