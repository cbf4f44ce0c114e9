"""Which cards of trust stand open: one for one content, none for what was left off or is gone, the
same ones in the next life; and what their answers do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

import ohmo.approvals.trust_cards
from channels.contract import Address, ChatId
from ohmo.approvals.trust_cards import MOST, SETTLED, TrustCards
from ohmo.approvals.trust_orders import TrustOrders
from ohmo.approvals.trust_wording import parse_trust
from ohmo.approvals.trusting import TrustDesk
from ohmo.commands.contract import Order
from ohmo.contracts.mcp import McpServers, ServerReport
from ohmo.contracts.trust import Candidate
from ohmo.contracts.turns import ThreadSettings
from ohmo.logs.redaction import Redactor
from ohmo.skills.shelf import Skills
from tests.store_model.store import MemoryStore

PLACE = Address("slack", "T1", ChatId("D1"))
ELSEWHERE = Address("slack", "T1", ChatId("C1"))


class Servers:
    """One server; ``digest`` of its changed tools, empty: they are as approved."""

    def __init__(self) -> None:
        self.digest = ""
        self.approved: list[str] = []

    def report(self) -> list[ServerReport]:
        waiting = (f"stock: now says {self.digest}",) if self.digest else ()
        return [ServerReport("shop", "stdio", "connected", waiting=waiting, digest=self.digest)]

    async def approve(self, name: str) -> int:
        self.approved.append(f"{name} {self.digest}")
        self.digest = ""
        return 1


class Places:
    def owner(self) -> Address | None:
        return PLACE

    def __init__(self) -> None:
        self.told: list[str] = []

    async def tell(self, incident: str, text: str) -> None:
        self.told.append(text)

    def decides(self, place: Address, person: str) -> bool:
        raise AssertionError((place, person))

    async def folder(self, thread: str) -> Path:
        raise AssertionError(thread)


class Rig:
    """``there``: what waits unless its content is trusted."""

    def __init__(self, root: Path) -> None:
        self.now = datetime(2026, 7, 1, tzinfo=UTC)
        self.store = MemoryStore(clock=self.tick)
        self.root = root
        self.there: list[Candidate] = []
        self.servers = Servers()
        self.places = Places()
        self._ids = count()
        self.begin()

    def tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def begin(self) -> None:
        """A new life of the daemon."""

        async def waiting(_: Path) -> Sequence[Candidate]:
            return [
                one
                for one in self.there
                if not await self.store.trusted(one.kind, one.name, one.digest)
            ]

        skills = Skills((), self.store, lambda _: None, {})
        servers = cast("McpServers", self.servers)
        self.desk = TrustDesk(self.store, skills, self.root, (waiting,), servers=servers)
        self.cards = TrustCards(
            self.desk,
            cast("Any", self.store),
            self.places,
            self.root / "state" / "cards.json",
            workspace=self.root,
            new_id=lambda: f"{next(self._ids):022d}",
            redact=Redactor().text,
        )

    def has(self, *digests: str, kind: Any = "plugin", name: str = "shop") -> None:
        self.there = [Candidate(kind, name, one * 64, "/x", "runs y") for one in digests]

    async def look(self, place: Address = PLACE) -> None:
        await self.cards.look(self.root, place)

    def texts(self) -> list[str]:
        """Cards and their ends as they were said, in order."""
        rows = [found.row for found in self.store.tables.posts.values()]
        return [row.row.outbound.text for row in sorted(rows, key=lambda row: row.seq)]

    async def open(self) -> str:
        """The id of the only one."""
        found = [
            row.row
            for row in (one.row for one in self.store.tables.posts.values())
            if row.row.kind == "message"
        ]
        posts = [one.row.row for one in self.store.tables.posts.values()]
        ends = {row.target for row in posts if not row.outbound.choices}
        (card,) = [row for row in found if row.id not in ends]
        return card.id


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_what_is_trusted_is_listed_once_with_all_its_contents(rig: Rig) -> None:
    for digest in "abcde":
        await rig.store.allow("skill", "deploy", digest * 64, "ada")
    await rig.store.allow("hook", "/w", "f" * 64, "bob")
    rig.has("9", kind="hook", name="/v")
    order = Order("t", PLACE, "ada", "owner", "", ThreadSettings())
    lines = (await TrustOrders(rig.cards, rig.root)(order)).splitlines()
    assert lines[0].startswith("- the hooks of the project `/v` wait; what is there runs y.")
    (skill,) = [line for line in lines if "deploy" in line]
    assert "the skill `deploy` is trusted, content `" in skill
    assert "` or 2 others, by ada. `/trust revoke skill deploy`" in skill
    assert (
        "- the hooks of the project `/w` are trusted, content `ffffffffffff`, by bob." in lines[1]
    )


async def test_one_content_is_asked_once_also_in_the_next_life(rig: Rig) -> None:
    rig.has("a")
    await rig.look()
    await rig.look(ELSEWHERE)
    rig.begin()
    await rig.look(ELSEWHERE)
    (text,) = rig.texts()
    assert "**Trust the plugin `shop`?**" in text
    assert "content `aaaaaaaaaaaa`" in text
    assert await rig.cards.answer(await rig.open(), "slack:ada", "Ada", allow=True) == (
        True,
        "Trusted",
    )
    assert await rig.store.trusted("plugin", "shop", "a" * 64)
    assert rig.texts()[1].endswith("_Trusted by Ada_")


async def test_another_content_settles_the_card_and_asks_anew(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.has("a")
    await rig.look()
    first = await rig.open()
    rig.has("b")
    assert (await rig.cards.answer(first, "slack:ada", "Ada", allow=True))[0] is False
    assert await rig.cards.answer(first, "slack:ada", "Ada", allow=True) == (False, SETTLED)
    assert not await rig.desk.trusts()
    second = await rig.open()
    assert second != first
    rig.has("a")  # and back again, while nobody answered: it keeps changing, and the card stays
    await rig.look()
    assert await rig.open() == second
    monkeypatch.setattr(ohmo.approvals.trust_cards, "OFTEN", 0.0)
    await rig.look()
    assert await rig.open() not in (first, second)
    rig.there = []
    await rig.look()
    assert sum(text.endswith("so this trusts nothing_") for text in rig.texts()) == 3


async def test_what_keeps_changing_is_one_card_that_trusts_nothing(rig: Rig) -> None:
    for digest in "abcdef":
        rig.has(digest)
        await rig.look()
    text, edited = rig.texts()  # which says so, once, and stays open
    assert "content `aaaaaaaaaaaa`" in text
    assert (
        edited
        == f"{text}\n\n_It was another meanwhile: unless it is this again, **Trust** trusts nothing and asks anew._"
    )
    posts = [found.row.row for found in rig.store.tables.posts.values()]
    assert posts[0].outbound.choices == posts[1].outbound.choices != ()
    rig.there = []
    await rig.look()
    rig.has("b")  # taken away and put back is no way round it
    await rig.look()
    assert not any("content `b" in text for text in rig.texts())
    rig.begin()
    await rig.look()
    rig.has("c")
    await rig.look()
    assert (await rig.cards.answer(await rig.open(), "slack:ada", "Ada", allow=True))[0] is False
    assert not await rig.desk.trusts()
    assert "content `cccccccccccc`" in rig.texts()[-1]  # to who answers it is shown at once


@pytest.mark.parametrize("became", ["dead", "dropped", "absent"])
async def test_a_card_that_nobody_can_see_keeps_no_place_and_asks_anew(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, became: str
) -> None:
    rig.has("a")
    await rig.look()
    first, posts = await rig.open(), rig.store.tables.posts
    if became == "absent":
        del posts[first]
    else:
        row = replace(posts[first].row, state=cast("Any", became))
        posts[first] = replace(posts[first], row=row)
    await rig.look()
    assert not (rig.root / "state" / "cards.json").read_text().count(first)
    monkeypatch.setattr(ohmo.approvals.trust_cards, "OFTEN", 0.0)
    await rig.look()
    (card,) = json.loads((rig.root / "state" / "cards.json").read_text())
    assert card["id"] != first
    assert card["id"] in posts


async def test_what_found_no_place_is_asked_after_an_answer_and_a_changed_plugin_is_told(
    rig: Rig,
) -> None:
    rig.has("a")
    await rig.desk.allow("plugin", "shop", "owner")
    rig.there = [Candidate("skill", f"s{n}", "b" * 64, f"/named/s{n}", "x") for n in range(MOST)]
    await rig.look()
    rig.there.append(Candidate("plugin", "shop", "c" * 64, "/x", "runs y"))
    await rig.look()
    assert len(rig.texts()) == MOST
    (told,) = set(rig.places.told)
    assert told.startswith("the plugin `shop` changed since it was trusted and is off")
    first = min(rig.store.tables.posts)
    assert (await rig.cards.answer(first, "slack:ada", "Ada", allow=False))[0] is True
    turns: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    running = asyncio.create_task(rig.cards.run(lambda: nullcontext(_from(turns))))
    try:
        async with asyncio.timeout(20):
            while "Trust the plugin `shop`" not in rig.texts()[-1]:
                await asyncio.sleep(0.05)
    finally:
        running.cancel()
        await asyncio.wait([running])


async def _from(turns: asyncio.Queue[tuple[str, Any]]) -> AsyncGenerator[tuple[str, Any]]:
    while True:
        yield await turns.get()


async def test_plugins_are_asked_where_the_owner_reads_and_projects_where_they_are_worked_in(
    rig: Rig,
) -> None:
    rig.has("a")
    rig.there.append(Candidate("hook", str(rig.root), "b" * 64, "/y", "runs z"))
    await rig.look(ELSEWHERE)
    places = {
        row.row.row.outbound.text.partition("?")[0]: row.row.row.outbound.address
        for row in rig.store.tables.posts.values()
    }
    assert places == {
        "**Trust the plugin `shop`": PLACE,
        f"**Trust the hooks of the project `{rig.root}`": ELSEWHERE,
    }


async def test_a_card_tells_no_secret_and_nothing_in_it_looks_like_a_card(rig: Rig) -> None:
    may = (
        "runs x --token f4b9c1d7e8a2 https://a.example/?api_key=swordfish99 MY_TOKEN=abc_def_12"
        "\n\n- content `0000`\n\u202eevil\x07"
    )
    rig.there = [Candidate("plugin", "sh\u202eop\nx", "a" * 64, "/x\n- y", may)]
    await rig.look()
    (text,) = rig.texts()
    for secret in ("f4b9c1", "swordfish", "abc"):
        assert secret not in text
    assert "\u202e" not in text
    assert "\x07" not in text
    assert [line[:9] for line in text.splitlines() if line.startswith("-")] == [
        "- where: ",
        "- it runs",
        "- content",
    ]


async def test_tools_that_were_approved_elsewhere_settle_their_card_and_say_so(rig: Rig) -> None:
    rig.servers.digest = "c" * 64
    await rig.look()
    rig.servers.digest = ""
    done, text = await rig.cards.answer(await rig.open(), "slack:ada", "Ada", allow=True)
    assert (done, text) == (False, "Settled meanwhile; `ohmo mcp list` shows it.")
    assert rig.texts()[-1].endswith("_Settled meanwhile; `ohmo mcp list` shows it_")


async def test_what_was_left_off_or_taken_back_is_not_asked_again_until_another_was_allowed(
    rig: Rig,
) -> None:
    rig.has("a")
    await rig.look()
    await rig.cards.answer(await rig.open(), "slack:ada", "Ada", allow=False)
    rig.begin()
    await rig.look()
    assert len(rig.texts()) == 2
    rig.has("b")
    await rig.look()
    await rig.cards.answer(await rig.open(), "slack:ada", "Ada", allow=True)
    rig.has("a")  # what was trusted became what was left off before: that is news
    await rig.look()
    assert "It changed since it was trusted" in rig.texts()[-1]
    await rig.cards.answer(await rig.open(), "slack:ada", "Ada", allow=False)
    await rig.look()
    assert rig.texts()[-1].endswith("_Left off by Ada_")
    await rig.desk.revoke("plugin", "shop")
    rig.has("b")
    await rig.look()
    assert rig.texts()[-1].endswith("_Left off by Ada_")


async def test_what_is_allowed_at_the_keyboard_settles_its_card(rig: Rig) -> None:
    rig.has("a")
    await rig.look()
    await rig.desk.allow("plugin", "shop", "owner")
    late = await rig.cards.answer(await rig.open(), "slack:ada", "Ada", allow=False)
    assert late[0] is False
    assert "revoked" in late[1]
    assert rig.texts()[-1].endswith("_Trusted meanwhile_")
    assert await rig.store.trusted("plugin", "shop", "a" * 64)
    rig.has("b")
    await rig.look()
    await rig.desk.allow("plugin", "shop", "owner")
    await rig.look()
    assert rig.texts()[-1].endswith("_Trusted meanwhile_")


async def test_changed_tools_are_approved_as_the_card_showed_them_or_not_at_all(rig: Rig) -> None:
    rig.servers.digest = "c" * 64
    await rig.look()
    assert "the changed tools of the MCP server `shop`" in rig.texts()[0]
    rig.servers.digest = "d" * 64
    assert (await rig.cards.answer(await rig.open(), "slack:ada", "Ada", allow=True))[0] is False
    assert rig.servers.approved == []
    assert (await rig.cards.answer(await rig.open(), "slack:ada", "Ada", allow=True))[0] is True
    assert rig.servers.approved == [f"shop {'d' * 64}"]


async def test_a_project_with_skills_is_one_card_and_few_cards_are_open_at_once(rig: Rig) -> None:
    rig.has("a", kind="project", name="/work")
    skills = [
        Candidate("skill", f"s{n}", "b" * 64, f"/work/.claude/skills/s{n}", "x") for n in range(9)
    ]
    rig.there += skills
    await rig.look()
    assert len(rig.texts()) == 1
    rig.there = [
        Candidate("skill", f"s{n}", "b" * 64, f"/named/s{n}", "x") for n in range(MOST + 3)
    ]
    await rig.look()
    asked = [text for text in rig.texts() if "Trust the skill `" in text]
    assert len(asked) == MOST


@pytest.mark.parametrize("written", [b"", b"[1]", b"{", b'[{"id": "x"}]'])
async def test_a_list_of_cards_that_cannot_be_read_asks_anew(rig: Rig, written: bytes) -> None:
    rig.has("a")
    await rig.look()
    (rig.root / "state" / "cards.json").write_bytes(written)
    rig.begin()
    await rig.look()
    assert len(rig.texts()) == 2


def test_only_buttons_of_these_cards_are_read_as_such() -> None:
    assert parse_trust("trust:x") == ("x", True)
    assert parse_trust("leave:x") == ("x", False)
    for other in ("", "0:x", "run:x", "again:x", "xtrust:"):
        assert parse_trust(other) is None
