"""What ``if`` of a hook speaks of: guards rest on it, so that no spelling of a call passes by one."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ohmo.contracts.messages import ToolCall
from ohmo.permissions.conditions import Conditions
from ohmo.shell.parsing import Shell
from tests.programs import run_process

HOME, WORK = Path("/home/ada"), Path("/home/ada/work")
ABOUT = Conditions(Shell(HOME))


def about(condition: str, tool: str, cwd: Path = WORK, **arguments: str) -> bool:
    return ABOUT(condition, ToolCall("c", tool, arguments, ""), cwd)


@pytest.mark.parametrize(
    "line",
    [
        *("setarch x86_64 git push x", "linux64 git push x", "choom -n 0 -- git push x"),
        *("git bisect run git push x", "git submodule foreach git push x"),
        *("git rebase -x 'git push x' HEAD", "git filter-branch --tree-filter 'git push x'"),
        *("touch push; git pus? x", "a=b; a=push; git $a x", "for a in b push; do git $a; done"),
        *("git push", "git push origin", "cd x && FOO=1 git push origin", "git  push x"),
        *("'git' push x", "\\git push x", "g'i't push x", "/usr/bin/git push x", "git -C . push"),
        *("git --no-pager push", "git-push x", "env git push", "command git push x"),
        *("timeout 5 git push", "nice git push", "nohup git push", "echo x | xargs git push"),
        *("bash -c 'git push x'", "eval 'git push'", "g=git; $g push", "p=push; git $p"),
        *(
            "if true; then git push x; fi",
            "while false; do git push; done",
            "(git push)",
            "{ git push; }",
        ),
        *(
            "echo $(git push)",
            "echo `git push`",
            "cat <(git push)",
            "sudo git push",
            "$(echo git) push",
        ),
        *("find . -exec git push {} +", "sh script.sh; git push", "true\ngit push", "! git push"),
        *(
            "git \\\npush",
            "git $'push'",
            'git "push" x',
            "GIT push",
            "case x in x) git push;; esac",
        ),
        *("python3 -c 'import os; os.system(\"git push\")'", "sh < script", "f() { git push; }; f"),
    ],
)
def test_no_spelling_of_a_command_passes_by_a_condition(line: str) -> None:
    assert about("Bash(git push *)", "Bash", command=line)
    assert about("Bash(git push:*)", "Bash", command=line)


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git log --oneline -5",
        "ls; cat push",
        "make test",
        "echo pushed",
        "npm run build",
    ],
)
def test_a_condition_is_not_about_everything(line: str) -> None:
    assert not about("Bash(git push *)", "Bash", command=line)
    assert about("Bash", "Bash", command=line)
    assert about("Bash(*)", "Bash", command=line)
    assert not about("Edit(*.ts)", "Bash", command=line)


WRAPS = (
    *(
        "{}",
        "env {}",
        "nice -n 5 {}",
        "timeout 9 {}",
        "command {}",
        "X=1 {}",
        "true && {}",
        "false || {}",
    ),
    *("({})", "{{ {}; }}", "if true; then {}; fi", "for i in 1; do {}; done", "! {}", "{} | cat"),
    *(
        "nohup {}",
        "exec {}",
        "echo x | xargs -I Z {}",
        "eval {}",
        "find . -maxdepth 0 -exec {} \\;",
    ),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(WRAPS), max_size=3),
    st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
def test_what_bash_runs_the_condition_speaks_of(
    tmp_path_factory: pytest.TempPathFactory, wraps: list[str], quotes: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("bash")
    program = folder / "deploy"
    program.write_text('#!/bin/sh\n[ "$1" = now ] && echo ran >> "$RAN"\n')
    program.chmod(0o755)
    line = f"{spelled('deploy', quotes)} {spelled('now', quotes)}"
    for wrap in wraps:
        line = wrap.format(line if not wrap.startswith("eval") else shlex.quote(line))
    ran = folder / "ran"
    environ = {"PATH": f"{folder}:{os.environ['PATH']}", "RAN": str(ran)}
    run_process("bash", "-c", line, cwd=folder, env=environ)
    if ran.exists():
        assert about("Bash(deploy now *)", "Bash", folder, command=line), line


def spelled(word: str, quotes: list[int]) -> str:
    """One way to write the word."""
    ways = ("{}", "'{}'", '"{}"', "\\{}")
    return "".join(ways[way].format(sign) for way, sign in zip(quotes, word, strict=False))


@pytest.mark.parametrize(
    ("condition", "file"),
    [
        ("Edit(*.ts)", "src/a.ts"),
        ("Edit(*.ts)", "/home/ada/work/a.ts"),
        ("Edit(./src/**)", "src/deep/a.ts"),
        ("Edit(src/**)", "./src/../src/a.ts"),
        ("Edit(/src/**)", "src/a.ts"),  # Claude Code's project
        ("Edit(//srv/**)", "/srv/a"),
        ("Edit(/srv/**)", "/srv/a"),
        ("Edit(~/x/**)", "/home/ada/x/y"),
        ("Edit(~/x/**)", "~/x/y"),
        ("Edit(${WORKSPACE}/**)", "a"),
        ("Edit", "anything"),
    ],
)
def test_a_condition_is_about_the_file_of_a_tool(condition: str, file: str) -> None:
    assert about(condition, "Edit", file_path=file)
    assert not about(condition, "Bash", command=file)
    if "(" in condition:
        assert about(condition, "Write", file_path=file)
        assert not about(condition, "Edit", file_path="/etc/other.py")
        assert not about(condition, "Read", file_path=file)


def test_a_file_behind_a_link_and_what_is_searched_through_are_spoken_of(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "other").symlink_to("src")
    assert about("Write(./src/**)", "Write", tmp_path, file_path="other/a")
    assert about("Read(./src/**)", "Grep", tmp_path, pattern="x", path=".")
    assert not about("Read(./src/**)", "Grep", tmp_path, pattern="x", path="/usr/share")


def test_a_condition_about_a_host_and_about_a_server() -> None:
    for url in ("https://example.org/x", "https://API.example.org:8443", "https://u@example.org."):
        assert about("WebFetch(domain:example.org)", "WebFetch", url=url)
    assert not about(
        "WebFetch(domain:example.org)", "WebFetch", url="https://other.org/example.org"
    )
    assert about("WebFetch(domain:example.org)", "WebFetch", url="https://[bad")
    assert about("WebFetch(https://example.org/*)", "WebFetch", url="https://example.org/x")
    assert about("mcp__shop__*", "mcp__shop__buy", what="x")
    assert about("mcp__shop", "mcp__shop__buy", what="x")
    assert not about("mcp__shop__*", "mcp__other__buy", what="x")
    assert about("Weather(*land)", "Weather", city="Iceland")
    assert about("Bash(:*)", "Bash", command="ls -l")
    assert not about("Bash(:*)", "Read", file_path="a")
