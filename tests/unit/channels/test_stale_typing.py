"""What a killed life left on is known to the next, and nothing else is."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from channels.stale_typing import OpenIndicators


async def test_the_next_life_knows_what_was_left_on_until_it_is_off(tmp_path: Path) -> None:
    first = OpenIndicators(tmp_path)
    for indicator in ("C1 1.0", "C1 2.0", "C2 "):
        await first.on(indicator)
    await first.off("C1 2.0")
    second = OpenIndicators(tmp_path)
    assert second.left() == ("C1 1.0", "C2 ")
    await second.on("C1 1.0")  # its turn goes on
    assert second.left() == ("C2 ",)
    assert OpenIndicators(tmp_path).left() == ("C1 1.0", "C2 "), (
        "a death before it was taken back forgets nothing"
    )
    await second.forget()
    assert (OpenIndicators(tmp_path).left(), second.any("C1 "), second.any("C2 ")) == (
        ("C1 1.0",),
        True,
        False,
    )


@pytest.mark.parametrize("content", ["", "{", '{"a": 1}', "[1, null]"])
async def test_a_damaged_list_is_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "lights.json").write_text(content)
    assert OpenIndicators(tmp_path).left() == ()


async def test_without_a_folder_nothing_is_remembered_and_a_full_disk_stops_nobody(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    for folder in (None, tmp_path / "file" / "no folder"):
        indicators = OpenIndicators(folder)
        await indicators.on("x")
        assert "x" in indicators
        await indicators.off("x")
        assert OpenIndicators(folder).left() == ()


async def test_a_write_that_was_cancelled_mixes_with_no_later_one(tmp_path: Path) -> None:
    """It goes on in its thread: two at once shared one unfinished file."""
    begun, may_end, at_once, most = threading.Event(), threading.Event(), 0, 0

    def slowly(file: Path, indicators: list[str]) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        if not begun.is_set():
            begun.set()
            may_end.wait(20)
        file.write_text(json.dumps(indicators))
        at_once -= 1

    indicators = OpenIndicators(tmp_path, write=slowly)
    first = asyncio.create_task(indicators.on("a"))
    assert await asyncio.to_thread(begun.wait, 20)
    first.cancel()
    await asyncio.wait([first])
    later = [asyncio.create_task(indicators.on(name)) for name in "bc"]
    await asyncio.wait(later, timeout=0.2)
    may_end.set()
    await asyncio.gather(*later)
    assert most == 1
    assert OpenIndicators(tmp_path).left() == ("a", "b", "c")
