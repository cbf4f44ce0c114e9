"""The commands against control's real server, each in a process of its own."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from answering_house import AnsweringHouse, Keyboard, keyboard
from small_house import PERMISSION

from channels.contract import Choice
from ohmo.contracts.reports import Counts, UsageTotal
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import PersonRow


async def test_an_answer_is_printed_and_nothing_else(home: Path) -> None:
    async with keyboard(AnsweringHouse(), home) as ohmo:
        said = await ohmo("-p", "two and two?")
        assert (said.code, said.out, said.err) == (0, "It is four.\n", "")


async def test_an_answer_is_found_when_every_event_was_lost(home: Path) -> None:
    async with keyboard(AnsweringHouse(silent=True), home) as ohmo:
        assert (await ohmo("-p", "-", stdin="two and two?")).out == "It is four.\n"


async def test_json_output_is_one_object(home: Path) -> None:
    async with keyboard(AnsweringHouse(), home) as ohmo:
        said = await ohmo("-p", "two and two?", "--output", "json")
        found = json.loads(said.out)
        assert (found.pop("usage").keys(), found.pop("cost_usd")) == (
            {"calls", "input", "cached", "written", "output", "models"},
            0.0015,
        )
        assert found == {
            "outcome": "answered",
            "text": "It is four.",
            "thread": "t1",
            "seq": 1,
            "refused": [],
        }


async def test_stream_json_ends_with_the_result(home: Path) -> None:
    async with keyboard(AnsweringHouse(), home) as ohmo:
        lines = [
            json.loads(line)
            for line in (
                await ohmo("-p", "two and two?", "--output", "stream-json")
            ).out.splitlines()
        ]
        assert lines[-1]["event"] == "result"
        assert lines[-1]["text"] == "It is four."
        assert all("event" in line for line in lines)


async def test_a_question_is_refused_at_once_because_nobody_is_there(home: Path) -> None:
    house = AnsweringHouse(question=PERMISSION)
    async with keyboard(house, home) as ohmo:
        said = await ohmo("-p", "clean up")
        assert said.code == 3
        assert said.out == "It is four.\n"
        assert "refused, nobody is there to ask: Bash" in said.err
        assert [verdict for _, verdict, _, _ in house.verdicts] == ["denied"]


ASKED = Question(
    "permission",
    "Bash: rm -r build",
    "command: `rm -r build`\nin `/x`: mode",
    (),
    "digest",
    tool="Bash",
    arguments={"command": "rm -r build"},
    about="command",
)


async def test_an_allowed_rule_passes(home: Path) -> None:
    house = AnsweringHouse(question=ASKED)
    async with keyboard(house, home) as ohmo:
        assert (await ohmo("-p", "clean up", "--allow", "Bash(rm -r:*)")).code == 0
        assert [verdict for _, verdict, _, _ in house.verdicts] == ["allowed"]


async def test_another_rule_does_not_pass(home: Path) -> None:
    house = AnsweringHouse(question=ASKED)
    async with keyboard(house, home) as ohmo:
        said = await ohmo("-p", "clean up", "--allow", "Bash(git status:*)", "--allow", "Read")
        assert said.code == 3
        assert "refused, nobody is there to ask: Bash(rm -r build);" in said.err


async def test_a_rule_that_is_none_is_said_before_anything_is_sent(home: Path) -> None:
    house = AnsweringHouse()
    async with keyboard(house, home) as ohmo:
        said = await ohmo("-p", "hello", "--allow", "Bash(")
        assert said.code == 2
        assert said.err.startswith("ohmo: --allow 'Bash(' is not a rule")
        assert house.wakes == []


@pytest.mark.parametrize(
    ("tool", "about", "value", "layer", "rules", "step"),
    [
        ("Write", "file_path", "AGENTS.md", "protected", ("Write(AGENTS.md)",), "no --allow"),
        ("Bash", "command", "git config a b", "protected", ("Bash", "Bash(git *)"), "no --allow"),
        ("CronCreate", "", "", "taint", ("CronCreate",), "no --allow"),
        (
            *(
                "WebFetch",
                "url",
                "https://b.example/x",
                "taint",
                ("WebFetch", "WebFetch(domain:*)"),
            ),
            "pass --allow 'WebFetch(domain:b.example)'",
        ),
    ],
)
async def test_what_no_rule_can_cover_is_refused_and_no_rule_is_named(
    home: Path, tool: str, about: str, value: str, layer: str, rules: tuple[str, ...], step: str
) -> None:
    arguments = {about: value} if about else {}
    more: Any = {"tool": tool, "arguments": arguments, "about": about, "layer": layer}
    house = AnsweringHouse(question=Question("permission", tool, "", (), "digest", **more))
    async with keyboard(house, home) as ohmo:
        allowed = [word for rule in rules for word in ("--allow", rule)]
        said = await ohmo("-p", "do it", *allowed)
        assert (said.code, step in said.err) == (3, True), said.err
        assert [verdict for _, verdict, _, _ in house.verdicts] == ["denied"]


async def test_a_rule_about_a_tool_that_is_not_there_is_said_before_anything_is_sent(
    home: Path,
) -> None:
    house = AnsweringHouse()
    async with keyboard(house, home) as ohmo:
        said = await ohmo("-p", "hello", "--allow", "Nope(x)")
        assert said.code == 2
        assert said.err.startswith("ohmo: --allow there is no tool 'Nope', only ")
        assert house.wakes == []


async def test_a_question_of_the_agent_is_refused_too(home: Path) -> None:
    house = AnsweringHouse(
        question=Question("question", "Red or blue?", "", (Choice("1", "Red"),), "digest")
    )
    async with keyboard(house, home) as ohmo:
        said = await ohmo("-p", "paint it", "--allow", "Bash")
        assert said.code == 3
        assert "Red or blue?; no --allow covers it" in said.err


async def test_a_failed_turn_says_why_and_what_tries_it_again_and_has_code_1(home: Path) -> None:
    async with keyboard(AnsweringHouse(fails="no model answers"), home) as ohmo:
        said = await ohmo("-p", "hello")
        assert (said.code, said.out) == (1, "")
        why, again = said.err.splitlines()
        assert why == "ohmo: failed: no model answers"
        assert re.fullmatch(r"ohmo: to try it again: ohmo inbox retry \S+/\d+", again)


async def test_model_and_mode_and_place_are_passed_on(home: Path) -> None:
    house = AnsweringHouse()
    async with keyboard(house, home) as ohmo:
        await ohmo(
            "-p", "hello", "--model", "m", "--permission-mode", "plan", "--resume", "slack:C1"
        )
        wake, settings = house.wakes[0]
        assert (wake.place.channel, wake.place.chat) == ("slack", "C1")
        assert settings is not None
        assert (settings.model, settings.mode) == ("m", "plan")


async def test_status_says_ready_and_every_channel(home: Path) -> None:
    async with keyboard(AnsweringHouse(), home) as ohmo:
        text = (await ohmo("status")).out
        assert "ohmo 0.1.0: ready" in text
        assert "slack refuses bot_token" in text
        found = json.loads((await ohmo("status", "--json")).out)
        assert found["ready"] is True
        assert found["channels"]["web"]["state"] == "connected"


async def test_status_says_what_waits_for_each_channel_and_since_when(home: Path) -> None:
    house, since = AnsweringHouse(), datetime.now(UTC) - timedelta(minutes=7)
    rows = {
        ("slack", "waiting"): 2,
        ("slack", "taken"): 1,
        ("slack", "dead"): 1,
        ("slack", "answered"): 9,
    }
    house.counted = Counts(
        rows, {("slack", "ready"): 4, ("slack", "dead"): 1}, since, 0, 0, {"slack": since}
    )
    async with keyboard(house, home) as ohmo:
        found = json.loads((await ohmo("status", "--json")).out)["channels"]["slack"]
        assert (found["waiting"], found["outgoing"], found["dead"]) == (3, 4, 2)
        assert datetime.fromisoformat(found["oldest_waiting"]) == since
        head, line = [
            line
            for line in (await ohmo("status")).out.splitlines()
            if line.startswith(("CHANNEL", "slack"))
        ]
        assert head.split()[-7:] == "DELIVERY WAITING OLDEST TO SEND DEAD DETAIL".split()
        assert line.split()[4:9] == ["3", "7", "min", "4", "2"]


async def test_probes_answer_with_their_exit_code(home: Path) -> None:
    house = AnsweringHouse()
    house.ready = False
    async with keyboard(house, home) as ohmo:
        assert (await ohmo("status", "--check", "live")).code == 0
        assert (await ohmo("status", "--check", "ready")).code == 1
    assert (await Keyboard(home)("status", "--check", "live")).code == 1


async def test_listings_have_a_table_and_json(home: Path) -> None:
    house = AnsweringHouse(question=PERMISSION)
    house.persons.append(PersonRow("slack", "T1", "U7", "Grace", "asking", "hash of 1234"))
    async with keyboard(house, home) as ohmo:
        await ohmo("-p", "what is\nthe \x1b[31mcolour?")
        house.decided.clear()
        await house.ask("t1", PERMISSION)
        assert "t1/1" in (await ohmo("inbox", "list")).out
        assert "\x1b" not in (await ohmo("inbox", "list")).out
        assert json.loads((await ohmo("inbox", "list", "--json")).out)[0]["seq"] == 1
        assert "nothing is lost" in (await ohmo("inbox", "audit")).out
        assert "state: answered" in (await ohmo("inbox", "why", "t1/1")).out
        assert (await ohmo("inbox", "retry", "t1/1")).code == 0
        assert "t1" in (await ohmo("sessions", "list")).out
        assert "**ohmo:** It is four." in (await ohmo("sessions", "export", "t1")).out
        assert "idle" in (await ohmo("sessions", "show", "t1")).out
        assert "small-model" in (await ohmo("usage")).out
        house.spent = [
            UsageTotal(
                1,
                100,
                50,
                10,
                20,
                1500,
                0,
                day="2026-01-05",
                model="small",
                person="U7",
                channel="slack",
                account="T1",
            )
        ]
        assert re.search(r"small +Grace +slack:U7 +1", (await ohmo("usage", "--by", "person")).out)
        assert "sent" in (await ohmo("outbox", "list")).out
        assert (await ohmo("outbox", "drop", "dead")).out == "dead: will not be sent\n"
        assert "Grace" in (await ohmo("pairing", "list")).out
        assert (await ohmo("pairing", "approve", "1234")).out.startswith(
            "slack:U7 (Grace) is let in as user. A user may"
        )
        assert (await ohmo("pairing", "revoke", "slack:U7")).out == "slack:U7: is let in no more\n"
        row = json.loads((await ohmo("approvals", "list", "--json")).out)[0]
        assert (
            row["ask"]["question"]["detail"]
            in (await ohmo("approvals", "show", row["ask"]["id"])).out
        )
        assert "no such question" in (await ohmo("approvals", "show", "nothing")).err
        assert (await ohmo("approvals", "deny", row["ask"]["id"], "--word", "no")).code == 0
        assert (await ohmo("channels", "list")).out.count("connected") == 1
        assert "/login?code=" in (await ohmo("login")).out


async def test_a_refusal_of_the_daemon_is_its_own_line(home: Path) -> None:
    async with keyboard(AnsweringHouse(), home) as ohmo:
        said = await ohmo("approvals", "approve", "nothing")
        assert (said.code, said.err) == (
            1,
            "ohmo: there is no such question; `ohmo approvals list` shows the open ones\n",
        )
        assert (await ohmo("inbox", "why", "t9/1")).err.startswith(
            "ohmo: t9/1: nothing arrived under this number"
        )


async def test_a_daemon_elsewhere_wants_its_token(home: Path, tmp_path: Path) -> None:
    async with keyboard(AnsweringHouse(), home) as ohmo:
        token = (home / "run" / "token").read_text(encoding="utf-8").strip()
        away = Keyboard(tmp_path / "away")
        assert (await away("status", "--remote", ohmo.url, OHMO_TOKEN=token)).code == 0
        assert "OHMO_TOKEN" in (await away("status", "--remote", ohmo.url)).err
        assert (
            "log in first" in (await away("status", "--remote", ohmo.url, OHMO_TOKEN="wrong")).err
        )
        assert (
            "expected an address"
            in (await away("status", "--remote", "ftp://x", OHMO_TOKEN="x")).err
        )


async def test_without_a_daemon_there_is_one_clear_line(home: Path) -> None:
    said = await Keyboard(home)("inbox", "list")
    assert said.code == 1
    assert (
        said.err
        == f"ohmo: not running (nobody answers at {home}/run/ohmo.sock); start it with: ohmo run\n"
    )


async def test_the_log_of_a_daemon_elsewhere_is_shown_and_followed(home: Path) -> None:
    house = AnsweringHouse()
    house.log = home / "elsewhere.jsonl"
    lines = [
        {"at": "t", "level": "info", "event": f"e{number}", "thread": f"t{number % 2}"}
        for number in range(5)
    ]
    house.log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    async with keyboard(house, home) as ohmo:
        there = {"OHMO_TOKEN": (home / "run" / "token").read_text()}
        shown = await ohmo(
            "logs", "--remote", ohmo.url, "-n", "2", "--thread", "t0", "--json", **there
        )
        assert [json.loads(line) for line in shown.out.splitlines()] == [lines[2], lines[4]]
        nothing = await ohmo("logs", "--remote", ohmo.url, "--level", "error", **there)
        assert (nothing.code, nothing.out, nothing.err) == (
            0,
            "",
            "no line of level error or above\n",
        )
        assert (await ohmo("logs", "--remote", ohmo.url)).code == 1
