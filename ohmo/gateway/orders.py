"""Slash commands: who may say them, what each effect does, and what commands look at, told in
words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from channels.contract import Clock, Inbound
from channels.record import record
from ohmo.ambient import NewId
from ohmo.approvals.cards import closing
from ohmo.commands.contract import (
    Choose,
    Command,
    Decide,
    Desk,
    Effect,
    Order,
    Reply,
    Restart,
    Retry,
    RunNow,
    Standing,
    Stop,
    is_order,
    parse,
    unknown,
)
from ohmo.contracts.inwriter import Rest, no_rest
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.store import Store
from ohmo.contracts.turns import Accepted, ThreadSettings
from ohmo.gateway.answering import Answering, Ended, notice


@record
class Turns:
    """What the running turns are told, and tell."""

    stopped: Callable[[str], Awaitable[None]]  # what was said in a thread has been ended
    arrived: Callable[[str, bool], None]  # a message; whether the running turn shall read it now
    chose: Callable[[str, ThreadSettings], None] = lambda _, __: None  # what holds from now on
    # How far a draft has grown: stopping it takes nothing away that was read.
    drafted: Callable[[str], str | None] = lambda _: None
    # What a turn in a thread was saying, which is shown with that note.
    rest: Callable[[str, str], Rest] = lambda _, __: no_rest


@record
class OrdersDeps:
    """What commands need of the house."""

    store: Store
    commands: Mapping[str, Command]
    desk: Desk
    turns: Turns
    answering: Answering
    new_id: NewId
    clock: Clock
    restart: Callable[[], None] = lambda: None


class Orders:
    """Each effect, its reply and the command's ending are one transaction."""

    def __init__(self, deps: OrdersDeps) -> None:
        self._deps = deps

    async def carry_out(
        self, accepted: Accepted, said: Inbound, standing: Standing
    ) -> Ended | None:
        """How the command ends; None: its effect's own transaction ended it."""
        known = self._deps.commands
        parsed = parse(said.text)
        if parsed is None or (parsed[0] not in known and not is_order(said.text, known)):
            # Somebody who was let in between the words and their handling.
            reason = "said before this person was let in"
            return self._refused(said, reason, "Please say that again.")
        name, argument = parsed
        command = known.get(name)
        if command is None:
            return self._refused(said, f"there is no /{name}", unknown(name, known))
        if standing not in command.standings:
            reason = f"/{command.name} is not for a {standing}"
            return self._refused(said, reason, f"`/{command.name}` is not for a {standing}.")
        info = await self._deps.desk.thread(accepted.thread)
        settings = info.settings.at(self._deps.clock()) if info is not None else ThreadSettings()
        order = Order(
            accepted.thread, said.address, said.person.id, standing, argument, settings, said
        )
        effect = await command.run(order, self._deps.desk)
        effect = command.heeded(effect, argument)
        return await self._apply(accepted, said, effect, owner=standing == "owner")

    async def _apply(
        self, accepted: Accepted, said: Inbound, effect: Effect, *, owner: bool
    ) -> Ended | None:
        match effect:
            case Reply(text):
                return self._answered(said, text)
            case Choose(text, chosen):

                async def chose() -> None:
                    self._deps.turns.chose(accepted.thread, chosen)

                posts = (self._notice(said, text),)
                return Ended("answered", posts=posts, settings=chosen, then=chose)
            case Stop(text, fresh):
                thread = accepted.thread
                turns = self._deps.turns
                note = f"stopped by {said.person.name or said.person.id}"
                await self._deps.store.stop(
                    thread,
                    accepted.seq,
                    person=said.person.id,
                    fresh=fresh,
                    posts=[self._notice(said, text)],
                    closing=closing(self._deps.new_id, note, turns.drafted),
                    rest=turns.rest(thread, note),
                )
                await turns.stopped(thread)
                return None
            case RunNow(lapsed):
                _, text = await self._deps.answering.run_late(said, lapsed, owner=owner)
                return self._answered(said, text)
            case Retry(letters):
                for seq in letters:
                    await self._deps.store.retry_arrival(accepted.thread, seq)
                return Ended("answered")
            case Restart(text):

                async def restart() -> None:
                    self._deps.restart()

                return Ended("answered", posts=(self._notice(said, text),), then=restart)
            case Decide() as decision:
                return await self._deps.answering.decide(accepted, said, decision, owner=owner)

    def _answered(self, said: Inbound, text: str) -> Ended:
        return Ended("answered", posts=(self._notice(said, text),))

    def _refused(self, said: Inbound, reason: str, text: str) -> Ended:
        return Ended("refused", reason, (self._notice(said, text),))

    def _notice(self, said: Inbound, text: str) -> PostRow:
        return notice(self._deps.new_id, said.address, text)
