"""Who somebody is, where what they say belongs, and which entry of the configuration speaks for an
account of a platform. Pure: everything it knows is handed in or told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from channels.contract import Address, Answer, Edited, Inbound, Reacted, Said
from channels.record import record
from ohmo.approvals.cards import JobPerson
from ohmo.approvals.questions import verdict_of
from ohmo.config.channels import Opened
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.outbox import OWN_CHANNELS, Asked
from ohmo.contracts.tool import Question, Standing
from ohmo.contracts.turns import (
    BY_A_BOT,
    NOT_ADDRESSED,
    PRESENT,
    Kind,
    PersonRow,
    Seat,
    ThreadSettings,
)
from ohmo.gateway.draft_updates import Mode
from ohmo.sessions.user_steps import begins_plan

ALBUM_HOLD = 0.6  # seconds: the pieces of an album come as messages of their own
NOBODY = frozenset({""})
_PLANNING = ThreadSettings(planning=PRESENT)
DmRule = Literal["off", "allowlist", "pairing", "open"]
GroupRule = Literal["off", "allowlist", "open"]
STRICTEST_DM: tuple[DmRule, ...] = ("off", "allowlist", "pairing", "open")
STRICTEST_GROUPS: tuple[GroupRule, ...] = ("off", "allowlist", "open")


@record
class Policy:
    """The owner's rules for one account of one channel."""

    dm: DmRule = "pairing"
    groups: GroupRule = "allowlist"
    mention_required: bool = True
    people: frozenset[str] = frozenset()
    chats: frozenset[str] = frozenset()
    bots: bool = False  # other programs are answered like people

    def hears_in_private(self, person: str) -> bool:
        """Although nobody let them in."""
        if self.dm == "open":
            return True
        return self.dm != "off" and person in self.people

    def hears_group(self, chat: str) -> bool:
        if self.groups == "open":
            return True
        return self.groups == "allowlist" and chat in self.chats


@record
class Roles:
    """Who was named in the configuration, as ``channel:person``; ``default`` is for people let in
    by ``open`` or pairing."""

    named: Mapping[str, Standing]
    default: Standing = "user"


class Access:
    """``policy`` of a channel and account; ``is_command`` tells whether a text is one of the
    house's commands; ``open_question`` the questions that wait in a place for somebody's words,
    ``may_ask`` whether a permission may be asked for in a chat (a reaction tells its message, not
    always its thread); ``aimed`` the question of a job that these words answer. ``per_person``:
    everybody has a mind of their own in a shared place. ``asks_for``: for whom a thread of the
    house asks."""

    def __init__(
        self,
        policy: Callable[[str, str], Policy],
        roles: Roles,
        *,
        is_command: Callable[[str], bool],
        open_question: Callable[[Address], Sequence[Asked]],
        may_ask: Callable[[Address], bool] = lambda _: False,
        aimed: Callable[[Inbound], Asked | None] = lambda _: None,
        per_person: bool = False,
        asks_for: Callable[[Asked], JobPerson | None] = lambda _: None,
    ) -> None:
        self._policy = policy
        self._roles = roles
        self._is_command = is_command
        self._open_question = open_question
        self._may_ask = may_ask
        self._per_person = per_person
        self._asks_for = asks_for
        self._aimed = aimed
        self._people: dict[tuple[str, str, str], PersonRow] = {}

    def learn(self, rows: Iterable[PersonRow]) -> None:
        """What the store knows of people now."""
        self._people.update({(row.channel, row.account, row.person): row for row in rows})

    def adopt(self, policy: Callable[[str, str], Policy], roles: Roles) -> None:
        """Another configuration holds from now on."""
        self._policy = policy
        self._roles = roles

    @property
    def people(self) -> tuple[PersonRow, ...]:
        return tuple(self._people.values())

    def known(self, channel: str, account: str, person: str) -> PersonRow | None:
        return self._people.get((channel, account, person))

    def standing(self, channel: str, account: str, person: str) -> Standing | None:
        """What somebody may do; None: a stranger. Configuration wins over what was said at run
        time."""
        if channel in OWN_CHANNELS:
            return "owner"
        named = self._roles.named.get(f"{channel}:{person}")
        if named is not None:
            return named
        row = self._people.get((channel, account, person))
        if row is not None and row.role not in ("asking", "revoked"):
            return row.role
        return None

    def revoked(self, channel: str, account: str, person: str) -> bool:
        row = self._people.get((channel, account, person))
        if row is None or row.role != "revoked":
            return False
        return f"{channel}:{person}" not in self._roles.named

    def let_in(self, said: Said, *, private: bool) -> Standing | None:
        """The standing with which these words are heard; None: not at all."""
        place = said.address
        person = said.person.id
        if self.revoked(place.channel, place.account, person):
            return None
        standing = self.standing(place.channel, place.account, person)
        if standing is not None:
            return standing
        policy = self._policy(place.channel, place.account)
        if private:
            welcome = policy.hears_in_private(person)
        else:
            anybody = not policy.people
            welcome = policy.hears_group(place.chat) and (anybody or person in policy.people)
        return self._roles.default if welcome else None

    def of_absent(self, channel: str, account: str, person: str) -> Standing | None:
        """Of somebody who does not speak just now, such as the person of a job: as they would be
        heard somewhere in this account."""
        if self.revoked(channel, account, person):
            return None
        standing = self.standing(channel, account, person)
        if standing is not None:
            return standing
        policy = self._policy(channel, account)
        welcome = policy.hears_in_private(person)
        if policy.groups != "off" and person in policy.people:
            welcome = True
        if policy.groups == "open" and not policy.people:
            welcome = True
        return self._roles.default if welcome else None

    def may_ask_in(self, said: Inbound) -> bool:
        """A stranger who is told a pairing code: only in private, and only where the owner wants to
        hear of strangers."""
        place = said.address
        return (
            said.private
            and self._policy(place.channel, place.account).dm == "pairing"
            and not self.revoked(place.channel, place.account, said.person.id)
        )

    def may_invite(self, place: Address, person: str, *, private: bool) -> bool:
        """Whether the bot follows an invitation: of somebody it knows, into a one-to-one chat where
        a stranger could ask for access, or into a group where words of this person would be
        heard."""
        policy = self._policy(place.channel, place.account)
        rule = policy.dm if private else policy.groups
        if rule == "off" or self.revoked(place.channel, place.account, person):
            return False
        standing = self.standing(place.channel, place.account, person)
        if standing is not None or person in policy.people:
            return True
        if private:
            return policy.dm in ("pairing", "open")
        return policy.hears_group(place.chat) and not policy.people

    def may_answer(self, asked: Asked, said: Said) -> bool:
        """Owner and admin answer for anyone, a user for themselves where that is enough, a guest
        for nobody."""
        standing = self.standing_of(said)
        by = asked.ask.question.by
        if standing == "owner" or (standing == "admin" and by != "owner"):
            return True
        if by or standing != "user":
            return False
        here = said.address
        asks_for = self._asks_for(asked)
        if asks_for is not None:
            place = asks_for.place
            same_person = asks_for.person == f"{here.channel}:{said.person.id}"
        else:
            place = asked.address
            same_person = asked.person == said.person.id
        return same_person and (place.channel, place.account) == (here.channel, here.account)

    def standing_of(self, said: Said) -> Standing | None:
        """As ``let_in``, for words whose privacy is not known any more: the kinder reading of the
        place."""
        return self.let_in(said, private=True) or self.let_in(said, private=False)

    def seat(self, arrival: Arrival) -> Seat:
        """Where an arrival belongs. A stranger in a private chat is seated as a command: intake
        answers with a pairing card."""
        if isinstance(arrival, Wake):
            at_the_keyboard = arrival.origin in ("api", "owner") and arrival.person == "owner"
            is_command = at_the_keyboard and self._is_command(arrival.prompt)
            plans = at_the_keyboard and begins_plan(arrival.prompt)
            kind = "command" if is_command else "wake"
            return Seat(arrival.mind, kind, settings=_PLANNING if plans else None)
        own_mind = self._per_person and arrival.address.channel not in OWN_CHANNELS
        scope = arrival.person.id if own_mind else ""
        match arrival:
            case Answer():
                return Seat(scope, "answer")
            case Edited():
                return Seat(scope, "edit")
            case Reacted():
                # It may answer an open permission here; whether it hit the card, and whether this
                # person may, is looked up in intake.
                decides = (
                    arrival.added
                    and not arrival.person.bot
                    and verdict_of(arrival.emoji) is not None
                    and self._may_ask(arrival.address)
                )
                return Seat(scope, "answer" if decides else "reaction")
            case Inbound():
                refusal = self._refusal(arrival)
                if refusal is not None:
                    return Seat(scope, "message", *refusal)
                if self.let_in(arrival, private=arrival.private) is None:
                    return Seat(scope, "command")
                kind: Kind = "message"
                if self._is_command(arrival.text):
                    kind = "command"
                elif self._answers(arrival):
                    kind = "answer"
                hold = 0.0 if arrival.album is None else ALBUM_HOLD
                standing = self.let_in(arrival, private=arrival.private)
                plans = kind == "message" and standing != "guest" and begins_plan(arrival.text)
                settings = _PLANNING if plans else None
                return Seat(scope, kind, hold=max(arrival.settles, hold), settings=settings)

    def _refusal(self, said: Inbound) -> tuple[Literal["noted", "refused"], str] | None:
        place = said.address
        policy = self._policy(place.channel, place.account)
        if said.person.bot and not policy.bots:
            return "noted", BY_A_BOT
        if said.person.bot and self.let_in(said, private=said.private) is None:
            return "noted", "said by a bot that is not allowed"
        if self.revoked(place.channel, place.account, said.person.id):
            return "refused", "this person's access was revoked"
        if place.channel in OWN_CHANNELS:
            return None
        if said.private:
            allowed = self.let_in(said, private=True) is not None
            if policy.dm == "off" or (policy.dm == "allowlist" and not allowed):
                why = "" if allowed else f" and {said.person.id} is not allowed"
                return "refused", f"channels.{place.channel}.dm is {policy.dm}{why}"
            return None
        if policy.groups == "off":
            return "noted", f"channels.{place.channel}.groups is off"
        if not policy.hears_group(place.chat):
            return (
                "noted",
                f"the group {place.chat} is not in channels.{place.channel}.allow.groups",
            )
        welcome = self.let_in(said, private=False) is not None
        not_allowed = f"{said.person.id} is not in channels.{place.channel}.allow.people"
        if policy.mention_required and not said.addressed:
            return "noted", NOT_ADDRESSED if welcome else f"{NOT_ADDRESSED}, and {not_allowed}"
        return None if welcome else ("refused", not_allowed)

    def _answers(self, said: Inbound) -> bool:
        """Plain words are the answer to an open AskUser question of this mind, when this person may
        give it; to a job's, whose card stands here, only in reply to it or when they are one of its
        choices."""
        if said.attachments or not (said.private or said.addressed):
            return False
        aimed = self._aimed(said)
        if aimed is not None and self.may_answer(aimed, said):
            return True
        for asked in self._open_question(said.address):
            theirs = asked.person == said.person.id or said.address.channel in OWN_CHANNELS
            if theirs and is_free(asked.ask.question) and self.may_answer(asked, said):
                return True
        return False


def is_free(question: Question) -> bool:
    """Whether words answer it; a permission needs a button or a command, never chance words."""
    return question.kind == "question"


def standing_of(first: Arrival, access: Access) -> Standing:
    """``first``: what the turn begins with."""
    if isinstance(first, Wake):
        if first.again is not None and first.terms is None:
            return first.again.standing
        if first.terms is not None and first.terms.standing is not None:
            return first.terms.standing
        if first.person == "owner":
            return "owner"
        channel, colon, person = first.person.partition(":")
        if colon:  # somebody's job runs in the house, but never with more than their rights
            return access.of_absent(channel, first.account, person) or "guest"
        place = first.place
        return access.of_absent(place.channel, place.account, first.person) or "guest"
    private = first.private if isinstance(first, Inbound) else True
    return access.let_in(first, private=private) or "guest"


@dataclass(slots=True)
class Accounts:
    """A platform's own id of an account is known when it has connected; until then several accounts
    share their strictest reading."""

    opened: Sequence[Opened]
    _met: dict[tuple[str, str], Opened] = field(default_factory=dict)

    def meet(self, entry: Opened) -> Callable[[str], None]:
        """Told the platform's id of an entry's account."""
        return lambda account: self._met.update({(entry.manifest.name, account): entry})

    def policy(self, channel: str, account: str) -> Policy:
        """The strictest of the entries that may speak for it."""
        policies: list[Policy] = []
        for entry in self._entries(channel, account):
            written = entry.policy
            policy = Policy(
                dm=written.dm,
                groups=written.groups,
                mention_required=written.mention == "required",
                people=frozenset(written.allow.people),
                chats=frozenset(written.allow.groups),
                bots=written.bots == "answer",
            )
            policies.append(policy)
        return reduce(_stricter, policies) if policies else Policy()

    def activity(self, channel: str, account: str) -> Mode:
        """How much of the tools' work people see; rooms of the house itself show it in their own
        way."""
        entries = self._entries(channel, account)
        return activity_of(entries[0]) if entries else "off"

    def _entries(self, channel: str, account: str) -> list[Opened]:
        met = self._met.get((channel, account))
        if met is not None:
            return [met]
        return [entry for entry in self.opened if entry.manifest.name == channel]


def activity_of(entry: Opened) -> Mode:
    """How much of the tools' work people of this entry see."""
    if entry.policy.activity is not None:
        return entry.policy.activity
    return "off" if entry.manifest.name in OWN_CHANNELS else "live"


def _stricter(first: Policy, second: Policy) -> Policy:
    people = first.people & second.people
    if not people and (first.people or second.people):
        people = NOBODY  # an empty list would mean everybody in a group
    dm = min(STRICTEST_DM.index(first.dm), STRICTEST_DM.index(second.dm))
    groups = min(STRICTEST_GROUPS.index(first.groups), STRICTEST_GROUPS.index(second.groups))
    return Policy(
        dm=STRICTEST_DM[dm],
        groups=STRICTEST_GROUPS[groups],
        mention_required=first.mention_required or second.mention_required,
        people=people,
        chats=first.chats & second.chats,
        bots=first.bots and second.bots,
    )
