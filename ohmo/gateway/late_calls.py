"""A call that nobody allowed in time, or an old message nobody said was still wanted, and that
somebody wants all the same: a new request."""

from __future__ import annotations

from dataclasses import replace

from channels.contract import Person, PersonId, Said
from channels.text import literal
from ohmo.approvals.cards import closing, elsewhere, is_whole
from ohmo.contracts.arrivals import Again, Wake
from ohmo.contracts.store import Lapsed
from ohmo.gateway.intake_parts import IntakeParts
from ohmo.ids import derived
from ohmo.sessions import stale_messages

RUN_NOW = (
    "(Nobody allowed this call in time. {name} allows it now, and it runs first. Say what came of"
    " it, and go on with what it was for.)"
)
ANSWER_NOW = (
    "(This message is old, and nobody said in time that it is still wanted. {name} wants it"
    " answered now.)\n\n{detail}"
)


class LateCalls:
    """By a press of "Run it now" or "Answer it now", or the command that says so."""

    def __init__(self, parts: IntakeParts) -> None:
        self._parts = parts

    async def run(self, said: Said, lapsed: Lapsed, *, owner: bool = False) -> tuple[bool, str]:
        """Whether it is a new request, and what is said about it, CommonMark. Done twice it is the
        same: its key is the question's."""
        parts, asked = self._parts, lapsed.asked
        if not owner and not parts.access.may_answer(asked, said):
            return False, "This question is not yours to answer."
        if not is_whole(asked, said.address):
            return False, elsewhere(asked)
        wanted = lapsed.call is None
        if wanted and asked.ask.question.digest != stale_messages.DIGEST:
            return False, "What this was about is not kept any more."
        if parts.publish is None or (wake := await self._again(said, lapsed)) is None:
            return False, "This question is closed."
        name = said.person.name or said.person.id
        published = await parts.publish(wake)
        card_row = await parts.store.post_row(asked.ask.id)
        if card_row is not None:
            note = f"Answered now: {name} wants it" if wanted else f"Run now: allowed by {name}"
            await parts.store.post(
                [closing(lambda: derived("again", asked.ask.id), note)(card_row)]
            )
        if published.duplicate:
            return False, "It was answered already." if wanted else "It was run already."
        return (
            True,
            (
                "It is answered now."
                if wanted
                else f"It runs now: {literal(asked.ask.question.title)}"
            ),
        )

    async def _again(self, said: Said, lapsed: Lapsed) -> Wake | None:
        """None: nobody may have this run any more. What a job asked runs under the job's terms, and
        what comes of it goes where its reports go."""
        parts, asked = self._parts, lapsed.asked
        name, call = " ".join((said.person.name or said.person.id).split())[:100], lapsed.call
        prompt = (
            RUN_NOW.format(name=name)
            if call is not None
            else ANSWER_NOW.format(name=name, detail=asked.ask.question.detail)
        )
        key, place, digest, by = (
            f"again:{asked.ask.id}",
            asked.address,
            asked.ask.question.digest,
            said.person.id,
        )
        indoors = place.channel == "house"
        job = place.chat.startswith(("cron:", "hook:"))  # else somebody sits there, at the keyboard
        if indoors and job and call is not None:
            found = (
                await parts.terms(place, asked.person, lapsed.job)
                if parts.terms is not None
                else None
            )
            if found is None:
                return None
            again = Again(
                call.name, call.arguments, digest, by, "guest"
            )  # as whom a job acts is looked up when it runs
            return Wake(
                key=key,
                origin="again",
                place=place,
                deliver=None,
                person=asked.person,
                prompt=prompt,
                at=parts.clock(),
                terms=found[0],
                account=found[1],
                again=again,
            )
        standing = parts.access.standing_of(
            replace(said, address=place, person=Person(PersonId(asked.person), ""))
        )
        if standing is None:
            return None
        again = Again(
            call.name if call is not None else "",
            call.arguments if call is not None else {},
            digest,
            by,
            standing,
        )
        info = await parts.desk.thread(asked.thread)
        return Wake(
            key=key,
            origin="again",
            place=place,
            deliver=None if indoors else place,
            person=asked.person,
            prompt=prompt,
            at=parts.clock(),
            account=place.account,
            mind=info.person_scope if info is not None else "",
            again=again,
        )
