"""A server that wants a login: a person gives it at the keyboard, the daemon renews it, and says so when
it is over; nothing of it is in a log or readable by others."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from tests.faults.daemon import until
from tests.journeys.at_keyboard import heard, keyboard
from tests.journeys.test_journey_mcp import becomes, report
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
TOOL = {"name": "one", "description": "d", "inputSchema": {"type": "object", "properties": {}}}


class Guarded:
    """An authorization server and the MCP server behind it, at one address. ``tokens``: access
    tokens that are taken; ``given``: every secret that was ever given away."""

    def __init__(self) -> None:
        self.tokens: set[str] = set()
        self.renewals: set[str] = set()
        self.given: list[str] = []
        self.codes: dict[str, str] = {}  # -> its challenge
        self.renewed = 0
        self.registered = 0
        self.url = ""

    def application(self) -> web.Application:
        app = web.Application()
        add = app.router
        add.add_get("/.well-known/oauth-protected-resource/mcp", self.resource)
        add.add_get("/.well-known/oauth-authorization-server", self.metadata)
        add.add_post("/register", self.register)
        add.add_get("/authorize", self.authorize)
        add.add_post("/token", self.token)
        add.add_post("/mcp", self.mcp)
        return app

    async def resource(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"resource": f"{self.url}/mcp", "authorization_servers": [f"{self.url}/"]}
        )

    async def metadata(self, _: web.Request) -> web.Response:
        where = {
            f"{name}_endpoint": f"{self.url}/{path}"
            for name, path in (
                ("authorization", "authorize"),
                ("token", "token"),
                ("registration", "register"),
            )
        }
        return web.json_response(
            where
            | {
                "issuer": f"{self.url}/",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def register(self, request: web.Request) -> web.Response:
        self.registered += 1
        return web.json_response({**await request.json(), "client_id": "ohmo-1"}, status=201)

    async def authorize(self, request: web.Request) -> web.Response:
        """Its person says yes at once."""
        query = request.query
        code = self._secret()
        self.codes[code] = query["code_challenge"]
        back = f"{query['redirect_uri']}?code={code}&state={query['state']}"
        raise web.HTTPFound(back)

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        if form["grant_type"] == "authorization_code":
            proof = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            challenge = base64.urlsafe_b64encode(proof).decode().rstrip("=")
            fits = self.codes.pop(str(form["code"]), "") == challenge
        else:
            fits = str(form["refresh_token"]) in self.renewals
            self.renewed += fits
        if not fits:
            return web.json_response({"error": "invalid_grant"}, status=400)
        access, renewal = self._secret(), self._secret()
        self.tokens, self.renewals = {access}, {renewal}
        answer = {"access_token": access, "token_type": "Bearer", "expires_in": 3_600}
        return web.json_response(answer | {"refresh_token": renewal})

    def _secret(self) -> str:
        self.given.append(secrets.token_urlsafe(24))
        return self.given[-1]

    async def mcp(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            where = (
                f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
            )
            return web.json_response({}, status=401, headers={"WWW-Authenticate": where})
        asked = await request.json()
        if asked.get("id") is None:
            return web.Response(status=202)
        result: dict[str, Any] = {}
        if asked["method"] == "initialize":
            result = {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            }
        elif asked["method"] == "tools/list":
            result = {"tools": [TOOL]}
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": result})


def written(folder: Path) -> str:
    """Whatever a file of the home says, but the logins themselves."""
    return "".join(
        path.read_text(errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "logins" not in path.parts
    )


async def test_a_person_logs_in_once_and_the_daemon_renews_it_until_it_is_over(
    tmp_path: Path,
) -> None:
    guarded = Guarded()
    async with TestServer(guarded.application()) as site:
        guarded.url = str(site.make_url("")).rstrip("/")
        servers = {"guarded": {"url": f"{guarded.url}/mcp"}}
        async with keyboard(tmp_path, ModelServer(), mcp=servers) as home:
            await becomes(home.daemon, "guarded", "failed")
            error = (await report(home.daemon, "guarded"))["error"]
            assert "ohmo mcp login guarded" in error
            assert guarded.registered == 0

            process = await home.start("mcp", "login", "guarded")
            assert process.stdout is not None
            first = await process.stdout.readline()
            assert b"in a browser on this machine" in first
            address = (await process.stdout.readline()).decode().strip()
            async with ClientSession() as browser, browser.get(address) as page:
                assert "can be closed" in await page.text()
            said = await heard(process)
            assert (said.code, said.out.strip()) == (0, "guarded: logged in"), said.err
            await becomes(home.daemon, "guarded", "connected")
            (kept,) = (home.home / "state" / "mcp" / "logins").iterdir()
            assert kept.stat().st_mode & 0o777 == 0o600
            assert guarded.given[-1] in kept.read_text()

            guarded.tokens.clear()  # the access token ends; the login goes on

            async def renewed() -> bool:
                await home.daemon.call("POST", "/api/v1/mcp/guarded/test", {})
                return guarded.renewed == 1

            await until("it is renewed", renewed)
            await becomes(home.daemon, "guarded", "connected", error="")
            assert guarded.given[-1] in kept.read_text()

            await home.daemon.kill()
            late = json.loads(kept.read_text()) | {"until": 1.0}
            kept.write_text(json.dumps(late))
            await home.daemon.start()
            await home.daemon.call("POST", "/api/v1/mcp/guarded/test", {})
            await becomes(home.daemon, "guarded", "connected")
            assert guarded.renewed == 2

            guarded.tokens.clear()
            guarded.renewals.clear()
            await home.daemon.call("POST", "/api/v1/mcp/guarded/test", {})
            await becomes(home.daemon, "guarded", "failed")

            async def told() -> bool:
                return "ohmo mcp login guarded" in (await report(home.daemon, "guarded"))["error"]

            await until("a login is asked for", told)
            assert guarded.registered == 1
            everything = written(home.home) + said.out + said.err
            assert [one for one in guarded.given if one in everything] == []

            os.truncate(kept, 3)
            await home.daemon.call("POST", "/api/v1/mcp/guarded/test", {})

            async def broken() -> bool:
                return "cannot be read" in (await report(home.daemon, "guarded"))["error"]

            await until("it is said that the file is broken", broken)


async def test_a_login_that_is_refused_or_names_no_server_is_one_line(tmp_path: Path) -> None:
    guarded = Guarded()
    async with TestServer(guarded.application()) as site:
        guarded.url = str(site.make_url("")).rstrip("/")
        servers = {"guarded": {"url": f"{guarded.url}/mcp"}, "program": {"command": "true"}}
        async with keyboard(tmp_path, ModelServer(), running=False, mcp=servers) as home:
            for name in ("program", "nothing"):
                wrong = await home.ohmo("mcp", "login", name)
                assert wrong.code != 0
                assert "is no server of the configuration with a url" in wrong.err
            process = await home.start("mcp", "login", "guarded")
            assert process.stdout is not None
            await process.stdout.readline()
            address = (await process.stdout.readline()).decode().strip()
            query = dict(part.split("=", 1) for part in address.partition("?")[2].split("&"))
            back = query["redirect_uri"].replace("%3A", ":").replace("%2F", "/")
            async with ClientSession() as browser:
                async with browser.get(f"{back}?code=stolen&state=other") as page:
                    assert page.status == 200
            said = await asyncio.wait_for(heard(process), 60)
            assert said.code != 0
            assert said.err.count("\n") == 1, said.err
            assert not (home.home / "state" / "mcp" / "logins").exists()
