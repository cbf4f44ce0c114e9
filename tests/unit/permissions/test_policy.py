"""Layers, modes, roles and rules, each with the layer that decided."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from permission_house import House, Mode

from ohmo.contracts.messages import ToolCall
from ohmo.contracts.outbox import Grant
from ohmo.contracts.tool import Footprint
from ohmo.permissions.rules import Ruling, parse_rule
from ohmo.permissions.sensitive_paths import SensitivePaths, Touch
from ohmo.permissions.wording import suggest_rule


def write(path: Path) -> tuple[ToolCall, Footprint]:
    return ToolCall("t.1", "Write", {"file_path": str(path), "content": "x"}, ""), Footprint(
        writes=(path,), effect="once"
    )


def read(path: Path, tool: str = "Read") -> tuple[ToolCall, Footprint]:
    return ToolCall("t.1", tool, {"file_path": str(path)}, ""), Footprint(
        reads=(path,), effect="none"
    )


def fetch(host: str) -> tuple[ToolCall, Footprint]:
    return ToolCall("t.1", "WebFetch", {"url": f"https://{host}/"}, ""), Footprint(
        hosts=(host,), effect="none"
    )


def grant(rule: str, scope: str = "session-1", person: str = "ada") -> Grant:
    return Grant("g", scope, rule, person, datetime(2026, 1, 1, tzinfo=UTC))


def decided(ruling: Ruling) -> tuple[str, str]:
    return ruling.verdict, ruling.layer


def test_reading_is_free_and_changing_asks_in_default_mode(house: House) -> None:
    policy, context = house.policy(), house.context()
    assert decided(policy.rule(*read(house.work / "a.py"), context)) == ("allow", "mode")
    assert decided(policy.rule(*write(house.work / "a.py"), context)) == ("ask", "mode")


def test_plan_mode_blocks_changes_and_says_how_to_leave(house: House) -> None:
    ruling = house.policy().rule(*write(house.work / "a.py"), house.context("plan"))
    assert decided(ruling) == ("deny", "mode")
    assert "/mode default" in ruling.reason


def test_full_auto_allows_owners_and_admins_but_users_are_asked(house: House) -> None:
    policy = house.policy()
    for role, verdict in (("owner", "allow"), ("admin", "allow"), ("user", "ask")):
        assert (
            policy.rule(*write(house.work / "a.py"), house.context("full_auto", role)).verdict
            == verdict
        )
        assert house.bash("touch x", "full_auto", role).verdict == verdict


def test_guests_read_public_things_only(house: House) -> None:
    policy, context = (
        house.policy(allow=["Write", "Bash", "Read"]),
        house.context("full_auto", "guest"),
    )
    assert policy.rule(*fetch("example.org"), context).verdict == "allow"
    assert policy.rule(*read(house.work / "public" / "hello.txt"), context).verdict == "allow"
    assert decided(policy.rule(*read(house.work / "a.py"), context)) == ("deny", "role")
    assert decided(policy.rule(*read(house.work / "public" / ".." / "a.py"), context)) == (
        "deny",
        "role",
    )
    assert decided(policy.rule(*write(house.work / "public" / "hello.txt"), context)) == (
        "deny",
        "role",
    )
    assert house.bash("ls", "full_auto", "guest").verdict == "deny"


def test_deny_beats_ask_beats_allow(house: House) -> None:
    assert decided(
        house.bash(
            "git push", allow=["Bash(git push:*)"], ask=["Bash(git:*)"], deny=["Bash(git push:*)"]
        )
    ) == ("deny", "deny")
    assert decided(house.bash("git push", allow=["Bash(git push:*)"], ask=["Bash(git:*)"])) == (
        "ask",
        "ask",
    )
    assert decided(house.bash("git push", allow=["Bash(git push:*)"])) == ("allow", "allow")


def test_sensitive_beats_every_rule(house: House) -> None:
    policy = house.policy(allow=["Read", "Write", "Bash", "Read(~/.ssh/**)"])
    assert decided(
        policy.rule(*read(house.home / ".ssh" / "id_rsa"), house.context("full_auto"))
    ) == ("deny", "sensitive")
    assert decided(
        policy.rule(*read(house.work / "link" / "config"), house.context("full_auto"))
    ) == ("deny", "sensitive")
    assert decided(
        policy.rule(*write(house.home / ".ohmo" / "config.yaml"), house.context("full_auto"))
    ) == ("deny", "sensitive")
    assert decided(house.bash("cat ~/.ssh/id_rsa", "full_auto", allow=["Bash"])) == (
        "deny",
        "sensitive",
    )


@pytest.mark.parametrize("tool", ["Read", "Glob", "Grep"])
def test_a_read_rule_holds_for_every_tool_that_reads(house: House, tool: str) -> None:
    policy = house.policy(deny=["Read(./private/**)"])
    assert decided(
        policy.rule(*read(house.work / "private" / "diary.txt", tool), house.context())
    ) == ("deny", "deny")
    assert policy.rule(*read(house.work / "a.py", tool), house.context()).verdict == "allow"


@pytest.mark.parametrize("tool", ["Glob", "Grep"])
def test_a_search_over_a_denied_folder_is_free_and_one_in_it_is_not(
    house: House, tool: str
) -> None:
    policy = house.policy(deny=["Read(./private/**)"])
    assert policy.rule(*read(house.work, tool), house.context()).verdict == "allow"
    assert decided(policy.rule(*read(house.work / "private", tool), house.context())) == (
        "deny",
        "deny",
    )


def test_an_edit_rule_holds_for_write_and_edit(house: House) -> None:
    policy = house.policy(allow=["Edit(./src/**)"])
    assert policy.rule(*write(house.work / "src" / "b.py"), house.context()).layer == "allow"
    assert policy.rule(*write(house.work / "src" / ".." / "a.py"), house.context()).verdict == "ask"
    path = house.work / "src" / "b.py"
    edit = ToolCall("t.1", "Edit", {}, ""), Footprint(reads=(path,), writes=(path,), effect="once")
    assert policy.rule(*edit, house.context()).layer == "allow"


def test_a_denied_read_stops_an_edit_of_the_same_file(house: House) -> None:
    path = house.work / "private" / "diary.txt"
    edit = ToolCall("t.1", "Edit", {}, ""), Footprint(reads=(path,), writes=(path,), effect="once")
    assert (
        house.policy(allow=["Edit"], deny=["Read(./private/**)"])
        .rule(*edit, house.context())
        .verdict
        == "deny"
    )


def test_a_domain_rule_covers_the_domain_and_what_is_below_it(house: House) -> None:
    policy = house.policy(deny=["WebFetch(domain:example.org)"])
    assert policy.rule(*fetch("example.org"), house.context()).verdict == "deny"
    assert policy.rule(*fetch("www.example.org"), house.context()).verdict == "deny"
    assert policy.rule(*fetch("EXAMPLE.ORG."), house.context()).verdict == "deny"
    assert policy.rule(*fetch("notexample.org"), house.context()).verdict == "allow"


def test_a_server_rule_covers_its_tools(house: House) -> None:
    call = ToolCall("t.1", "mcp__files__delete", {}, "")
    for rule in ("mcp__files", "mcp__files__*", "mcp__files__delete"):
        assert house.policy(deny=[rule]).rule(call, Footprint(), house.context()).verdict == "deny"
    assert (
        house.policy(deny=["mcp__file"]).rule(call, Footprint(), house.context()).verdict == "ask"
    )


def test_a_prefix_rule_ends_at_a_word(house: House) -> None:
    allow = ["Bash(npm run test:*)"]
    assert house.bash("npm run test", allow=allow).verdict == "allow"
    assert house.bash("npm run test --silent unit", allow=allow).verdict == "allow"
    assert house.bash("npm run test -- --watch", allow=allow).verdict == "ask"
    assert house.bash("npm run testing", allow=allow).verdict == "ask"
    assert house.bash("npm run", allow=allow).verdict == "ask"


def test_every_part_of_a_command_needs_its_own_permission(house: House) -> None:
    allow = ["Bash(npm test:*)"]
    assert house.bash("cd src && npm test", allow=allow).verdict == "allow"
    for command in (
        "npm test && touch x",
        "npm test; touch x",
        "npm test | tee x",
        "npm test > x",
        "npm test $(touch x)",
        "touch x & npm test",
    ):
        assert house.bash(command, allow=allow).verdict == "ask", command


def test_variables_that_change_programs_are_not_covered_by_a_rule(house: House) -> None:
    assert house.bash("LD_PRELOAD=./x.so npm test", allow=["Bash(npm test:*)"]).verdict == "ask"
    assert house.bash("LC_ALL=./x npm test", allow=["Bash(npm test:*)"]).verdict == "ask"
    # how it writes, and nothing else
    assert house.bash("LC_ALL=C npm test", allow=["Bash(npm test:*)"]).verdict == "allow"


def test_a_redirection_needs_a_rule_for_its_file(house: House) -> None:
    assert (
        house.bash("npm test > out.txt", allow=["Bash(npm test:*)", "Edit(./out.txt)"]).verdict
        == "allow"
    )
    assert (
        house.bash("npm test > other.txt", allow=["Bash(npm test:*)", "Edit(./out.txt)"]).verdict
        == "ask"
    )


@pytest.mark.parametrize(
    ("rules", "mode", "verdict"),
    [
        ({}, "default", ("ask", "mode")),
        ({}, "full_auto", ("allow", "mode")),
        ({"allow": ["GitCommit"]}, "default", ("allow", "allow")),
        ({"allow": ["GitCommit"]}, "plan", ("deny", "mode")),
        ({"allow": ["Bash(git commit:*)"]}, "default", ("allow", "allow")),
        ({"allow": ["GitStatus", "GitCommit(x)"]}, "default", ("ask", "mode")),
        ({"allow": ["GitCommit"], "ask": ["Bash(git:*)"]}, "default", ("ask", "ask")),
        ({"allow": ["Bash"], "ask": ["GitCommit"]}, "full_auto", ("ask", "ask")),
        ({"allow": ["Bash"], "deny": ["GitCommit"]}, "full_auto", ("deny", "deny")),
        ({"allow": ["GitCommit"], "deny": ["Bash(git commit:*)"]}, "default", ("deny", "deny")),
    ],
)
def test_a_tool_that_runs_a_command_is_judged_by_both(
    house: House, rules: dict[str, list[str]], mode: Mode, verdict: tuple[str, str]
) -> None:
    call = ToolCall("t.1", "GitCommit", {"message": "x"}, "")
    footprint = Footprint(command="git commit -m x")
    assert decided(house.policy(**rules).rule(call, footprint, house.context(mode))) == verdict
    secret = Footprint(command="git add -- ~/.ssh/id_rsa && git commit -m x -- ~/.ssh/id_rsa")
    anyway = house.policy(**rules).rule(call, secret, house.context(mode))
    assert anyway.verdict == "deny"


def test_a_grant_holds_for_its_person_and_scope_only(house: House) -> None:
    rule = "Bash(npm test:*)"
    assert decided(house.bash("npm test", grants=[grant(rule)])) == ("allow", "grant")
    assert decided(house.bash("npm test", grants=[grant(rule, "*")])) == ("allow", "grant")
    assert decided(house.bash("npm test", grants=[grant(rule, str(house.work))])) == (
        "allow",
        "grant",
    )
    assert house.bash("npm test", grants=[grant(rule, "session-0")]).verdict == "ask"
    assert house.bash("npm test", grants=[grant(rule, person="bob")]).verdict == "ask"
    assert house.bash("npm test", grants=[grant(rule, str(house.work / "src"))]).verdict == "ask"


def test_a_grant_does_not_beat_deny_ask_or_plan(house: House) -> None:
    given = [grant("Bash(git push:*)", "*")]
    assert house.bash("git push", grants=given, deny=["Bash(git push:*)"]).verdict == "deny"
    assert house.bash("git push", grants=given, ask=["Bash(git push:*)"]).verdict == "ask"
    assert house.bash("git push", "plan", grants=given).verdict == "deny"


def test_an_unreadable_grant_is_like_none(house: House) -> None:
    assert house.bash("npm test", grants=[grant("???")]).verdict == "ask"


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git push origin main", "Bash(git push:*)"),
        ("npm test --silent", "Bash(npm test:*)"),
        ("npm test -- --watch", "Bash(npm test -- --watch)"),
        ("rm -rf build", "Bash(rm -rf build)"),
        ("python3 x.py", "Bash(python3 x.py)"),
        ("git -C x push", "Bash(git -C x push)"),
        ("make && make test", "Bash(make && make test)"),
        ("touch x > y", "Bash(touch x > y)"),
        ("sudo -n git push", "Bash(sudo -n git push)"),
    ],
)
def test_the_rule_that_is_remembered_is_narrow_and_lets_the_same_call_through(
    house: House, command: str, rule: str
) -> None:
    call = ToolCall("t.1", "Bash", {"command": command}, "")
    suggested = suggest_rule(call, Footprint(command=command), house.work, house.shell)
    assert suggested == rule
    assert house.bash(command, grants=[grant(suggested, "*")]).verdict == "allow"


def test_the_rule_for_a_file_names_that_file(house: House) -> None:
    call, footprint = write(house.work / "a.py")
    rule = suggest_rule(call, footprint, house.work, house.shell)
    assert rule == f"Edit({house.work}/a.py)"
    assert house.policy().rule(call, footprint, house.context(), [grant(rule)]).layer == "grant"
    assert (
        house.policy().rule(*write(house.work / "b.py"), house.context(), [grant(rule)]).verdict
        == "ask"
    )


@pytest.mark.parametrize(
    "text", ["", "Bash(", "Bash)x", "git status", "WebFetch(example.org)", "Bash(:*)", "(x)"]
)
def test_a_rule_that_cannot_be_read_is_one_clear_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        parse_rule(text)


def test_more_sensitive_places_can_be_added_but_none_removed(house: House, tmp_path: Path) -> None:
    more = SensitivePaths(house.home, house.home / ".ohmo", ["~/diary", "/srv/keys/**", "*.pem"])
    assert more.touch(str(house.home / "diary" / "x"), "/") is Touch.INSIDE
    assert more.touch("key.pem", str(tmp_path)) is Touch.INSIDE
    assert more.touch(str(house.home / ".ssh" / "x"), "/") is Touch.INSIDE


@pytest.mark.parametrize("secret", [".netrc", ".ssh/id_rsa", ".ohmo/run/token"])
def test_a_command_reads_no_sensitive_file_by_its_second_name_unasked(
    house: House, secret: str
) -> None:
    (house.work / "src" / "second.py").hardlink_to(house.work / "a.py")
    commands = (
        "cat src/twin.py",
        "head < src/twin.py",
        "cat src/*.py",
        "grep -rn x src",
        "grep -rn x .",
    )
    assert {house.bash(command).verdict for command in commands[2:]} == {"allow"}
    (house.work / "src" / "twin.py").hardlink_to(house.home / secret)
    assert {house.bash(command).verdict for command in commands} <= {"ask", "deny"}
    assert house.bash("cat src/second.py").verdict == "allow"


@pytest.mark.parametrize(
    "command", ["rm -rf x", "rm -fr x", "rm -fr", "/bin/rm -fr x", "sudo rm -fr x"]
)
def test_a_prefix_that_forbids_options_forbids_them_in_any_order(
    house: House, command: str
) -> None:
    ruling = house.bash(command, "full_auto", deny=["Bash(rm -rf:*)"])
    assert decided(ruling) == ("deny", "deny")


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("git p?sh x", "ask"),
        ("git [p]ush x", "ask"),
        ("touch push; git pus? x", "ask"),
        ("git -C . p*h x", "ask"),
        ("for i in 1; do git p?sh x; done", "ask"),
        ("git bisect run git push x", "deny"),
        ("git add *.py; git log 'p*'", "allow"),
    ],
)
def test_a_wildcard_leads_past_no_rule_that_forbids(
    house: House, command: str, verdict: str
) -> None:
    ruling = house.bash(command, "full_auto", deny=["Bash(git push *)"])
    assert ruling.verdict == verdict, ruling
