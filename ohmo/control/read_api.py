"""The part of the API that changes nothing: lists, history, search."""

from __future__ import annotations

import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar, get_args

from aiohttp import web

from channels.contract import Address, Answer, Edited, Inbound, Reacted
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.cron import OWNER
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.reports import (
    ArrivalInfo,
    HistoryItem,
    Reports,
    Spot,
    StepInfo,
    ThreadInfo,
    spot_of,
)
from ohmo.contracts.spending import as_rows
from ohmo.contracts.turns import Ending
from ohmo.control.ports import Names, Ports, spent_in, title_of
from ohmo.control.responses import (
    MOST,
    Refusal,
    Wish,
    answer,
    encode,
    following,
    mark_of,
    number,
    one_of,
    wish,
    words_in,
)

_MOST = 2**62
_ARRIVALS = ("waiting", "taken", "ended", *get_args(Ending))
_POSTS = ("ready", "sending", "sent", "dropped", "dead")


class ReadRoutes:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._reports = ports.reports
        self._names = Names(ports.reports, ports.people)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/status", self.status),
            web.get("/api/v1/channels", self.channels),
            web.get("/api/v1/sessions", self.sessions),
            web.get("/api/v1/sessions/{thread}", self.session),
            web.get("/api/v1/sessions/{thread}/replay", self.replay),
            web.get("/api/v1/sessions/{thread}/context", self.context),
            web.get("/api/v1/inbox", self.inbox),
            web.get("/api/v1/inbox/audit", self.audit),
            web.get("/api/v1/inbox/{thread}/{seq:[0-9]{1,18}}", self.why),
            web.get("/api/v1/trace/{id:.{1,300}}", self.trace),
            web.get("/api/v1/outbox", self.outbox),
            web.get("/api/v1/approvals", self.approvals),
            web.get("/api/v1/pairing", self.pairing),
            web.get("/api/v1/usage", self.usage),
        ]

    async def status(self, _: web.Request) -> web.Response:
        return answer(await self._ports.status())

    async def channels(self, _: web.Request) -> web.Response:
        """What each channel is worth now: connected in truth, what waits for it and since when,
        what could not be delivered."""
        status = await self._ports.status()
        channels = [
            {
                "name": label,
                "state": channel.state,
                "connected": channel.state == "connected",
                "detail": channel.detail,
                "last_event": channel.last_event,
                "last_delivery": channel.last_delivery,
                "last_call": channel.last_call,
                "waiting": channel.waiting,
                "oldest_waiting": channel.oldest_waiting,
                "outgoing": channel.outgoing,
                "dead": channel.dead,
            }
            for label, channel in status.channels.items()
        ]
        return answer({"channels": channels})

    async def sessions(self, request: web.Request) -> web.Response:
        """Newest first, each with what it is called; ``next`` is the ``after`` of the following
        page, null at the end. With ``text`` those in which these words were said, as many as
        ``limit``."""
        page = wish(request)
        channel = request.query.get("channel") or None
        text = words_in(request)
        if text:
            infos = await Search(self._reports, text).threads(page.limit, channel)
            return answer({"sessions": [_named(info) for info in infos], "next": None})
        infos = await self._reports.threads(limit=page.limit, channel=channel, after=page.after)
        shown = [_named(info) for info in infos if info.settings.shelf != "deleted"]
        return answer({"sessions": shown, "next": following(infos, page)})

    async def session(self, request: web.Request) -> web.Response:
        """One session with its history after ``since``, or the last of it before ``before``; what
        its turns cost. ``next`` is the ``since`` of the following page, ``previous`` the ``before``
        of the page in front of it, null where it ends."""
        thread = request.match_info["thread"]
        limit = number(request, "limit", 500, MOST)
        info = await self._reports.thread(thread)
        if info is None:
            raise Refusal(
                404, f"{thread[:60]}: there is no such session; `ohmo sessions list` shows them"
            )
        before = number(request, "before", _MOST, _MOST) if "before" in request.query else None
        items = await self._reports.history(
            thread, since=number(request, "since", 0, _MOST), limit=limit, before=before
        )
        full = bool(items) and len(items) == limit
        spent = await self._reports.thread_usage(thread, since=first_day(items)) if items else []
        return answer(
            {
                "session": _named(info),
                "history": items,
                "usage": spent,
                "next": items[-1].seq if full and before is None else None,
                "previous": items[0].seq if full and before is not None else None,
            }
        )

    async def replay(self, request: web.Request) -> web.Response:
        """The present session of a thread made again from its log: the same requests, the same
        decisions, or the first difference."""
        thread = request.match_info["thread"]
        info = await self._reports.thread(thread)
        if info is None or self._ports.replay is None:
            raise Refusal(
                404, f"{thread[:60]}: there is no such session; `ohmo sessions list` shows them"
            )
        return answer(await self._ports.replay(info))

    async def context(self, request: web.Request) -> web.Response:
        """What the next request of a thread would be made of."""
        thread = request.match_info["thread"]
        info = await self._reports.thread(thread)
        if info is None or self._ports.context is None:
            raise Refusal(
                404, f"{thread[:60]}: there is no such session; `ohmo sessions list` shows them"
            )
        usage = await self._ports.context(info)
        return answer({"context": usage, "tokens": usage.tokens, "lines": usage.lines()})

    async def inbox(self, request: web.Request) -> web.Response:
        page = wish(request)
        state = one_of(request, "state", _ARRIVALS)
        text = words_in(request)
        if text:
            infos, spot = await Search(self._reports, text).inbox(page, state)
            return answer({"inbox": infos, "next": None if spot is None else mark_of(spot)})
        infos = await self._reports.inbox(state=state, limit=page.limit, after=page.after)
        return answer({"inbox": infos, "next": following(infos, page)})

    async def audit(self, _: web.Request) -> web.Response:
        return answer(await self._reports.audit_report())

    async def why(self, request: web.Request) -> web.Response:
        thread, seq = request.match_info["thread"], int(request.match_info["seq"])
        info = await self._reports.arrival(thread, seq)
        if info is None:
            raise Refusal(
                404,
                f"{thread[:60]}/{seq}: nothing arrived under this number; `ohmo inbox list` shows"
                " what did",
            )
        return answer(info)

    async def trace(self, request: web.Request) -> web.Response:
        """Everything one message caused, from arrival to receipt."""
        name = request.match_info["id"]
        found = await self._ports.trace(name) if self._ports.trace is not None else None
        if found is None:
            raise Refusal(
                404,
                f"{name[:80]}: no message, turn or post is called so, or it is no longer kept;"
                " `ohmo inbox list` and `ohmo outbox list` show ids",
            )
        return answer(found)

    async def outbox(self, request: web.Request) -> web.Response:
        page = wish(request)
        state = one_of(request, "state", _POSTS)
        text = words_in(request)
        if text:
            rows, spot = await Search(self._reports, text).outbox(page, state)
            return answer({"outbox": rows, "next": None if spot is None else mark_of(spot)})
        rows = await self._reports.outbox(state=state, limit=page.limit, after=page.after)
        return answer({"outbox": rows, "next": following(rows, page)})

    async def approvals(self, request: web.Request) -> web.Response:
        """The open questions, the one that waits longest first. ``next`` is the id the following
        page begins behind."""
        questions = await self._ports.approvals.open_questions(request.query.get("thread"))
        limit = number(request, "limit", 100, MOST)
        after = request.query.get("after")
        ids = [asked.ask.id for asked in questions]
        start = ids.index(after) + 1 if after in ids else 0
        page = questions[start : start + limit]
        more = start + limit < len(questions)
        infos = await self._reports.threads_of({asked.thread for asked in page})
        rows: list[Mapping[str, object]] = []
        for asked in page:
            who = ""  # not known, or somebody else than who began the conversation
            info = infos.get(asked.thread)
            if info is not None and info.beginning.person == asked.person:
                who = info.beginning.name
            rows.append({**_fields(asked), "who": who})
        return answer({"approvals": rows, "next": page[-1].ask.id if more and page else None})

    async def pairing(self, _: web.Request) -> web.Response:
        """Everybody who was ever let in or asks to be; a code itself is known to the asking person
        only."""
        return answer({"people": await self._ports.people.people()})

    async def usage(self, request: web.Request) -> web.Response:
        """By day and model; ``by=person``: by person as well, ``who`` and ``id`` as in ``Named``;
        ``by=thread``: the conversations that cost most, the dearest first; ``by=day``, ``job`` or
        ``purpose``: ``name``, of a job that is still there as people call it."""
        known = ("model", "person", "thread", "day", "job", "purpose")
        by = one_of(request, "by", known) or "model"
        days = number(request, "days", 30, 3660)
        if by in ("day", "job", "purpose"):
            shares = await self._reports.usage_by(by, days=days)
            jobs = dict[str, str]()
            if by == "job" and self._ports.cron is not None:
                jobs = {row.job: row.name for row in await self._ports.cron.list(OWNER)}
            names = [jobs.get(share.name, share.name) for share in shares]
            return answer(
                {
                    "usage": [
                        {**_fields(s), "name": name} for s, name in zip(shares, names, strict=True)
                    ]
                }
            )
        if by == "thread":
            limit = number(request, "limit", 50, MOST)
            costs = await self._reports.thread_totals(days=days, limit=limit)
            infos = await self._reports.threads_of([total.thread for total in costs])
            rows: list[Mapping[str, object]] = []
            for total in costs:
                info = infos.get(total.thread)
                title = "" if info is None else title_of(info)
                address = None if info is None else info.address
                rows.append({**_fields(total), "title": title, "address": address})
            return answer({"usage": rows})
        totals = await self._reports.usage(days=days, by_person=by == "person")
        if by == "model":
            day = spent_in(await self._reports.usage(days=1))  # the status may be of a moment ago
            return answer({"usage": totals, "budgets": as_rows(self._ports.limits, day)})
        named = await self._names.of(totals)
        people = [{**_fields(total), "who": name.who, "id": name.id} for total, name in named]
        return answer({"usage": people})


def _named(info: ThreadInfo) -> Mapping[str, object]:
    return {**_fields(info), "title": title_of(info), "who": info.beginning.name}


def first_day(items: Sequence[HistoryItem]) -> datetime:
    """Nothing on the page was spent before. A message may carry an older time of its platform, so
    when it was stored counts."""
    first = items[0]
    match first:
        case ArrivalInfo():
            return first.stored or first.said_at
        case StepInfo():
            return first.at
        case _:
            return first.started


def _fields(of: object) -> Mapping[str, object]:
    encoded = encode(of)
    assert isinstance(encoded, Mapping)
    return encoded


Row = TypeVar("Row", ArrivalInfo, OutRow)
_PAGE = 250  # rows decoded between two breaths of the event loop
_LOOKED = 10_000  # rows one question looks at; a later page goes on from there


class Search:
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
        matches: list[Row] = []
        after = wanted.after
        looked = 0
        while looked < _LOOKED:
            page = await page_behind(after)
            for row in page:
                after = spot_of(row)
                if self._fits(words_of(row)):
                    matches.append(row)
                    if len(matches) == wanted.limit:
                        return matches, after
            looked += len(page)
            if len(page) < _PAGE:
                return matches, None
        return matches, after

    async def threads(self, limit: int, channel: str | None) -> list[ThreadInfo]:
        """Those whose name or place fits, and those in which one of the newest messages does;
        newest first."""
        matches: dict[str, ThreadInfo] = {}
        after = None
        looked = 0
        while looked < _LOOKED and len(matches) < limit:
            page = await self._reports.threads(limit=_PAGE, channel=channel, after=after)
            for info in page:
                if self._fits(f"{info.title or ''} {place_words(info.address)}"):
                    matches[info.thread] = info
            looked += len(page)
            if len(page) < _PAGE:
                break
            after = spot_of(page[-1])
        rows, _ = await self.inbox(Wish(_LOOKED, None), None)
        for thread in dict.fromkeys(row.thread for row in rows):
            if len(matches) >= limit:
                break
            info = matches.get(thread) or await self._reports.thread(thread)
            if info is not None and channel in (None, info.address.channel):
                matches[thread] = info
        return sorted(matches.values(), key=lambda info: -spot_of(info).at)

    def _fits(self, text: str) -> bool:
        plain = _plain(text)
        return all(word in plain for word in self._words)


def place_words(address: Address) -> str:
    parts = (address.channel, address.account, address.chat, address.topic or "")
    return " ".join(part for part in parts if part)


def _sent(row: OutRow) -> str:
    outbound = row.row.outbound
    names = [path.name for path in outbound.files]
    return " ".join([outbound.text, *names, place_words(outbound.address)])


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
