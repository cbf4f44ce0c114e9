"""One server: a supervised task owns its session from connect to close. Calls travel to that task
and their answers back, so that no cancel scope of the SDK ever leaves it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import cast

import structlog

from channels.record import record
from ohmo.content import one_line as plain
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.mcp import ServerReport, State
from ohmo.contracts.messages import Json
from ohmo.contracts.sandbox import Programs
from ohmo.lifecycle import failure_of, within
from ohmo.mcp.contract import Answer, Connect, Definition, Endpoint, ServerFailed, Session
from ohmo.mcp.pins import Pins
from ohmo.mcp.tools import BadSchema, Finish, McpTool
from ohmo.processes.process_tree import MARK

log = structlog.get_logger("ohmo.mcp")
CONNECT = 30.0  # seconds to connect, initialize and list
CALL = 120.0  # seconds of one call
SHORTEST, LONGEST = 1.0, 300.0  # seconds before it is tried again
QUIET = 60.0  # seconds of a life after which the back-off forgets
MOST_TOOLS = 1_000
_SHOWN = 4_000  # characters of what a tool says that waits
_PLAIN = ("type", "title", "$schema")  # of a schema, what says nothing of arguments
_ALIKE = 100  # characters that are as before, of which the last are left


@record
class Times:
    """In seconds."""

    connect: float = CONNECT
    call: float = CALL
    shortest: float = SHORTEST  # also between two lists of tools
    longest: float = LONGEST


@record
class _Order:
    definition: Definition
    arguments: Mapping[str, Json]
    answer: asyncio.Future[Answer]


class Server:
    """``endpoint``: reveals its secrets; raises ConfigError. ``changed`` is called after its tools
    have, ``wanted`` when somebody calls one. ``programs``: around one; None: there are no walls."""

    def __init__(
        self,
        name: str,
        kind: str,
        endpoint: Callable[[], Endpoint],
        pins: Pins,
        finish: Finish,
        changed: Callable[[], None],
        wanted: Callable[[], None],
        times: Times,
        programs: Programs | None = None,
    ) -> None:
        self.name = name
        self._programs = programs
        self._kind = kind
        self._endpoint = endpoint
        self._pins = pins
        self._finish = finish
        self._changed = changed
        self._wanted = wanted
        self._times = times
        self._state: State = "waiting"
        self._error = ""
        self._offered: list[Definition] = []
        self._off: dict[str, str] = {}  # a tool's name -> why
        self._waiting: Mapping[str, Definition] = {}  # for the owner's word
        self._told: Mapping[str, str] = {}  # what is new of each of these
        self._unfit: Mapping[str, str] = {}  # of its list, and why
        self._pinning = asyncio.Lock()
        self._settled = asyncio.Event()  # set: connected, or failed
        self._listed = asyncio.Event()  # set: its tools were asked for since ``test``
        self._look = asyncio.Event()  # set: they shall be asked for again
        self._orders: asyncio.Queue[_Order] = asyncio.Queue()
        self._open: set[asyncio.Future[Answer]] = set()  # somebody waits for each
        self.tools: Mapping[str, McpTool] = {}

    async def prepare(self) -> None:
        """What was approved earlier is there before the server is."""
        with suppress(ServerFailed):  # ``run`` says so
            await asyncio.to_thread(self._pins.read)
            self._show()

    async def run(self, sdk: Callable[[], Awaitable[Connect]]) -> None:
        """Until it is cancelled: then it is no server of the house any more."""
        pause = self._times.shortest
        loop = asyncio.get_running_loop()
        try:
            while True:
                began = loop.time()
                self._state = "connecting"
                self._settled.clear()
                self._fail(one_line(await failure_of(self._life(sdk))))
                if loop.time() - began > QUIET:  # longer than it may take to connect
                    pause = self._times.shortest
                what = {"server": self.name, "error": self._error, "again_in": pause}
                log.warning("mcp_server_failed", **what)
                with suppress(TimeoutError):  # ``test`` does not wait for the back-off
                    await within(pause, self._look.wait())
                self._look.clear()  # once for each word: one that is down is not asked for ever
                pause = min(pause * 2, self._times.longest)
        finally:
            self._fail("it is not configured any more")

    async def ask(self, definition: Definition, arguments: Mapping[str, Json]) -> Answer:
        """Waits for one that is connected to just now."""
        self._wanted()
        if self._state in ("waiting", "connecting"):
            with suppress(TimeoutError):
                await within(self._times.connect, self._settled.wait())
        if self._state != "connected":
            why = f" ({self._error})" if self._error else ""
            raise ServerFailed(f"it is not connected now{why}; the call was not made")
        if definition.name in self._waiting:
            word = f"the owner looks at it and allows it with `ohmo mcp approve {self.name}`"
            raise ServerFailed(f"{definition.name} changed since it was approved; {word}")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open.add(answer)
        answer.add_done_callback(self._open.discard)
        self._orders.put_nowait(_Order(definition, arguments, answer))
        return await answer

    async def test(self) -> None:
        """Its tools are asked for anew, or it is connected to now."""
        self._listed.clear()
        self._look.set()
        with suppress(TimeoutError):
            await within(self._times.connect, self._listed.wait())

    async def approve(self) -> int:
        """What it offers at this moment, whatever it says while that is written."""
        offered, count = self._offered, len(self._waiting)
        if count:
            async with self._pinning:
                await asyncio.to_thread(self._pins.take, offered, approved=True)
                await self._pin(self._offered)
        return count

    def report(self) -> ServerReport:
        waiting = sorted(self._waiting.items())
        digests = "".join(each.digest for _, each in waiting)
        return ServerReport(
            self.name,
            self._kind,  # pyright: ignore[reportArgumentType] - of the configuration
            self._state,
            tuple(sorted(self.tools)),
            tuple(f"{tool}: {why}" for tool, why in sorted(self._off.items())),
            self._error,
            tuple(f"{name}: {self._told[name]}" for name, _ in waiting),
            sha256(digests.encode()).hexdigest() if waiting else "",
        )

    def _news(self, offered: Definition) -> str:
        """What the owner is to read: whatever of it may instruct the model, from where it begins to
        be another."""
        pin = self._pins.pins.get(offered.name)
        was = pin.definition if pin is not None else None
        says, takes = offered.description, _arguments(offered)
        if was is None:
            what, says = "new", f"{says}; it takes {takes}" if takes else says
        elif was.description != says:
            what, says = "it says something else", _since(was.description, says)
            if was.schema != offered.schema:
                says = f"{says}; it takes {takes or 'nothing'}"
        elif was.schema != offered.schema:
            what, says = "it takes other arguments", _since(_arguments(was), takes)
        else:
            what = "it claims something else of itself"
        says = plain(says)
        cut = f"… (cut: {len(says) - _SHOWN} characters more)" if len(says) > _SHOWN else ""
        return f"{what}: {says[:_SHOWN]}{cut}"

    async def _life(self, sdk: Callable[[], Awaitable[Connect]]) -> None:
        """From connect to close, in one task. Returns never; raises why it is over."""
        self._look.clear()
        connect = await sdk()
        await asyncio.to_thread(self._pins.read)
        endpoint = await asyncio.to_thread(self._endpoint)
        if endpoint.kind == "stdio":  # what a killed house left of it is known by this
            mark = {MARK: f"mcp:{self._pins.path}"}
            env = {**(endpoint.env or {}), **mark}
            endpoint = replace(endpoint, env=env, programs=self._programs)
        deadline = asyncio.timeout(self._times.connect)
        try:
            async with deadline, connect(endpoint, self._look.set) as session:
                deadline.reschedule(None)
                await self._list(session)
                self._state, self._error = "connected", ""
                self._settled.set()
                await self._serve(session)
        except TimeoutError:
            if not deadline.expired():
                raise
            what = f"it did not connect and initialize within {self._times.connect:.0f} s"
            raise ServerFailed(what) from None

    async def _serve(self, session: Session) -> None:
        running: set[asyncio.Task[None]] = set()
        over = asyncio.ensure_future(session.ended())
        order = asyncio.ensure_future(self._orders.get())
        look = asyncio.ensure_future(self._again())
        try:
            while True:
                every = {over, order, look, *running}
                done, _ = await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
                if order in done and order.result().answer.done():  # stopped meanwhile
                    order = asyncio.ensure_future(self._orders.get())
                elif order in done:
                    call = asyncio.create_task(_carry(session, order.result(), self._times.call))
                    order.result().answer.add_done_callback(
                        lambda answer, call=call: call.cancel() if answer.cancelled() else None
                    )
                    running.add(call)
                    order = asyncio.ensure_future(self._orders.get())
                for task in [task for task in done if task in running]:
                    running.discard(task)
                    if not task.cancelled():
                        task.result()
                if over in done:
                    raise ServerFailed(over.result())
                if look in done:
                    await self._list(session)
                    look = asyncio.ensure_future(self._again())
        finally:
            parts = {over, order, look, *running}
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)

    async def _again(self) -> None:
        """Its tools shall be asked for; one that says so all the time is asked now and then."""
        await asyncio.sleep(self._times.shortest)
        await self._look.wait()

    async def _list(self, session: Session) -> None:
        self._look.clear()
        try:
            offer = await within(self._times.connect, session.definitions())
        except TimeoutError:
            what = f"it did not tell its tools within {self._times.connect:.0f} s"
            raise ServerFailed(what) from None
        unfit, offered = dict(offer.left_out), list(offer.tools)
        if len(offered) > MOST_TOOLS:
            unfit["..."] = f"it has {len(offered)} tools; the first {MOST_TOOLS} are used"
        if unfit != self._unfit:
            log.warning("mcp_tools_left_out", server=self.name, tools=unfit)
        async with self._pinning:
            self._unfit = unfit
            await self._pin(offered[:MOST_TOOLS])
        self._listed.set()

    async def _pin(self, offered: list[Definition]) -> None:
        """What is offered, waits and is told of it changes at one moment."""
        waiting = await asyncio.to_thread(self._pins.take, offered)
        told = await asyncio.to_thread(lambda: {each.name: self._news(each) for each in waiting})
        self._offered, self._told = offered, told
        self._waiting = {each.name: each for each in waiting}
        self._show()

    def _show(self) -> None:
        """A tool that changed stays as it was approved, so that the bytes of sessions stay, and is
        not called."""
        tools: dict[str, McpTool] = {}
        off = dict(self._unfit)
        before = {tool.definition.name: tool for tool in self.tools.values()}
        for pin in self._pins.pins.values():
            if not pin.there:
                continue
            try:
                tool = before.get(pin.definition.name)
                if tool is None or tool.definition != pin.definition:
                    tool = McpTool(self.name, pin.definition, self.ask, self._finish)
            except BadSchema as error:
                off[pin.definition.name] = str(error)
                continue
            if tool.name in tools:
                off[pin.definition.name] = f"another one is called {tool.name} already"
                continue
            tools[tool.name] = tool
        self._off = off
        if tools != self.tools:
            self.tools = tools
            self._changed()

    def _fail(self, error: str) -> None:
        """Also a call that its task had taken and not begun ends: nobody waits for ever."""
        self._state, self._error = "failed", error
        self._listed.set()
        self._settled.set()
        while not self._orders.empty():
            self._orders.get_nowait()
        for answer in [answer for answer in self._open if not answer.done()]:
            what = f"the connection ended ({error}); what the call did is unknown"
            answer.set_exception(ServerFailed(what))


async def _carry(session: Session, order: _Order, seconds: float) -> None:
    """Ends with the answer. Raises ServerFailed: the server does not answer any more at all."""
    try:
        answer = await session.call(order.definition, order.arguments, seconds)
    except (ServerFailed, TimeoutError) as error:
        if not order.answer.done():
            order.answer.set_exception(error)
        if not await session.alive():
            raise ServerFailed("it does not answer any more") from error
        return
    if not order.answer.done():
        order.answer.set_result(answer)


def _arguments(tool: Definition) -> str:
    """All that is said of them; empty: it takes none."""
    says = {key: each for key, each in tool.schema.items() if each and key not in _PLAIN}
    return json.dumps(says, ensure_ascii=False) if says else ""


def _since(before: str, now: str) -> str:
    """What follows where both are alike."""
    pairs = enumerate(zip(before, now, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(before), len(now)))
    return now if same < _ALIKE else f"…{now[same - _ALIKE // 4 :]}"


def one_line(error: BaseException | None) -> str:
    """The innermost cause of what a task group raised."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    text = plain(str(error))[:300]
    if isinstance(error, ServerFailed | ConfigError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
