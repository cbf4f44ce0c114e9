"""What people do in a chat to answer: a press of a button, a reaction, words. Who may, and what
comes of it, is ``ohmo.approvals``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from channels.contract import Address, Answer, Inbound, MessageId, Outbound, Reacted, Said
from channels.record import record
from ohmo.ambient import NewId, derived
from ohmo.approvals.answering import NOT_YOURS, Answerer, Approvals, Refused
from ohmo.approvals.cards import elsewhere, is_whole, parse_choice, stands, tried_again
from ohmo.approvals.lapsing import LateAnswers, parse_run
from ohmo.approvals.questions import Shown, aimed, permission_under, verdict_of
from ohmo.approvals.trust_cards import TrustCards
from ohmo.approvals.trust_wording import parse_trust
from ohmo.commands.contract import TRUSTING, Decide, Desk
from ohmo.contracts.messages import UserStep
from ohmo.contracts.outbox import Asked, Lapsed, OutRow, PostRow, Scope
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
    told: UserStep | None = None  # to the model, behind the last turn
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
    trust: TrustCards | None = None


class Answering:
    """Each method returns how the arrival ends; None: the answer's own transaction ended it."""

    def __init__(self, deps: AnsweringDeps) -> None:
        self._store = deps.store
        self._access = deps.access
        self._desk = deps.desk
        self._approvals = deps.approvals
        self._late_answers = deps.late
        self._cards = deps.cards
        self._acknowledge = deps.acknowledge
        self._new_id = deps.new_id
        self._trust = deps.trust

    async def pressed(self, accepted: Accepted, answer: Answer) -> Ended | None:
        """A button of a card: of one that is open, "Run it now" or "Answer it now" of one that
        nobody answered in time, of a card of trust, or "Try again" below a failure."""
        lapsed = parse_run(answer.choice)
        if lapsed is not None:
            return await self._run_now(answer, lapsed)
        trust = parse_trust(answer.choice)
        if trust is not None and self._trust is not None:
            return await self._trusts(answer, self._trust, *trust)
        turn = parse_again(answer.choice)
        if turn is not None:
            return await self._try_again(accepted, answer, turn)
        pressed = parse_choice(answer.choice)
        asked = await self._store.question(pressed[1]) if pressed is not None else None
        if pressed is None or asked is None:
            return self._refused(answer, "this question is closed", _CLOSED)
        if not self._access.may_answer(asked, answer):
            reason = f"{answer.person.id} may not answer this question"
            return self._refused(answer, reason, NOT_YOURS.text)
        row = await self._store.post_row(asked.ask.id)
        if not _stands_on_its_card(row, answer, asked.address):
            reason = "pressed on another message than this question's card"
            return self._refused(answer, reason, "This is not the card of this question.")
        number = pressed[0]
        choices = asked.ask.question.choices
        if number >= len(choices):
            return self._refused(answer, "no such choice", "There is no such choice.")
        choice = choices[number]
        if asked.ask.question.kind == "question":
            decision = Decide(asked.ask.id, "allowed", word=choice.label)
        elif choice.value == "deny":
            decision = Decide(asked.ask.id, "denied")
        else:
            scope = _SCOPES.get(choice.value, "once")
            decision = Decide(asked.ask.id, "allowed", scope)
        if decision.verdict == "allowed" and not is_whole(asked, answer.address):
            return self._refused(answer, "too long to be allowed in a chat", elsewhere(asked))
        outcome = await self._approvals.answer(decision, self._by(accepted, answer))
        if isinstance(outcome, Refused):
            return self._refused(answer, outcome.reason, outcome.text)
        text = choice.label if outcome == "ok" else _LATE
        await self._show(answer, text)
        return None

    async def reacted(self, accepted: Accepted, reacted: Reacted) -> Ended | None:
        """A reaction to the card of a permission is its button; to anything else, or by somebody
        else, it is only a reaction, and nobody is told off for it."""
        verdict = verdict_of(reacted.emoji)
        asked = await permission_under(self._store, reacted)
        if asked is None or verdict is None:
            return Ended("noted", "no open question stands there")
        if not self._access.may_answer(asked, reacted):
            return Ended("refused", f"{reacted.person.id} may not answer this question")
        by = self._by(accepted, reacted, quiet=True)
        outcome = await self._approvals.answer(Decide(asked.ask.id, verdict), by)
        if isinstance(outcome, Refused):
            return Ended("refused", outcome.reason)
        return None

    async def in_words(self, accepted: Accepted, said: Inbound) -> Ended | None:
        """A message that came while a question of the thread waited for words. Words never answer a
        permission that came meanwhile."""
        open_here = await self._store.open_questions(accepted.thread)
        free = [
            asked for asked in open_here if asked.state == "asked" and is_free(asked.ask.question)
        ]
        card = aimed(await self._cards(), said)
        if card is not None and free and not card.meant(said):
            card = None
        if card is not None and self._access.may_answer(card.asked, said):
            word = card.chosen(said) or said.text
            decision = Decide(card.asked.ask.id, "allowed", word=word)
            return await self.decide(accepted, said, decision)
        if free:
            decision = Decide(free[0].ask.id, "allowed", word=said.text)
            return await self.decide(accepted, said, decision)
        text = "The question this answered is closed. Please say it again as a message."
        late = notice(self._new_id, said.address, text)
        return Ended("refused", "the question is closed", (late,))

    async def decide(
        self, accepted: Accepted, said: Inbound, decision: Decide, *, owner: bool = False
    ) -> Ended | None:
        """In words or by a command. ``owner``: may answer for anybody."""
        by = self._by(accepted, said, owner=owner)
        outcome = await self._approvals.answer(decision, by)
        if not isinstance(outcome, Refused):
            return None
        reply = notice(self._new_id, said.address, outcome.text)
        return Ended("refused", outcome.reason, (reply,))

    async def run_late(
        self, said: Said, lapsed: Lapsed, *, owner: bool = False
    ) -> tuple[bool, str]:
        """Whether it is a new request, and what is said about it, CommonMark."""
        may = owner or self._access.may_answer(lapsed.asked, said)
        return await self._late_answers.run(said, lapsed, may=may)

    def _by(
        self, accepted: Accepted, said: Said, *, owner: bool = False, quiet: bool = False
    ) -> Answerer:
        def may(asked: Asked) -> bool:
            return owner or self._access.may_answer(asked, said)

        late = () if quiet else (notice(self._new_id, said.address, _LATE),)
        return Answerer(
            person=said.person.id,
            name=said.person.name or said.person.id,
            may=may,
            place=said.address,
            said_at=said.at if isinstance(said, Inbound) else None,
            arrival=(accepted.thread, accepted.seq),
            late=late,
        )

    async def _trusts(self, answer: Answer, cards: TrustCards, id: str, allow: bool) -> Ended:
        """Owner and admin decide what takes part, wherever the card stands."""
        person = answer.person
        if self._access.standing_of(answer) not in TRUSTING:
            return self._refused(answer, f"{person.id} may not trust anything", NOT_YOURS.text)
        if not _stands_on_its_card(await self._store.post_row(id), answer):
            reason = "pressed on another message than this card"
            return self._refused(answer, reason, "This is not the card of this question.")
        whose = f"{answer.address.channel}:{person.id}"
        done, text = await cards.answer(id, whose, person.name or person.id, allow=allow)
        if not done:
            return self._refused(answer, text, text)
        return Ended("answered", then=self._telling(answer, text))

    async def _try_again(self, accepted: Accepted, answer: Answer, turn: str) -> Ended:
        """What died with this turn comes back, in its order. Done twice it is the same."""
        letters = await self._desk.failed(accepted.thread, turn)
        standing = self._access.standing_of(answer)
        theirs = all(letter.person == answer.person.id for letter in letters)
        if standing is None or (standing == "guest" and not theirs):
            reason = f"{answer.person.id} may not try this again"
            return self._refused(answer, reason, "This is not yours to try again.")
        for letter in letters:
            await self._store.retry_arrival(accepted.thread, letter.seq)
        failure = await self._store.post_row(derived("failed", turn))
        posts: tuple[PostRow, ...] = ()
        if failure is not None:
            close = tried_again(self._new_id)
            posts = (close(failure),)
        text = "Trying again." if letters else "This was tried again already."
        return Ended("answered", posts=posts, then=self._telling(answer, text))

    async def _run_now(self, answer: Answer, approval: str) -> Ended:
        lapsed = await self._store.lapsed(approval)
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
            await self._show(answer, text)

        return tell

    async def _show(self, answer: Answer, text: str) -> None:
        """A courtesy: a platform that hangs must not hold up what is said next in this thread."""
        showing = self._acknowledge(answer, text)
        await failure_of(within(COURTESY, showing))


def _stands_on_its_card(row: OutRow | None, answer: Answer, *places: Address) -> bool:
    """A platform lets people forward a card with its buttons, and some programs send what stands on
    none. Until the platform has named the card, its chat is all that is known of it; of a card
    whose row was let go of (``retention``) while its question stays open, the conversation's
    (``places``)."""
    messages: list[MessageId] = []
    if row is not None:
        places = (row.row.outbound.address, stands(row))
        receipts = [state.receipt for state in row.parts]
        messages = [receipt.message for receipt in receipts if receipt is not None]
    here = answer.address
    chat = (here.channel, here.account, here.chat)
    if chat not in [(place.channel, place.account, place.chat) for place in places]:
        return False
    return not messages or answer.message in messages
