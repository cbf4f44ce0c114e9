"""The API of jobs: made, changed, run and looked at by whoever holds the house's key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from pydantic import Field, StrictFloat, StrictInt

from ohmo.contracts.cron import BadJob, JobRow, NoSuchJob
from ohmo.contracts.errors import ConfigError
from ohmo.control.responses import Refusal, Wanted, answer, body_of, number
from ohmo.cron.desk import CronDesk
from ohmo.cron.reporting import occurrence_view, recipe_view
from ohmo.cron.spec import in_utc

_TEXT = 100_000
_Span = str | StrictInt | StrictFloat  # true is no second


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
            web.post("/api/v1/cron", _told(self.create)),
            web.get(job, _told(self.show)),
            web.patch(job, _told(self.edit)),
            web.post(job, _told(self.edit)),
            web.delete(job, _told(self.remove)),
            web.get(f"{job}/history", _told(self.history)),
            web.post(f"{job}/run", _told(self.run)),
            web.post(f"{job}/pause", _told(self.pause)),
            web.post(f"{job}/resume", _told(self.resume)),
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
            return answer(self._preview(wanted))
        row = await self._desk.create(
            wanted.filled(), values=wanted.set, enabled=wanted.enabled is not False
        )
        return answer(await self._view(row), status=201)

    def _preview(self, wanted: Change) -> dict[str, object]:
        spec = self._desk.understand(wanted.filled(), wanted.set)
        return dict(self._desk.looks(spec))

    async def edit(self, request: web.Request) -> web.Response:
        name, wanted = request.match_info["name"], await body_of(request, Change)
        if wanted.preview:
            return answer(self._desk.looks(await self._desk.changed(name, wanted.fields())))
        row = (
            await self._desk.edit(name, wanted.fields())
            if wanted.fields()
            else await self._desk.job(name)
        )
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


def _told(
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
