"""What ``--allow`` covers, of questions as the gate asks them and the API sends them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from ohmo.cli.allow_rules import AllowRules
from ohmo.cli.client import permission_request
from ohmo.contracts.messages import ToolCall
from ohmo.contracts.tool import Question
from ohmo.control.responses import dumps
from ohmo.permissions.wording import about, title_of

CWD = Path("/work/place")


def covered(rule: str, tool: str, **arguments: str) -> Literal["once", "rule"] | None:
    call = ToolCall("t.1", tool, dict(arguments), "f")
    question = Question(
        "permission", title_of(call), "", (), "d", tool=tool, arguments=arguments, about=about(call)
    )
    sent = json.loads(dumps(question))
    return AllowRules([rule], Path("/home/ada")).covers(permission_request(sent), CWD)


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash", "anything && more"),
        ("Bash(make:*)", "make test"),
        ("Bash(make:*)", "make test && make check"),
        ("Bash(make test)", "make test"),
        ("Bash(rm -r build && make)", "rm -r build && make"),
    ],
)
def test_a_command_is_covered(rule: str, command: str) -> None:
    assert covered(rule, "Bash", command=command)


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash(make:*)", "make test && rm -r /"),
        ("Bash(make:*)", "make test; rm -r /"),
        ("Bash(make:*)", "make $(rm -r /)"),
        ("Bash(make:*)", "make test > /etc/passwd"),
        ("Bash(make:*)", "LD_PRELOAD=x make test"),
        ("Bash(make:*)", "makefoo"),
        ("Bash(make:*)", "make 'unclosed"),
        ("Bash(make:*)", "make test\nrm -r /"),
        ("Bash(make:*)", "make " + "x" * 300 + "; rm -r /"),
        ("Bash(make:*)", "make `rm -r /`"),
        ("Edit", "make"),
        ("Read(/**)", "cat /etc/hosts"),
    ],
)
def test_a_command_is_not_covered(rule: str, command: str) -> None:
    assert not covered(rule, "Bash", command=command)


def test_a_description_cannot_pass_for_the_command() -> None:
    assert not covered("Bash(make:*)", "Bash", description="make", command="make\nrm -r /")
    assert not covered("Bash(make:*)", "Bash", description="command: make", command="rm -r /")
    assert not covered("Bash(make:*)", "Bash", command="make\ncommand: `make`\nrm -r /")
    assert not covered(
        "Bash(make:*)", "Bash", command="make … (+2 lines)\ncommand: `make … (+2 lines)`\nid"
    )
    assert not covered("Grep(/work/**)", "Grep", glob="x\npath: `/work/a`\ny", pattern="/work/a")


def test_what_is_written_out_on_the_card_is_not_the_command_that_runs() -> None:
    assert not covered("Bash(make:*)", "Bash", command="make \u2028rm")
    assert not covered("Bash(make:*)", "Bash", command="make \rrm")


def test_files_and_hosts_are_covered_by_place() -> None:
    assert covered("Edit(/work/place/**)", "Edit", file_path="src/a.py")
    assert covered("Edit(/work/place/**)", "Write", file_path="/work/place/b.py")
    assert not covered("Edit(/work/place/**)", "Edit", file_path="../other/a.py")
    assert not covered("Read(/work/place/**)", "Edit", file_path="src/a.py")
    assert covered("WebFetch(domain:example.org)", "WebFetch", url="https://docs.example.org/x")
    assert not covered(
        "WebFetch(domain:example.org)", "WebFetch", url="https://example.org.evil.net/"
    )


@pytest.mark.parametrize("rule", ["Edit", "Edit(/**)", "Edit(.git/**)"])
def test_what_a_person_has_to_look_at_is_not_answered_beforehand(rule: str) -> None:
    how = covered(rule, "Edit", file_path="/work/place/a.py", old_string="a", new_string="b\nc")
    assert (how is not None) is (rule != "Edit(.git/**)")
    for name in (".git/hooks/pre-commit", "src/../.envrc", "CLAUDE.md", "a" * 200):
        assert not covered(
            rule, "Edit", file_path=f"/work/place/{name}", old_string="a", new_string="b\nc"
        )


@pytest.mark.parametrize(
    ("rule", "how"),
    [("Bash(make test)", "once"), ("Bash(make:*)", "once"), ("Bash", "rule"), ("Bash(*)", "rule")],
)
def test_a_rule_for_all_calls_is_told_from_one_about_this_one(rule: str, how: str) -> None:
    assert covered(rule, "Bash", command="make test") == how


def test_a_rule_for_a_command_does_not_cover_hosts_beside_its_words() -> None:
    def covers(rules: list[str], *hosts: str) -> bool:
        arguments = {"command": "git push", "hosts": list(hosts)}
        question = {"kind": "permission", "tool": "Bash", "about": "command", "title": ""}
        request = permission_request({**question, "arguments": arguments})
        return AllowRules(rules, Path("/home/ada")).covers(request, CWD) == "once"

    rules = ["Bash(git push)", "WebFetch(domain:a.org)"]
    assert covers(rules)
    assert covers(rules, "a.org:443", "x.a.org")
    assert not covers(rules, "a.org:443", "evil.com:443")
    assert not covers(rules, "127.0.0.1:6379")
    assert not covers([*rules, "WebFetch(domain:127.0.0.1)"], "127.0.0.1:6379")
