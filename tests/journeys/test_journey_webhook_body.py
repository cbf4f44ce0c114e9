"""What is sent to a webhook of the real daemon: a body that is not what its text needs is refused,
not half understood."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import ClientSession, UnixConnector

from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(120)
HOOKS = {
    "fields": {"secret": "env:KEY", "style": "gitlab", "prompt": "Look at {{ repo }}"},
    "text": {"secret": "env:KEY", "style": "gitlab", "prompt": "Look at {{ body }}"},
}


async def sent(home: Keyboard, hook: str, body: bytes) -> tuple[int, str]:
    connector = UnixConnector(str(home.home / "run" / "ohmo.sock"))
    async with ClientSession(connector=connector) as session:
        headers = {"X-Gitlab-Token": "sk-test"}
        async with session.post(
            f"http://localhost/hooks/{hook}", data=body, headers=headers
        ) as answer:
            return answer.status, await answer.text()


async def test_a_body_that_is_not_json_is_refused_where_a_field_of_it_is_wanted(
    tmp_path: Path,
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, webhooks=HOOKS) as home:
        status, text = await sent(home, "fields", b"payload=%7B%22repo%22%3A1%7D")
        assert status == 400, text
        assert "the body is not JSON, and this webhook looks for its field repo" in text
        assert (await sent(home, "fields", b'{"repo": "a/b"}'))[0] == 202
        assert (await sent(home, "text", b"payload=x"))[0] == 202
        assert len((await home.daemon.call("GET", "/api/v1/inbox"))[1]["inbox"]) == 2
