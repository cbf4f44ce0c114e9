"""The page: files of this package, read once, served under a name that changes with their bytes;
and login."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from pathlib import Path

from aiohttp import web

from ohmo.control.guard import HEADERS
from ohmo.control.keys import COOKIE_LIFE, Keys
from ohmo.control.misses import Misses
from ohmo.control.responses import Refusal, answer

_FOLDER = Path(__file__).parent / "assets"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".png": "image/png",
}
_SHEET = re.compile(r'<link rel="stylesheet" href="/static/\w+/([\w.-]+)">')
_FOR_EVER = "public, max-age=31536000, immutable"


class Page:
    """Without a cookie the page shows how to log in; it holds nothing private itself."""

    def __init__(self, keys: Keys, cookie: str, origin: str | None, misses: Misses) -> None:
        self._keys = keys
        self._cookie = cookie
        self._origin = origin
        self._misses = misses
        self._files = {
            path.name: path.read_bytes()
            for path in sorted(_FOLDER.iterdir())
            if path.suffix in _TYPES
        }
        digest = hashlib.sha256(
            b"\0".join(name.encode() + b"\0" + body for name, body in self._files.items())
        ).hexdigest()[:16]
        self._version = digest
        index, self._policy = self._whole(
            (_FOLDER / "index.html").read_text(encoding="utf-8").replace("VERSION", digest)
        )
        self._index = index.encode()
        self._tag = f'"{hashlib.sha256(self._index).hexdigest()[:16]}"'

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self.index),
            web.get(
                "/login", self.login, allow_head=False
            ),  # who only looks at a link does not use it up
            web.get("/favicon.svg", self.icon),
            web.get("/static/{version}/{name}", self.static),
            web.get("/api/v1/known", self.known),
            web.post("/api/v1/login", self.link),
            web.post("/api/v1/logout", self.logout),
        ]

    async def index(self, request: web.Request) -> web.Response:
        headers = {
            "Cache-Control": "no-cache",
            "ETag": self._tag,
            "Content-Security-Policy": self._policy,
        }
        if request.headers.get("If-None-Match") == self._tag:
            return web.Response(status=304, headers=headers)
        return web.Response(
            body=self._index, content_type="text/html", charset="utf-8", headers=headers
        )

    def _whole(self, index: str) -> tuple[str, str]:
        """The style sheets, for which the first paint waits, stand in the page itself; the policy
        lets exactly these be (W3C "Content Security Policy Level 3", 6.7.3.3, hashes)."""
        hashes = "'self'"

        def whole(found: re.Match[str]) -> str:
            nonlocal hashes
            text = self._files[found[1]].decode()
            hashes += (
                f" 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            )
            return f"<style>{text}</style>"

        page = _SHEET.sub(whole, index)
        return page, HEADERS["Content-Security-Policy"].replace(
            "style-src 'self'", f"style-src {hashes}"
        )

    async def static(self, request: web.Request) -> web.Response:
        return self._file(
            request.match_info["name"],
            _FOR_EVER if request.match_info["version"] == self._version else "no-store",
        )

    async def icon(self, _: web.Request) -> web.Response:
        return self._file("icon.svg", "public, max-age=86400")

    def _file(self, name: str, caching: str) -> web.Response:
        body = self._files.get(name)
        if body is None:
            raise Refusal(404, "there is no such file")
        kind = _TYPES[Path(name).suffix]
        charset = None if kind == "image/png" else "utf-8"
        return web.Response(
            body=body, content_type=kind, charset=charset, headers={"Cache-Control": caching}
        )

    async def login(self, request: web.Request) -> web.Response:
        """Opens once; then the browser carries a cookie that no script can read and no other site
        can make it send."""
        cookie = self._keys.redeem(request.query.get("code", ""))
        if cookie is None and (refusal := await self._misses.count()) is not None:
            raise refusal
        response = web.Response(
            status=303,
            headers={"Location": "/" if cookie else "/#login-failed", "Cache-Control": "no-store"},
        )
        if cookie is not None:
            # A proxy that ends TLS says so; a lie costs only the liar.
            secure = request.headers.get("X-Forwarded-Proto", request.scheme) == "https"
            response.set_cookie(
                self._cookie,
                cookie,
                max_age=COOKIE_LIFE,
                httponly=True,
                samesite="Strict",
                path="/",
                secure=secure,
            )
        return response

    async def known(self, request: web.Request) -> web.Response:
        """Is this browser logged in? Asked by the page before anything that would be refused."""
        return answer({"known": self._keys.is_cookie(request.cookies.get(self._cookie, ""))})

    async def link(self, _: web.Request) -> web.Response:
        if self._origin is None:
            raise Refusal(409, "control.listen is null, so there is no page to log in to")
        return answer({"url": self._keys.link(self._origin)})

    async def logout(self, request: web.Request) -> web.Response:
        """This browser, and every copy of its cookie."""
        try:
            await asyncio.to_thread(self._keys.end, request.cookies.get(self._cookie, ""))
        except OSError as error:
            raise Refusal(
                503,
                f"still logged in: that you log out cannot be written down ({error.strerror}); try"
                " it again",
            ) from error
        response = answer({"ok": True})
        response.del_cookie(self._cookie, path="/")
        return response
