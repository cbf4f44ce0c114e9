"""The part of the API that changes something: messages, answers, jobs, permissions. Each change is
durable when its answer comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from aiohttp import web
from pydantic import Field, StrictFloat, StrictInt

from channels.contract import Address, ChatId, Clock
from ohmo.ambient import NewId
from ohmo.approvals.answering import Answerer, Refused
from ohmo.commands.contract import Decide
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.cron import BadJob, JobRow, NoSuchJob
from ohmo.contracts.errors import BadArguments, ConfigError
from ohmo.contracts.outbox import Scope
from ohmo.contracts.reports import ThreadInfo
from ohmo.contracts.tool import Mode, Standing
from ohmo.contracts.turns import FREE, ThreadSettings
from ohmo.control.ports import Approvals, Ports
from ohmo.control.responses import Refusal, Wanted, answer, body_of, number
from ohmo.cron.desk import CronDesk
from ohmo.cron.reporting import occurrence_view, recipe_view
from ohmo.cron.spec import in_utc
from ohmo.permissions.trial import Trial

PERSON = "owner"  # whoever holds the token, the socket or the cookie
_TEXT = 100_000
_Span = str | StrictInt | StrictFloat  # true is no second


class Message(Wanted):
    """``thread``: an address such as ``slack:C123/1700.1``, or the id of a session; without it the
    message begins a thread of its own and is answered there. A slash command is carried out as the
    owner's. ``key``: said again under the same key it is the same message."""

    text: str = Field(min_length=1, max_length=1_000_000)
    thread: str | None = None
    mode: Literal["default", "plan", "full_auto"] | None = None
    model: str | None = Field(default=None, max_length=200)
    key: str | None = Field(default=None, pattern=r"^[0-9A-Za-z._:-]{1,128}$")


class Verdict(Wanted):
    verdict: Literal["allowed", "denied"]
    scope: Scope = "once"
    word: str = Field(default="", max_length=100_000)


class Pairing(Wanted):
    code: str = Field(min_length=1, max_length=64)
    role: Literal["guest", "user", "admin"] | None = None


class Revocation(Wanted):
    channel: str
    account: str
    person: str


class WriteRoutes:
    def __init__(self, ports: Ports, new_id: NewId, clock: Clock) -> None:
        self._ports = ports
        self._new_id = new_id
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/v1/messages", self.message),
            web.post("/api/v1/sessions/{thread}/reset", self.reset),
            web.post("/api/v1/approvals/{id}", self.approve),
            web.post("/api/v1/pairing", self.pair),
            web.post("/api/v1/pairing/revoke", self.revoke),
            web.post("/api/v1/inbox/{thread}/{seq:[0-9]{1,18}}/retry", self.retry_arrival),
            web.post("/api/v1/outbox/{id}/retry", self.retry_post),
            web.post("/api/v1/outbox/{id}/drop", self.drop_post),
        ]

    async def message(self, request: web.Request) -> web.Response:
        """202 when it is stored; the answer comes as events of ``thread`` after ``seq``."""
        wanted = await body_of(request, Message)
        if (
            wanted.model is not None
            and self._ports.no_such_model is not None
            and (wrong := await self._ports.no_such_model(wanted.model))
        ):
            raise Refusal(400, wrong)
        now = self._clock()
        wake = await self._wake(wanted, now)
        free_until = now + FREE if wanted.mode == "full_auto" else None
        settings = (
            ThreadSettings(wanted.mode, wanted.model, free_until)
            if wanted.mode or wanted.model
            else None
        )
        accepted = await self._ports.publish_wake(wake, settings)
        found = {
            "thread": accepted.thread,
            "seq": accepted.seq,
            "turn_key": wake.key,
            "duplicate": accepted.duplicate,
        }
        return answer(found, status=202)

    async def reset(self, request: web.Request) -> web.Response:
        """202 when it is stored: what runs and what waits in the thread is stopped, and a new
        session begins, as by /new."""
        wake = self._into(
            await self._session(request.match_info["thread"]),
            f"reset:{self._new_id()}",
            "/new",
            self._clock(),
        )
        accepted = await self._ports.publish_wake(replace(wake, origin="owner"), None)
        return answer({"thread": accepted.thread, "seq": accepted.seq}, status=202)

    async def _session(self, thread: str) -> ThreadInfo:
        info = await self._ports.reports.thread(thread)
        if info is None:
            raise Refusal(
                404, f"{thread[:60]}: there is no such session; `ohmo sessions list` shows them"
            )
        return info

    def _into(self, info: ThreadInfo, key: str, text: str, at: datetime) -> Wake:
        place = info.address
        return Wake(
            key,
            "api",
            place,
            None if place.channel == "house" else place,
            PERSON,
            text,
            at,
            mind=info.person_scope,
        )

    async def _wake(self, wanted: Message, at: datetime) -> Wake:
        key = f"api:{wanted.key or self._new_id()}"
        if wanted.thread is None:
            place = Address("house", "local", ChatId(key))
            return Wake(key, "api", place, None, PERSON, wanted.text, at)
        if (
            wanted.thread.isalnum()
            and (info := await self._ports.reports.thread(wanted.thread)) is not None
        ):
            return self._into(info, key, wanted.text, at)
        try:
            place = self._ports.parse_address(wanted.thread)
        except ValueError as error:
            raise Refusal(400, f"thread: {error}") from error
        return Wake(
            key, "api", place, None if place.channel == "house" else place, PERSON, wanted.text, at
        )

    async def approve(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, Verdict)
        approval = request.match_info["id"]
        decision = Decide(approval, wanted.verdict, wanted.scope, wanted.word)
        outcome = await self._ports.approvals.answer(decision, Answerer(PERSON, PERSON))
        match outcome:
            case "ok":
                return answer({"ok": True})
            case "late":
                raise Refusal(409, "this question was answered before, or its time is over")
            case "unknown":
                raise Refusal(
                    404, "there is no such question; `ohmo approvals list` shows the open ones"
                )
            case Refused(_, text):
                raise Refusal(409, text)

    async def pair(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, Pairing)
        person = await self._ports.people.pair(wanted.code, wanted.role)
        if person is None:
            raise Refusal(
                404,
                "nobody asks with this code, or its time is over; let the person write to the bot"
                " again for a new one",
            )
        return answer(person)

    async def revoke(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, Revocation)
        if not await self._ports.people.revoke(wanted.channel, wanted.account, wanted.person):
            raise Refusal(
                404,
                f"{wanted.channel}: {wanted.person[:60]} was never let in; `ohmo pairing list`"
                " shows who was",
            )
        return answer({"ok": True})

    async def retry_arrival(self, request: web.Request) -> web.Response:
        thread, seq = request.match_info["thread"], int(request.match_info["seq"])
        await self._session(thread)
        if not await self._ports.repair.retry_arrival(thread, seq):
            raise Refusal(
                409,
                f"{thread[:60]}/{seq} did not fail; only what failed for good can be tried again",
            )
        return answer({"ok": True})

    async def retry_post(self, request: web.Request) -> web.Response:
        if not await self._ports.repair.retry_post(request.match_info["id"]):
            raise Refusal(409, "this is not a dead post; `ohmo outbox list` shows them")
        return answer({"ok": True})

    async def drop_post(self, request: web.Request) -> web.Response:
        if not await self._ports.repair.drop_post(request.match_info["id"]):
            raise Refusal(
                409, "this post does not wait any more; `ohmo outbox list` shows which do"
            )
        return answer({"ok": True})


class Tried(Wanted):
    """``arguments``: as text the tool's first one. ``mode`` null: the configured one.
    ``cwd``: empty for the workspace."""

    tool: str = Field(min_length=1, max_length=200)
    arguments: str | dict[str, Any] = ""
    mode: Mode | None = None
    role: Standing = "owner"
    cwd: str = Field(default="", max_length=4_096)


class GrantRoutes:
    def __init__(self, approvals: Approvals, trial: Trial | None) -> None:
        self._approvals = approvals
        self._trial = trial

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/permissions", self.list),
            web.post("/api/v1/permissions/{id}/revoke", self.revoke),
            web.post("/api/v1/permissions/test", self.test),
        ]

    async def list(self, _: web.Request) -> web.Response:
        """Oldest first."""
        return answer({"permissions": await self._approvals.remembered()})

    async def revoke(self, request: web.Request) -> web.Response:
        """The next call that it would have covered asks again."""
        if not await self._approvals.revoke_grant(request.match_info["id"]):
            raise Refusal(404, "there is no such permission; `ohmo permissions list` shows them")
        return answer({"ok": True})

    async def test(self, request: web.Request) -> web.Response:
        """What would become of a call; it is not made."""
        wanted = await body_of(request, Tried)
        if self._trial is None:
            raise Refusal(503, "nothing judges calls here")
        try:
            tried = await self._trial(
                wanted.tool, wanted.arguments, wanted.mode, wanted.role, wanted.cwd
            )
        except BadArguments as error:
            raise Refusal(400, " ".join(str(error).split())) from error
        return answer(tried)


class Change(Wanted):
    """Fields of a job as people write them; what is left out stays. ``set``: parameters of a
    recipe. ``preview``: say what it would be, write nothing."""

    name: str | None = Field(default=None, max_length=100)
    prompt: str | None = Field(default=None, max_length=_TEXT)
    schedule: str | None = Field(default=None, max_length=1_000)
    at: str | None = Field(default=None, max_length=100)
    every: _Span | None = None
    tz: str | None = Field(default=None, max_length=100)
    to: str | None = Field(default=None, max_length=1_000)
    thread: str | None = Field(default=None, max_length=500)
    rules: list[str] | None = Field(default=None, max_length=200)
    secrets: dict[str, str] | None = None
    deadline: _Span | None = None
    catch_up: str | None = None
    overlap: str | None = None
    when: str | None = None
    jitter: _Span | None = None
    retry: int | None = None
    expires: str | None = Field(default=None, max_length=100)
    recipe: str | None = Field(default=None, max_length=100)
    set: dict[str, str] | None = None
    enabled: bool | None = None
    preview: bool = False

    def fields(self) -> dict[str, object]:
        """An empty text is in them: of a job that there is it takes the field away."""
        return self.model_dump(exclude_none=True, exclude={"set", "enabled", "preview"})

    def filled(self) -> dict[str, object]:
        return {name: value for name, value in self.fields().items() if value != ""}


class CronRoutes:
    def __init__(self, desk: CronDesk) -> None:
        self._desk = desk

    def routes(self) -> list[web.RouteDef]:
        job = "/api/v1/cron/{name}"
        return [
            web.get("/api/v1/recipes", self.recipes),
            web.get("/api/v1/cron", self.list),
            web.post("/api/v1/cron", _refusing(self.create)),
            web.get(job, _refusing(self.show)),
            web.patch(job, _refusing(self.edit)),
            web.post(job, _refusing(self.edit)),
            web.delete(job, _refusing(self.remove)),
            web.get(f"{job}/history", _refusing(self.history)),
            web.post(f"{job}/run", _refusing(self.run)),
            web.post(f"{job}/pause", _refusing(self.pause)),
            web.post(f"{job}/resume", _refusing(self.resume)),
        ]

    async def list(self, _: web.Request) -> web.Response:
        return answer({"jobs": [await self._view(row) for row in await self._desk.list()]})

    async def recipes(self, _: web.Request) -> web.Response:
        """What a job can begin with; ``default`` null: the parameter must be given."""
        return answer({"recipes": [recipe_view(recipe) for recipe in self._desk.recipes()]})

    async def show(self, request: web.Request) -> web.Response:
        return answer(await self._view(await self._desk.job(request.match_info["name"])))

    async def create(self, request: web.Request) -> web.Response:
        """201 when it is stored. Whoever sends this holds the key: its rules and secrets are
        approved with it."""
        wanted = await body_of(request, Change)
        if wanted.preview:
            spec = self._desk.understand(wanted.filled(), wanted.set)
            return answer(dict(self._desk.looks(spec)))
        row = await self._desk.create(
            wanted.filled(), values=wanted.set, enabled=wanted.enabled is not False
        )
        return answer(await self._view(row), status=201)

    async def edit(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        wanted = await body_of(request, Change)
        fields = wanted.fields()
        if wanted.preview:
            return answer(self._desk.looks(await self._desk.changed(name, fields)))
        row = await (self._desk.edit(name, fields) if fields else self._desk.job(name))
        if wanted.enabled is not None:
            row = await (self._desk.resume if wanted.enabled else self._desk.pause)(name)
        return answer(await self._view(row))

    async def remove(self, request: web.Request) -> web.Response:
        await self._desk.remove(request.match_info["name"])
        return answer({"ok": True})

    async def history(self, request: web.Request) -> web.Response:
        limit = number(request, "limit", 50, 1_000)
        rows = await self._desk.history(request.match_info["name"], limit=limit)
        return answer({"occurrences": [occurrence_view(row) for row in rows]})

    async def run(self, request: web.Request) -> web.Response:
        return answer({"due": in_utc(await self._desk.run(request.match_info["name"]))}, status=202)

    async def pause(self, request: web.Request) -> web.Response:
        return answer(await self._view(await self._desk.pause(request.match_info["name"])))

    async def resume(self, request: web.Request) -> web.Response:
        return answer(await self._view(await self._desk.resume(request.match_info["name"])))

    async def _view(self, row: JobRow) -> object:
        return await self._desk.view(row)


def _refusing(
    handler: Callable[[web.Request], Awaitable[web.Response]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """What the desk refuses is said with one line."""

    async def handled(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except NoSuchJob as error:
            raise Refusal(404, str(error)) from error
        except (BadJob, ConfigError) as error:
            raise Refusal(400, str(error)) from error

    return handled
