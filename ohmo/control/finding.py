"""Words looked for in what people said: read page by page from the newest on, so that nothing has
to be indexed."""

from __future__ import annotations

import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from channels.contract import Address, Answer, Edited, Inbound, Reacted
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.reports import ArrivalInfo, Reports, Spot, ThreadInfo, spot_of
from ohmo.contracts.store import OutRow
from ohmo.control.paging import Wish

Row = TypeVar("Row", ArrivalInfo, OutRow)
_PAGE = 250  # rows decoded between two breaths of the event loop
_MOST = 10_000  # rows one question looks at; a later page goes on from there


class Finding:
    """Every word of ``text`` has to be there, in any order; case and accents do not count."""

    def __init__(self, reports: Reports, text: str) -> None:
        self._reports = reports
        self._words = _plain(text).split()

    async def inbox(self, wanted: Wish, state: str | None) -> tuple[list[ArrivalInfo], Spot | None]:
        """What fits, newest first, and where a next page goes on; None: nothing older is there."""
        return await self._read(
            wanted, lambda after: self._reports.inbox(state=state, limit=_PAGE, after=after), _said
        )

    async def outbox(self, wanted: Wish, state: str | None) -> tuple[list[OutRow], Spot | None]:
        """As ``inbox``, of what was sent."""
        return await self._read(
            wanted, lambda after: self._reports.outbox(state=state, limit=_PAGE, after=after), _sent
        )

    async def _read(
        self,
        wanted: Wish,
        page_behind: Callable[[Spot | None], Awaitable[list[Row]]],
        words_of: Callable[[Row], str],
    ) -> tuple[list[Row], Spot | None]:
        found: list[Row] = []
        after, looked = wanted.after, 0
        while looked < _MOST:
            page = await page_behind(after)
            for row in page:
                after = spot_of(row)
                if self._fits(words_of(row)):
                    found.append(row)
                    if len(found) == wanted.limit:
                        return found, after
            looked += len(page)
            if len(page) < _PAGE:
                return found, None
        return found, after

    async def threads(self, limit: int, channel: str | None) -> list[ThreadInfo]:
        """Those whose name or place fits, and those in which one of the newest messages does;
        newest first."""
        found: dict[str, ThreadInfo] = {}
        after, looked = None, 0
        while looked < _MOST and len(found) < limit:
            page = await self._reports.threads(limit=_PAGE, channel=channel, after=after)
            found.update(
                {
                    info.thread: info
                    for info in page
                    if self._fits(f"{info.title or ''} {place_words(info.address)}")
                }
            )
            looked += len(page)
            if len(page) < _PAGE:
                break
            after = spot_of(page[-1])
        said, _ = await self.inbox(Wish(_MOST, None), None)
        for thread in dict.fromkeys(row.thread for row in said):
            if len(found) >= limit:
                break
            info = found.get(thread) or await self._reports.thread(thread)
            if info is not None and channel in (None, info.address.channel):
                found[thread] = info
        return sorted(found.values(), key=lambda info: -spot_of(info).at)

    def _fits(self, text: str) -> bool:
        plain = _plain(text)
        return all(word in plain for word in self._words)


def place_words(address: Address) -> str:
    return " ".join(
        part
        for part in (address.channel, address.account, address.chat, address.topic or "")
        if part
    )


def _sent(row: OutRow) -> str:
    outbound = row.row.outbound
    return " ".join(
        [outbound.text, *(path.name for path in outbound.files), place_words(outbound.address)]
    )


def _said(row: ArrivalInfo) -> str:
    match row.arrival:
        case Inbound(text=text, person=person, attachments=files):
            words: Sequence[str] = (text, person.name, *(file.name for file in files))
        case Edited(text=text, person=person):
            words = (text or "", person.name)
        case Wake(prompt=prompt):
            words = (prompt,)
        case Answer(choice=choice, person=person):
            words = (choice, person.name)
        case Reacted(emoji=emoji, person=person):
            words = (emoji, person.name)
    return f"{' '.join(words)} {row.person} {row.reason or ''}"


def _plain(text: str) -> str:
    """Without case and accents: ``Ngày`` is found by ``ngay``."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter)).replace(
        "đ", "d"
    )
