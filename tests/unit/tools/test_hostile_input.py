"""Pages, patterns and files made to hold everything up: each ends in bounded time and memory, and
the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from tool_calls import Call, opening

from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.tools.search.engine import SearchEngine
from ohmo.tools.search.request import Search
from ohmo.tools.webfetch import Page, readable


def page(kind: str, body: bytes, charset: str = "") -> Page:
    return Page("http://x.example/", 200, kind, charset, body)


@pytest.mark.parametrize(
    "charset", ["hex", "zlib", "rot13", "undefined", "idna", "a\0b", "nosuch", "a" * 5000]
)
async def test_a_charset_that_decodes_to_no_text_is_read_as_utf8(charset: str) -> None:
    assert await readable(page("text/plain", b"caf\xc3\xa9", charset), 10) == "café"


async def test_deep_json_comes_as_it_is() -> None:
    assert await readable(page("application/json", b"[" * 200_000), 10) == "[" * 200_000


@pytest.mark.parametrize("piece", [b"<!--", b'<a href="', b"<a b='"])
async def test_a_page_that_would_take_hours_comes_without_its_form(piece: bytes) -> None:
    body = b"<p>first words</p>" + piece * 300_000
    async with asyncio.timeout(60):
        text = await readable(page("text/html", body), 1)
    assert text is not None
    assert "first words" in text


async def test_a_page_is_still_turned_into_markdown() -> None:
    assert (
        await readable(page("text/html", "<h1>Größe</h1><p>a <b>b</b></p>".encode()), 30)
        == "# Größe\n\na **b**"
    )


async def test_a_page_whose_links_grow_comes_in_bounded_length() -> None:
    links = Page(
        f"http://x.example/{'a' * 2000}/", 200, "text/html", "", b"<a href=y>z</a> " * 3000
    )
    text = await readable(links, 60)
    assert text is not None
    assert text.endswith("more characters left out]")
    assert len(text) < 5_000_000


async def test_a_daemon_with_less_memory_than_the_bound_still_turns_pages_into_markdown() -> None:
    """What a service manager allows may be less than the process would take for itself; a limit can
    only be lowered."""
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29)); sys.argv"
        " = ['x']; import runpy; "
    )
    script += "runpy.run_module('ohmo.tools.markdown', run_name='__main__')"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        answer, _ = await process.communicate(
            b'{"url": "http://x.example/", "seconds": 30}\n<h1>a</h1>'
        )
    assert answer == b"# a"


async def test_a_pattern_that_never_ends_is_given_up_and_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 60 + "b\n")
    engine = SearchEngine(None, SensitivePaths(Path("/home/nobody")), 200, seconds=2)
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.05)

    async with asyncio.timeout(60):
        heart = asyncio.create_task(beat())
        with pytest.raises(TimeoutError):
            await engine.search(
                Search(tmp_path, "(a+)+$", lambda _: True, "content"), 10, opening()
            )
        heart.cancel()
    assert beats > 5


@pytest.mark.parametrize("mode", ["content", "files_with_matches", "count"])
async def test_a_search_in_a_process_of_its_own_finds_what_one_in_process_finds(
    tmp_path: Path, mode: str
) -> None:
    (tmp_path / "a.txt").write_text("one foo\ntwo\nfoo foo\n")
    (tmp_path / "é.txt").write_text("foo\n")
    os.mkfifo(tmp_path / "pipe")
    engine = SearchEngine(None, SensitivePaths(Path("/home/nobody")), 200)
    plain = await engine.search(
        Search(tmp_path, "foo", lambda _: True, mode, before=1), 10, opening()
    )  # type: ignore[arg-type]
    apart = await engine.search(
        Search(tmp_path, "fo+", lambda _: True, mode, before=1), 10, opening()
    )  # type: ignore[arg-type]
    assert plain == apart
    assert len(plain[0]) == 2
    alone = await engine.search(
        Search(tmp_path / "a.txt", "fo+", lambda _: True, mode), 10, opening()
    )  # type: ignore[arg-type]
    assert [hit.path for hit in alone[0]] == ["a.txt"]


@pytest.mark.parametrize("place", ["pipe", "/dev/zero"])
async def test_a_pipe_or_a_device_is_neither_read_nor_replaced(
    call: Call, work: Path, place: str
) -> None:
    os.mkfifo(work / "pipe")
    async with asyncio.timeout(20):
        for tool, arguments in (
            ("Read", {}),
            ("Write", {"content": "x"}),
            ("Edit", {"old_string": "a", "new_string": "b"}),
        ):
            result = await call(tool, file_path=place, **arguments)
            assert result.error
            assert "device, pipe or socket" in result.text
    assert (work / "pipe").is_fifo()


async def test_a_pipe_in_the_place_of_a_file_is_found_out(call: Call, work: Path) -> None:
    (work / "a.txt").write_text("one\n")
    assert not (await call("Read", file_path="a.txt")).error
    (work / "a.txt").unlink()
    os.mkfifo(work / "a.txt")
    async with asyncio.timeout(20):
        assert (await call("Grep", pattern="one", path=".")).text.startswith("no match")
        assert (await call("Read", file_path="a.txt")).error
