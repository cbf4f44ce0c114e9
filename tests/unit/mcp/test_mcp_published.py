"""Published servers of others, installed from npm: the file server and the one that shows everything
the protocol has, over standard input and output and over streamable HTTP."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from test_mcp_servers import QUICK, call, running, state

from ohmo.contracts.errors import BadArguments
from ohmo.mcp.contract import Endpoint
from ohmo.processes.job import child_environment
from tests.parts import skip_without
from tests.programs import run_process

pytestmark = [pytest.mark.needs("npm"), pytest.mark.timeout(300)]
VERSION = "2026.8.31"
NAMES = ("server-filesystem", "server-everything")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where npm put the programs."""
    folder = tmp_path_factory.mktemp("npm")
    wanted = [f"@modelcontextprotocol/{name}@{VERSION}" for name in NAMES]
    quiet = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--no-save")
    done = run_process("npm", "install", "--prefix", folder, *quiet, *wanted, timeout=200)
    found = folder / "node_modules" / ".bin"
    if done.returncode or not (found / "mcp-server-everything").exists():
        skip_without("npm", f"npm install ended with {done.returncode}: {done.stderr[-200:]}")
    return found


def published(program: Path, folder: Path, *words: str) -> Callable[[], Endpoint]:
    argv = (str(program), *words)
    environ = child_environment({"PATH": os.environ["PATH"], "HOME": str(folder), "TOKEN": "t"})
    return lambda: Endpoint("x", "stdio", folder, argv=argv, env=environ)


async def test_the_file_server_reads_and_writes_the_workspace_and_nothing_else(
    tmp_path: Path, programs: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "note.txt").write_text("tea at four")
    (tmp_path / "secret.txt").write_text("42")
    # what it is allowed is the root that we tell it, although its argument says more
    server = published(programs / "mcp-server-filesystem", work, str(tmp_path))
    async with running(tmp_path, {"files": server}) as house:
        report = await state(house, "files", "connected", 60)
        assert (report.off, report.waiting) == ((), ())
        note = {"path": str(work / "note.txt")}
        read = await call(house, tmp_path, "mcp__files__read_text_file", note)
        assert (read.text, read.error, read.taint) == ("tea at four", False, ("mcp:files",))
        outside = {"path": str(tmp_path / "secret.txt")}
        refused = await call(house, tmp_path, "mcp__files__read_text_file", outside)
        assert refused.error
        assert "42" not in refused.text
        made = {"path": str(work / "made.txt"), "content": "made"}
        assert not (await call(house, tmp_path, "mcp__files__write_file", made)).error
        assert (work / "made.txt").read_text() == "made"
        footprint = house.tools()["mcp__files__read_text_file"].footprint({}, work)
        assert footprint.effect == "once"
        assert "it says that it only reads" in footprint.note


@pytest.mark.parametrize("way", ["stdio", "streamableHttp"])
async def test_the_server_that_shows_everything_works_with_all_it_has(
    tmp_path: Path, programs: Path, way: str
) -> None:
    program = programs / "mcp-server-everything"
    server, process = published(program, tmp_path), None
    if way != "stdio":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            program, way, env={**os.environ, "PORT": str(port)}, stdout=-3, stderr=-3
        )
        url = f"http://127.0.0.1:{port}/mcp"
        server = lambda: Endpoint("x", "http", tmp_path, url=url)  # noqa: E731
    kind = "stdio" if process is None else "http"
    try:
        async with running(tmp_path, {"x": server}, QUICK, kind) as house:
            report = await state(house, "x", "connected", 60)
            assert (report.off, report.waiting) == ((), ())
            summed = await call(house, tmp_path, "mcp__x__get-sum", {"a": 2, "b": 40})
            assert "42" in summed.text
            with pytest.raises(BadArguments, match="`b`"):
                house.tools()["mcp__x__get-sum"].parse({"a": 2, "b": "forty"})
            image = await call(house, tmp_path, "mcp__x__get-tiny-image")
            assert "image/png" in image.text
            structured = {"location": "Chicago"}
            answer = await call(house, tmp_path, "mcp__x__get-structured-content", structured)
            assert "temperature" in answer.text
            slow = {"duration": 1, "steps": 3}
            took = await call(house, tmp_path, "mcp__x__trigger-long-running-operation", slow)
            assert not took.error
            listed = (await call(house, tmp_path, "mcp__x__list_resources")).text
            first = listed.splitlines()[0].partition(": ")[2]
            read = await call(house, tmp_path, "mcp__x__read_resource", {"uri": first})
            assert read.text
            assert not read.error
            assert "(fill in what stands in braces)" in listed
            assert (await call(house, tmp_path, "mcp__x__list_prompts")).text.startswith("- ")
            if process is None:
                told = (await call(house, tmp_path, "mcp__x__get-env")).text
                assert "PATH" in told
                assert "TOKEN" not in told
                roots = await call(house, tmp_path, "mcp__x__get-roots-list")
                assert tmp_path.as_uri() in roots.text
    finally:
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
