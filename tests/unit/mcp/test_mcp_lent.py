"""Servers that plugins and projects lend: those that come later start, those that change or go end, and
what somebody else's change has nothing to do with goes on as it is."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import ohmo.mcp.servers
from ohmo.mcp.contract import Endpoint
from ohmo.mcp.servers import Servers
from ohmo.mcp.written import Look
from ohmo.processes.process_tree import descendants
from tests.unit.mcp.test_mcp_servers import HERE, QUICK, _runs, at_work, finish, state

pytestmark = pytest.mark.needs("linux")


class Lending:
    """Lends what stands in ``look`` now."""

    def __init__(self, of: str, *endpoints: Endpoint) -> None:
        self.now = Look(endpoints, of)
        self.fails = False

    async def look(self) -> Look:
        if self.fails:
            raise OSError("the disk is gone")
        return self.now

    def lends(self, *endpoints: Endpoint) -> None:
        self.now = replace(self.now, endpoints=endpoints)


def one(name: str, word: str = "") -> Endpoint:
    """``word``: what tells its process."""
    argv = (sys.executable, str(HERE / "rude_server.py"), "plain", word or name)
    return Endpoint(name, "stdio", HERE, argv=argv, env={"PATH": "/usr/bin:/bin"})


def pids(word: str) -> list[int]:
    return [pid for pid in descendants(os.getpid()) if _runs(pid, word)]


async def gone(word: str) -> None:
    async with asyncio.timeout(20):
        while pids(word):
            await asyncio.sleep(0.02)


@asynccontextmanager
async def lent(
    folder: Path, patch: pytest.MonkeyPatch, *lenders: Lending
) -> AsyncGenerator[Servers]:
    patch.setattr(ohmo.mcp.servers, "FOLLOWED", 0.05)
    async with at_work(Servers({}, folder / "mcp", finish, lenders=lenders, times=QUICK)) as house:
        yield house


async def test_what_comes_later_starts_and_what_goes_ends_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins, project = Lending("plugins", one("lasting")), Lending("project")
    async with lent(tmp_path, monkeypatch, plugins, project) as house:
        await state(house, "lasting", "connected")
        (first,) = pids("lasting")
        project.lends(one("later"))
        async with asyncio.timeout(20):
            while "later" not in house.servers:
                await asyncio.sleep(0.02)
        await state(house, "later", "connected")
        assert set(house.tools()) >= {name for name in house.tools() if "later" in name} != set()
        plugins.lends(one("lasting"), one("more"))
        async with asyncio.timeout(20):
            while "more" not in house.servers:
                await asyncio.sleep(0.02)
        await state(house, "more", "connected")
        (later,) = pids("later")
        plugins.fails = True  # who cannot say it now stands as it did
        project.lends(one("later", "changed"))
        await gone("later")
        await state(house, "later", "connected")
        assert len(pids("changed")) == 1
        assert pids("later") == []
        project.lends()
        await gone("changed")
        assert house.servers == ("lasting", "more")
        assert pids("lasting") == [first]
        assert later != first
    await gone("lasting")


async def test_the_same_server_of_another_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was approved of the one is not approved of the other."""
    plugins, project = Lending("plugins", one("both")), Lending("project", one("both"))
    async with lent(tmp_path, monkeypatch, plugins, project) as house:
        await state(house, "both", "connected")
        (first,) = pids("both")
        assert (tmp_path / "mcp" / "plugins" / "both.json").exists()
        project.lends(one("both"), one("other"))
        async with asyncio.timeout(20):
            while "other" not in house.servers:
                await asyncio.sleep(0.02)
        await state(house, "other", "connected")
        assert pids("both") == [first]
        plugins.lends()
        async with asyncio.timeout(20):
            while pids("both") in ([first], []):
                await asyncio.sleep(0.02)
        await state(house, "both", "connected")
        assert (tmp_path / "mcp" / "project" / "both.json").exists()


async def test_the_same_server_of_another_content_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Lending("project", one("script"))
    project.now = replace(project.now, digest="a")
    async with lent(tmp_path, monkeypatch, project) as house:
        await state(house, "script", "connected")
        (first,) = pids("script")
        project.now = replace(project.now, digest="b")
        async with asyncio.timeout(20):
            while pids("script") in ([first], []):
                await asyncio.sleep(0.02)
        await state(house, "script", "connected")
