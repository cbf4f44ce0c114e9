"""Hooks on the real daemon, through the keyboard: one that blocks, rewrites, hangs, floods, forks and prints half a line;
a file that is half-written during a turn; and one command without a daemon."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from ohmo.engine.inquiry import STEPS
from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.parts import skip_without, there
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer
from tests.programs import run_process

pytestmark = pytest.mark.timeout(240)
ROOT = Path(__file__).parents[2]
REWRITES = "import json,sys; a = json.load(sys.stdin)['arguments']; a['command'] = 'echo rewritten'; print(json.dumps({'arguments': a}))"
FORKS = "import os,time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(200)"
BAD = {
    "blocks": ("import sys; sys.stderr.write('not today'); sys.exit(2)", "not today"),
    "hangs": ("import time; time.sleep(200)", "did not end within 1 s"),
    "floods": ("while True: print('x' * 10000)", "did not end within 1 s"),
    "half": ("print('{\"decision\": ', end='')", "not JSON"),
}


def hook(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "on": "pre_tool_use",
        "command": [sys.executable, "-c", text],
        "timeout": 1,
        **more,
    }


def write(home: Keyboard, *hooks: dict[str, Any]) -> None:
    (home.home / "hooks.yaml").write_text(yaml.safe_dump({"hooks": list(hooks)}))


def results(asked: Asked) -> list[str]:
    return [str(one["content"]) for one in asked.body["messages"] if one["role"] == "tool"]


async def test_hooks_that_block_rewrite_hang_flood_fork_and_print_half_a_line(
    tmp_path: Path,
) -> None:
    calls = tuple(
        Call("Bash", {"command": f"touch {name}"}) for name in (*BAD, "rewrites", "forks")
    )
    server = ModelServer([Turn(calls=calls), Turn(text="so it is")])
    async with keyboard(tmp_path, server, running=False) as home:
        every = [
            hook(name, text, **{"if": f"Bash(touch {name})"}) for name, (text, _) in BAD.items()
        ]
        every.append(hook("rewrites", REWRITES, timeout=10, **{"if": "Bash(touch rewrites)"}))
        every.append(hook("forks", FORKS, timeout=10, **{"if": "Bash(touch forks)"}))
        ended = "import json,sys; e = json.load(sys.stdin); open('ended', 'w').write(e['detail'] + ' ' + e['text'])"
        every.append(hook("ended", ended, on="turn_end", timeout=10))
        write(home, *every)
        await home.daemon.start()
        began = time.monotonic()
        said = await home.ohmo("-p", "touch them", "--allow", "Bash")
        assert said.out.strip() == "so it is", said.err
        assert time.monotonic() - began < 60
        got = results(server.asked[1])
        for text, (name, (_, why)) in zip(got, BAD.items(), strict=False):
            assert f"hook {name}" in text
            assert why in text
        assert "rewritten" in got[4]
        assert "The hook rewrites changed the arguments" in got[4]
        assert sorted(path.name for path in home.work.iterdir() if path.name != "ended") == [
            "forks"
        ]
        told = home.work / "ended"

        async def heard() -> bool:
            return told.exists() and told.read_text() == "answered so it is"

        await until("the end of the turn is told", heard)


async def test_a_hook_that_asks_is_not_asked_again_after_a_kill_when_the_person_answered(
    tmp_path: Path,
) -> None:
    asks = "open('counted', 'a').write('x'); print('{\"decision\": \"ask\", \"reason\": \"big\"}')"
    server = ModelServer([Turn(calls=(Call("Bash", {"command": "touch made"}),)), Turn(text="ok")])
    rules = {"allow": ["Bash"]}
    async with keyboard(tmp_path, server, running=False, permissions=rules) as home:
        write(home, hook("asks", asks, timeout=20))
        await home.daemon.start()
        await home.daemon.call("POST", "/api/v1/messages", {"text": "go"})
        found: list[Any] = []

        async def waits() -> bool:
            found[:] = (await home.daemon.call("GET", "/api/v1/approvals"))[1]["approvals"]
            return bool(found)

        await until("the question is open", waits)
        assert "asks: big" in str(found)
        await home.daemon.kill()
        await home.daemon.start()
        path = f"/api/v1/approvals/{found[0]['ask']['id']}"
        status, _ = await home.daemon.call("POST", path, {"verdict": "allowed", "scope": "once"})
        assert status < 300

        async def over() -> bool:
            return len(server.asked) == 2

        await until("it went on", over)
        assert (home.work / "made").exists()
        assert (home.work / "counted").read_text() == "x"


async def test_a_half_written_file_during_a_turn_keeps_the_old_hooks_and_a_whole_one_counts_at_once(
    tmp_path: Path,
) -> None:
    call = Turn(calls=(Call("Bash", {"command": "touch made"}),))
    server = ModelServer([call, Turn(text="refused"), call, Turn(text="done")])
    async with keyboard(tmp_path, server, running=False) as home:
        write(home, hook("no", BAD["blocks"][0], timeout=10))
        await home.daemon.start()
        (home.home / "hooks.yaml").write_text("hooks:\n  - name: [")
        assert (await home.ohmo("-p", "make it", "--allow", "Bash")).out.strip() == "refused"
        assert "hook no" in results(server.asked[1])[-1]
        assert "hooks_kept" in (home.home / "logs" / "ohmo.jsonl").read_text()
        write(home)
        assert (await home.ohmo("-p", "make it", "--allow", "Bash")).out.strip() == "done"
        assert (home.work / "made").exists()


async def test_with_a_link_that_leads_nowhere_no_tool_runs_until_its_target_is_there(
    tmp_path: Path,
) -> None:
    call = Turn(calls=(Call("Bash", {"command": "touch made"}),))
    server = ModelServer([call, Turn(text="refused"), call, Turn(text="done")])
    kept = tmp_path / "dotfiles.yaml"
    async with keyboard(tmp_path, server, running=False) as home:
        (home.home / "hooks.yaml").symlink_to(kept)
        await home.daemon.start()
        assert (await home.ohmo("-p", "make it", "--allow", "Bash")).out.strip() == "refused"
        assert f"hooks.yaml: a link to {kept}, which is not there" in results(server.asked[1])[-1]
        assert not (home.work / "made").exists()
        kept.write_text("hooks: []")
        assert (await home.ohmo("-p", "make it", "--allow", "Bash")).out.strip() == "done"
        assert (home.work / "made").exists()


async def test_hooks_of_a_project_are_asked_once_exactly_they_are_allowed(tmp_path: Path) -> None:
    """In a house that began without any hook; over a restart; until one byte changes."""
    call = Turn(calls=(Call("Bash", {"command": "touch made"}),))
    server = ModelServer([turn for _ in range(5) for turn in (call, Turn(text="so be it"))])
    async with keyboard(tmp_path, server) as home:
        script = home.work / "ci" / "guard.sh"
        handler = {"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/ci/guard.sh'}
        begins = {"type": "command", "command": "echo yes > began"}
        written = {
            "hooks": {
                "PreToolUse": [{"matcher": "Bash", "hooks": [handler]}],
                "SessionStart": [{"hooks": [begins]}],
            }
        }
        (home.work / ".claude").mkdir()
        (home.work / ".claude" / "settings.json").write_text(json.dumps(written))
        script.parent.mkdir()
        script.write_text("#!/bin/sh\necho not on a friday >&2; exit 2\n")
        script.chmod(0o755)

        async def refused() -> bool:
            (home.work / "made").unlink(missing_ok=True)
            assert (await home.ohmo("-p", "make it", "--allow", "Bash")).out.strip() == "so be it"
            return "not on a friday" in results(server.asked[-1])[-1]

        assert not await refused()
        assert (home.work / "made").exists()

        async def asked() -> bool:
            return "the hooks of the project" in str(home.daemon.rows("SELECT body FROM outbox"))

        await until("a card asks", asked)
        listed = await home.ohmo("trust", "list")
        assert f"hook {home.work} waits: it runs at pre_tool_use" in listed.out
        assert "ohmo trust allow hook" in (await home.ohmo("hooks", "list")).err
        allowed = await home.ohmo("trust", "allow", "hook", str(home.work))
        assert allowed.code == 0, allowed.err
        assert await refused()
        assert not (home.work / "made").exists()
        await home.daemon.kill()
        await home.daemon.start()
        assert await refused()

        async def began() -> bool:
            return (home.work / "began").exists()

        await until("the session is told of", began)
        rows = json.loads((await home.ohmo("hooks", "list", "--json")).out)["hooks"]
        assert {row["counts"] for row in rows} == {"yes"}
        script.write_text("#!/bin/sh\nexit 0 # changed\n")
        assert not await refused()
        assert "nobody allowed what is there" in (await home.ohmo("doctor")).out
        assert (await home.ohmo("trust", "allow", "hook", ".")).code == 0  # in that folder
        assert (await home.ohmo("trust", "revoke", "hook", str(home.work))).code == 0
        (home.work / "began").unlink()
        assert not await refused()
        assert not (home.work / "began").exists()


async def test_a_hook_about_turns_counts_once_it_is_written_and_a_strange_project_stops_nothing(
    tmp_path: Path,
) -> None:
    call = Turn(calls=(Call("Bash", {"command": "touch made"}),))
    server = ModelServer(default=lambda _: Turn(text="done"))
    async with keyboard(tmp_path, server) as home:
        write(home, {"name": "end", "on": "turn_end", "command": "echo ended >> ends"})

        async def told() -> bool:
            assert (await home.ohmo("-p", "go on")).code == 0
            return (home.work / "ends").exists()

        await until("the end of a turn is told", told)
        (home.work / ".ohmo").mkdir()
        (home.work / ".ohmo" / "hooks.yaml").symlink_to("a" * 300)
        (home.work / ".claude").symlink_to(".claude")
        server.next(call, Turn(text="done"))
        assert (await home.ohmo("-p", "make it", "--allow", "Bash")).out.strip() == "done"
        assert (home.work / "made").exists()
        (home.home / "hooks.yaml").unlink()
        await home.daemon.kill()
        await home.daemon.start()
        (home.work / "made").unlink()
        server.next(call, Turn(text="done"))
        assert (await home.ohmo("-p", "make it", "--allow", "Bash")).out.strip() == "done"
        assert (home.work / "made").exists()


async def test_a_published_linter_after_an_edit_is_heard_by_the_model(tmp_path: Path) -> None:
    write_it = Call("Write", {"file_path": "a.py", "content": "x=1"})
    server = ModelServer([Turn(calls=(write_it,)), Turn(text="mended")])
    async with keyboard(tmp_path, server, running=False) as home:
        line = (
            "jq -r .tool_input.file_path | xargs -I{} sh -c 'echo {}: E225 >&2; exit 2' || exit 2"
        )
        handler = {"type": "command", "command": line}
        published = {"hooks": {"PostToolUse": [{"matcher": "Write|Edit", "hooks": [handler]}]}}
        (home.home / "hooks.yaml").write_text(json.dumps(published))
        await home.daemon.start()
        said = await home.ohmo("-p", "write it", "--allow", "Write")
        assert said.out.strip() == "mended", said.err
        (got,) = results(server.asked[1])
        assert f"{home.work}/a.py: E225" in got
        assert "A hook says" in got
        why = await home.ohmo("--continue", "-p", "/why")
        assert "hook:" in why.out


def agent(name: str, **more: Any) -> dict[str, Any]:
    about = {"type": "agent", "prompt": "May this be done? policy.md says it. $ARGUMENTS"}
    return {"name": name, "on": "pre_tool_use", **about, **more}


async def test_an_agent_looks_with_tools_that_only_read_triggers_no_hook_and_is_counted(
    tmp_path: Path,
) -> None:
    """It reads the workspace, nothing a person would be asked about, and runs nothing."""
    outside = tmp_path / "outside.txt"
    outside.write_text("far away")
    touch = Turn(calls=(Call("Bash", {"command": "touch made"}),))
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        policy, secret = home.work / "policy.md", home.home / "config.yaml"
        policy.write_text("never on a friday")
        looks = (
            *(Call("Read", {"file_path": str(path)}) for path in (policy, outside, secret)),
            Call("Grep", {"pattern": "friday"}),
            Call("Bash", {"command": "touch worse"}),
            Call("Write", {"file_path": "worse", "content": "x"}),
        )
        no = '{"ok": false, "reason": "it is friday"}'
        server.next(touch, Turn(calls=looks), Turn(text=no), Turn(text="refused"))
        watching = {"name": "watching", "on": ["pre_tool_use", "post_tool_use"], "timeout": 10}
        watching |= {"match": "Read|Grep|Write", "command": "echo seen >> watched; echo {}"}
        write(home, watching, agent("guard", match="Bash"))
        await home.daemon.start()
        said = await home.ohmo("-p", "make it", "--allow", "Bash")
        assert said.out.strip() == "refused", said.err
        _, first, second, last = server.asked
        tools = {tool["function"]["name"] for tool in first.body["tools"]}
        assert tools == {"Glob", "Grep", "Read"}
        assert "touch made" in str(first.body["messages"])
        got = results(second)
        assert "never on a friday" in got[0]
        assert "a person would be asked, and nobody is" in got[1]
        assert "agent's own home" in got[2]
        assert "policy.md" in got[3]
        assert "There is no tool named Bash" in got[4]
        assert "There is no tool named Write" in got[5]
        assert "Not allowed (hook guard): it is friday" in results(last)[-1]
        assert {path.name for path in home.work.iterdir()} == {"policy.md"}  # nothing was watched
        counted = home.daemon.rows("SELECT purpose, count(*) FROM usage GROUP BY purpose")
        assert {tuple(row) for row in counted} == {("hook", 2), ("turn", 2)}
        why = await home.ohmo("--continue", "-p", "/why")
        assert "refused by hook. Not allowed (hook guard): it is friday" in why.out
        assert "hook_agent" in (home.home / "logs" / "ohmo.jsonl").read_text()
        server.next(touch, Turn(text='{"ok": true}'), Turn(text="done"))
        said = await home.ohmo("--continue", "-p", "make it", "--allow", "Bash")
        assert said.out.strip() == "done", said.err
        assert (home.work / "made").exists()
        why = await home.ohmo("--continue", "-p", "/why")
        assert "(after hook guard)" in why.out


async def test_an_agent_that_hangs_or_comes_to_no_end_blocks_and_stop_ends_it(
    tmp_path: Path,
) -> None:
    touch = Turn(calls=(Call("Bash", {"command": "touch made"}),))
    server = ModelServer([touch, Turn(stall=0), Turn(text="so be it")])
    async with keyboard(tmp_path, server, running=False) as home:
        write(home, agent("guard", timeout=1))
        await home.daemon.start()
        assert (await home.ohmo("-p", "make it", "--allow", "Bash")).out.strip() == "so be it"
        assert "hook guard): it did not answer within 1 s" in results(server.asked[-1])[-1]
        write(home, agent("guard"))
        (home.work / "notes.md").write_text("x")
        again = [Turn(calls=(Call("Grep", {"pattern": f"x{number}"}),)) for number in range(STEPS)]
        server.next(touch, *again, Turn(text="so be it"))
        assert (await home.ohmo("-p", "make it", "--allow", "Bash")).out.strip() == "so be it"
        assert f"the limit of {STEPS} model calls" in results(server.asked[-1])[-1]
        before = len(server.asked)
        server.next(touch, Turn(stall=0))
        asking = asyncio.create_task(home.ohmo("-p", "make it", "--allow", "Bash"))

        async def looking() -> bool:
            return len(server.asked) == before + 2

        await until("the agent is asked", looking)
        (thread,) = home.daemon.rows("SELECT thread FROM turns ORDER BY began DESC LIMIT 1")
        began = time.monotonic()
        stopped = await home.ohmo("--resume", thread[0], "-p", "/stop")
        assert stopped.code == 0, stopped.err
        await asking
        assert time.monotonic() - began < 30
        assert not (home.work / "made").exists()


async def test_the_end_of_a_session_is_told_when_somebody_ends_it(tmp_path: Path) -> None:
    text = "import json,sys; e = json.load(sys.stdin); open('log', 'a').write(e['event'] + ' ' + e['session'] + '\\n')"
    async with keyboard(tmp_path, ModelServer(), running=False) as home:
        write(home, hook("ends", text, on=["session_start", "session_end"], timeout=10))
        await home.daemon.start()
        log = home.work / "log"

        async def told() -> bool:
            lines = log.read_text().splitlines() if log.exists() else []
            return [line.split()[0] for line in lines] == ["session_start", "session_end"][:wanted]

        wanted = 1
        assert (await home.ohmo("-p", "hello")).code == 0
        await until("it is told that a session begins", told)
        assert (await home.ohmo("--continue", "-p", "/stop")).code == 0
        assert await told()
        assert (await home.ohmo("--continue", "-p", "/new")).code == 0
        wanted = 2
        await until("it is told that the session ended, before anybody speaks again", told)
        began, ended = log.read_text().splitlines()
        assert began.split()[1] == ended.split()[1]


async def test_one_command_without_a_daemon_asks_the_hooks_too(tmp_path: Path) -> None:
    server = ModelServer(
        [Turn(calls=(Call("Bash", {"command": "git push --force"}),)), Turn(text="no")]
    )
    async with keyboard(tmp_path, server, running=False) as home:
        example = ROOT / "docs" / "hooks" / "refuse-dangerous-commands.yaml"
        (home.home / "hooks.yaml").write_text(example.read_text())
        assert (await home.ohmo("-p", "push", "--allow", "Bash")).out.strip() == "no"
        assert "nobody pushes by force" in results(server.asked[1])[-1]


async def test_hooks_are_listed_tried_and_examined(tmp_path: Path) -> None:
    async with keyboard(tmp_path, ModelServer(), running=False) as home:
        assert "there are no hooks" in (await home.ohmo("hooks", "list")).out
        for name, event, payload, expected in [
            (
                "refuse-dangerous-commands",
                "pre_tool_use",
                {"arguments": {"command": "git reset --hard"}},
                "block",
            ),
            (
                "refuse-dangerous-commands",
                "pre_tool_use",
                {"arguments": {"command": "git status"}},
                "go on",
            ),
            ("notify-at-the-end", "turn_end", {"text": "all done"}, "go on"),
            (
                "format-after-edit",
                "post_tool_use",
                {"tool_name": "Edit", "arguments": {"file_path": "x.py"}},
                "go on",
            ),
        ]:
            (home.home / "hooks.yaml").write_text(
                (ROOT / "docs" / "hooks" / f"{name}.yaml").read_text()
            )
            file = tmp_path / "payload.json"
            file.write_text(json.dumps(payload))
            (home.work / "x.py").write_text("a=1")
            said = json.loads(
                (await home.ohmo("hooks", "test", event, "--payload", str(file), "--json")).out
            )
            assert [row["said"] for row in said] == [expected], said
            assert said[0]["ms"] > 0
        assert (home.work / "turns.log").read_text() == "ohmo: answered: all done\n"
        (home.work / ".claude").mkdir()
        theirs = {
            "hooks": {
                "Notification": [{"hooks": [{"type": "command", "command": "x"}]}],
                "PreToolUse": [{"hooks": [{"type": "command", "command": "y"}]}],
            }
        }
        (home.work / ".claude" / "settings.json").write_text(json.dumps(theirs))
        listed = json.loads((await home.ohmo("hooks", "list", "--json")).out)
        assert [row["counts"] for row in listed["hooks"]] == ["yes", "no"]
        doctor = (await home.ohmo("doctor")).out
        assert f"hooks of {home.work} do not run" in doctor
        one = {"hooks": [{"type": "command", "command": "exit 2"}]}
        written = {"PreToolUse": [one], "PostToolUse": [one], "PostToolUseFailure": [one]}
        (home.home / "hooks.yaml").write_text(json.dumps({"hooks": written}))
        for event in written:  # as their makers spell it
            said = json.loads((await home.ohmo("hooks", "test", event, "--json")).out)
            assert [row["name"] for row in said] == [f"{event}[1].1"]
        wrong = await home.ohmo("hooks", "test", "PreToolUsed")
        assert wrong.code == 2
        assert "'pre_tool_use'" in wrong.err
        (home.home / "hooks.yaml").write_text("hooks: 7")
        assert "expected a list" in (await home.ohmo("doctor")).out
        (home.work / ".claude" / "settings.json").unlink()
        (home.home / "plugins" / "shop").mkdir(parents=True)
        said = await home.ohmo("hooks", "list")
        assert "while ohmo runs, the hooks it read before still count" in said.out
        long = hook("long", f"print('{'x' * 300}'); print('the end')")
        (home.home / "hooks.yaml").write_text(yaml.safe_dump({"hooks": [long]}))
        assert "; print('the end')\n" in (await home.ohmo("hooks", "list")).out
        assert "hooks of plugins are shown by ohmo plugins list" in said.err


def test_without_hooks_nothing_of_them_is_imported() -> None:
    text = "import sys, ohmo.daemon.startup; print([m for m in sys.modules if m.startswith(('ohmo.hooks', 'ohmo.sandbox.prob', 'ohmo.sandbox.prog'))])"
    assert run_process(sys.executable, "-c", text, code=0, cwd=ROOT).stdout.strip() == "[]"


async def test_hooks_of_another_folder_are_shown_before_they_are_allowed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / ".ohmo").mkdir(parents=True)
    hooks = {"hooks": [{"name": "guard", "on": "pre_tool_use", "command": ["./guard_the_till"]}]}
    (other / ".ohmo" / "hooks.yaml").write_text(yaml.safe_dump(hooks))
    async with keyboard(tmp_path, ModelServer([])) as home:
        assert "guard" in (await home.ohmo("hooks", "list", "--folder", str(other))).out
        assert "guard" in (await home.ohmo("trust", "list", "--folder", str(other))).out
        unseen = await home.ohmo("trust", "allow", "hook", str(other), "--digest", "0" * 12)
        assert unseen.code != 0
        assert "it is not the content that was shown" in unseen.err
        row = {"kind": "hook", "name": str(other)}
        status, answer = await home.daemon.call("POST", "/api/v1/trust/allow", row)
        assert (status, "digest" in str(answer)) == (400, True), answer
        allowed = await home.ohmo("trust", "allow", "hook", f"{other}/../other/")
        assert "it runs at pre_tool_use:" in allowed.err
        assert "guard_the_till" in allowed.err
        assert allowed.code == 0
        listed = json.loads((await home.ohmo("trust", "list", "--json")).out)
        assert [one["name"] for one in listed["trusts"]] == [str(other)]


@pytest.mark.needs("linux")
async def test_what_wants_to_write_into_the_home_or_to_ask_ohmo_fails_until_its_walls_are_opened(
    tmp_path: Path,
) -> None:
    if not there("bwrap"):
        skip_without("bwrap")
    kept = tmp_path / "kept"
    kept.mkdir()
    writes = f"echo x >> {kept}/log"
    asks = f"{sys.executable} -m ohmo status --json > status.json"

    async def says() -> dict[str, Any]:
        said = await home.ohmo("hooks", "test", "turn_end", "--json")
        return {row["name"]: row for row in json.loads(said.out)}

    async with keyboard(tmp_path, ModelServer()) as home:
        imported = {"Stop": [{"hooks": [{"type": "command", "command": writes}]}]}
        (home.home / "hooks.yaml").write_text(yaml.safe_dump({"hooks": imported}))
        (why,) = [row["why"] for row in (await says()).values()]
        assert f"cannot create {kept}/log" in why
        assert "it ran in the sandbox: docs/hooks.md says how it is opened" in why
        assert not (kept / "log").exists()
        of = {"on": "turn_end", "timeout": 20}
        opened = {"name": "writes", "command": writes, "sandbox": {"write": [str(kept)]}} | of
        mute = {"name": "mute", "command": "exit 3"} | of
        write(home, opened, {"name": "walled", "command": asks} | of, mute)
        said = await says()
        assert "ended with exit code 3: it said nothing (it ran in the" in said["mute"]["why"]
        assert said["writes"]["why"] == ""
        assert (kept / "log").read_text() == "x\n"
        assert "ohmo: cannot reach" in said["walled"]["why"]
        assert "it ran in the sandbox" in said["walled"]["why"]
        write(home, {"name": "free", "command": asks, "sandbox": "off"} | of)
        assert (await says())["free"]["why"] == ""
        assert json.loads((home.work / "status.json").read_text())["ready"]
