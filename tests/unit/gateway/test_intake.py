"""Commands and answers beside the mailbox: effect, reply and ending are one, and happen once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from gateway_words import BIRTH, Clock, choices, ended, ident, place, until

from channels.contract import (
    Address,
    Answer,
    Arrival,
    Choice,
    Inbound,
    MessageId,
    Part,
    Person,
    PersonId,
    Reacted,
    Receipt,
)
from channels.errors import Unavailable
from ohmo.approvals.answering import Approvals, Granting
from ohmo.approvals.cards import card, closing
from ohmo.approvals.lapsing import LateAnswers, LateDeps
from ohmo.approvals.questions import OpenQuestions
from ohmo.assembly.house import commands
from ohmo.commands.contract import is_order, parse
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.outbox import Ask, PartState, PostRow, Ruling
from ohmo.contracts.reports import ArrivalInfo, HouseStatus
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import Accepted, Claim, PersonRow
from ohmo.gateway.access import Access, Policy, Roles
from ohmo.gateway.answering import Answering, AnsweringDeps
from ohmo.gateway.intake import Intake, IntakeDeps
from ohmo.gateway.notices import Courtesies, EphemeralNotice, LateNotice, WaitingNotice
from ohmo.gateway.orders import CommandQueries, Orders, OrdersDeps, Turns
from tests.makers import inbound
from tests.store_model.store import MemoryStore
from tests.unit.checkpoints.rig import nothing_kept

KNOWN = commands()


async def _nobody(place: Address, person: PersonId, text: str) -> None: ...


ASK = (
    Choice("once", "Allow once"),
    Choice("session", "Allow for this session"),
    Choice("always", "Always allow"),
    Choice("deny", "Deny"),
)
ROLES: dict[str, Any] = {
    "fake:ada": "user",
    "fake:bob": "user",
    "fake:ned": "admin",
    "fake:olga": "owner",
    "fake:gus": "guest",
}


@dataclass
class House:
    """Access, intake and a store; what is said is accepted as the bus would, and handled when
    intake runs."""

    clock: Clock
    store: MemoryStore = field(init=False)
    policy: Policy = field(default_factory=lambda: Policy(groups="open", mention_required=False))
    acknowledged: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    stopped: list[str] = field(default_factory=list[str])
    arrived: list[str] = field(default_factory=list[str])
    hits: list[str] = field(default_factory=list[str])
    hangs: bool = False
    publishes: bool = False
    restart: Callable[[], None] = lambda: None
    desk: CommandQueries = field(init=False)
    _number: int = 0

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)
        self.opens()
        self.intake = self.fresh()

    def opens(self) -> None:
        """The store has been set."""
        self.questions = OpenQuestions(self.store)
        self.access = Access(
            lambda channel, account: self.policy,
            Roles(ROLES),
            is_command=lambda text: (found := parse(text)) is not None and found[0] in KNOWN,
            open_question=self.questions.at,
            may_ask=self.questions.may_ask,
        )

    def new_id(self) -> str:
        self._number += 1
        return ident(f"p{self._number}x")

    def fresh(self) -> Intake:
        """As after a start of the process."""
        answering = self.answering()
        turns = Turns(
            stopped=self._stopped,
            arrived=lambda thread, now: self.arrived.append(f"{thread} now" if now else thread),
        )
        orders = Orders(
            OrdersDeps(
                self.store,
                KNOWN,
                self.desk,
                turns,
                answering,
                self.new_id,
                self.clock,
                self.restart,
                self.desk.checkpoints,
            )
        )
        quiet = Courtesies(
            self.store.post,
            LateNotice(lambda: BIRTH),
            WaitingNotice(lambda _: (), self.clock),
            EphemeralNotice(_nobody, lambda: BIRTH),
        )
        return Intake(
            IntakeDeps(
                self.store, self.access, orders, answering, turns, quiet, self.new_id, self.clock
            )
        )

    async def _stopped(self, thread: str) -> None:
        self.stopped.append(thread)

    def late(self) -> LateAnswers:
        async def publish(wake: Wake) -> Accepted:
            raise AssertionError(f"{wake.key}: nothing is answered late here")

        async def no_terms(place: Address, person: str, job: str) -> None: ...

        standing_of = self.access.standing_of if self.publishes else lambda _: None
        return LateAnswers(
            LateDeps(self.store, publish, standing_of, no_terms, self.store.thread, self.clock)
        )

    def answering(self) -> Answering:
        async def acknowledge(answer: Answer, text: str) -> None:
            if self.hangs:
                await asyncio.Event().wait()
            self.acknowledged.append((answer.person.id, text))

        async def status() -> HouseStatus:
            return HouseStatus(True, "1", BIRTH, "offline", "none", {}, {}, {}, None, 0, 0, {}, {})

        self.desk = CommandQueries(
            self.store,
            self.store,
            status,
            lambda _: None,
            KNOWN,
            self.questions,
            self.access,
            self.clock,
            checkpoints=nothing_kept(self.store),
        )
        granting = Granting(self.store.thread, self.new_id, self.clock)
        approvals = Approvals(self.store, card, granting, self.new_id, self.hits.append)
        return Answering(
            AnsweringDeps(
                self.store,
                self.access,
                self.desk,
                approvals,
                self.late(),
                self.questions.shown,
                acknowledge,
                self.new_id,
            )
        )

    async def hears(self, arrival: Arrival) -> tuple[str, int]:
        """Stored and told, in this order."""
        await self.questions.refresh()
        seat = self.access.seat(arrival)
        (accepted,) = await self.store.accept([(arrival, seat)])
        if not accepted.duplicate:
            self.intake.hear([(accepted, arrival, seat)])
        return accepted.thread, accepted.seq

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        """Intake runs; left when everything that was told is handled."""
        task = asyncio.create_task(self.intake.run())
        try:
            yield
            await until(
                lambda: (
                    not any(
                        letter.state != "ended"
                        for letter in self.store.tables.inbox.values()
                        if letter.kind in ("command", "answer")
                    )
                )
            )
        finally:
            await ended(task)

    async def said(self, text: str, **fields: Any) -> ArrivalInfo:
        """Said, stored, handled."""
        thread, seq = await self.hears(words(text, **fields))
        async with self.working():
            pass
        found = await self.store.arrival(thread, seq)
        assert found is not None
        return found

    async def presses(
        self, choice: str, *, person: str = "ada", number: int = 1, at: Address | None = None
    ) -> ArrivalInfo:
        pressed = Answer(
            key=f"press{number}",
            address=at or place(),
            person=Person(PersonId(person), person.title()),
            at=BIRTH,
            order=f"9{number}",
            message=MessageId("card"),
            choice=choice,
            token="t",
        )
        thread, seq = await self.hears(pressed)
        async with self.working():
            pass
        found = await self.store.arrival(thread, seq)
        assert found is not None
        return found

    async def replies(self) -> list[str]:
        """Texts of what was posted, cards and their closings aside, in the order of the threads."""
        rows = sorted(
            self.store.tables.posts.values(), key=lambda one: (one.row.thread, one.row.seq)
        )
        return [row.row.row.outbound.text for row in rows if row.row.row.kind == "notice"]

    async def closings(self) -> list[str]:
        return [
            one.row.row.outbound.text
            for one in self.store.tables.posts.values()
            if one.row.row.kind == "edit"
        ]

    async def parked(
        self,
        *questions: Question,
        person: str = "ada",
        at: Address | None = None,
        card_known: bool = True,
    ) -> Claim:
        """A turn of ``person`` that waits for answers; the cards have been shown. ``card_known``:
        and the platform has said so."""
        arrival = words("do it", person=person, at=at)
        await self.store.accept([(arrival, self.access.seat(arrival))])
        (claim,) = await self.store.claim("me", limit=1, ttl=30)
        work = await self.store.work(
            claim,
            ident("turn"),
            collect=False,
            step=lambda _: UserStep((Text("do it"),), person, "message"),
        )
        assert work is not None
        asks = [
            Ask(ident(f"q{number}"), f"t.{number}", question, "/")
            for number, question in enumerate(questions, 1)
        ]
        await self.store.park(
            claim, work.turn, asks, timeout=300, card=card, closing=closing(self.new_id, "parked")
        )
        if card_known:
            await self.shown(asks[0].id)
        else:
            await self.store.sending(asks[0].id, [])
        return claim

    async def shown(self, id: str) -> None:
        await self.store.sending(id, [])
        await self.store.sent(id, [])

    async def verdicts(self) -> dict[str, tuple[str, str]]:
        """State and word of every question."""
        return {
            name.rstrip("0"): (question.state, question.word or "")
            for name, question in self.store.tables.questions.items()
        }


def words(
    text: str,
    *,
    person: str = "ada",
    at: Address | None = None,
    key: str = "",
    private: bool | None = None,
) -> Inbound:
    where = at or place()
    return inbound(
        where,
        text,
        key or f"{person}-{text}-{where.chat}-{where.topic}",
        person,
        at=BIRTH,
        order=f"5{len(text):04d}{text}",
        message=MessageId(f"m-{text}"),
        private=where.chat.startswith("dm:") if private is None else private,
    )


def permission(rule: str = "Bash(ls:*)") -> Question:
    return Question("permission", "Run it?", "ls\n\nAnswer nothing", ASK, digest="d1", rule=rule)


def free() -> Question:
    return Question("question", "Which colour?", "", choices("red", "blue"), digest="d2")


@pytest.fixture
def house(clock: Clock) -> House:
    return House(clock)


# strangers


async def test_a_stranger_is_told_one_code_an_hour(house: House) -> None:
    for number in range(3):
        info = await house.said(f"let me in {number}", person="eve", at=place("dm:eve"))
        assert (info.state, info.ending) == ("ended", "refused")
    assert len(await house.replies()) == 1
    (row,) = await house.store.people()
    assert (row.role, row.person, row.expires) == (
        "asking",
        "eve",
        house.clock() + timedelta(hours=1),
    )
    house.clock.tick(3_601)
    await house.said("hello?", person="eve", at=place("dm:eve"))
    first, second = await house.replies()
    assert first != second


async def test_a_stranger_in_many_threads_at_once_is_told_one_code(house: House) -> None:
    for topic in "1234":
        await house.hears(words("hello", person="eve", at=place("dm:eve", topic)))
    async with house.working():
        pass
    assert len(await house.replies()) == 1


async def test_a_code_is_stored_only_as_its_hash(house: House) -> None:
    await house.said("hello", person="eve", at=place("dm:eve"))
    (reply,) = await house.replies()
    code = reply.split("`")[1]
    (row,) = await house.store.people()
    assert len(code) == 8
    assert row.code_hash is not None
    assert code not in repr(row)


async def test_who_was_revoked_meanwhile_gets_no_code_and_stays_revoked(house: House) -> None:
    await house.hears(words("hello", person="eve", at=place("dm:eve")))
    revoked = PersonRow("fake", "bot", "eve", "Eve", "revoked")
    await house.store.save_person(revoked)
    house.access.learn([revoked])
    async with house.working():
        pass
    assert await house.replies() == []
    assert await house.store.people() == [revoked]


async def test_who_lost_the_group_meanwhile_is_told_nothing_there(house: House) -> None:
    await house.hears(words("/help", person="eve", at=place("group")))
    house.policy = Policy()
    async with house.working():
        pass
    assert await house.replies() == []


async def test_who_was_let_in_meanwhile_is_asked_to_say_it_again(house: House) -> None:
    await house.hears(words("hello", person="eve", at=place("dm:eve")))
    house.access.learn([PersonRow("fake", "bot", "eve", "Eve", "user")])
    async with house.working():
        pass
    assert await house.replies() == ["Please say that again."]


# messages and commands


async def test_a_message_is_left_to_its_thread(house: House) -> None:
    thread, seq = await house.hears(words("hello"))
    info = await house.store.arrival(thread, seq)
    assert info is not None
    assert (info.state, house.arrived) == ("waiting", [thread])


async def test_a_command_is_answered_beside_the_mailbox(house: House) -> None:
    await house.hears(words("hello"))
    info = await house.said("/whoami@ohmo_bot")
    assert (info.kind, info.ending) == ("command", "answered")
    assert await house.replies() == ["You are `fake:ada`, role user; this place is `fake:dm:ada`."]


@pytest.mark.parametrize("command", sorted(KNOWN))
@pytest.mark.parametrize("person", ["gus", "ada", "ned", "olga"])
async def test_everybody_may_say_every_command_and_hears_something(
    house: House, command: str, person: str
) -> None:
    info = await house.said(f"/{command}", person=person, at=place(f"dm:{person}"))
    allowed = ROLES[f"fake:{person}"] in KNOWN[command].standings
    assert info.ending == ("answered" if allowed else "refused")
    (reply,) = await house.replies()
    assert allowed or reply == f"`/{command}` is not for a {ROLES['fake:' + person]}."


async def test_stop_ends_what_was_said_before_and_tells_the_pool(house: House) -> None:
    thread, before = await house.hears(words("one"))
    await house.said("/stop")
    await house.hears(words("two"))
    info = await house.store.arrival(thread, before)
    assert info is not None
    assert (info.ending, house.stopped) == ("stopped", [thread])
    assert len(await house.store.inbox(state="waiting")) == 1


async def test_new_begins_a_session(house: House) -> None:
    thread, _ = await house.hears(words("one"))
    before = await house.store.thread(thread)
    await house.said("/new")
    after = await house.store.thread(thread)
    assert before is not None
    assert after is not None
    assert after.session_seq > before.session_seq


@pytest.mark.parametrize("command", ["/queue", "/interrupt", "/collect", "/stop", "/new"])
async def test_words_behind_a_command_that_reads_none_are_not_dropped_in_silence(
    house: House, command: str
) -> None:
    await house.said(f"{command} and look at the logs too")
    await house.said(command)
    told, plain = await house.replies()
    assert (
        told
        == f"{plain} The words behind `{command}` were not read: say them again as a message of"
        " their own."
    )


@pytest.mark.parametrize("busy", ["queue", "steer", "collect", "interrupt"])
async def test_a_busy_mode_is_the_threads_own(house: House, busy: str) -> None:
    info = await house.said(f"/{busy}")
    elsewhere = await house.said("/help", person="bob", at=place("dm:bob"))
    here, there = await house.store.thread(info.thread), await house.store.thread(elsewhere.thread)
    assert here is not None
    assert there is not None
    assert (here.settings.busy, there.settings.busy) == (busy, None)


@pytest.mark.parametrize(("person", "mode"), [("ada", None), ("ned", None), ("olga", "full_auto")])
async def test_only_the_owner_lets_tools_run_freely(
    house: House, person: str, mode: str | None
) -> None:
    info = await house.said("/mode full-auto --i-know", person=person, at=place(f"dm:{person}"))
    thread = await house.store.thread(info.thread)
    assert thread is not None
    assert thread.settings.mode == mode


# answers


@pytest.mark.parametrize(
    ("number", "state", "note"),
    [
        (0, "allowed", "Allowed once by Ada"),
        (1, "allowed", "Allowed for this session by Ada"),
        (2, "allowed", "Always allowed by Ada"),
        (3, "denied", "Denied by Ada"),
    ],
)
async def test_a_button_answers_and_closes_the_card(
    house: House, number: int, state: str, note: str
) -> None:
    await house.parked(permission())
    info = await house.presses(f"{number}:{ident('q1')}")
    assert (info.ending, await house.verdicts()) == ("answered", {"q1": (state, "")})
    (closed,) = await house.closings()
    assert closed == f"**Run it?**\n\nls\n\nAnswer nothing\n\n_{note}_"
    assert house.acknowledged == [("ada", ASK[number].label)]
    assert house.hits == ["approval.granted"]


@pytest.mark.parametrize(("number", "scope"), [(1, "session"), (2, "always")])
async def test_a_grant_is_given_to_the_person_who_asked_whoever_allowed_it(
    house: House, number: int, scope: str
) -> None:
    claim = await house.parked(permission())
    await house.presses(f"{number}:{ident('q1')}", person="ned")
    (grant,) = await house.store.grants()
    assert (grant.person, grant.rule) == ("fake:ada", "Bash(ls:*)")
    assert grant.scope == ("*" if scope == "always" else f"{claim.thread}.{claim.session_seq}")


@pytest.mark.parametrize("number", [0, 3])
async def test_once_and_denied_leave_no_grant(house: House, number: int) -> None:
    await house.parked(permission())
    await house.presses(f"{number}:{ident('q1')}")
    assert await house.store.grants() == []


@pytest.mark.parametrize("answer", ["button", "/approve always"])
async def test_without_a_rule_nothing_is_remembered_and_nothing_else_is_claimed(
    house: House, answer: str
) -> None:
    await house.parked(permission(rule=""))
    await (house.presses(f"2:{ident('q1')}") if answer == "button" else house.said(answer))
    assert await house.store.grants() == []
    assert (await house.closings())[0].endswith("_Allowed once by Ada_")


@pytest.mark.parametrize("person", ["bob", "gus", "eve"])
async def test_a_question_is_not_answered_by_somebody_else(house: House, person: str) -> None:
    await house.parked(permission(), at=place("group"))
    info = await house.presses(f"0:{ident('q1')}", person=person, at=place("group"))
    assert (info.ending, await house.verdicts()) == ("refused", {"q1": ("asked", "")})
    assert house.acknowledged == [(person, "This question is not yours to answer.")]
    assert await house.replies() == []


@pytest.mark.parametrize(
    ("person", "said"),
    [("bob", "This question is not yours to answer."), ("gus", "`/approve` is not for a guest.")],
)
async def test_a_command_of_somebody_else_approves_nothing(
    house: House, person: str, said: str
) -> None:
    await house.parked(permission(), at=place("group"))
    info = await house.said("/approve", person=person, at=place("group"))
    assert (info.ending, await house.replies(), await house.verdicts()) == (
        "refused",
        [said],
        {"q1": ("asked", "")},
    )


@pytest.mark.parametrize(
    ("command", "state"),
    [
        ("/approve", "allowed"),
        ("/approve session", "allowed"),
        ("/APPROVE Always", "allowed"),
        ("/deny", "denied"),
        ("/deny too risky", "denied"),
    ],
)
async def test_a_question_is_answered_by_command(house: House, command: str, state: str) -> None:
    await house.parked(permission())
    info = await house.said(command)
    assert info.ending == "answered"
    assert (await house.verdicts())["q1"][0] == state
    assert await house.replies() == []


async def test_an_unknown_scope_approves_nothing(house: House) -> None:
    await house.parked(permission())
    await house.said("/approve forever")
    assert (await house.verdicts())["q1"][0] == "asked"
    assert "`/approve forever`" in (await house.replies())[0]


async def test_a_question_in_words_is_not_approved_blindly(house: House) -> None:
    await house.parked(free())
    await house.said("/approve")
    assert (await house.verdicts())["q1"][0] == "asked"
    assert await house.replies() == ["This question wants an answer in words, or `/deny`."]


async def test_words_answer_a_question(house: House) -> None:
    await house.parked(free())
    info = await house.said("green, please")
    assert (info.kind, info.ending, await house.verdicts()) == (
        "answer",
        "answered",
        {"q1": ("allowed", "green, please")},
    )


async def test_a_button_answers_a_question_with_its_label(house: House) -> None:
    await house.parked(free())
    await house.presses(f"1:{ident('q1')}")
    assert await house.verdicts() == {"q1": ("allowed", "blue")}


async def test_words_of_somebody_else_are_a_message(house: House) -> None:
    await house.parked(free(), at=place("group"))
    thread, seq = await house.hears(words("green", person="bob", at=place("group")))
    info = await house.store.arrival(thread, seq)
    assert info is not None
    assert (info.kind, info.state) == ("message", "waiting")


async def test_words_that_were_meant_for_a_question_never_answer_the_permission_behind_it(
    house: House,
) -> None:
    """The question was closed by a button while the words were on their way; now a permission is
    asked."""
    await house.parked(free(), permission())
    await house.hears(words("yes"))
    outcome = await house.store.answer(
        Ruling(ident("q1"), "denied", "ned"), card=card, closing=closing(house.new_id, "closed")
    )
    assert outcome == "ok"
    async with house.working():
        pass
    assert (await house.verdicts())["q2"][0] == "asked"
    assert await house.replies() == [
        "The question this answered is closed. Please say it again as a message."
    ]


async def test_questions_of_one_turn_are_asked_one_after_the_other(house: House) -> None:
    await house.parked(permission(), permission())
    await house.presses(f"0:{ident('q1')}")
    assert await house.verdicts() == {"q1": ("allowed", ""), "q2": ("asked", "")}


async def test_an_answer_after_the_deadline_is_too_late(house: House) -> None:
    await house.parked(permission())
    house.clock.tick(301)
    info = await house.presses(f"0:{ident('q1')}")
    assert (info.ending, house.acknowledged) == (
        "refused",
        [("ada", "Too late: this question is closed.")],
    )
    assert (await house.verdicts())["q1"][0] == "asked"  # until its expiry, which is a denial
    assert await house.replies() == ["Too late: this question is closed."]


async def test_a_second_press_finds_the_question_closed(house: House) -> None:
    await house.parked(permission())
    await house.presses(f"3:{ident('q1')}")
    info = await house.presses(f"0:{ident('q1')}", number=2)
    assert (info.ending, (await house.verdicts())["q1"][0]) == ("refused", "denied")
    assert house.acknowledged[-1] == ("ada", "This question is closed.")


@pytest.mark.parametrize(
    "choice",
    [
        "",
        "0",
        ":",
        "x:y",
        "-1:q",
        "9:" + ident("q1"),
        "0:" + ident("nobody"),
        "²:" + ident("q1"),
        "0" * 50 + ":q",
    ],
)
async def test_a_button_that_is_none_of_ours_answers_nothing(house: House, choice: str) -> None:
    await house.parked(permission())
    info = await house.presses(choice)
    assert (info.ending, (await house.verdicts())["q1"][0], len(house.acknowledged)) == (
        "refused",
        "asked",
        1,
    )


# crashes


async def test_what_was_stored_and_not_handled_is_handled_after_the_start(house: House) -> None:
    await house.parked(permission())
    for arrival in (words("/whoami"), words("hello", person="eve", at=place("dm:eve"))):
        await house.store.accept([(arrival, house.access.seat(arrival))])
    house.intake = house.fresh()
    async with house.working():
        pass
    assert len(await house.replies()) == 2


async def test_what_was_handled_is_not_handled_again(house: House) -> None:
    await house.parked(permission())
    await house.said("/stop")
    await house.said("/help")
    await house.said("hello", person="eve", at=place("dm:eve"))
    before = (await house.replies(), await house.verdicts(), len(house.store.tables.posts))
    house.intake = house.fresh()
    async with house.working():
        pass
    assert (await house.replies(), await house.verdicts(), len(house.store.tables.posts)) == before


class Broken(MemoryStore):
    """Commits an ending and dies before saying so; or cannot be asked at all for a while."""

    def __init__(self, clock: Clock, errors: Sequence[Exception], *, committed: bool) -> None:
        super().__init__(clock=clock)
        self.errors = list(errors)
        self.committed = committed

    async def end_arrival(
        self,
        thread: str,
        seq: int,
        ending: Any,
        reason: str = "",
        posts: Sequence[PostRow] = (),
        **more: Any,
    ) -> bool:
        if not self.errors or ending == "dead":
            return await super().end_arrival(thread, seq, ending, reason, posts, **more)
        if self.committed:
            await super().end_arrival(thread, seq, ending, reason, posts, **more)
        raise self.errors.pop(0)


def on(house: House, store: MemoryStore) -> House:
    house.store = store
    house.opens()
    house.intake = house.fresh()
    return house


@pytest.mark.parametrize("committed", [True, False])
async def test_an_ending_whose_commit_was_not_heard_of_happens_once(
    house: House, committed: bool
) -> None:
    on(house, Broken(house.clock, [Unavailable("lost")], committed=committed))
    await house.said("/whoami")
    assert len(await house.replies()) == 1


async def test_a_command_that_fails_each_time_ends_dead_and_says_so(house: House) -> None:
    on(house, Broken(house.clock, [ValueError("bad row")] * 3, committed=False))
    info = await house.said("/whoami")
    assert (info.ending, await house.replies()) == (
        "dead",
        ["This could not be carried out: bad row"],
    )


async def test_a_command_that_the_configuration_forbids_says_so_once_and_is_no_dead_letter(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    async def refused(_: CommandQueries, thread: str) -> str:
        tried.append(thread)
        raise ConfigError("the secret OWN is not there")

    monkeypatch.setattr(CommandQueries, "context_of", refused)
    info = await house.said("/context")
    assert (info.ending, len(tried), await house.replies()) == (
        "refused",
        1,
        ["This cannot be carried out: the secret OWN is not there."],
    )


class Hesitant(Broken):
    """The disk is full when the end of what cannot be carried out is to be written."""

    refusals = 1

    async def end_arrival(
        self,
        thread: str,
        seq: int,
        ending: Any,
        reason: str = "",
        posts: Sequence[PostRow] = (),
        **more: Any,
    ) -> bool:
        if ending == "dead" and self.refusals:
            self.refusals -= 1
            raise Unavailable("disk full")
        return await super().end_arrival(thread, seq, ending, reason, posts, **more)


async def test_a_command_that_fails_each_time_ends_also_when_the_store_is_away_for_a_moment(
    house: House,
) -> None:
    on(house, Hesitant(house.clock, [ValueError("bad row")] * 9, committed=False))
    info = await house.said("/whoami")
    assert (info.ending, await house.replies()) == (
        "dead",
        ["This could not be carried out: bad row"],
    )


async def test_commands_of_one_thread_are_handled_in_their_order(house: House) -> None:
    for text in ("/steer", "/collect", "/queue", "/mode plan", "/mode default"):
        last = await house.hears(words(text))
    async with house.working():
        pass
    thread = await house.store.thread(last[0])
    assert thread is not None
    assert (thread.settings.busy, thread.settings.mode) == ("queue", "default")


class Watched(MemoryStore):
    """Counts who asks for open questions, and is away for the first of them."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.looks = 0
        self.away = 0

    async def open_questions(self, thread: str | None = None) -> list[Any]:
        if thread is None:
            self.looks += 1
            if self.away:
                self.away -= 1
                raise Unavailable("busy")
        return await super().open_questions(thread)


def thumb(emoji: str, number: int) -> Reacted:
    return Reacted(
        key=f"thumb{number}",
        address=place(),
        person=Person(PersonId("ada"), "Ada"),
        at=BIRTH,
        order=f"9{number}",
        message=MessageId("card"),
        emoji=emoji,
        added=True,
    )


def told(store: MemoryStore, id: str) -> Any:
    """The platform's word on a card comes in."""
    outbound = store.tables.posts[id].row.row.outbound
    return store.sent(
        id, [PartState(Part("post", outbound.text), Receipt(MessageId("card"), BIRTH))]
    )


async def test_of_two_thumbs_on_a_card_that_nobody_knows_yet_the_first_counts(house: House) -> None:
    store = Watched(house.clock)
    await on(house, store).parked(permission(), card_known=False)
    async with house.working():
        await house.hears(thumb("👎", 1))
        before = store.looks
        # it looks the more rarely the longer it waits
        await until(lambda: store.looks >= before + 6)
        await house.hears(thumb("👍", 2))
        for _ in range(20):
            await asyncio.sleep(0)  # the second one begins
        await told(store, ident("q1"))
    assert (await house.verdicts())["q1"][0] == "denied"


async def test_a_thumb_waits_for_the_cards_name_also_while_the_store_is_away(house: House) -> None:
    store = Watched(house.clock)
    await on(house, store).parked(permission(), card_known=False)
    async with house.working():
        await house.hears(thumb("👍", 1))
        store.away, before = 1, store.looks
        await until(lambda: store.looks >= before + 3)
        await told(store, ident("q1"))
    assert (await house.verdicts())["q1"][0] == "allowed"


async def test_a_platform_that_hangs_on_a_button_does_not_hold_up_another_thread(
    house: House,
) -> None:
    await house.parked(permission())
    house.hangs = True
    await house.hears(
        Answer(
            key="p",
            address=place(),
            person=Person(PersonId("ada"), "Ada"),
            at=BIRTH,
            order="9",
            message=MessageId("c"),
            choice="0:nobody",
            token="t",
        )
    )
    async with house.working():
        await house.hears(words("/whoami", person="bob", at=place("dm:bob")))
        await until(
            lambda: any(one.row.row.kind == "notice" for one in house.store.tables.posts.values())
        )


def typed(
    text: str,
    at: Address,
    *,
    key: str = "k",
    origin: Any = "api",
    person: str = "owner",
    mind: str = "",
) -> Wake:
    """What somebody said by the local API, into a place."""
    return Wake(f"api:{key}", origin, at, at, person, text, BIRTH, mind=mind)


async def test_the_owner_commands_a_thread_from_the_keyboard(house: House) -> None:
    await house.said("/mode plan", person="ada")
    thread, seq = await house.hears(typed("/stop", place()))
    async with house.working():
        pass
    found = await house.store.arrival(thread, seq)
    assert found is not None
    assert (found.kind, found.ending) == ("command", "answered")
    assert (await house.replies())[-1] == "Stopped. Nothing was running here."
    assert house.stopped == [thread]


async def test_a_new_session_is_begun_in_the_mind_that_was_named(house: House) -> None:
    thread, _ = await house.hears(typed("/new", place(), mind="ada"))
    async with house.working():
        pass
    shared, _ = await house.hears(typed("/new", place(), key="other"))
    async with house.working():
        pass
    assert thread != shared
    infos = [await house.store.thread(one) for one in (thread, shared)]
    assert [info.person_scope for info in infos if info is not None] == ["ada", ""]
    assert all(info.session_seq > 0 for info in infos if info is not None)


@pytest.mark.parametrize(
    ("origin", "person"), [("hook", "owner"), ("cron", "owner"), ("api", "fake:ada")]
)
async def test_what_a_job_or_a_webhook_says_is_never_a_command(
    house: House, origin: str, person: str
) -> None:
    thread, seq = await house.hears(typed("/new", place(), origin=origin, person=person))
    found = await house.store.arrival(thread, seq)
    assert found is not None
    assert (found.kind, found.state) == ("wake", "waiting")


async def test_the_owner_answers_anybodys_question_from_the_keyboard(house: House) -> None:
    claim = await house.parked(Question("permission", "Bash: ls", "", ASK, "d"))
    thread, _ = await house.hears(typed("/approve", place()))
    async with house.working():
        pass
    assert thread == claim.thread
    assert await house.store.open_questions(claim.thread) == []


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        ("/stpo", "There is no `/stpo`; did you mean `/stop`? `/help` shows what there is."),
        ("/doctor", "`/doctor` comes in a later version. `/help` shows what there is."),
    ],
)
async def test_a_command_that_there_is_not_is_named_and_never_reaches_the_model(
    house: House, said: str, reply: str
) -> None:
    house.access = Access(
        lambda channel, account: house.policy,
        Roles(ROLES),
        is_command=lambda text: is_order(text, KNOWN),
        open_question=house.questions.at,
    )
    house.intake = house.fresh()
    info = await house.said(said, person="ada")
    assert (info.kind, info.ending) == ("command", "refused")
    assert await house.replies() == [reply]


async def test_a_restart_is_the_owners_and_asked_for_once_its_reply_is_stored(house: House) -> None:
    asked: list[int] = []
    house.restart = lambda: asked.append(len(house.store.tables.posts))
    house.intake = house.fresh()
    assert (await house.said("/restart", person="ned", at=place("dm:ned"))).ending == "refused"
    assert (await house.said("/restart", person="olga", at=place("dm:olga"))).ending == "answered"
    assert asked == [2]
