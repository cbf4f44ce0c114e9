"""Logins at servers that want one (OAuth 2.1; modelcontextprotocol.io, Authorization) by the SDK's
own client. A person logs in at the keyboard; what came of it lies in the home and is renewed
there."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from channels.durable import write_whole
from ohmo.contracts.errors import OhmoError
from ohmo.mcp.contract import ServerFailed

PATIENCE = 300.0  # seconds for a person to log in
_EARLY = 30.0  # seconds before its end in which a token counts as over
_DONE = "ohmo has what it needs; this page can be closed."


class _Kept(BaseModel):
    """Of one server. ``until``: when the access token ends, in seconds since 1970."""

    redirect: str
    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None
    metadata: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    until: float | None = None


class Login(OAuthClientProvider):
    """``path``: a file of the home, 0600. ``asked``: a person has to log in, or did."""

    def __init__(
        self,
        path: Path,
        url: str,
        redirect: str,
        show: Callable[[str], Awaitable[None]],
        answer: Callable[[], Awaitable[AuthorizationCodeResult]],
    ) -> None:
        self.asked = False
        self._path = path
        self._kept = _Kept(redirect=redirect)
        wanted = OAuthClientMetadata(
            client_name="ohmo",
            redirect_uris=[AnyUrl(redirect)],
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method="none",  # noqa: S106 - no word but PKCE keeps a program's secret
        )

        async def asking(address: str) -> None:
            self.asked = True
            await show(address)

        super().__init__(url, wanted, self, asking, answer)

    @staticmethod
    def kept(path: Path, url: str, name: str) -> Login:
        """For a house in which nobody sits at a browser. Raises ServerFailed."""
        again = f"log in: ohmo mcp login {name}"

        async def nobody(*_: str) -> Any:
            await made.spoil()
            raise OAuthFlowError(again)

        try:
            found = _Kept.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):  # what stands in it is said nowhere
            raise ServerFailed(f"{path} cannot be read; {again}") from None
        made = Login(path, url, found.redirect, nobody, nobody)
        made._kept = found
        # else the SDK would not know that a token is over, nor where to renew it
        made.context.token_expiry_time = found.until
        made.context.oauth_metadata = found.metadata
        made.context.protected_resource_metadata = found.resource
        if found.resource is not None:
            made.context.auth_server_url = str(found.resource.authorization_servers[0])
        return made

    async def get_tokens(self) -> OAuthToken | None:
        return self._kept.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context, lasts = self.context, tokens.expires_in
        self._kept = self._kept.model_copy(
            update={
                "tokens": tokens,
                "metadata": context.oauth_metadata,
                "resource": context.protected_resource_metadata,
                "until": None if lasts is None else time.time() + lasts - _EARLY,
            }
        )
        await self._keep()

    async def spoil(self) -> None:
        """The access token is not taken any more: the next connection renews it first."""
        self._kept = self._kept.model_copy(update={"until": 1.0})
        await self._keep()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._kept.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._kept = self._kept.model_copy(update={"client": client_info})

    async def _keep(self) -> None:
        def write() -> None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._path, self._kept.model_dump_json())

        await asyncio.to_thread(write)


async def login(path: Path, url: str, show: Callable[[str], None]) -> Login:
    """A login whose flow waits for a browser on this machine. ``show``: is told the address that a
    person opens. Its little server goes on until the loop ends. Raises OhmoError."""
    came: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    async def back(request: web.Request) -> web.Response:
        with suppress(asyncio.InvalidStateError):
            came.set_result(dict(request.query))
        return web.Response(text=_DONE)

    application = web.Application()
    application.router.add_get("/callback", back)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port: int = runner.addresses[0][1]

    async def shown(address: str) -> None:
        show(address)

    async def answer() -> AuthorizationCodeResult:
        try:
            async with asyncio.timeout(PATIENCE):
                words = await came
        except TimeoutError:
            raise OhmoError(f"nobody logged in within {PATIENCE:.0f} s") from None
        if "code" not in words:
            why = json.dumps(words.get("error", "it gave no code"))[:200]
            raise OhmoError(f"the login was refused: {why}")
        return AuthorizationCodeResult(
            code=words["code"], state=words.get("state"), iss=words.get("iss")
        )

    return Login(path, url, f"http://127.0.0.1:{port}/callback", shown, answer)
