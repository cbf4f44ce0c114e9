"""Set-up on the page: model, channels, people and rules. A secret goes in and never comes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Literal, TypeVar

from aiohttp import web
from pydantic import Field

from ohmo.contracts.errors import ConfigError
from ohmo.contracts.setup import ModelWish, PeopleSetup, Preset, Role, RulesSetup, SetUp, Stale
from ohmo.control.responses import Refusal, Wanted, answer, body_of

T = TypeVar("T")
Line = Annotated[str, Field(max_length=4_000, pattern=r"^[^\r\n\x00]*$")]
Lines = Annotated[tuple[Line, ...], Field(max_length=1_000)]
Version = Annotated[str, Field(max_length=100)]


class Model(Wanted):
    provider: Literal["auto", "anthropic", "openai", "offline"]
    base_url: Line = ""
    model: Line = ""
    key: Line = ""

    def wish(self) -> ModelWish:
        return ModelWish(self.provider, self.base_url.strip(), self.model.strip(), self.key.strip())


class ChosenModel(Model):
    version: Version


class Keys(Wanted):
    keys: Mapping[Annotated[str, Field(max_length=100)], Line]


class ChosenChannel(Keys):
    version: Version
    enabled: bool


class People(Wanted):
    version: Version
    owner: Lines
    admin: Lines
    user: Lines
    guest: Lines
    default_role: Role


class Rules(Wanted):
    version: Version
    preset: Preset
    allow: Lines
    ask: Lines
    deny: Lines


class SetupRoutes:
    """``desk`` makes what answers, when it is first needed."""

    def __init__(self, desk: Callable[[], SetUp]) -> None:
        self._make = desk
        self._made: SetUp | None = None

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/setup", self.state),
            web.post("/api/v1/setup/model/test", self.try_model),
            web.post("/api/v1/setup/model", self.choose_model),
            web.post("/api/v1/setup/channels/{name}/test", self.try_channel),
            web.post("/api/v1/setup/channels/{name}", self.set_channel),
            web.post("/api/v1/setup/people", self.set_people),
            web.post("/api/v1/setup/rules", self.set_rules),
        ]

    @property
    def _desk(self) -> SetUp:
        self._made = self._made or self._make()
        return self._made

    async def state(self, _: web.Request) -> web.Response:
        return answer(await _said(self._desk.state()))

    async def try_model(self, request: web.Request) -> web.Response:
        """Asks the endpoint for its models, and one of them for a word; writes nothing."""
        wanted = await body_of(request, Model)
        return answer(await _said(self._desk.try_model(wanted.wish())))

    async def choose_model(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, ChosenModel)
        return _written(await _said(self._desk.choose_model(wanted.version, wanted.wish())))

    async def try_channel(self, request: web.Request) -> web.Response:
        """Connects once; reads, sends and writes nothing."""
        wanted = await body_of(request, Keys)
        return answer(await _said(self._desk.try_channel(request.match_info["name"], wanted.keys)))

    async def set_channel(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, ChosenChannel)
        name = request.match_info["name"]
        return _written(
            await _said(
                self._desk.set_channel(
                    wanted.version, name, enabled=wanted.enabled, keys=wanted.keys
                )
            )
        )

    async def set_people(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, People)
        people = PeopleSetup(
            wanted.owner, wanted.admin, wanted.user, wanted.guest, wanted.default_role
        )
        return _written(await _said(self._desk.set_people(wanted.version, people)))

    async def set_rules(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, Rules)
        rules = RulesSetup(wanted.preset, "", wanted.allow, wanted.ask, wanted.deny)
        return _written(await _said(self._desk.set_rules(wanted.version, rules)))


def _written(version: str) -> web.Response:
    """202: it stands in the file; ``taken`` of the next reading says when the house runs with
    it."""
    return answer({"version": version}, status=202)


async def _said(work: Awaitable[T]) -> T:
    try:
        return await work
    except Stale as error:
        raise Refusal(409, str(error)) from error
    except ConfigError as error:
        raise Refusal(400, str(error)) from error
