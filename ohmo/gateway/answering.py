"""What people do in a chat to answer: a press of a button, a reaction, words. Who may, and what
comes of it, is ``ohmo.approvals``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from channels.contract import Address, Answer, Inbound, Outbound, Reacted, Said
from channels.record import record
from ohmo.ambient import NewId, derived
from ohmo.approvals.answering import NOT_YOURS, Answerer, Approvals, Refused
from ohmo.approvals.cards import elsewhere, is_whole, parse_choice, stands, tried_again
from ohmo.approvals.lapsing import LateAnswers, parse_run
from ohmo.approvals.questions import Shown, aimed, permission_under, verdict_of
from ohmo.commands.contract import Decide, Desk
from ohmo.contracts.outbox import Asked, Lapsed, PostRow, Scope
from ohmo.contracts.store import Store
from ohmo.contracts.turns import Accepted, Ending, PersonRow, ThreadSettings
from ohmo.gateway.access import Access, is_free
from ohmo.lifecycle import failure_of, within
from ohmo.sessions.user_steps import parse_again

_SCOPES: dict[str, Scope] = {"session": "session", "always": "always", "workspace": "workspace"}
_CLOSED = "This question is closed."
_LATE = "Too late: this question is closed."
COURTESY = 5.0  # seconds the platform gets to show that a button was pressed


async def no_effect() -> None:
    """Nothing follows the commit."""


@record
class Ended:
    """How intake ends an arrival that is handled beside the mailbox: one transaction; ``then`` is
    done after its commit."""

    ending: Ending
    reason: str = ""
    posts: tuple[PostRow, ...] = ()
    person: PersonRow | None = None
    settings: ThreadSettings | None = None
    then: Callable[[], Awaitable[None]] = no_effect


def notice(new_id: NewId, address: Address, text: str) -> PostRow:
    """A line of the house's own."""
    return PostRow(new_id(), "notice", Outbound(address, text))


@record
class AnsweringDeps:
    """What an answer in a chat needs of the house."""

    store: Store
    access: Access
    desk: Desk
    approvals: Approvals
    late: LateAnswers
    cards: Callable[[], Awaitable[Sequence[Shown]]]  # of jobs and webhooks, where they stand
    acknowledge: Callable[[Answer, str], Awaitable[None]]  # shows on the platform what came of it
    new_id: NewId


class Answering:
    """Each method returns how the arrival ends; None: the answer's own transaction ended it."""

    def __init__(self, deps: AnsweringDeps) -> None:
        self._deps = deps

    async def pressed(self, accepted: Accepted, answer: Answer) -> Ended | None:
        """A button of a card: of one that is open, "Run it now" or "Answer it now" of one that
        nobody answered in time, or "Try again" below a failure."""
        if (late := parse_run(answer.choice)) is not None:
            return await self._late(answer, late)
        if (turn := parse_again(answer.choice)) is not None:
            return await self._try_again(accepted, answer, turn)
        pressed = parse_choice(answer.choice)
        asked = await self._deps.store.question(pressed[1]) if pressed is not None else None
        if pressed is None or asked is None:
            return self._refused(answer, "this question is closed", _CLOSED)
        if not self._deps.access.may_answer(asked, answer):
            return self._refused(
                answer, f"{answer.person.id} may not answer this question", NOT_YOURS.text
            )
        if not await self._stands_on_its_card(asked, answer):
            return self._refused(
                answer,
                "pressed on another message than this question's card",
                "This is not the card of this question.",
            )
        choices = asked.ask.question.choices
        if pressed[0] >= len(choices):
            return self._refused(answer, "no such choice", "There is no such choice.")
        choice = choices[pressed[0]]
        if asked.ask.question.kind == "question":
            decision = Decide(asked.ask.id, "allowed", word=choice.label)
        elif choice.value == "deny":
            decision = Decide(asked.ask.id, "denied")
        else:
            decision = Decide(asked.ask.id, "allowed", _SCOPES.get(choice.value, "once"))
        if decision.verdict == "allowed" and not is_whole(asked, answer.address):
            return self._refused(answer, "too long to be allowed in a chat", elsewhere(asked))
        outcome = await self._deps.approvals.answer(decision, self._by(accepted, answer))
        if isinstance(outcome, Refused):
            return self._refused(answer, outcome.reason, outcome.text)
        await self._acknowledge(answer, choice.label if outcome == "ok" else _LATE)
        return None

    async def reacted(self, accepted: Accepted, reacted: Reacted) -> Ended | None:
        """A reaction to the card of a permission is its button; to anything else, or by somebody
        else, it is only a reaction, and nobody is told off for it."""
        verdict = verdict_of(reacted.emoji)
        asked = await permission_under(self._deps.store, reacted)
        if asked is None or verdict is None:
            return Ended("noted", "no open question stands there")
        if not self._deps.access.may_answer(asked, reacted):
            return Ended("refused", f"{reacted.person.id} may not answer this question")
        by = self._by(accepted, reacted, quiet=True)
        outcome = await self._deps.approvals.answer(Decide(asked.ask.id, verdict), by)
        return Ended("refused", outcome.reason) if isinstance(outcome, Refused) else None

    async def in_words(self, accepted: Accepted, said: Inbound) -> Ended | None:
        """A message that came while a question of the thread waited for words. Words never answer a
        permission that came meanwhile."""
        open_here = await self._deps.store.open_questions(accepted.thread)
        free = [one for one in open_here if one.state == "asked" and is_free(one.ask.question)]
        theirs = aimed(await self._deps.cards(), said)
        if theirs is not None and free and not theirs.meant(said):
            theirs = None
        if theirs is not None and self._deps.access.may_answer(theirs.asked, said):
            word = theirs.chosen(said) or said.text
            decision = Decide(theirs.asked.ask.id, "allowed", word=word)
            return await self.decide(accepted, said, decision)
        if free:
            decision = Decide(free[0].ask.id, "allowed", word=said.text)
            return await self.decide(accepted, said, decision)
        text = "The question this answered is closed. Please say it again as a message."
        late = notice(self._deps.new_id, said.address, text)
        return Ended("refused", "the question is closed", (late,))

    async def decide(
        self, accepted: Accepted, said: Inbound, decision: Decide, *, owner: bool = False
    ) -> Ended | None:
        """In words or by a command. ``owner``: may answer for anybody."""
        by = self._by(accepted, said, owner=owner)
        outcome = await self._deps.approvals.answer(decision, by)
        if not isinstance(outcome, Refused):
            return None
        told = notice(self._deps.new_id, said.address, outcome.text)
        return Ended("refused", outcome.reason, (told,))

    async def run_late(
        self, said: Said, lapsed: Lapsed, *, owner: bool = False
    ) -> tuple[bool, str]:
        """Whether it is a new request, and what is said about it, CommonMark."""
        may = owner or self._deps.access.may_answer(lapsed.asked, said)
        return await self._deps.late.run(said, lapsed, may=may)

    def _by(
        self, accepted: Accepted, said: Said, *, owner: bool = False, quiet: bool = False
    ) -> Answerer:
        def may(asked: Asked) -> bool:
            return owner or self._deps.access.may_answer(asked, said)

        late = () if quiet else (notice(self._deps.new_id, said.address, _LATE),)
        return Answerer(
            person=said.person.id,
            name=said.person.name or said.person.id,
            may=may,
            place=said.address,
            said_at=said.at if isinstance(said, Inbound) else None,
            arrival=(accepted.thread, accepted.seq),
            late=late,
        )

    async def _stands_on_its_card(self, asked: Asked, answer: Answer) -> bool:
        """A platform lets people forward a card with its buttons, and some programs send what
        stands on none. Until the platform has named the card, its chat is all that is known of it;
        of a card whose row was let go of (``retention``) while its question stays open, the
        conversation's."""
        row = await self._deps.store.post_row(asked.ask.id)
        places = [asked.address] if row is None else [row.row.outbound.address, stands(row)]
        parts = row.parts if row is not None else ()
        known = [state.receipt.message for state in parts if state.receipt is not None]
        here = answer.address
        chats = {(where.channel, where.account, where.chat) for where in places}
        same_chat = (here.channel, here.account, here.chat) in chats
        return same_chat and (not known or answer.message in known)

    async def _try_again(self, accepted: Accepted, answer: Answer, turn: str) -> Ended:
        """What died with this turn comes back, in its order. Done twice it is the same."""
        letters = await self._deps.desk.failed(accepted.thread, turn)
        standing = self._deps.access.standing_of(answer)
        theirs = all(letter.person == answer.person.id for letter in letters)
        if standing is None or (standing == "guest" and not theirs):
            return self._refused(
                answer,
                f"{answer.person.id} may not try this again",
                "This is not yours to try again.",
            )
        for letter in letters:
            await self._deps.store.retry_arrival(accepted.thread, letter.seq)
        failure = await self._deps.store.post_row(derived("failed", turn))
        posts = (tried_again(self._deps.new_id)(failure),) if failure is not None else ()
        text = "Trying again." if letters else "This was tried again already."
        return Ended("answered", posts=posts, then=self._telling(answer, text))

    async def _late(self, answer: Answer, approval: str) -> Ended:
        lapsed = await self._deps.store.lapsed(approval)
        if lapsed is None:
            return self._refused(answer, "this question is closed", _CLOSED)
        done, text = await self.run_late(answer, lapsed)
        if not done:
            return self._refused(answer, text, text)
        label = "Run it now" if lapsed.call is not None else "Answer it now"
        return Ended("answered", then=self._telling(answer, label))

    def _refused(self, answer: Answer, reason: str, text: str) -> Ended:
        return Ended("refused", reason, then=self._telling(answer, text))

    def _telling(self, answer: Answer, text: str) -> Callable[[], Awaitable[None]]:
        async def tell() -> None:
            await self._acknowledge(answer, text)

        return tell

    async def _acknowledge(self, answer: Answer, text: str) -> None:
        """A courtesy: a platform that hangs must not hold up what is said next in this thread."""
        await failure_of(within(COURTESY, self._deps.acknowledge(answer, text)))
