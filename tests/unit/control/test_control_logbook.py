"""The log is read backwards in pages and forwards as it grows, over rotations, without a line lost
or doubled."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest

from ohmo.control.logs import Logbook, Wanted
from ohmo.logs.writing import RotatingFile
from tests.unit.control.small_house import SmallHouse

ALL = Wanted()


def line(number: int, level: str = "info", **more: str) -> str:
    return (
        json.dumps(
            {
                "at": f"2026-01-05T09:00:{number % 60:02}Z",
                "level": level,
                "event": f"event-{number}",
                **more,
            }
        )
        + "\n"
    )


def write(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(lines)


def rotate(path: Path) -> None:
    """As the daemon turns it over."""
    file = RotatingFile(path, 1, 5)
    file.write(b"x" * 10 + b"\n")
    file.close()
    path.write_bytes(b"")


def test_pages_backwards_cover_every_file_once(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.jsonl"
    for start in (0, 40, 80):
        if start:
            rotate(path)
        write(path, *(line(number, padding="x" * 5000) for number in range(start, start + 40)))
    write(path, '{"cut": ')
    book, found, place = Logbook(path), list[str](), None
    while True:
        entries, place = book.back(ALL, 7, place)
        found += [entry.event["event"] for entry in entries]
        if place is None:
            break
    assert found == [f"event-{number}" for number in reversed(range(120))]


def test_news_go_on_over_rotations_and_wait_for_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.jsonl"
    write(path, line(1))
    book = Logbook(path)
    place = book.end()
    write(path, line(2), line(3)[:10])
    news = book.forward(ALL, place)
    assert [entry.event["event"] for entry in news.entries] == ["event-2"]
    write(path, line(3)[10:])
    rotate(path)
    write(path, line(4), line(5))
    again = book.forward(ALL, news.place)
    assert [entry.event["event"] for entry in again.entries] == ["event-3", "event-4", "event-5"]
    assert again.whole
    assert book.forward(ALL, again.place).entries == ()
    resumed = book.forward(ALL, again.entries[0].end)
    assert [entry.event["event"] for entry in resumed.entries] == ["event-4", "event-5"]


def test_what_was_turned_over_twice_between_two_looks_is_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.jsonl"
    write(path, line(1), line(2))
    place = Logbook(path).end()
    for number in (3, 4):
        rotate(path)
        write(path, line(number))
    news = Logbook(path).forward(ALL, place)
    assert not news.whole  # its file is compressed by now
    assert [entry.event["event"] for entry in news.entries] == ["event-4"]
    found, _ = Logbook(path).back(ALL, 10)
    assert [entry.event["event"] for entry in found] == ["event-4", "event-3", "event-2", "event-1"]


def test_a_place_that_rotated_away_is_told(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.jsonl"
    write(path, line(1))
    news = Logbook(path).forward(ALL, "ffffffff-10")
    assert not news.whole
    assert [entry.event["event"] for entry in news.entries] == ["event-1"]


def test_a_place_in_a_file_that_is_gone_is_none_in_another_that_got_its_number(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ohmo.jsonl"
    write(path, line(1), line(2))
    place = Logbook(path).end()
    # the same number, as file systems give it again soon
    with path.open("r+", encoding="utf-8") as file:
        file.truncate()
        file.writelines((line(3, padding="x" * 500), line(4)))
    news = Logbook(path).forward(ALL, place)
    assert not news.whole
    assert [entry.event["event"] for entry in news.entries] == ["event-3", "event-4"]
    assert Logbook(path).back(ALL, 10, place) == ([], None)


def test_filters_by_level_words_and_fields(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.jsonl"
    write(
        path,
        line(1),
        line(2, "error", channel="slack"),
        line(3, "warning", error="Broken PIPE"),
        "no json\n",
        '["list"]\n',
    )
    book = Logbook(path)

    def names(wanted: Wanted) -> list[str]:
        return [entry.event["event"] for entry in book.back(wanted, 100)[0]]

    assert names(ALL) == ["event-3", "event-2", "event-1"]
    assert names(Wanted("warning")) == ["event-3", "event-2"]
    assert names(Wanted(words=("pipe", "broken"))) == ["event-3"]
    assert names(Wanted(fields=(("channel", "slack"),))) == ["event-2"]


async def test_the_tail_over_http_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    house, path = SmallHouse(), tmp_path / "ohmo.jsonl"
    house.log = path
    write(path, line(1), line(2, "error"))
    async with (
        house.open(tmp_path / "run") as doors,
        aiohttp.ClientSession(
            "http://localhost", connector=aiohttp.UnixConnector(str(doors.socket))
        ) as session,
    ):
        async with session.get("/api/v1/logs?level=error") as response:
            page = await response.json()
        assert [entry["event"] for entry in page["logs"]] == ["event-2"]
        write(path, line(3))
        async with session.get(f"/api/v1/logs/events?since={page['since']}") as response:
            assert (await frames(response, 2))[1] == ("log", "event-3", (await session_end(path)))
        write(path, line(4))
        async with session.get(
            "/api/v1/logs/events", headers={"Last-Event-ID": await session_end(path, -1)}
        ) as response:
            assert [name for _, name, _ in await frames(response, 2)][1] == "event-4"


async def session_end(path: Path, lines: int = 0) -> str:
    """The place behind the last line, or ``-lines`` lines before."""
    content = path.read_bytes().splitlines(keepends=True)
    size = sum(len(one) for one in content[: len(content) + lines])
    return f"{path.stat().st_ino:x}-{size:x}"


async def frames(response: aiohttp.ClientResponse, count: int) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    while len(found) < count:
        block = (await asyncio.wait_for(response.content.readuntil(b"\n\n"), 20)).decode()
        parts = dict(
            each.split(": ", 1) for each in block.strip().splitlines() if not each.startswith(":")
        )
        if "data" in parts:
            found.append(
                (parts["event"], str(json.loads(parts["data"]).get("event")), parts.get("id", ""))
            )
    return found


@pytest.mark.parametrize("query", ["level=loud", "after=here", "limit=-1"])
async def test_bad_questions_are_refused_with_one_line(tmp_path: Path, query: str) -> None:
    house = SmallHouse()
    house.log = tmp_path / "none.jsonl"
    async with (
        house.open(tmp_path / "run") as doors,
        aiohttp.ClientSession(
            "http://localhost", connector=aiohttp.UnixConnector(str(doors.socket))
        ) as session,
        session.get(f"/api/v1/logs?{query}") as response,
    ):
        assert response.status == 400
        assert (await response.json())["error"]
