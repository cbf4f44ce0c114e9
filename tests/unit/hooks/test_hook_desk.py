"""Hooks as they run: real programs and endpoints, files that change, projects that nobody trusts; what may stop a call
and what is only reported."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from ohmo.contracts.agent import TurnEnded
from ohmo.contracts.hooks import Hooked, HookEvent, Spoken
from ohmo.contracts.messages import ModelStep, Text, ToolCall, ToolResult, Usage
from ohmo.contracts.provider import ModelRequest, Reply
from ohmo.contracts.trust import Kind, Trust
from ohmo.hooks.acting import Acting, Asking
from ohmo.hooks.answer import CONTEXT, Raw, read
from ohmo.hooks.desk import WAITING, HookDesk, Present, say
from ohmo.hooks.files import HookFiles
from ohmo.hooks.hook import Hook, Program
from ohmo.hooks.project import hooks_in
from ohmo.permissions.conditions import Conditions
from ohmo.shell.parsing import Shell

CALL = ToolCall("t.1", "Bash", {"command": "ls"}, "")


class Trusting:
    """Trusts in memory."""

    def __init__(self) -> None:
        self.rows: list[Trust] = []

    async def trusted(self, kind: Kind, name: str, digest: str) -> bool:
        return any((row.kind, row.name, row.digest) == (kind, name, digest) for row in self.rows)

    async def allow(self, kind: Kind, name: str, digest: str, person: str) -> None:
        self.rows.append(Trust(kind, name, digest, person, datetime.now(UTC)))

    async def leave_off(self, kind: Kind, name: str, digest: str, person: str) -> None:
        raise AssertionError((kind, name, digest, person))

    async def revoke(self, kind: Kind, name: str) -> int:
        gone = [row for row in self.rows if (row.kind, row.name) == (kind, name)]
        self.rows = [row for row in self.rows if row not in gone]
        return len(gone)

    async def trusts(self) -> list[Trust]:
        return list(self.rows)


class Room:
    """A home with hooks, and a desk over it. ``answer``: of the model."""

    def __init__(
        self, folder: Path, *hooks: dict[str, Any], answer: str = "", trusts: Trusting | None = None
    ) -> None:
        self.home, self.work = folder / "home", folder / "work"
        for made in (self.home, self.work):
            made.mkdir(exist_ok=True)
        if hooks:
            self.write(*hooks)
        self.asked: list[ModelRequest] = []
        self.inquired: list[tuple[str, str, float]] = []
        self.answer = answer
        self.told: list[str] = []
        self.files = HookFiles(self.home, trusts or Trusting(), self._tell)
        self.present = Present("thread.0", self.work)
        environ = {"PATH": os.environ["PATH"], "SECRET_KEY": "sk-1", "TOKEN": "t0k"}
        self.acting = Acting(
            self.home / "spill" / "hooks",
            environ,
            Asking(self._ask, ("small", "large"), self._inquire),
        )
        self.desk = HookDesk(
            self.files,
            self.acting,
            self._present,
            lambda text: text.replace("t0k", "[redacted]"),
            self.home / "state" / "hooks",
            Conditions(Shell(self.home)),
        )

    def write(self, *hooks: dict[str, Any]) -> None:
        (self.home / "hooks.yaml").write_text(yaml.safe_dump({"hooks": list(hooks)}))

    async def _ask(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        return Reply(
            ModelStep((Text(self.answer),), "small", "end"), Usage("small", "hook", 1, 0, 0, 1, 1)
        )

    async def _inquire(self, text: str, model: str, what: Hooked, seconds: float) -> str:
        self.inquired.append((text, model, seconds))
        return self.answer

    async def _tell(self, _: str, text: str) -> None:
        self.told.append(text)

    async def _present(self, thread: str) -> Present | None:
        return self.present

    def what(
        self, event: HookEvent = "pre_tool_use", call: ToolCall | None = CALL, **more: Any
    ) -> Hooked:
        return Hooked(event, "t", "thread", self.work, call, session="thread.0", **more)


def python(text: str, name: str = "one", **more: Any) -> dict[str, Any]:
    return {"name": name, "on": "pre_tool_use", "command": [sys.executable, "-c", text], **more}


def settings(home: Path, *handlers: dict[str, Any], event: str = "PreToolUse") -> None:
    written = {"hooks": {event: [{"matcher": "*", "hooks": list(handlers)}]}}
    (home / "hooks.yaml").write_text(json.dumps(written))


async def until(true: Callable[[], bool], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.02)


async def test_a_program_reads_the_event_has_no_secret_and_may_say_nothing(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    text = f"import json,os,sys; json.dump([json.load(sys.stdin), dict(os.environ)], open({str(seen)!r}, 'w'))"
    room = Room(tmp_path, python(text))
    call = ToolCall("t.1", "Bash", {"command": "echo '$(touch pwned)' `x`"}, "")
    word = await room.desk.before(room.what(call=call))
    assert word.block == ""
    event, environ = json.loads(seen.read_text())
    assert event["arguments"] == dict(call.arguments)
    assert (event["event"], event["call"], event["turn"], event["approved"]) == (
        "pre_tool_use",
        "t.1",
        "t",
        False,
    )
    assert "SECRET_KEY" not in environ
    assert list(room.home.rglob("spill/hooks/*")) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import sys; sys.stderr.write('never'); sys.exit(2)", "never"),
        ('print(\'{"decision": "block", "reason": "no"}\')', "no"),
        ("import sys; sys.exit(1)", "exit code 1"),
        ("import time; time.sleep(60)", "did not end within 0.5 s"),
        ("print('{\"decision\": \"bl', end='')", "not JSON"),
        ("print('looks fine')", "not JSON"),
        ("print('[]')", "no JSON object"),
        ('print(\'{"decision": "perhaps"}\')', "perhaps"),
        ("print('{\"arguments\": 7}')", "arguments"),
        (
            'print(\'{"permissionDecision": "deny"}\')',
            "'permissionDecision' is no key of an answer",
        ),
        ("print('x' * 1_000_000)", "more than 128 KiB"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    ],
)
async def test_what_is_not_a_plain_word_blocks_here_and_only_warns_there(
    tmp_path: Path, text: str, why: str
) -> None:
    room = Room(tmp_path, python(text, timeout=0.5 if "sleep" in text else 10))
    began = time.monotonic()
    word = await room.desk.before(room.what())
    assert why in word.block
    assert word.by == "one"
    assert time.monotonic() - began < 8
    settings(
        room.home,
        {
            "type": "command",
            "command": sys.executable,
            "args": ["-c", text],
            "timeout": 0.5 if "sleep" in text else 10,
        },
    )
    plain = await room.desk.before(room.what())
    assert bool(plain.block) is (why in ("never", "no"))


async def test_a_list_of_words_is_told_the_project_as_a_line_of_the_shell_is(
    tmp_path: Path,
) -> None:
    room = Room(tmp_path)
    (room.work / "guard.py").write_text("import sys; sys.stderr.write(sys.argv[1]); sys.exit(2)")
    words = ["${CLAUDE_PROJECT_DIR}/guard.py", "in ${CLAUDE_PROJECT_DIR}"]
    settings(room.home, {"type": "command", "command": sys.executable, "args": words})
    assert (await room.desk.before(room.what())).block == f"in {room.work}"


async def test_what_the_model_calls_a_file_is_filled_in_nowhere_again(tmp_path: Path) -> None:
    room = Room(tmp_path)
    (room.work / "guard.py").write_text("import sys; sys.stderr.write(sys.argv[1]); sys.exit(2)")
    command = f"{sys.executable} guard.py {{file}}"
    entry = {"events": ["PRE_TOOL_USE"], "type": "COMMAND", "command": command, "can_block": True}
    room.write({"name": "guard", **entry})
    what = room.what(call=ToolCall("t.1", "Write", {"path": "${CLAUDE_PROJECT_DIR}/x"}, ""))
    assert (await room.desk.before(what)).block == f"{room.work}/${{CLAUDE_PROJECT_DIR}}/x"


async def test_a_call_that_no_hook_is_there_for_is_not_written_down(tmp_path: Path) -> None:
    room = Room(tmp_path)
    assert (await room.desk.before(room.what())).block == ""
    assert not (room.home / "state" / "hooks").exists()


async def test_what_anybody_reads_of_a_hook_holds_no_secret(tmp_path: Path) -> None:
    room = Room(tmp_path, python("import sys; sys.stderr.write('it is t0k'); sys.exit(2)"))
    assert (await room.desk.before(room.what())).block == "it is [redacted]"
    room.write(python('print(\'{"decision": "ask", "reason": "of t0k?"}\')'))
    assert (await room.desk.before(room.what())).ask == "one: of [redacted]?"
    room.write(python('print(\'{"context": "about t0k"}\')'))
    assert (await room.desk.before(room.what())).context == (Spoken("one", "about [redacted]"),)
    assert not any("t0k" in one.read_text() for one in (room.home / "state" / "hooks").iterdir())


async def test_whatever_a_hook_leaves_running_is_ended(tmp_path: Path) -> None:
    left = tmp_path / "pid"
    text = f"import subprocess; p = subprocess.Popen(['sleep', '300'], start_new_session=True); open({str(left)!r}, 'w').write(str(p.pid))"
    room = Room(tmp_path, python(text))
    assert (await room.desk.before(room.what())).block == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(left.read_text()), 0)


async def test_rewrites_chain_in_order_and_the_first_block_ends_it(tmp_path: Path) -> None:
    def add(sign: str) -> str:
        return f"import json,sys; a = json.load(sys.stdin)['arguments']; a['command'] += '{sign}'; print(json.dumps({{'arguments': a, 'context': '{sign}'}}))"

    never = python("raise SystemExit(1)", "never", match="Read")
    room = Room(
        tmp_path, python(add("1"), "a"), never, python(add("2"), "b", **{"if": "Bash(ls1)"})
    )
    word = await room.desk.before(room.what())
    assert word.arguments == {"command": "ls12"}
    assert word.context == (Spoken("a", "1"), Spoken("b", "2"))
    assert word.by == "a, b"
    room.write(
        python(add("1"), "a"),
        python("import sys; sys.exit(2)", "stop"),
        python("open('ran', 'w')", "late"),
    )
    assert (await room.desk.before(room.what())).by == "stop"
    assert not (room.work / "ran").exists()


async def test_imported_words_count_as_documented(tmp_path: Path) -> None:
    room = Room(tmp_path)

    async def said(**specific: Any) -> Any:
        text = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **specific}})
        settings(room.home, {"type": "command", "command": f"cat > seen.json; echo '{text}'"})
        return await room.desk.before(room.what())

    assert (await said(permissionDecision="deny", permissionDecisionReason="no")).block == "no"
    assert "look" in (await said(permissionDecision="ask", permissionDecisionReason="look")).ask
    with structlog.testing.capture_logs() as logs:
        assert "deferred" in (await said(permissionDecision="defer")).ask
    assert any("it defers" in str(line) for line in logs)
    allowed = await said(
        permissionDecision="allow", updatedInput={"command": "pwd"}, additionalContext="hello"
    )
    assert (allowed.block, allowed.ask, allowed.arguments) == ("", "", {"command": "pwd"})
    assert allowed.context == (Spoken("PreToolUse[1].1", "hello"),)
    fields = json.loads((room.work / "seen.json").read_text())
    assert {
        key: fields[key]
        for key in ("hook_event_name", "session_id", "tool_name", "tool_input", "tool_use_id")
    } == {
        "hook_event_name": "PreToolUse",
        "session_id": "thread.0",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": "t.1",
    }


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (Raw('{"decision": "block", "reason": "no test ran"}'), "no test ran"),
        (Raw(err="2 failed", code=2), "2 failed"),
        (Raw('{"hookSpecificOutput": {"additionalContext": "see a.py"}}'), "see a.py"),
        (Raw('{"continue": false, "stopReason": "enough", "decision": "block"}'), ""),
        (Raw('{"decision": "approve"}'), ""),
        (Raw("all is well"), ""),
        (Raw(err="half", code=1), ""),
        (Raw(problem="it hangs"), ""),
        (Raw('{"decision": '), ""),
    ],
)
def test_an_imported_stop_hook_has_the_model_go_on_only_by_a_plain_word(
    raw: Raw, words: str
) -> None:
    hook = Hook("Stop[1].1", "x", "claude", ("turn_end",), Program(("x",)), spelled="Stop")
    said = read(hook, "turn_end", raw)
    assert (said.block, said.context) == ("", words)
    # In the background, and as one of our own, it is only told.
    for watching in (replace(hook, may_block=False), replace(hook, dialect="own")):
        said = read(watching, "turn_end", raw)
        assert (said.block, said.context) == ("", "")


@pytest.mark.parametrize(
    ("raw", "words", "finding"),
    [
        (Raw("branch main\n"), "branch main", ""),
        (Raw('{"hookSpecificOutput": {"additionalContext": "3 issues"}}'), "3 issues", ""),
        (Raw("not this", err="no git here", code=2), "", "wants to block (no git here)"),
        (Raw("nor this", code=1), "", "exit code 1"),
        (Raw("half", problem="it hangs"), "", "it hangs"),
        (Raw("x" * 20_000), "x" * CONTEXT, ""),
    ],
)
def test_what_an_imported_hook_prints_as_a_session_begins_is_context(
    raw: Raw, words: str, finding: str
) -> None:
    hook = Hook("SessionStart[1].1", "x", "claude", ("session_start",), Program(("x",)))
    said = read(hook, "session_start", raw)
    assert (said.block, said.context) == ("", words)
    assert finding in " ".join(said.findings)
    assert bool(said.findings) == bool(finding)


async def test_imported_hooks_at_an_answer_are_told_whether_they_sent_one_back_before(
    tmp_path: Path,
) -> None:
    text = (
        "import json, sys; e = json.load(sys.stdin);"
        "sys.stderr.write(f\"{e['last_assistant_message']} {e['stop_hook_active']}\"); sys.exit(2)"
    )
    room = Room(tmp_path)
    command = shlex.join([sys.executable, "-c", text])
    settings(room.home, {"type": "command", "command": command}, event="Stop")
    for again in (False, True):
        what = room.what("turn_end", None, detail="answered", text="done", again=again)
        assert [one.words for one in await room.desk.ending(what)] == [f"done {again}"]


async def test_a_hook_that_ends_the_turn_goes_before_those_that_send_its_answer_back(
    tmp_path: Path,
) -> None:
    room = Room(tmp_path)
    blocks = {"type": "command", "command": "echo not yet >&2; exit 2"}
    ends = {"type": "command", "command": """echo '{"continue": false}'"""}
    what = room.what("turn_end", None, detail="answered", text="done")
    settings(room.home, blocks, ends, event="Stop")
    assert await room.desk.ending(what) == ()
    settings(room.home, blocks, {**ends, "async": True}, event="Stop")
    assert [one.words for one in await room.desk.ending(what)] == ["not yet"]


async def test_a_model_that_is_asked_whether_a_turn_may_end_is_told_so(tmp_path: Path) -> None:
    room = Room(tmp_path, answer='{"ok": false, "reason": "the tests were not run"}')
    settings(room.home, {"type": "prompt", "prompt": "Is it done? $ARGUMENTS"}, event="Stop")
    what = room.what("turn_end", None, detail="answered", text="t0k is set")
    (said,) = await room.desk.ending(what)
    assert said.words == "the tests were not run"
    (asked,) = room.asked
    assert "may end its work" in asked.system[0].text
    assert asked.payer.turn == "t"


async def test_what_hooks_at_an_answer_cannot_do_lets_the_turn_end_and_is_logged(
    tmp_path: Path,
) -> None:
    room = Room(tmp_path)
    settings(room.home, {"type": "command", "command": "kill -9 $$"}, event="Stop")
    with structlog.testing.capture_logs() as logged:
        assert await room.desk.ending(room.what("turn_end", None, detail="answered")) == []
    assert "SIGKILL" in next(one for one in logged if one["event"] == "hook_finding")["finding"]

    async def fails(*_: object) -> None:
        raise RuntimeError("no store")

    room.files.of = fails  # type: ignore[method-assign, assignment]
    with structlog.testing.capture_logs() as logged:
        assert await room.desk.ending(room.what("turn_end", None, detail="answered")) == ()
        assert await room.desk.beginning(room.what("session_start", None), 0) == ()
    assert [one["event"] for one in logged] == ["hooks_failed", "hooks_failed"]


async def test_an_endpoint_is_posted_the_event_and_named_variables_only(tmp_path: Path) -> None:
    posted: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        posted.append((await request.json(), request.headers["Authorization"]))
        return web.json_response(
            {"decision": "block", "reason": "far away"}, status=200 if len(posted) == 1 else 503
        )

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        headers = {"Authorization": "Bearer $TOKEN$SECRET_KEY"}
        hook = {
            "name": "far",
            "on": "pre_tool_use",
            "type": "http",
            "url": url,
            "headers": headers,
            "env": ["TOKEN"],
        }
        room = Room(tmp_path, hook)
        assert (await room.desk.before(room.what())).block == "far away"
        assert posted[0][1] == "Bearer t0k"
        assert posted[0][0]["tool_name"] == "Bash"
        assert "503" in (await room.desk.before(room.what())).block
    finally:
        await runner.cleanup()
    assert "cannot be asked" in (await room.desk.before(room.what())).block


@pytest.mark.parametrize("whose", ["owner", "plugin", "project"])
@pytest.mark.parametrize("shape", ["own", "claude"])
async def test_variables_of_the_house_go_to_addresses_of_its_owner_alone(
    whose: str, shape: str, tmp_path: Path
) -> None:
    posted: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        posted.append(request.headers["Authorization"])
        return web.json_response({})

    application = web.Application()
    application.router.add_post("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        row = {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${TOKEN}$TOKEN"}}
        own = {"hooks": [{"name": "far", "on": "pre_tool_use", **row, "env": ["TOKEN"]}]}
        handler = {**row, "allowedEnvVars": ["TOKEN"]}
        claude = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [handler]}]}}
        text = json.dumps(own if shape == "own" else claude)
        trusts = Trusting()
        room = Room(tmp_path, trusts=trusts)
        if whose == "owner":
            (room.home / "hooks.yaml").write_text(text)
            await room.desk.before(room.what())
        elif whose == "plugin":
            (hook,) = hooks_in("shop", {"hooks.yaml": text}, str(tmp_path), "").hooks
            await say(room.acting, hook, room.what())
        else:
            name = ".ohmo/hooks.yaml" if shape == "own" else ".claude/settings.json"
            (room.work / name).parent.mkdir()
            (room.work / name).write_text(text)
            (waiting,) = await room.files.candidates(room.work)
            await trusts.allow("hook", str(room.work), waiting.digest, "ada")
            await room.desk.before(room.what())
    finally:
        await runner.cleanup()
    assert posted == ["Bearer t0kt0k" if whose == "owner" else "Bearer"]


async def test_a_prompt_asks_the_smallest_model_once_filled_and_paid_by_the_turn(
    tmp_path: Path,
) -> None:
    hook = {
        "name": "judge",
        "on": "pre_tool_use",
        "type": "prompt",
        "prompt": "{tool_name}: {args}?",
    }
    room = Room(tmp_path, hook, answer='```json\n{"ok": false, "reason": "hm"}\n```')
    call = ToolCall("t.1", "Bash", {"command": "echo {tool_name} $ARGUMENTS"}, "")
    assert (await room.desk.before(room.what(call=call))).block == "hm"
    (asked,) = room.asked
    assert (asked.purpose, asked.payer.turn, asked.payer.session, asked.tools) == (
        "hook",
        "t",
        "thread.0",
        (),
    )
    assert 'Bash: {"command": "echo {tool_name} $ARGUMENTS"}?' in str(asked.steps)
    room.answer = "of course"
    assert "not JSON" in (await room.desk.before(room.what())).block


async def test_a_call_that_may_go_on_is_asked_about_once_until_it_the_hooks_or_the_mode_is_another(
    tmp_path: Path,
) -> None:
    """As when a person was asked meanwhile, also in another life; a block is nothing to rely on."""
    count = f"open({str(tmp_path / 'count')!r}, 'a').write('x'); print('{{}}')"
    room = Room(tmp_path, python(count))

    async def asked(**more: Any) -> int:
        before = len((tmp_path / "count").read_text()) if (tmp_path / "count").exists() else 0
        await room.desk.before(room.what(**more))
        return len((tmp_path / "count").read_text()) - before

    assert [await asked(), await asked()] == [1, 0]
    room = Room(tmp_path)
    assert await asked() == 0
    assert await asked(mode="plan") == 1
    assert await asked(call=ToolCall("t.1", "Bash", {"command": "ls -l"}, "")) == 1
    assert await asked(call=ToolCall("t.2", "Bash", {"command": "ls"}, "")) == 1
    room.write(python(count, "another"))
    assert [await asked(call=ToolCall("t.2", "Bash", {"command": "ls"}, "")) for _ in "ab"] == [
        1,
        0,
    ]
    for file in (kept := room.home / "state" / "hooks").iterdir():
        file.write_text('{"block": ')
    assert await asked(call=ToolCall("t.2", "Bash", {"command": "ls"}, "")) == 1
    for number in range(600):
        (kept / f"{number}.json").touch()
    assert await asked(call=ToolCall("t.3", "Bash", {"command": "ls"}, "")) == 1
    assert len(list(kept.iterdir())) == 256
    assert await asked(call=ToolCall("t.3", "Bash", {"command": "ls"}, "")) == 0
    room.write(python(f"{count}; import sys; sys.exit(2)"))
    assert [await asked(), await asked()] == [1, 1]


@pytest.mark.parametrize("answer", ['{"ok": true}', '{"ok": false, "reason": "hm"}', "yes", ""])
async def test_an_agent_is_asked_with_a_minute_and_whatever_is_no_plain_yes_blocks(
    answer: str, tmp_path: Path
) -> None:
    hook = {"name": "looks", "on": "pre_tool_use", "type": "agent", "prompt": "$ARGUMENTS?"}
    room = Room(tmp_path, hook, answer=answer)
    word = await room.desk.before(room.what())
    assert (word.block == "") == ("true" in answer)
    assert word.looked == (("looks",) if "true" in answer else ())
    (text, model, seconds) = room.inquired[0]
    assert json.loads(text.removesuffix("?"))["tool_name"] == "Bash"
    assert (model, seconds, room.asked) == ("small", 60.0, [])


@pytest.mark.parametrize(
    ("model", "own", "asked"), [("large", "large", "large"), ("haiku", "", "small")]
)
@pytest.mark.parametrize("type_", ["prompt", "agent"])
async def test_a_hook_may_name_a_model_of_the_profile(
    model: str, own: str, asked: str, type_: str, tmp_path: Path
) -> None:
    """One that is not there blocks as ours, and is the smallest as an imported one."""

    def models() -> list[str]:
        found = [request.model for request in room.asked] + [each[1] for each in room.inquired]
        room.asked.clear()
        room.inquired.clear()
        return found

    written = {"type": type_, "prompt": "well?", "model": model}
    room = Room(tmp_path, {"name": "a", "on": "pre_tool_use", **written}, answer='{"ok": true}')
    block = (await room.desk.before(room.what())).block
    assert ("the profile has no model haiku" in block) == (not own)
    assert models() == ([own] if own else [])
    settings(room.home, written)
    assert (await room.desk.before(room.what())).block == ""
    assert models() == [asked]


async def test_observers_are_never_waited_for_run_side_by_side_and_are_dropped_with_a_count(
    tmp_path: Path,
) -> None:
    text = "import sys,time,json; n = json.load(sys.stdin)['text']; time.sleep(0.3); open(sys.argv[1] + n, 'w')"
    hooks = [
        {
            "name": sign,
            "on": "turn_end",
            "command": [sys.executable, "-c", text, f"{tmp_path}/{sign}"],
        }
        for sign in "ab"
    ]
    room = Room(tmp_path, *hooks)
    began = time.monotonic()
    for number in range(WAITING + 5):
        room.desk.observe(room.what("turn_end", text=str(number)))
    assert time.monotonic() - began < 0.5
    assert room.desk.dropped == 5
    running = asyncio.create_task(room.desk.run())
    await until(lambda: all((tmp_path / name).exists() for name in ("a0", "b0", "a1", "b1")))
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys; sys.stderr.write('line 3 is long'); sys.exit(2)", "line 3 is long"),
        ('print(\'{"decision": "block", "reason": "mend t0k"}\')', "mend [redacted]"),
        (
            'print(\'{"hookSpecificOutput": {"additionalContext": "it is generated"}}\')',
            "it is generated",
        ),
        ("print('words for who reads along')", ""),
        ("import sys; sys.exit(1)", ""),
    ],
)
async def test_after_a_tool_the_model_is_told_what_a_hook_says_of_it(
    tmp_path: Path, text: str, words: str
) -> None:
    room = Room(tmp_path)
    command = shlex.join([sys.executable, "-c", text])
    settings(room.home, {"type": "command", "command": command}, event="PostToolUse")
    told = await room.desk.after(room.what("post_tool_use", result=ToolResult("t.1", "fine")))
    assert [one.words for one in told] == ([words] if words else [])


async def test_after_a_tool_hooks_run_side_by_side_and_what_fails_is_logged(tmp_path: Path) -> None:
    meets = (
        "import os, time; open({0!r}, 'w')\n"
        "while not os.path.exists({1!r}): time.sleep(0.02)\n"
        'print(\'{{"context": "met"}}\')'
    )
    room = Room(
        tmp_path,
        python(meets.format("a", "b"), "first", on="post_tool_use", timeout=20),
        python("print('half')", "half", on="post_tool_use"),
        python(meets.format("b", "a"), "last", on="post_tool_use", timeout=20),
    )
    with structlog.testing.capture_logs() as logged:
        told = await room.desk.after(room.what("post_tool_use", result=ToolResult("t.1", "fine")))
    assert told == [Spoken("first", "met"), Spoken("last", "met")]
    (finding,) = [line for line in logged if line["event"] == "hook_finding"]
    assert finding["hook"] == "half"
    assert "not JSON" in finding["finding"]


async def test_a_hook_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    room = Room(tmp_path)
    text = "import time; time.sleep(1); open('later', 'w')"
    command = shlex.join([sys.executable, "-c", text])
    settings(room.home, {"type": "command", "command": command, "async": True}, event="PostToolUse")
    running = asyncio.create_task(room.desk.run())
    assert await room.desk.after(room.what("post_tool_use", result=ToolResult("t.1", "x"))) == []
    assert not (room.work / "later").exists()
    await until((room.work / "later").exists)
    running.cancel()
    await asyncio.wait([running])


async def test_sessions_and_turns_are_told_once_each(tmp_path: Path) -> None:
    text = (
        "import sys, json; e = json.load(sys.stdin); print(json.dumps({'context': e['detail']}));"
        "open('log', 'a').write(' '.join((e['event'], e['session'], e['detail'])) + chr(10))"
    )
    room = Room(tmp_path, python(text, on=["session_start", "session_end", "turn_end"]))
    running = asyncio.create_task(room.desk.run())

    async def turn(name: str, detail: str, lines: int, summed_up: int = 0) -> list[str]:
        what = Hooked("session_start", name, "thread", room.work, detail=detail)
        what = replace(what, session=room.present.session)
        told = [*await room.desk.beginning(what, summed_up)]
        told += await room.desk.beginning(what, summed_up)  # at the next call of the model
        room.desk.hear("thread", TurnEnded(name, "parked", ""))
        room.desk.hear("thread", TurnEnded(name, "answered", "done"))
        log = room.work / "log"
        await until(lambda: log.exists() and len(log.read_text().splitlines()) == lines)
        return [one.words for one in told]

    assert await turn("t1", "startup", 2) == ["startup"]
    assert await turn("t2", "resume", 3) == []
    assert await turn("t3", "resume", 5, summed_up=9) == ["compact"]
    room.present = Present("thread.7", room.work)
    assert await turn("t4", "startup", 8) == ["clear"]
    room.desk.left("thread")  # somebody only said /stop
    room.present = Present("thread.0", room.work)
    room.desk.left("thread")
    room.desk.left("thread")
    await until(lambda: "session_end thread.7" in (room.work / "log").read_text())
    assert await turn("t5", "resume", 11) == ["resume"]
    running.cancel()
    await asyncio.wait([running])
    assert sorted((room.work / "log").read_text().splitlines()) == [
        "session_end thread.0 clear",
        "session_end thread.7 clear",
        "session_start thread.0 compact",
        "session_start thread.0 resume",
        "session_start thread.0 startup",
        "session_start thread.7 clear",
        *["turn_end thread.0 answered"] * 4,
        "turn_end thread.7 answered",
    ]


async def test_of_a_session_that_begins_those_in_the_background_are_not_waited_for(
    tmp_path: Path,
) -> None:
    room = Room(tmp_path)
    command = shlex.join([sys.executable, "-c", "import time; time.sleep(1); open('later', 'w')"])
    handlers = (
        {"type": "command", "command": command, "async": True},
        {"type": "command", "command": "echo hello"},
    )
    settings(room.home, *handlers, event="SessionStart")
    running = asyncio.create_task(room.desk.run())
    what = room.what("session_start", None, detail="startup")
    assert [one.words for one in await room.desk.beginning(what, 0)] == ["hello"]
    assert not (room.work / "later").exists()
    await until((room.work / "later").exists)
    running.cancel()
    await asyncio.wait([running])


async def test_a_half_written_file_keeps_the_old_set_and_says_so_once(tmp_path: Path) -> None:
    room = Room(tmp_path, python("import sys; sys.exit(2)"))
    file = room.home / "hooks.yaml"
    with structlog.testing.capture_logs() as logs:
        for text in ("hooks:\n  - name: [", "", "hooks:\n  - name: ["):
            file.write_text(text)
            for _ in range(2):
                assert (await room.desk.before(room.what())).by == "one"
    assert [line["event"] for line in logs].count("hooks_kept") == 3
    room.write(python("import sys; sys.exit(2)", "two"))
    assert (await room.desk.before(room.what())).by == "two"
    file.unlink()
    assert (await room.desk.before(room.what())).block == ""


async def test_a_file_that_is_being_written_counts_once_it_is_still(tmp_path: Path) -> None:
    """Also where an editor takes the old one away first; meanwhile the old hooks are asked."""
    room = Room(tmp_path, python("import sys; sys.exit(2)"))
    file = room.home / "hooks.yaml"
    whole = yaml.safe_dump({"hooks": [python("import sys; sys.exit(2)", "two")]})

    async def write() -> None:
        file.unlink()
        await asyncio.sleep(0.1)
        for end in range(0, len(whole), 8):
            with file.open("a") as opened:
                opened.write(whole[end : end + 8])
            await asyncio.sleep(0.02)

    writing = asyncio.create_task(write())
    await asyncio.sleep(0.05)
    assert (await room.desk.before(room.what())).by == "two"
    await writing


async def test_a_broken_file_at_the_start_lets_no_tool_run(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "hooks.yaml").write_text("hooks: 7")
    room = Room(tmp_path)
    for _ in range(2):
        assert "hooks.yaml:1: hooks: expected a list" in (await room.desk.before(room.what())).block
    room.write(python("pass"))
    assert (await room.desk.before(room.what())).block == ""


async def test_a_link_that_leads_nowhere_is_no_file_without_hooks(tmp_path: Path) -> None:
    """At the start no tool runs; later what counted before does. Taken away, it is none."""
    kept, file = tmp_path / "dotfiles", tmp_path / "home" / "hooks.yaml"
    file.parent.mkdir()
    file.symlink_to(kept)
    room = Room(tmp_path)
    word = await room.desk.before(room.what())
    assert word.block == (
        f"hooks.yaml: a link to {kept}, which is not there; no tool runs until it is mended"
    )
    kept.write_text(yaml.safe_dump({"hooks": [python("import sys; sys.exit(2)")]}))
    assert (await room.desk.before(room.what())).by == "one"
    kept.unlink()
    assert (await room.desk.before(room.what())).by == "one"
    file.unlink()
    assert (await room.desk.before(room.what())).block == ""
    file.symlink_to(kept)
    again = Room(tmp_path)
    assert (await again.desk.before(again.what())).block
    file.unlink()
    assert (await again.desk.before(again.what())).block == ""


async def test_hooks_of_a_project_run_only_while_exactly_they_are_trusted(tmp_path: Path) -> None:
    trusts = Trusting()
    room = Room(tmp_path, trusts=trusts)
    script = room.work / ".claude" / "hooks" / "no.sh"
    script.parent.mkdir(parents=True)
    script.write_text("exit 2\n")
    written = {
        "hooks": {
            "PreToolUse": [
                {
                    "hooks": [
                        {
                            "type": "command",
                            "command": 'sh "$CLAUDE_PROJECT_DIR"/.claude/hooks/no.sh',
                        }
                    ]
                }
            ]
        }
    }
    (room.work / ".claude" / "settings.json").write_text(json.dumps(written))

    async def blocked() -> bool:
        return bool((await room.desk.before(room.what())).block)

    assert not await blocked()
    assert not await blocked()
    (waits,) = await room.desk.candidates(room.work)
    assert (waits.kind, waits.name) == ("hook", str(room.work))
    assert "no.sh" in waits.may
    assert room.told == []  # a card asks (ohmo.approvals.trust_cards)
    await trusts.allow("hook", waits.name, waits.digest, "ada")
    assert await blocked()
    assert await room.desk.candidates(room.work) == []
    script.write_text("exit 2 #\n")
    assert not await blocked()
    script.write_text("exit 2\n")
    assert await blocked()
    (script.parent / "other.sh").write_text("")
    assert not await blocked()
    (script.parent / "other.sh").unlink()
    await trusts.revoke("hook", str(room.work))
    assert not await blocked()


@pytest.mark.parametrize(
    "line",
    [
        "1" * 60_000,
        "${CLAUDE_PROJECT_DIR:-" * 2_700,
        "${CLAUDE_PROJECT_DIR:-${a" * 2_200,
        "> " * 30_000,
    ],
)
async def test_a_line_of_a_project_is_looked_through_at_once(tmp_path: Path, line: str) -> None:
    room = Room(tmp_path)
    (room.work / ".ohmo").mkdir()
    settings(room.work / ".ohmo", {"type": "command", "command": line})
    began = time.monotonic()
    await room.desk.candidates(room.work)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        ("sh check", True),
        ("/usr/bin/env python3.11 check", True),
        ('bash -c "./check --all"', True),
        ('"$CLAUDE_PROJECT_DIR"/ci/../check', True),
        ('"${CLAUDE_PROJECT_DIR:-.}"/check', True),
        ("$(pwd)/check", True),
        ('"${CLAUDE_PROJECT_DIR:-${PWD}}"/check', True),
        ('"${CLAUDE_PROJECT_DIR:-$PWD}"/check', True),
        ('"${CLAUDE_PROJECT_DIR:-$(git rev-parse --show-toplevel)}"/check', True),
        ('"${CLAUDE_PROJECT_DIR:-${HOME}}/check"', True),
        ('"$PWD"/check', True),
        ('"${PWD}"/check', True),
        ("cd ci && ./inner", True),
        ("make --file=check", True),
        (["bash", "my ci/with spaces"], True),
        (["bash", "${CLAUDE_PROJECT_DIR}/check"], True),
        (["x" * 300, "check"], True),
        ("echo done >> check", False),  # what it writes to is no part of it
        ("echo done 2>check", False),
        ("true", False),
    ],
)
async def test_programs_of_a_project_belong_to_what_is_trusted_and_what_they_work_on_does_not(
    tmp_path: Path, command: str | list[str], counts: bool
) -> None:
    room = Room(tmp_path)
    (room.work / ".ohmo").mkdir()
    written = {"hooks": [{"on": "turn_end", "command": command}]}
    (room.work / ".ohmo" / "hooks.yaml").write_text(json.dumps(written))
    (before,) = await room.desk.candidates(room.work)
    for name in ("check", "ci/inner", "my ci/with spaces"):
        (room.work / name).parent.mkdir(exist_ok=True)
        (room.work / name).write_text("x")
    (after,) = await room.desk.candidates(room.work)
    assert (before.digest != after.digest) == counts


@pytest.mark.parametrize(
    "what",
    [
        *("garbage", "pipe", "folder", "deep", "alias", "many", "large", "words", "slow", "link"),
        *("linked folder", "long link", "odd name"),
    ],
)
async def test_whatever_a_project_holds_breaks_no_turn_and_can_be_no_more_than_looked_at(
    tmp_path: Path, what: str
) -> None:
    room = Room(tmp_path)
    file = room.work / ".claude" / "settings.json"
    folder = room.work / ".claude" / "hooks"
    folder.mkdir(parents=True)
    handler = {"type": "command", "command": "sh .claude/hooks/a.sh"}
    file.write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [handler]}]}}))
    own = room.work / ".ohmo" / "hooks.yaml"
    own.parent.mkdir()
    match what:
        case "garbage":
            file.write_bytes(b"\x00\xff{")
        case "pipe":
            file.unlink()
            os.mkfifo(file)
            os.mkfifo(folder / "a.sh")
        case "folder":
            own.mkdir()
        case "deep":
            file.write_text("[" * 200_000)
        case "alias":
            levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
            own.write_text("\n".join(["a0: &a0 x", *levels, "hooks: *a39"]))
        case "many":
            for number in range(2_100):
                (folder / f"f{number}").touch()
        case "large":
            with (folder / "a.sh").open("wb") as opened:
                opened.truncate(40 << 20)
        case "words":
            handler["command"] = " ".join(map(str, range(9_000)))
            file.write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [handler]}]}}))
        case "slow":
            own.write_text("hooks: [" + "{on: turn_end, command: x}, " * 20_000 + "]")
        case "link":
            (folder / "a.sh").symlink_to("/dev/zero")
        case "linked folder":
            (folder / "more").symlink_to(tmp_path)
        case "long link":
            own.symlink_to("a" * 300)
        case _:
            (folder / os.fsdecode(b"\xff\n.sh")).touch()
    began = time.monotonic()
    assert (await room.desk.before(room.what())).block == ""
    waiting = await room.desk.candidates(room.work)
    assert all(len(one.digest) == 64 for one in waiting)
    assert bool(waiting) == (what == "odd name")
    assert len(room.told) == (what != "odd name")  # what can be allowed has a card
    assert time.monotonic() - began < 10


@given(
    out=st.one_of(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.text(max_size=9),
            lambda one: (
                st.lists(one)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "decision",
                            "permissionDecision",
                            "hookSpecificOutput",
                            "reason",
                            "arguments",
                            "updatedInput",
                            "context",
                            "continue",
                            "ok",
                        ]
                    ),
                    one,
                )
            ),
        ).map(json.dumps),
    ),
    code=st.integers(0, 255),
    dialect=st.sampled_from(["own", "claude", "seed"]),
)
def test_whatever_is_answered_it_is_read_and_the_strict_go_on_only_on_a_plain_word(
    out: str, code: int, dialect: Any
) -> None:
    hook = Hook("h", "f", dialect, ("pre_tool_use",), Program(("x",)))
    said = read(hook, "pre_tool_use", Raw(out, "", code))
    if code == 2 or (code and hook.strict):
        assert said.block
    for event in ("post_tool_use", "turn_end"):
        seen = read(hook, event, Raw(out, "", code))
        assert (seen.block, seen.ask, seen.arguments) == ("", "", None)
        assert not (seen.context and event == "turn_end")
