"""Asks the hooks before a tool runs, and tells the others of what happened."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import structlog

from channels.record import Recent, record
from ohmo.contracts.agent import CompactionProgress, Event, TurnEnded
from ohmo.contracts.hooks import OWN_FILE, About, Hooked, HookWord, Spoken
from ohmo.contracts.trust import Candidate
from ohmo.hooks.acting import Acting
from ohmo.hooks.answer import Said, read
from ohmo.hooks.files import HookFiles
from ohmo.hooks.hook import Hook
from ohmo.hooks.payload import concerns
from ohmo.lifecycle import outcome_of

T = TypeVar("T")
log = structlog.get_logger("ohmo.hooks")
WAITING = 256  # events that nobody waits for
AT_ONCE = 4
_CALLS = 256  # of which is known what was said of them
_THREADS = 4096  # of which is known what began there


@record
class Present:
    """Of a thread: its session and where it works."""

    session: str
    cwd: Path


@record
class Begun:
    """What hooks were told last that it began, or goes on. ``session``: empty: it was ended."""

    session: str
    summed_up: int


Find = Callable[[str], Awaitable[Present | None]]


async def say(acting: Acting, hook: Hook, what: Hooked) -> Said:
    """What one hook says, and in how many seconds."""
    began = time.monotonic()
    said = read(hook, what.event, await acting.act(hook, what))
    return replace(said, seconds=time.monotonic() - began)


class HookDesk:
    """``present``: where a thread is now. ``redact`` takes secrets out of what stands in the
    log and on cards. ``kept``: the folder of what was let go on, a file for each call. ``about``
    reads their ``if``."""

    def __init__(
        self,
        files: HookFiles,
        acting: Acting,
        present: Find,
        redact: Callable[[str], str],
        kept: Path,
        about: About,
    ) -> None:
        self._about = about
        self._kept = kept
        self._files = files
        self._acting = acting
        self._present = present
        self._redact = redact
        self._waiting: asyncio.Queue[Hooked] = asyncio.Queue(WAITING)
        self._begun = Recent[str, Begun](_THREADS)
        self.dropped = 0

    @property
    def skipped(self) -> Sequence[str]:
        return self._files.packaged.broken

    def none_in(self, _: Path) -> bool:
        return False

    async def candidates(self, folder: Path) -> list[Candidate]:
        return await self._files.candidates(folder)

    async def before(self, what: Hooked) -> HookWord:
        """One after the other, each with what the last one made of the call; the first block ends
        it. What let it go on is not asked again about the same when a person has answered, also
        after a restart. Raises StoreError."""
        standing = await self._files.of(what.cwd)
        if standing.broken:
            return HookWord(f"{standing.broken}; no tool runs until it is mended", by=OWN_FILE)
        whole = repr((what, standing.hooks))  # functions of packages are others in another life
        kept = self._kept / f"{sha256(whole.encode('utf-8', 'backslashreplace')).hexdigest()}.json"
        known = await asyncio.to_thread(_read, kept)
        word = known or await self._asked(what, standing.hooks)
        if known is None and standing.hooks and not word.block:
            await asyncio.to_thread(_keep, kept, word)
        return word

    async def _asked(self, what: Hooked, hooks: tuple[Hook, ...]) -> HookWord:
        word, by = HookWord(), ""
        call = what.call
        for hook in hooks:
            what = replace(what, call=call)
            if not concerns(hook, what, self._about):
                continue
            said = await say(self._acting, hook, what)
            self._tell(hook, said)
            if said.block:
                return HookWord(self._redact(said.block), by=hook.name)
            spoken = Spoken(hook.name, self._redact(said.context))
            context = (spoken,) if said.context else ()
            if said.arguments is not None and call is not None:
                call = replace(call, arguments=said.arguments)
                word = replace(word, arguments=said.arguments)
            if said.ask or said.arguments is not None:
                by = f"{by}, {hook.name}" if by else hook.name
            ask = word.ask or (f"{hook.name}: {self._redact(said.ask)}" if said.ask else "")
            looked = (hook.name,) if hook.type == "agent" else ()
            word = replace(word, ask=ask, context=(*word.context, *context), by=by)
            word = replace(word, looked=(*word.looked, *looked))
        return word

    async def after(self, what: Hooked) -> Sequence[Spoken]:
        """Those that are only told wait with the other observers."""
        hooks = await self._concerned(what)
        if any(not hook.waited_for(what.event) for hook in hooks):
            self.observe(what)
        return await self._heard(what, hooks)

    async def beginning(self, what: Hooked, summed_up: int) -> Sequence[Spoken]:
        """It ends the session before it there, unless that was left before."""
        last = self._begun.get(what.thread)
        now = Begun(what.session, summed_up)
        if last == now:
            return ()
        if last is not None and last.session == what.session:
            what = replace(what, detail="compact")
        elif last is not None and what.detail == "startup":
            what = replace(what, detail="clear")
        if last is not None and last.session not in ("", what.session):
            self.observe(replace(what, event="session_end", session=last.session, detail="clear"))
        self._begun[what.thread] = now
        try:
            return await self._or_nothing(what, self.after(what))
        except asyncio.CancelledError:  # nobody read what they say
            self._begun.pop(what.thread, None)
            raise

    async def ending(self, what: Hooked) -> Sequence[Spoken]:
        async def ask() -> Sequence[Spoken]:
            return await self._heard(what, await self._concerned(what))

        return await self._or_nothing(what, ask())

    async def _concerned(self, what: Hooked) -> list[Hook]:
        standing = await self._files.of(what.cwd)
        return [hook for hook in standing.hooks if concerns(hook, what, self._about)]

    async def _heard(self, what: Hooked, hooks: Sequence[Hook]) -> Sequence[Spoken]:
        """Of those that are waited for: all at once; what they say is in the order of their
        files."""
        asked = [hook for hook in hooks if hook.waited_for(what.event)]
        async with asyncio.TaskGroup() as group:
            said = [group.create_task(say(self._acting, hook, what)) for hook in asked]
        for hook, task in zip(asked, said, strict=True):
            self._tell(hook, task.result())
        every = [task.result() for task in said]
        if any(one.ends for one in every):
            return ()
        return [Spoken(one.hook, self._redact(one.context)) for one in every if one.context]

    def observe(self, what: Hooked) -> None:
        """Never waits; when too many wait it is dropped, and counted."""
        try:
            self._waiting.put_nowait(what)
        except asyncio.QueueFull:
            if not self.dropped:
                log.warning("hook_events_dropped", behind=WAITING)
            self.dropped += 1

    def hear(self, thread: str, event: Event) -> None:
        """From a turn: what is no tool."""
        match event:
            case TurnEnded(turn, outcome, text) if outcome in ("answered", "failed", "stopped"):
                what = Hooked("turn_end", turn, thread, Path(), detail=outcome, text=text)
            case CompactionProgress(turn, "compact_start"):
                what = Hooked("pre_compact", turn, thread, Path(), detail="auto")
            case CompactionProgress(turn, "compact_end"):
                what = Hooked("post_compact", turn, thread, Path(), detail="auto")
            case _:
                return
        self.observe(what)

    def left(self, thread: str) -> None:
        self.observe(Hooked("session_end", "", thread, Path(), detail="clear"))

    async def run(self) -> None:
        """Until cancelled: tells the observers, ``AT_ONCE`` events at a time."""
        width = asyncio.Semaphore(AT_ONCE)

        async def tell(what: Hooked) -> None:
            try:
                await self._or_nothing(what, self._observed(what))
            finally:
                width.release()

        async with asyncio.TaskGroup() as group:
            while True:
                placed = await self._placed(await self._waiting.get())
                if placed is not None:
                    await width.acquire()
                    group.create_task(tell(placed), name="hooks.observe")

    async def _placed(self, what: Hooked) -> Hooked | None:
        """With session and folder, where the event did not bring them."""
        if what.session:
            return what
        found = await self._present(what.thread)
        if found is None:
            return None
        if what.event != "session_end":
            return replace(what, session=found.session, cwd=found.cwd)
        last = self._begun.get(what.thread)
        if last is None or last.session in ("", found.session):
            return None
        self._begun[what.thread] = Begun("", 0)
        return replace(what, session=last.session, cwd=found.cwd)

    async def _observed(self, what: Hooked) -> None:
        async def one(hook: Hook) -> None:
            self._tell(hook, await say(self._acting, hook, what))

        async with asyncio.TaskGroup() as group:
            for hook in await self._concerned(what):
                if not hook.waited_for(what.event):
                    group.create_task(one(hook), name="hooks.one")

    async def _or_nothing(self, what: Hooked, said: Awaitable[T]) -> T | tuple[()]:
        """What they say; what fails is logged."""
        outcome = await outcome_of(said)
        if not isinstance(outcome, Exception):
            return outcome
        words = f"{type(outcome).__name__}: {outcome}"
        log.error("hooks_failed", hook_event=what.event, error=words, exc_info=outcome)
        return ()

    def _tell(self, hook: Hook, said: Said) -> None:
        log.info("hook", hook=hook.name, said=said.short, seconds=round(said.seconds, 3))
        for line in said.findings:
            log.warning("hook_finding", hook=hook.name, finding=self._redact(line)[:500])


def _read(path: Path) -> HookWord | None:
    """Blocks. None: it is not known."""
    try:
        found: Any = json.loads(path.read_bytes())
        found["context"] = tuple(Spoken(**one) for one in found["context"])
        found["looked"] = tuple(found["looked"])
        return HookWord(**found)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _keep(path: Path, word: HookWord) -> None:
    """Blocks. About what cannot be kept hooks are asked again."""
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(word)), encoding="utf-8")
        files = list(path.parent.iterdir())
        if len(files) > 2 * _CALLS:
            for old in sorted(files, key=lambda file: file.stat().st_mtime)[:-_CALLS]:
                old.unlink(missing_ok=True)
