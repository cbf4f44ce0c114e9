"""Every slash command: what it is called, who may say it, what it leaves to the house; and the page
that explains them."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from channels.contract import Address, ChatId
from ohmo.assembly.house import commands
from ohmo.commands.aliases import INSTEAD, SAME
from ohmo.commands.contract import (
    Choose,
    Command,
    Decide,
    Order,
    Reply,
    Retry,
    Standing,
    Stop,
    is_order,
    parse,
    unknown,
)
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.messages import CallResult, Layer, ModelStep, Step, ToolCall, ToolResult
from ohmo.contracts.outbox import Ask, Asked, Lapsed
from ohmo.contracts.reports import ArrivalInfo, ChannelStatus, HouseStatus, SessionInfo, ThreadInfo
from ohmo.contracts.spending import Spending, Total
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import STRETCHES, Stretch, ThreadSettings

KNOWN = commands()
# Named in the documentation, not built yet.
LATER = frozenset({"agents"})
# What is used most comes first.
FIRST = ["new", "stop", "status", "model", "mode", "retry", "approve", "deny"]
NEVER_QUEUED = "help stop new status approve deny mode queue steer usage whoami inbox why".split()
PAGE = Path(__file__).parents[3] / "docs" / "commands.md"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HERE = Address("slack", "T1", ChatId("C1"))
PEERS = """
    help exit clear version status context summary compact cost usage stats dream memory hooks
    resume session export share copy tag rewind files init bridge login logout feedback onboarding
    skills config mcp plugin reload-plugins permissions plan fast effort passes turns continue stop
    provider model theme output-style keybindings vim voice doctor diff branch commit issue
    pr_comments privacy-settings rate-limit-options release-notes upgrade agents subagents tasks
    autopilot ship
""".split()


@dataclass
class Desk:
    asked: list[Asked] = field(default_factory=list[Asked])
    turn: str | None = None
    steps: list[Step] = field(default_factory=list[Step])
    dead: list[ArrivalInfo] = field(default_factory=list[ArrivalInfo])
    earlier: list[SessionInfo] = field(default_factory=list[SessionInfo])

    async def open_questions(self, thread: str) -> list[Asked]:
        return self.asked

    async def meant(self, order: Order) -> list[Asked]:
        return [request for request in self.asked if request.state == "asked"]

    async def lapsed(self, thread: str) -> Lapsed | None:
        return None

    async def failed(self, thread: str, turn: str | None = None) -> list[ArrivalInfo]:
        return self.dead

    async def thread(self, thread: str) -> ThreadInfo | None:
        return None

    async def status(self) -> HouseStatus:
        down = ChannelStatus("auth_failed", None, None, "token revoked")
        return HouseStatus(
            True,
            "1.0",
            NOW,
            "anthropic",
            "m",
            {"slack": down},
            {},
            {},
            None,
            2,
            1,
            {},
            {},
            warnings=("the disk is nearly full",),
        )

    async def usage_of(self, order: Order) -> Spending:
        return Spending((), {"thread": Total(len(order.thread))}, {})

    async def inbox_of(self, thread: str) -> str:
        return f"inbox of {thread}"

    async def why(self, thread: str, number: int | None) -> tuple[str, list[Step]]:
        return f"why {number}", self.steps

    def running_turn(self, thread: str) -> str | None:
        return self.turn

    def free_until(self) -> tuple[datetime, str]:
        return NOW, "nine"

    def when(self, at: datetime) -> str:
        return "nine"

    def now(self) -> datetime:
        return NOW + timedelta(hours=3, minutes=12, seconds=7)

    async def sessions_of(self, thread: str) -> list[SessionInfo]:
        return self.earlier

    async def holding(self, thread: str, words: str) -> set[int]:
        return {one.session for one in self.earlier if words in one.words}

    async def exported(self, order: Order, form: str) -> tuple[str, tuple[Path, ...]]:
        return f"as {form}", (Path(f"/spill/conversation.{form}"),)

    def commands(self) -> tuple[Command, ...]:
        return tuple(KNOWN.values())

    def models(self) -> tuple[str, ...]:
        return ("small-1", "middle-2", "large-3")


async def run(
    text: str,
    desk: Desk | None = None,
    *,
    standing: Standing = "owner",
    settings: ThreadSettings | None = None,
) -> Any:
    parsed = parse(text)
    assert parsed is not None
    order = Order("thread", HERE, "U1", standing, parsed[1], settings or ThreadSettings())
    return await KNOWN[parsed[0]].run(order, desk or Desk())


def asked(kind: Any = "permission", state: Any = "asked", name: str = "q1") -> Asked:
    return Asked(
        Ask(name, "t.1", Question(kind, "Run?", "", (), "d", rule="r"), "/"),
        "thread",
        "turn",
        HERE,
        "U1",
        state,
        None,
        NOW,
    )


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("/help", ("help", "")),
        ("  /Help  ", ("help", "")),
        ("/help@ohmo_bot me", ("help", "me")),
        ("/deny  too  risky ", ("deny", "too  risky")),
        ("/mode\nplan", ("mode", "plan")),
        ("help", None),
        ("/", None),
        ("/ help", None),
        ("/a/b", None),
        ("", None),
        ("say /help", None),
        ("/1", None),
    ],
)
def test_a_command_is_read(text: str, parsed: tuple[str, str] | None) -> None:
    assert parse(text) == parsed


@pytest.mark.parametrize("name", NEVER_QUEUED)
def test_what_must_never_queue_is_there(name: str) -> None:
    assert KNOWN[name].name == name


@pytest.mark.parametrize("command", KNOWN.values(), ids=lambda command: command.name)
def test_a_command_fits_every_platforms_menu(command: Command) -> None:
    """Telegram Bot API, BotCommand: 1 to 32 of a-z, 0-9 and _; 1 to 256 characters of
    description."""
    assert re.fullmatch(r"[a-z0-9_]{1,32}", command.name)
    assert 1 <= len(f"{command.usage} {command.summary}".strip()) <= 100  # Discord's, the shortest
    assert command.standings <= set(get_args(Standing))
    assert "owner" in command.standings


@pytest.mark.parametrize(
    ("standing", "missing"),
    [
        ("owner", set[str]()),
        ("guest", {name for name, command in KNOWN.items() if "guest" not in command.standings}),
    ],
)
async def test_help_lists_what_this_person_may_say(standing: Standing, missing: set[str]) -> None:
    reply = await run("/help", standing=standing)
    listed = re.findall(r"`/([a-z_]+)(?: \[.+?\])?`", reply.text)
    assert listed == [name for name in KNOWN if name not in missing]
    assert "`/model [NAME|default]` which model" in reply.text
    assert "`/stop` stop what runs" in reply.text


def test_what_is_used_most_is_listed_first_and_every_command_is_on_the_page() -> None:
    assert list(KNOWN)[: len(FIRST)] == FIRST
    page = PAGE.read_text(encoding="utf-8")
    for command in KNOWN.values():
        said = f"{command.name} {command.usage}".strip().replace("|", "\\|")
        assert f"| `/{said}` |" in page


def test_a_guest_changes_nothing_but_may_stop() -> None:
    assert {name for name, command in KNOWN.items() if "guest" in command.standings} == set(
        "export help inbox model retry start status stop version whoami why".split()
    )


async def test_why_tells_what_decided_about_each_call_and_whose_words_came_in() -> None:
    calls = (ToolCall("c1", "WebFetch", {}, ""), ToolCall("c2", "Bash", {}, ""))
    page = ToolResult("c1", "a page", allowed="mode: default", taint=("web:a.example",))
    refused = ToolResult("c2", "Not allowed (deny: *x*): no", error=True, refused=Layer.POLICY)
    steps = [ModelStep(calls, "m", "tools"), CallResult(page), CallResult(refused)]
    first, web, bash, words = (await run("/why 7", Desk(steps=[*steps]))).text.splitlines()
    assert first == "why 7"
    assert web == "- `WebFetch`: allowed by mode: default"
    assert bash == "- `Bash`: refused by policy. Not allowed (deny: \\*x\\*): no"
    assert words.startswith("Words of `web:a.example` came in: until `/new`, new hosts and what")
    assert (await run("/why")).text == "why None"
    for wrong in ("one", "²", "9" * 30):
        line = f"`/why {wrong}`: a message has a number; `/inbox` shows them."
        assert (await run(f"/why {wrong}")).text == line


async def test_version_is_one_line_with_how_long_it_runs() -> None:
    reply = await run("/version", standing="guest")
    assert reply.text == f"ohmo 1.0, Python {platform.python_version()}, up 3h12m."


@pytest.mark.parametrize(
    ("said", "form"), [("", "md"), ("md", "md"), ("JSON", "json"), (".json", "json")]
)
async def test_export_gives_a_file(said: str, form: str) -> None:
    assert await run(f"/export {said}") == Reply(
        f"as {form}", (Path(f"/spill/conversation.{form}"),)
    )


async def test_export_says_what_it_can_give() -> None:
    assert await run("/export pdf") == Reply("Say `/export`, `/export md` or `/export json`.")


def earlier(*began: str) -> Desk:
    return Desk(earlier=[SessionInfo(at * 10, words, NOW) for at, words in enumerate(began)])


async def test_resume_lists_a_bounded_number_of_conversations_newest_first() -> None:
    reply = await run("/resume", earlier("the *roof*", *(f"talk {n}" for n in range(14))))
    lines = reply.text.splitlines()
    assert lines[0] == "Earlier conversations here, newest first, and 5 older ones:"
    assert lines[2] == r"- 1: **the \*roof\***, nine"
    assert len([line for line in lines if line.startswith("- ")]) == 10


@pytest.mark.parametrize(
    ("said", "session"), [("1", 0), ("3", 20), ("fence", 10), ("the paint", 20)]
)
async def test_resume_chooses_by_number_or_by_words(said: str, session: int) -> None:
    effect = await run(f"/resume {said}", earlier("the roof", "the fence", "the paint"))
    assert effect.fresh
    assert effect.resumes == session


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("4", "There is no number 4: `/resume` lists 3 here."),
        ("garden", "In no earlier conversation here all of these words were said."),
        ("the", "Earlier conversations here, newest first:"),
    ],
)
async def test_resume_that_means_none_or_several_changes_nothing(said: str, answer: str) -> None:
    reply = await run(f"/resume {said}", earlier("the roof", "the fence", "the paint"))
    assert isinstance(reply, Reply)
    assert reply.text.startswith(answer)


async def test_resume_that_would_change_conversations_too_often_is_refused_in_one_line() -> None:
    desk = earlier("the roof", "the fence")
    stretches = tuple(Stretch(at, at % 2) for at in range(STRETCHES))
    for said in ("1", "fence"):
        reply = await run(f"/resume {said}", desk, settings=ThreadSettings(stretches=stretches))
        assert isinstance(reply, Reply)
        assert "one conversation to another 512 times" in reply.text
        assert "\n" not in reply.text
        settings = ThreadSettings(stretches=stretches[:-1])
        assert (await run(f"/resume {said}", desk, settings=settings)).fresh


async def test_resume_without_an_earlier_conversation_says_so() -> None:
    reply = await run("/resume")
    assert reply.text.startswith("There is no earlier conversation here.")


@pytest.mark.parametrize(
    ("turn", "text"), [("t", "Stopped."), (None, "Stopped. Nothing was running here.")]
)
async def test_stop_says_whether_something_ran(turn: str | None, text: str) -> None:
    assert await run("/stop", Desk(turn=turn)) == Stop(text)


async def test_new_stops_and_begins_anew() -> None:
    assert (await run("/new")).fresh


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("/approve", Decide("q1", "allowed", "once")),
        ("/approve once", Decide("q1", "allowed", "once")),
        ("/approve session", Decide("q1", "allowed", "session")),
        ("/approve ALWAYS", Decide("q1", "allowed", "always")),
        ("/deny", Decide("q1", "denied")),
        ("/deny no way", Decide("q1", "denied", word="no way")),
    ],
)
async def test_an_open_question_is_decided(text: str, effect: Decide) -> None:
    assert await run(text, Desk([asked("permission", "queued", "q0"), asked()])) == effect


@pytest.mark.parametrize("text", ["/approve", "/deny"])
async def test_without_a_question_there_is_nothing_to_decide(text: str) -> None:
    assert await run(text) == Reply("Nothing is asked here.")


async def test_a_question_in_words_is_denied_but_not_approved() -> None:
    desk = Desk([asked("question")])
    assert isinstance(await run("/approve", desk), Reply)
    assert await run("/deny", desk) == Decide("q1", "denied")


@pytest.mark.parametrize("busy", ["queue", "steer", "interrupt", "collect"])
async def test_a_busy_mode_leaves_the_other_choices_alone(busy: str) -> None:
    before = ThreadSettings(mode="plan")
    assert (await run(f"/{busy}", settings=before)).settings == replace(before, busy=busy)


@pytest.mark.parametrize(
    ("standing", "argument", "mode"),
    [
        ("user", "plan", "plan"),
        ("user", "DEFAULT", "default"),
        ("owner", "full-auto", None),
        ("owner", "full-auto --i-know", "full_auto"),
        ("owner", "full_auto —i-know", "full_auto"),
        ("owner", "Full_Auto -I-Know", "full_auto"),
        ("owner", "full_auto i know", "full_auto"),
        ("owner", "full_auto, i know it is dangerous", None),
        ("admin", "full_auto --i-know", None),
        ("user", "fast", None),
        ("user", "", None),
    ],
)
async def test_modes(standing: Standing, argument: str, mode: str | None) -> None:
    effect = await run(f"/mode {argument}", standing=standing)
    assert isinstance(effect, Reply) if mode is None else effect.settings.mode == mode
    assert isinstance(effect, Reply) or effect.settings.free_until == (
        NOW if mode == "full_auto" else None
    )


@pytest.mark.parametrize(
    ("standing", "argument", "model"),
    [
        ("user", "small-1", "small-1"),
        ("owner", "MIDDLE-2", "middle-2"),
        ("admin", "default", None),
        ("user", "Default", None),
    ],
)
async def test_a_thread_gets_one_of_the_configured_models(
    standing: Standing, argument: str, model: str | None
) -> None:
    before = ThreadSettings(mode="plan", model="large-3")
    effect = await run(f"/model {argument}", standing=standing, settings=before)
    assert effect.settings == replace(before, model=model)
    assert (model or "large-3") in effect.text


@pytest.mark.parametrize(
    ("standing", "argument", "line"),
    [
        (
            "user",
            "smal-1",
            (
                "`smal-1` is not configured. Did you mean `small-1`? Say `/model` to see which are;"
                " they stand under `models` of the profile."
            ),
        ),
        (
            "owner",
            "gpt-9",
            (
                "`gpt-9` is not configured. Say `/model` to see which are; they stand under"
                " `models` of the profile."
            ),
        ),
        ("guest", "small-1", "A guest cannot choose the model."),
    ],
)
async def test_no_other_model_is_taken(standing: Standing, argument: str, line: str) -> None:
    assert await run(f"/model {argument}", standing=standing) == Reply(line)


@pytest.mark.parametrize(
    ("chosen", "marked"), [(None, "large-3"), ("small-1", "small-1"), ("by-hand-9", "by-hand-9")]
)
async def test_the_model_of_this_thread_is_marked(chosen: str | None, marked: str) -> None:
    text = (await run("/model", settings=ThreadSettings(model=chosen))).text
    assert [line.split("`")[1] for line in text.splitlines() if line.endswith("← here")] == [marked]
    assert all(name in text for name in ("small-1", "middle-2", "`large-3` (default)"))
    assert "/model NAME" not in (await run("/model", standing="guest")).text


@pytest.mark.parametrize(
    ("standing", "inside"), [("owner", True), ("admin", True), ("user", False), ("guest", False)]
)
async def test_status_tells_the_state_of_the_house_to_those_who_keep_it(
    standing: Standing, inside: bool
) -> None:
    text = (await run("/status", Desk(turn="t"), standing=standing)).text
    assert "I am at work" in text
    assert ("token revoked" in text, "the disk is nearly full" in text) == (inside, inside)


async def test_status_knows_that_a_person_is_waited_for() -> None:
    assert "a question waits for an answer" in (await run("/status", Desk([asked()]))).text


# the page


def test_the_page_names_every_command_with_its_line() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [
        name
        for name, command in KNOWN.items()
        if f"`/{name}" not in page or command.summary not in page
    ] == []


@pytest.mark.parametrize("name", sorted({*PEERS, *SAME, *INSTEAD} - {"pr-comments"}))
def test_the_page_maps_what_people_know_from_elsewhere(name: str) -> None:
    assert re.search(rf"^\| .*`/{name}`.* \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


# The words of the one are said, the other's turn does it.
@pytest.mark.parametrize("name", sorted({*PEERS, *SAME, *INSTEAD} - {"plan", "compact"}))
def test_what_is_known_from_elsewhere_is_for_the_house_with_words_behind_it_too(name: str) -> None:
    assert [
        is_order(text, KNOWN) for text in (f"/{name}", f"/{name}@ohmo_bot", f"/{name} and more")
    ] == [True] * 3
    parsed = parse(f"/{name}")
    assert parsed is not None
    if parsed[0] not in KNOWN:
        assert f"`/{name}`" in unknown(parsed[0], KNOWN)


def test_no_name_from_elsewhere_hides_a_command() -> None:
    assert not set(SAME) & set(KNOWN)
    assert {target.split()[0] for target in SAME.values()} <= set(KNOWN)
    assert not set(SAME) & set(INSTEAD)
    assert set(INSTEAD) >= LATER


@pytest.mark.parametrize(
    ("standing", "line"),
    [("guest", "You are a guest"), ("user", "Before I change"), ("owner", "You are the owner")],
)
async def test_start_is_a_welcome_that_fits_the_role(standing: Standing, line: str) -> None:
    effect = await run("/start", standing=standing)
    assert "Welcome" in effect.text
    assert line in effect.text
    assert ("/new" in effect.text) is (standing != "guest")


@pytest.mark.parametrize(
    ("standing", "person", "effect"),
    [("user", "U2", Retry((7,))), ("guest", "U1", Retry((7,))), ("guest", "U2", None)],
)
async def test_what_failed_is_tried_again_by_a_guest_only_what_they_said(
    standing: Standing, person: str, effect: Any
) -> None:
    said = Wake("k", "api", HERE, None, person, "hello", NOW)
    dead = ArrivalInfo("thread", 7, "message", person, NOW, "ended", "dead", "x", "t1", said)
    found = await run("/retry", Desk(dead=[dead]), standing=standing)
    assert found == effect or (effect is None and "guest" in found.text)
    assert "Nothing failed here" in (await run("/retry")).text


def test_a_lone_word_that_is_nearly_a_command_is_for_the_house_and_no_path_is() -> None:
    known = ("stop", "status", "help", "approve")
    assert [
        is_order(text, known)
        for text in ("/stop", "/stpo", "/helb", "/status@ohmo_bot", "/approve always")
    ] == [True] * 5
    assert [
        is_order(text, known)
        for text in ("/etc", "/stpo it all now", "stop", "/usr/bin/status", "/xyzzy")
    ] == [False] * 5


class Begun(Desk):
    async def thread(self, thread: str) -> ThreadInfo | None:
        return ThreadInfo(thread, HERE, "", None, 7, None, "running", ThreadSettings())


async def test_plan_mode_is_of_this_session_and_any_mode_that_is_chosen_ends_it() -> None:
    free = ThreadSettings(mode="full_auto", free_until=NOW)
    effect = await run("/plan", Begun(), settings=free)
    assert isinstance(effect, Choose)
    assert effect.settings == replace(free, planning=7)
    for mode in ("default", "plan"):
        chosen = await run(f"/mode {mode}", settings=effect.settings)
        assert isinstance(chosen, Choose)
        assert chosen.settings.planning is None


def test_plan_with_words_behind_it_is_a_message() -> None:
    assert is_order("/plan", KNOWN)
    assert not is_order("/plan a journey", KNOWN)
    assert not is_order("/plan@ohmo_bot\na journey", KNOWN)
    assert not is_order("/planet earth", KNOWN)
