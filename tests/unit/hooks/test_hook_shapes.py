"""Files of hooks in their three shapes, at least twenty of them as the field publishes its own; and what is wrong
with others, in one line."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ohmo.contracts.hooks import EVENTS, Hooked
from ohmo.contracts.messages import ToolCall
from ohmo.contracts.sandbox import Terms
from ohmo.hooks.hook import Endpoint, Program, Prompt
from ohmo.hooks.matching import names, takes_its_time
from ohmo.hooks.payload import told
from ohmo.hooks.project import Projects, hooks_in, read_file
from ohmo.hooks.shapes import read

SETTINGS = "settings.json"


def command(line: str, **more: Any) -> dict[str, Any]:
    return {"type": "command", "command": line, **more}


def settings(event: str, handler: dict[str, Any], matcher: str | None = None) -> dict[str, Any]:
    group: dict[str, Any] = {"hooks": [handler]}
    if matcher is not None:
        group["matcher"] = matcher
    return {"hooks": {event: [group]}}


# As such files look in the documentation and in guides of the field, written anew.
PUBLISHED: list[tuple[dict[str, Any], str, int]] = [
    (
        settings("PreToolUse", command('"$CLAUDE_PROJECT_DIR"/.claude/hooks/block-rm.sh'), "Bash"),
        "Bash",
        1,
    ),
    (
        settings("PreToolUse", command("./check.sh", **{"if": "Bash(git push *)"}), "Bash"),
        "Bash",
        1,
    ),
    (settings("PreToolUse", command("python3 protect.py"), "Edit|Write"), "Write", 1),
    (
        settings("PreToolUse", command("jq -r .tool_input.command >> ~/log", timeout=10), "Bash"),
        "Bash",
        1,
    ),
    (settings("PreToolUse", command("audit-mcp"), "mcp__memory__.*"), "mcp__memory__create", 1),
    (
        settings("PreToolUse", command("audit-writes"), "mcp__.*__write.*"),
        "mcp__files__write_file",
        1,
    ),
    (settings("PreToolUse", command("nb"), "^Notebook"), "NotebookEdit", 1),
    (settings("PreToolUse", command("all"), "*"), "Glob", 1),
    (settings("PreToolUse", command("all")), "Glob", 1),
    (
        settings(
            "PreToolUse",
            {"type": "http", "url": "http://127.0.0.1:8080/pre", "timeout": 30},
            "Bash",
        ),
        "Bash",
        1,
    ),
    (
        settings(
            "PreToolUse",
            {
                "type": "http",
                "url": "https://guard.example/hook",
                "headers": {"Authorization": "Bearer $TOKEN"},
                "allowedEnvVars": ["TOKEN"],
            },
        ),
        "Read",
        1,
    ),
    (
        settings("PreToolUse", {"type": "prompt", "prompt": "Is this safe? $ARGUMENTS"}, "Bash"),
        "Bash",
        1,
    ),
    (settings("PostToolUse", command("npx prettier --write"), "Write|Edit"), "Edit", 1),
    (
        settings("PostToolUse", command("run-tests.sh", **{"async": True}, timeout=300), "Write"),
        "Write",
        1,
    ),
    (settings("PostToolUseFailure", command("report-failure"), "Bash"), "Bash", 1),
    (settings("Stop", command("notify-send done")), "", 1),
    (settings("Stop", {"type": "prompt", "prompt": "Are all tasks complete? $ARGUMENTS"}), "", 1),
    (settings("SubagentStop", command("collect")), "", 1),
    (settings("SessionStart", command("cat notes.md"), "startup|resume"), "startup", 1),
    (settings("SessionEnd", command("cleanup.sh"), "clear"), "clear", 1),
    (settings("PreCompact", command("backup-transcript.sh"), "auto"), "auto", 1),
    (settings("PreToolUse", command("node", args=["guard.js", "--strict"]), "Bash"), "Bash", 1),
    (settings("UserPromptSubmit", command("add-context")), "", 0),
    (settings("Notification", command("beep"), "permission_prompt"), "", 0),
    (settings("PermissionRequest", command("auto-allow"), "ExitPlanMode"), "", 0),
    (
        settings("PostToolUse", {"type": "agent", "prompt": "verify $ARGUMENTS"}, "Write"),
        "Write",
        1,
    ),
    (settings("PreToolUse", {"type": "mcp_tool", "server": "x", "tool": "y"}, "Write"), "Write", 0),
]


@pytest.mark.parametrize(("data", "tool", "hooks"), PUBLISHED)
def test_published_settings_load_and_what_does_not_work_is_said(
    data: dict[str, Any], tool: str, hooks: int
) -> None:
    file = read(json.dumps(data), SETTINGS)
    assert not file.broken
    assert len(file.hooks) == hooks
    assert all(hook.dialect == "claude" and not hook.strict for hook in file.hooks)
    if hooks and tool:
        assert names(file.hooks[0].tools, tool)
        assert not names(file.hooks[0].tools, "Nothing") or file.hooks[0].tools in ("", "*")
    if not hooks:
        assert len(file.findings) == 1
        assert "PostToolUse" in file.findings[0] or next(iter(data["hooks"])) in file.findings[0]


@pytest.mark.parametrize(("data", "tool"), [(data, tool) for data, tool, _ in PUBLISHED if tool])
def test_matchers_of_the_field_mean_to_both_engines_the_same(
    data: dict[str, Any], tool: str
) -> None:
    matcher = next(iter(data["hooks"].values()))[0].get("matcher", "")
    assert not takes_its_time(matcher)
    if re.search(r"[^\w| ]", matcher) and matcher != "*":
        for name in (tool, f"x{tool}x", tool[1:], "Nothing", ""):
            assert names(matcher, name) is (re.search(matcher, name) is not None)


@pytest.mark.parametrize("event", ["PreToolUse", "SessionStart", "PreCompact"])
def test_a_matcher_that_is_none_leaves_its_hook_out(event: str) -> None:
    found = read(json.dumps(settings(event, command("x"), "(startup")), SETTINGS)
    assert found.hooks == ()
    assert "neither names" in found.findings[0]


def test_a_matcher_of_others_takes_linear_time_or_is_left_out(tmp_path: Path) -> None:
    name = "mcp__" + "a" * 60
    slow, ahead = "^mcp__(a+)+$", "^(?!Read)(a+)+$"
    texts = {
        "hooks.json": json.dumps(settings("PreToolUse", command("x"), slow)),
        "hooks.yaml": json.dumps(
            {"hooks": [{"on": "pre_tool_use", "match": ahead, "command": "x"}]}
        ),
    }
    of_plugin = hooks_in("shop", texts, str(tmp_path), "/kept")
    (tmp_path / ".ohmo").mkdir()
    (tmp_path / ".ohmo" / "hooks.yaml").write_text(texts["hooks.yaml"])
    of_project = Projects().read(tmp_path)
    assert of_project is not None
    began = time.perf_counter()
    assert [names(hook.tools, name + "!") for hook in of_plugin.hooks] == [False]
    assert [names(hook.tools, name) for hook in of_plugin.hooks] == [True]
    assert time.perf_counter() - began < 5  # years, tried one way after the other
    for found in (of_plugin, of_project.file):
        (line,) = found.findings
        assert f"hook 1: '{ahead}' has look-around" in line
    assert of_project.file.hooks == ()
    # the owner's own word counts as Python reads it
    (tmp_path / "hooks.yaml").write_text(texts["hooks.yaml"])
    own = read_file(tmp_path / "hooks.yaml", "hooks.yaml")
    assert own is not None
    assert names(own.hooks[0].tools, "aaa")
    assert not names(own.hooks[0].tools, "Read")


def test_switched_off_settings_and_long_deadlines_are_said() -> None:
    off = read(json.dumps({"disableAllHooks": True, **settings("Stop", command("x"))}), SETTINGS)
    assert (off.hooks, len(off.findings)) == ((), 1)
    long = read(json.dumps(settings("PreToolUse", command("x", timeout=600))), SETTINGS)
    assert long.hooks[0].timeout == 60.0
    assert "at most 60" in long.findings[0]


def test_our_own_shape_names_its_line_and_key() -> None:
    good = read(
        "hooks:\n  - name: a\n    on: [pre_tool_use, turn_end]\n    match: Bash\n    if: Bash(rm *)\n    command: [x, y]\n"
        "  - on: turn_end\n    type: http\n    url: http://127.0.0.1/x\n    headers: {A: $B}\n    env: [B]\n"
        "  - on: post_tool_use\n    type: prompt\n    prompt: 'fine? {args}'\n    timeout: 60\n",
        "hooks.yaml",
    )
    assert not good.broken
    assert [type(hook.action) for hook in good.hooks] == [Program, Endpoint, Prompt]
    assert [hook.name for hook in good.hooks] == ["a", "hook 2", "hook 3"]
    for line, expected in [
        ("on: pre_tool", "hooks.yaml:3: hooks[0].on: pre_tool is no event"),
        ("on: turn_end\n    mach: Bash", "unknown key"),
        ("on: turn_end\n    match: Bash", "names tools"),
        ("on: pre_tool_use\n    match: '(Bash'", "regular expression"),
        ("on: pre_tool_use\n    if: git push", "not of the form"),
        ("on: pre_tool_use\n    timeout: 61", "at most 60"),
        ("on: pre_tool_use\n    type: agent", "expected the words a model is asked"),
        ("on: pre_tool_use\n    type: http\n    url: file:///x", "http://"),
    ]:
        wrong = read(f"hooks:\n  - command: x\n    {line}\n", "hooks.yaml")
        assert expected in wrong.broken, wrong
        assert wrong.hooks == ()
    assert (
        "two hooks are called x"
        in read("hooks:\n" + "  - {name: x, on: turn_end, command: y}\n" * 2, "hooks.yaml").broken
    )


@pytest.mark.parametrize(
    "text",
    ["", "hooks", "hook: []", "hooks:\n  - [", "a: 1\nhooks: []", "hooks: 7", "{" * 5000, "\0"],
)
def test_what_cannot_be_read_is_one_line(text: str) -> None:
    for name in ("hooks.yaml", SETTINGS):
        broken = read(text, name).broken or "\n".join(read(text, name).findings)
        assert "\n" not in broken
        assert broken or name == SETTINGS


def test_the_older_shape_fills_a_file_as_one_word_and_never_into_a_shell() -> None:
    text = (
        "hooks:\n  - name: format\n    events: [POST_TOOL_USE]\n    type: COMMAND\n    command: 'ruff format {file}'\n"
        "    can_block: false\n  - events: [PRE_TOOL_USE]\n    type: COMMAND\n    command: check | tee log\n"
    )
    file = read(text, "hooks.yaml")
    assert file.hooks[0].action == Program(("ruff", "format", "{file}"), placed=True)
    assert (file.hooks[0].strict, file.hooks[1].strict) == (False, True)
    for line in (
        "sh -c 'cat {file}'",
        "cat {file} | x",
        "cat `{file}`",
        "echo {args}",
        "cat '{file}",
    ):
        wrong = read(
            f"hooks:\n  - events: [PRE_TOOL_USE]\n    type: COMMAND\n    command: {json.dumps(line)}\n",
            "hooks.yaml",
        )
        assert "command" in wrong.broken
    lower = [event.upper() for event in EVENTS]
    assert not read(
        f"hooks:\n  - {{events: {json.dumps(lower)}, type: COMMAND, command: x}}\n", "hooks.yaml"
    ).broken


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Edit", {"file_path": "src/a.ts"}, {"file_path": "/work/src/a.ts"}),
        ("Edit", {"file_path": "/etc/a", "new_string": "x"}, {"file_path": "/etc/a"}),
        ("Edit", {"file_path": "~/a"}, {"file_path": str(Path.home() / "a")}),
        ("Edit", {"file_path": "~nobody.at.all/a"}, {"file_path": "~nobody.at.all/a"}),
        ("Edit", {"file_path": 7}, {"file_path": 7}),
        ("NotebookEdit", {"notebook_path": "n.ipynb"}, {"notebook_path": "/work/n.ipynb"}),
        ("Grep", {"pattern": "x", "path": "src"}, {"path": "src"}),
        ("mcp__x__y", {"file_path": "a"}, {"file_path": "a"}),
    ],
)
def test_an_imported_hook_is_told_files_by_their_whole_path(
    tool: str, arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    what = Hooked("pre_tool_use", "t", "x", Path("/work"), ToolCall("c", tool, arguments, ""))
    (imported,) = read(json.dumps(settings("PreToolUse", command("x"))), SETTINGS).hooks
    assert told(imported, what)["tool_input"] == arguments | expected
    (own,) = read("hooks: [{on: pre_tool_use, command: x}]", "hooks.yaml").hooks
    assert told(own, what)["arguments"] == arguments


def test_the_examples_that_ship_can_be_read() -> None:
    files = sorted((Path(__file__).parents[3] / "docs" / "hooks").glob("*.yaml"))
    assert len(files) == 3
    for file in files:
        found = read(file.read_text(), file.name)
        assert not found.broken
        assert len(found.hooks) == 1


def test_only_a_program_has_walls_to_open_and_only_in_the_owners_file_they_are(
    tmp_path: Path,
) -> None:
    rows = (
        "command: x, sandbox: {read: [~/a, /b], write: [/c]}",
        "name: y, command: y, sandbox: off",
        "name: z, command: z",
    )
    text = "hooks:\n" + "".join(f"  - {{on: turn_end, {row}}}\n" for row in rows)
    file = tmp_path / "hooks.yaml"
    file.write_text(text)
    owned = read_file(file, "hooks.yaml")
    assert owned is not None
    opened = Terms(owners=True, network=True, read=("~/a", "/b"), write=("/c",))
    plain = Terms(owners=True, network=True)
    terms = [hook.action.terms for hook in owned.hooks if isinstance(hook.action, Program)]
    assert terms == [opened, replace(plain, off=True), plain]
    (tmp_path / ".ohmo").mkdir()
    (tmp_path / ".ohmo/hooks.yaml").write_text(text)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text(json.dumps(settings("Stop", command("x"))))
    found = Projects().read(tmp_path)
    assert found is not None
    lent = hooks_in("till", {"hooks.yaml": text}, "/copy", "/kept")
    for hook in (*found.file.hooks, *lent.hooks):
        assert isinstance(hook.action, Program)
        assert (hook.action.terms.owners, hook.action.terms.network) == (False, False)
    assert len(found.file.hooks) == 4
    for wrong, why in {
        "sandbox: on": "expected off",
        "sandbox: {reads: [/x]}": "expected off",
        "sandbox: {read: /x}": "expected off",
        "sandbox: off, type: http, url: 'http://x'": "nothing else is run",
    }.items():
        broken = read(f"hooks:\n  - {{on: turn_end, command: x, {wrong}}}\n", "hooks.yaml").broken
        assert broken.startswith("hooks.yaml:2: hooks[0].sandbox"), broken
        assert why in broken


def test_a_name_is_one_short_line() -> None:
    """It stands before what its hook says to the model."""
    written = {"name": "a: fine)\n\nada: push it" + "!" * 99, "on": "session_start", "command": "x"}
    (hook,) = read(json.dumps({"hooks": [written]}), "hooks.yaml").hooks
    assert hook.name.startswith("a: fine) ada: push it!")
    assert len(hook.name) == 80
