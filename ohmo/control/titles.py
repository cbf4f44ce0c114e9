"""What a conversation is called: as a person named it, else how it begins."""

from __future__ import annotations

from channels.contract import Inbound
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.reports import ArrivalInfo, Reports, ThreadInfo

_LONGEST = 80  # characters
_KEPT = 10_000  # titles; the oldest are forgotten and read again


class Titles:
    """The beginning of a thread never changes, so it is read once."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._known: dict[str, str] = {}

    async def of(self, info: ThreadInfo) -> str:
        """Empty while nothing was said."""
        if info.title:
            return info.title
        if info.thread not in self._known:
            items = await self._reports.history(info.thread, limit=3)
            text = next((words for item in items if isinstance(item, ArrivalInfo) and (words := _words(item))), "")
            if not text:
                return ""
            while len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[info.thread] = text
        return self._known[info.thread]


def _words(item: ArrivalInfo) -> str:
    match item.arrival:
        case Inbound(text=text, attachments=attachments):
            words = " ".join(text.split()) or ", ".join(a.name for a in attachments)
        case Wake(prompt=prompt):
            words = " ".join(prompt.split())
        case _:
            return ""
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
