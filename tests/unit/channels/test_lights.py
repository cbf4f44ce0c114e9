"""What a killed life left on is known to the next, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from channels.lights import Lights


async def test_the_next_life_knows_what_was_left_on_until_it_is_off(tmp_path: Path) -> None:
    first = Lights(tmp_path)
    for light in ("C1 1.0", "C1 2.0", "C2 "):
        await first.on(light)
    await first.off("C1 2.0")
    second = Lights(tmp_path)
    assert second.left() == ("C1 1.0", "C2 ")
    await second.on("C1 1.0")  # its turn goes on
    assert second.left() == ("C2 ",)
    assert Lights(tmp_path).left() == ("C1 1.0", "C2 "), "a death before it was taken back forgets nothing"
    await second.forget()
    assert (Lights(tmp_path).left(), second.any("C1 "), second.any("C2 ")) == (("C1 1.0",), True, False)


@pytest.mark.parametrize("content", ["", "{", '{"a": 1}', "[1, null]"])
async def test_a_damaged_list_is_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "lights.json").write_text(content)
    assert Lights(tmp_path).left() == ()


async def test_without_a_folder_nothing_is_remembered_and_a_full_disk_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (None, tmp_path / "file" / "no folder"):
        lights = Lights(folder)
        await lights.on("x")
        assert "x" in lights
        await lights.off("x")
        assert Lights(folder).left() == ()
