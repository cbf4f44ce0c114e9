"""An answer to a question of the house, however it was given: by a button, a thumb, in words, or by
a command."""

from __future__ import annotations

from dataclasses import replace

from channels.contract import Answer, Inbound, Reacted, Said
from channels.text import literal
from ohmo.approvals import reaction_lookup
from ohmo.approvals.cards import closing, elsewhere, is_whole, parse_choice, stands, tried_again
from ohmo.approvals.lapsing import parse_run
from ohmo.approvals.questions import Granting, aimed, remembered
from ohmo.approvals.reaction_lookup import verdict_of
from ohmo.commands.contract import Decide
from ohmo.contracts.questions import Scope
from ohmo.contracts.store import Accepted, Asked, Ruling
from ohmo.gateway.access import is_free
from ohmo.gateway.intake_parts import IntakeParts
from ohmo.gateway.late_calls import LateCalls
from ohmo.ids import derived
from ohmo.lifecycle import failure_of, within
from ohmo.sessions.notice_text import parse_again

_ALLOWED: dict[Scope, str] = {
    "once": "Allowed once by {}",
    "session": "Allowed for this session by {}",
    "always": "Always allowed by {}",
    "workspace": "All edits in this workspace allowed for this session by {}",
}
_SCOPES: dict[str, Scope] = {scope: scope for scope in _ALLOWED}
COURTESY = 5.0  # seconds the platform gets to show that a button was pressed


class Answering:
    """Each answer is one transaction: its effect on the question, what is said of it, and the
    ending of the arrival that brought it."""

    def __init__(self, parts: IntakeParts, late: LateCalls) -> None:
        self._parts = parts
        self._late = late
        self._granting = Granting(parts.desk.thread, parts.new_id, parts.clock)

    async def pressed(self, accepted: Accepted, answer: Answer) -> None:
        """A button of a card: of one that is open, "Run it now" or "Answer it now" of one that
        nobody answered in time, or "Try again" below a failure."""
        if (late := parse_run(answer.choice)) is not None:
            await self._pressed_late(accepted, answer, late)
            return
        if (turn := parse_again(answer.choice)) is not None:
            await self._try_again(accepted, answer, turn)
            return
        parts, pressed = self._parts, parse_choice(answer.choice)
        asked = await parts.store.question(pressed[1]) if pressed is not None else None
        if pressed is None or asked is None:
            await parts.end(accepted, "refused", "this question is closed")
            await self._acknowledge(answer, "This question is closed.")
            return
        if not parts.access.may_answer(asked, answer):
            await parts.end(accepted, "refused", f"{answer.person.id} may not answer this question")
            await self._acknowledge(answer, "This question is not yours to answer.")
            return
        if not await self._stands_on_its_card(asked, answer):
            await parts.end(
                accepted, "refused", "pressed on another message than this question's card"
            )
            await self._acknowledge(answer, "This is not the card of this question.")
            return
        choice = (
            asked.ask.question.choices[pressed[0]]
            if pressed[0] < len(asked.ask.question.choices)
            else None
        )
        if choice is None:
            await parts.end(accepted, "refused", "no such choice")
            await self._acknowledge(answer, "There is no such choice.")
            return
        if asked.ask.question.kind == "question":
            decision = Decide(asked.ask.id, "allowed", word=choice.label)
        elif choice.value == "deny":
            decision = Decide(asked.ask.id, "denied")
        else:
            decision = Decide(asked.ask.id, "allowed", _SCOPES.get(choice.value, "once"))
        if decision.verdict == "allowed" and not is_whole(asked, answer.address):
            await parts.end(accepted, "refused", "too long to be allowed in a chat")
            await self._acknowledge(answer, elsewhere(asked))
            return
        done = await self.decide(accepted, answer, decision)
        await self._acknowledge(
            answer, choice.label if done else "Too late: this question is closed."
        )

    async def _stands_on_its_card(self, asked: Asked, answer: Answer) -> bool:
        """A platform lets people forward a card with its buttons, and some programs send what
        stands on none. Until the platform has named the card, its chat is all that is known of it;
        of a card whose row was let go of (``retention``) while its question stays open, the
        conversation's."""
        row = await self._parts.store.post_row(asked.ask.id)
        places = [asked.address] if row is None else [row.row.outbound.address, stands(row)]
        here = answer.address
        known = [
            state.receipt.message
            for state in (() if row is None else row.parts)
            if state.receipt is not None
        ]
        chats = {(where.channel, where.account, where.chat) for where in places}
        same_chat = (here.channel, here.account, here.chat) in chats
        return same_chat and (not known or answer.message in known)

    async def _try_again(self, accepted: Accepted, answer: Answer, turn: str) -> None:
        """What died with this turn comes back, in its order. Done twice it is the same."""
        parts = self._parts
        letters = await parts.desk.failed(accepted.thread, turn)
        standing = parts.access.standing_of(answer)
        if standing is None or (
            standing == "guest" and any(one.person != answer.person.id for one in letters)
        ):
            await parts.end(accepted, "refused", f"{answer.person.id} may not try this again")
            await self._acknowledge(answer, "This is not yours to try again.")
            return
        for letter in letters:
            await parts.store.retry_arrival(accepted.thread, letter.seq)
        said = await parts.store.post_row(derived("failed", turn))
        await parts.end(
            accepted,
            "answered",
            posts=[tried_again(parts.new_id)(said)] if said is not None else [],
        )
        await self._acknowledge(
            answer, "Trying again." if letters else "This was tried again already."
        )

    async def _pressed_late(self, accepted: Accepted, answer: Answer, approval: str) -> None:
        lapsed = await self._parts.store.lapsed(approval)
        if lapsed is None:
            await self._parts.end(accepted, "refused", "this question is closed")
            await self._acknowledge(answer, "This question is closed.")
            return
        done, text = await self._late.run(answer, lapsed)
        await (
            self._parts.end(accepted, "answered")
            if done
            else self._parts.end(accepted, "refused", text)
        )
        label = "Run it now" if lapsed.call is not None else "Answer it now"
        await self._acknowledge(answer, label if done else text)

    async def reacted(self, accepted: Accepted, reacted: Reacted) -> None:
        """A thumb on the card of a permission is its button; on anything else, or by somebody else,
        it is only a thumb, and nobody is told off for it."""
        parts, verdict = self._parts, verdict_of(reacted.emoji)
        asked = await reaction_lookup.under(parts.store, reacted)
        if asked is None or verdict is None:
            await parts.end(accepted, "noted", "no open question stands there")
        elif parts.access.may_answer(asked, reacted):
            await self.decide(accepted, reacted, Decide(asked.ask.id, verdict), quiet=True)
        else:
            await parts.end(
                accepted, "refused", f"{reacted.person.id} may not answer this question"
            )

    async def _acknowledge(self, answer: Answer, text: str) -> None:
        """A courtesy: a platform that hangs must not hold up what is said next in this thread."""
        await failure_of(within(COURTESY, self._parts.acknowledge(answer, text)))

    async def in_words(self, accepted: Accepted, said: Inbound) -> None:
        """A message that came while a question of the thread waited for words."""
        asked_now = [
            asked
            for asked in await self._parts.store.open_questions(accepted.thread)
            if asked.state == "asked"
        ]
        questions = [
            asked for asked in asked_now if is_free(asked.ask.question)
        ]  # words never answer a permission that came meanwhile
        theirs = aimed(await self._parts.cards(), said)
        if (
            theirs is not None
            and (theirs.meant(said) or not questions)
            and self._parts.access.may_answer(theirs.asked, said)
        ):
            word = theirs.chosen(said) or said.text
            await self.decide(accepted, said, Decide(theirs.asked.ask.id, "allowed", word=word))
        elif questions:
            await self.decide(
                accepted, said, Decide(questions[0].ask.id, "allowed", word=said.text)
            )
        else:
            late = [
                self._parts.notice(
                    said.address,
                    "The question this answered is closed. Please say it again as a message.",
                )
            ]
            await self._parts.end(accepted, "refused", "the question is closed", late)

    async def decide(
        self,
        accepted: Accepted,
        said: Said,
        decision: Decide,
        *,
        quiet: bool = False,
        owner: bool = False,
    ) -> bool:
        """False: it was too late, or not theirs to answer. ``quiet``: then nobody is told.
        ``owner``: may answer for anybody."""
        parts = self._parts
        asked = await parts.store.question(decision.approval)
        if asked is not None and not owner and not parts.access.may_answer(asked, said):
            await parts.end(
                accepted,
                "refused",
                "not yours to answer",
                [parts.notice(said.address, "This question is not yours to answer.")],
            )
            return False
        if (
            asked is not None
            and decision.verdict == "allowed"
            and await self._came_later(asked, said)
        ):
            title = literal(asked.ask.question.title)
            text = f"This was asked after you said that: {title}. If you mean it, say it again."
            await parts.end(
                accepted,
                "refused",
                "the question came after the words",
                [parts.notice(said.address, text)],
            )
            return False
        if (
            asked is not None
            and decision.verdict == "allowed"
            and not is_whole(asked, said.address)
        ):
            posts = [] if quiet else [parts.notice(said.address, elsewhere(asked))]
            await parts.end(accepted, "refused", "too long to be allowed in a chat", posts)
            return False
        if asked is not None:
            decision = replace(decision, scope=remembered(asked, decision.scope))
        note = _note(decision, said)
        grant = (
            await self._granting.grant(asked, decision.scope)
            if decision.verdict == "allowed"
            else None
        )
        here = (accepted.thread, accepted.seq)
        ruling = Ruling(
            decision.approval,
            decision.verdict,
            said.person.id,
            decision.word,
            decision.scope,
            grant,
            here,
        )
        outcome = await parts.store.answer(
            ruling,
            late=[]
            if quiet
            else [parts.notice(said.address, "Too late: this question is closed.")],
            card=parts.card,
            closing=closing(parts.new_id, note),
        )
        parts.failpoint("approval.granted")
        return outcome == "ok"

    async def _came_later(self, asked: Asked, said: Said) -> bool:
        """Words name no question: they mean the one their person saw. Told by the platform's own
        clock, where it tells when it showed the card."""
        if asked.ask.question.kind != "permission" or not isinstance(said, Inbound):
            return False
        if (row := await self._parts.store.post_row(asked.ask.id)) is None:
            return False
        shown = [
            state.receipt.at
            for state in row.parts
            if state.receipt is not None and state.receipt.at is not None
        ]
        return bool(shown) and said.at < min(shown)


def _note(decision: Decide, said: Said) -> str:
    who = said.person.name or said.person.id
    if decision.verdict == "denied":
        return f"Denied by {who}"
    if decision.word:
        return f"{who}: {decision.word[:200]}"
    return _ALLOWED[decision.scope].format(who)
