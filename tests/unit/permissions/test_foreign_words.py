"""After words of others came into a conversation: what is asked about in every mode, and that
nothing but a new conversation takes the mark away."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from permission_house import House, Mode

from ohmo.contracts.messages import (
    CallResult,
    Compaction,
    ModelStep,
    Step,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.tool import Footprint
from ohmo.permissions.policy import told_by_others
from ohmo.permissions.rules import Ruling, parse_rule
from ohmo.sessions.transcript import Transcript
from tests.makers import call_context

PAGE = frozenset({"web:page.example"})
JOB = Footprint(effect="repeatable", lasting="jobs")


def fetch(host: str, *, configured: bool = False) -> tuple[ToolCall, Footprint]:
    footprint = Footprint(hosts=(host,), effect="none", configured=configured)
    return ToolCall("t.1", "WebFetch", {"url": f"https://{host}/"}, ""), footprint


def job() -> tuple[ToolCall, Footprint]:
    return ToolCall("t.1", "CronCreate", {}, ""), JOB


def ruled(
    house: House,
    call: tuple[ToolCall, Footprint],
    mode: Mode = "full_auto",
    taint: frozenset[str] = PAGE,
    allow: tuple[str, ...] = (),
) -> Ruling:
    context = replace(house.context(mode), taint=taint)
    return house.policy(allow=allow).rule(*call, context)


@pytest.mark.parametrize("mode", ["default", "full_auto"])
def test_a_new_host_and_what_outlives_the_conversation_are_asked_about(
    house: House, mode: Mode
) -> None:
    for call in (fetch("evil.example"), job()):
        ruling = ruled(house, call, mode)
        assert (ruling.verdict, ruling.layer) == ("ask", "taint")
        assert "words of web:page.example are in this conversation" in ruling.reason
    assert ruled(house, job(), "plan").verdict == "deny"


def test_without_foreign_words_nothing_changes(house: House) -> None:
    for call in (fetch("evil.example"), job()):
        assert ruled(house, call, taint=frozenset()).verdict == "allow"


def test_a_host_that_was_there_that_a_rule_names_or_that_is_configured_is_no_news(
    house: House,
) -> None:
    assert ruled(house, fetch("page.example")).verdict == "allow"
    named = ("WebFetch(domain:docs.example)",)
    assert ruled(house, fetch("docs.example"), allow=named).verdict == "allow"
    assert ruled(house, fetch("search.example", configured=True)).verdict == "allow"


@pytest.mark.parametrize("rule", ["WebFetch", "WebFetch(*)", "WebFetch(domain:*)"])
def test_a_rule_for_every_host_names_none(house: House, rule: str) -> None:
    assert ruled(house, fetch("evil.example"), allow=(rule,)).layer == "taint"


def test_a_rule_for_the_tool_lets_no_page_make_jobs(house: House) -> None:
    assert ruled(house, job(), allow=("CronCreate",)).layer == "taint"


def test_a_denied_host_stays_denied(house: House) -> None:
    context = replace(house.context("full_auto"), taint=PAGE)
    policy = house.policy(deny=["WebFetch(domain:evil.example)"])
    assert policy.rule(*fetch("evil.example"), context).verdict == "deny"


def test_many_origins_are_counted(house: House) -> None:
    many = frozenset(f"web:host{number}.example" for number in range(9))
    assert "and 6 more" in ruled(house, fetch("evil.example"), taint=many).reason


HOSTS = st.sampled_from(["page.example", "evil.example", "a.evil.example", "docs.example"])
RULES = st.lists(
    st.sampled_from(["WebFetch", "WebFetch(domain:*)", "CronCreate", "Bash", "mcp__x"]), max_size=4
).map(tuple)


@given(HOSTS, RULES, st.sets(HOSTS, min_size=1))
def test_whatever_is_allowed_in_general_a_host_nobody_named_is_asked_about(
    host: str, allow: tuple[str, ...], seen: set[str]
) -> None:
    context = call_context(Path("/w"), taint=frozenset(f"web:{each}" for each in seen))
    rules = [parse_rule(rule) for rule in allow]
    ruling = told_by_others("WebFetch", fetch(host)[1], context, rules)
    assert (ruling is None) is (host in seen)


def steps(draw: random.Random) -> tuple[list[Step], set[str]]:
    """A conversation of any shape, and whose words came into it."""
    made: list[Step] = []
    origins: set[str] = set()
    for number in range(draw.randint(1, 40)):
        kind = draw.choice(("message", "steer", "answer", "result", "foreign", "compaction"))
        if kind in ("message", "steer"):
            made.append(UserStep((Text(f"word {number}"),), "ada", kind))  # pyright: ignore[reportArgumentType]
        elif kind == "answer":
            made.append(ModelStep((Text("well"),), "m", "end"))
        elif kind == "compaction" and made:
            keeps = draw.randint(1, len(made) + 1)
            made.append(Compaction(draw.choice(("", "a summary")), keeps, draw.randint(0, keeps)))
        else:
            taint = (f"web:host{number}.example",) if kind == "foreign" else ()
            origins.update(taint)
            made.append(CallResult(ToolResult(f"c{number}", "text", taint=taint)))
    return made, origins


def test_the_mark_is_kept_on_a_thousand_ways_through_a_conversation() -> None:
    for seed in range(1_000):
        draw = random.Random(seed)
        made, origins = steps(draw)
        numbered = list(enumerate(made, 1))
        transcript = Transcript(1)
        at = 0
        while at < len(numbered):
            if draw.random() < 0.2:  # a restart: read again from the store
                transcript = Transcript(1)
                transcript.add(numbered[:at])
            piece = draw.randint(1, 5)
            transcript.add(numbered[at : at + piece])
            at += piece
        assert transcript.taint == origins, seed
        assert Transcript(len(made) + 1).taint == frozenset()  # a new conversation


def test_a_servers_tool_is_asked_about_after_words_of_anybody_else(house: House) -> None:
    call = ToolCall("t.1", "mcp__mail__send", {}, ""), Footprint(effect="once", touches=None)
    allow = ("mcp__mail__*",)
    for taint, verdict in (
        (frozenset[str](), "allow"),
        (frozenset({"mcp:mail"}), "allow"),
        (PAGE, "ask"),
        (frozenset({"mcp:mail", "mcp:files"}), "ask"),
    ):
        assert ruled(house, call, taint=taint, allow=allow).verdict == verdict
