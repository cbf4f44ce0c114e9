"""What a conversation is called: as a person named it, else how it begins; and what the person is
called who began it."""

from __future__ import annotations

from channels.contract import Address, Inbound
from channels.record import record
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.errors import StoreError
from ohmo.contracts.reports import ArrivalInfo, Reports, ThreadInfo

_LONGEST = 80  # characters
NOTICES = (
    "notices"  # the chat in which the owner reads what nobody asked for (ohmo/gateway/notices.py)
)
_KEPT = 10_000  # threads; the oldest are forgotten and read again


@record
class _Beginning:
    words: str = ""
    person: str = ""
    name: str = ""


class Titles:
    """The beginning of a thread never changes, so it is read once."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._known: dict[str, _Beginning] = {}

    async def of(self, info: ThreadInfo) -> str:
        """Empty while nothing was said."""
        return (
            info.title
            or _named(info.address)
            or (await self._beginning(info.thread)).words
            or _chosen(info.address)
        )

    async def named(self, info: ThreadInfo) -> tuple[str, str]:
        """``of`` and ``who`` of it in one reading: what nobody has said anything in yet is read
        every time."""
        began = await self._beginning(info.thread)
        return info.title or _named(info.address) or began.words or _chosen(
            info.address
        ), began.name

    async def who(self, thread: str, person: str) -> str:
        """As the platform names who began the thread; empty when that is not known, or was somebody
        else than ``person``."""
        began = await self._beginning(thread)
        return began.name if began.person == person else ""

    def forget(self, thread: str) -> None:
        """Its beginning was deleted."""
        self._known.pop(thread, None)

    async def _beginning(self, thread: str) -> _Beginning:
        if thread not in self._known:
            try:
                items = await self._reports.history(thread, limit=3)
            except StoreError:  # a ruined transcript: the other threads have their titles
                return _Beginning("(what was said here cannot be read any more)")
            found = next(
                (
                    began
                    for item in items
                    if isinstance(item, ArrivalInfo) and (began := _read(item)).words
                ),
                _Beginning(),
            )
            if not found.words:
                return found
            while len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[thread] = found
        return self._known[thread]


def _named(place: Address) -> str:
    """Where nobody sits it is called by what speaks there: "Notices", a job's or a webhook's own
    name. Empty: a conversation."""
    if place.chat == NOTICES and place.channel in ("web", "house"):
        return "Notices"
    kind, colon, name = place.chat.partition(":")
    if place.channel != "house" or not colon or kind not in ("cron", "hook"):
        return ""
    return name.partition(":")[0]


def _chosen(place: Address) -> str:
    """A chat of the page in which nothing was said, only reported: its name, as whoever sends
    reports there wrote it."""
    return place.chat if place.channel == "web" else ""


def _read(item: ArrivalInfo) -> _Beginning:
    match item.arrival:
        case Inbound(text=text, attachments=attachments, person=person):
            return _Beginning(
                _cut(text) or _cut(", ".join(a.name for a in attachments)), item.person, person.name
            )
        case Wake(prompt=prompt):
            return _Beginning(_cut(prompt))
        case _:
            return _Beginning()


def _cut(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
