"""The agent's home, the places where each change is looked at, and how far reading goes: by rules
that hold for every spelling, not by lists of tries."""

from __future__ import annotations

import fnmatch
import os
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from permission_house import House, Mode, Role

from ohmo.contracts.messages import ToolCall
from ohmo.contracts.outbox import Grant
from ohmo.contracts.tool import Footprint
from ohmo.permissions.boundaries import ProtectedPlaces
from ohmo.permissions.rules import Ruling
from ohmo.permissions.sensitive_paths import SensitivePaths, Touch
from ohmo.shell.patterns import folded
from tests.programs import run_process

READING, WRITING = ("Read", "Glob", "Grep", "Brief"), ("Write", "Edit", "MultiEdit")
GENEROUS = [*READING, *WRITING, "Read(/**)", "Edit(/**)"]
MODES: tuple[Mode, ...] = ("default", "plan", "full_auto")
ROLES: tuple[Role, ...] = ("guest", "user", "admin", "owner")
PAGES = ("spill/thread", "media/place")  # of the conversation that asks


def footprint(tool: str, path: str) -> Footprint:
    there = Path(path)
    if tool == "Write":
        return Footprint(writes=(there,))
    if tool in WRITING:
        return Footprint(reads=(there,), writes=(there,))
    return Footprint(reads=(there,), effect="house" if tool == "Brief" else "none")


def judged(
    house: House,
    tool: str,
    path: str,
    mode: Mode = "default",
    role: Role = "owner",
    **rules: list[str],
) -> Ruling:
    call = ToolCall("t.1", tool, {"file_path": path}, "")
    return house.policy(**rules).rule(call, footprint(tool, path), house.context(mode, role))


def answered(house: House, tool: str, path: str, mode: Mode = "default") -> tuple[str, Ruling]:
    """The rule that "always" stores, and what it makes of the same call."""
    call, context = ToolCall("t.1", tool, {"file_path": path}, ""), house.context(mode)
    policy = house.policy()
    asked = policy.rule(call, footprint(tool, path), context)
    rule = policy.remembered(call, footprint(tool, path), context, asked)
    grant = Grant("g", "*", rule, "ada", datetime(2026, 1, 1, tzinfo=UTC))
    return rule, policy.rule(call, footprint(tool, path), context, [grant])


# the agent's home


@pytest.fixture
def ways(house: House) -> House:
    """A house with links into its agent's home, and a file of it under another name."""
    own = house.home / ".ohmo"
    (house.work / "own").symlink_to(own)
    (house.work / "deep").mkdir()
    (house.work / "deep" / "state").symlink_to(own / "state")
    for page in PAGES:
        (own / page).mkdir(parents=True)
        (own / page / "out").symlink_to(own)
        (own / page / "aside").symlink_to(own / page.partition("/")[0] / "another")
    for name in ELSEWHERE:
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text("my diagnosis\n")
    return house


# of another conversation, of none any more (what an earlier version kept), of nobody's model
ELSEWHERE = (
    "spill/another/t.1.txt",
    "spill/another/bash_1.txt.part",
    "spill/t.1.txt",
    "spill/background/bash_1.txt",
    "spill/background/bash_1.thread",
    "spill/shown/0a1b/conversation.md",
    "spill/thread2/x",
    "media/another/a/b.pdf",
    "media/0a1b2c3d/cat.png",
    "media/thread/x",
    "spill/place/x",
)
NAMES = st.sampled_from(
    [
        *ELSEWHERE,
        "spill",
        "media",
        "Spill/thread/x",
        "spill/Thread/x",
        "spill/thread/../another/x",
        "media/place/../../spill/another/x",
        "spill/thread/aside/t.1.txt",
        "config.yaml",
        ".env",
        "ohmo.db",
        "run/token",
        "state/restore.json",
        "SOUL.md",
        "skills/x/SKILL.md",
        "recipes/a.yaml",
        "plugins/p.py",
        "memory/note.md",
        "logs/ohmo.jsonl",
        "backups/new",
        "spilled",
        "media.old",
        "Spill/x",
        "new-name",
        "setup/unit.service",
        "",
    ]
)
ROUTES = st.sampled_from(
    """
        {own} {own}/spill/.. {own}/media/../spill/.. {own}/spill/thread/out {work}/own
        {work}/up/.ohmo {work}/own/media/place/out
    """.split()
)
NOISE = st.sampled_from(["/", "//", "/./", "/././", "/run/../", "/spill/../"])
CASES = st.sampled_from(
    [
        str,
        str.upper,
        str.title,
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: text.replace("o", "\N{FULLWIDTH LATIN SMALL LETTER O}"),
    ]
)


@settings(
    deadline=None, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=NAMES,
    route=ROUTES,
    noise=NOISE,
    case=CASES,
    tool=st.sampled_from([*READING, *WRITING]),
    mode=st.sampled_from(MODES),
    role=st.sampled_from(ROLES),
)
def test_no_spelling_of_a_path_into_the_agents_home_passes(
    ways: House, name: str, route: str, noise: str, case: object, tool: str, mode: Mode, role: Role
) -> None:
    spelled = case(".ohmo") if callable(case) else ".ohmo"
    own = f"{ways.home}/{spelled}" if "/.." not in noise + route else f"{ways.home}/.ohmo"
    path = route.format(own=own, work=ways.work) + noise + name
    assert judged(ways, tool, path, mode, role, allow=GENEROUS).verdict == "deny", path


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("mode", MODES)
def test_what_ohmo_shows_the_model_is_read_and_never_written(
    ways: House, page: str, mode: Mode
) -> None:
    path = f"{ways.home}/.ohmo/{page}/t.1.txt"
    for tool in READING:
        assert judged(ways, tool, path, mode).verdict == "allow"
    for tool in WRITING:
        assert judged(ways, tool, path, mode, allow=GENEROUS).verdict == "deny"
        assert (
            judged(ways, tool, f"{ways.home}/.ohmo/{page}", mode, allow=GENEROUS).verdict == "deny"
        )


def test_a_page_in_other_letters_is_no_page(ways: House) -> None:
    for name in ("SPILL", "\N{FULLWIDTH LATIN SMALL LETTER S}pill", "spill\u200d"):
        path = f"{ways.home}/.ohmo/{name}/thread/x"
        assert judged(ways, "Read", path, allow=GENEROUS).layer == "sensitive"


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("role", ROLES)
def test_what_was_kept_for_another_conversation_is_closed_to_tools_and_commands(
    ways: House, name: str, role: Role
) -> None:
    path = f"{ways.home}/.ohmo/{name}"
    for tool in READING:
        ruling = judged(ways, tool, path, "full_auto", role, allow=GENEROUS)
        assert (ruling.verdict, ruling.layer) == ("deny", "sensitive")
        assert "kept for another conversation, or before an upgrade" in ruling.reason
    for command in (
        f"cat {path}",
        f"cat < {path}",
        f"cp {path} mine.txt",
        f"head -c 9 {path[:-1]}?",
        f"cd {Path(path).parent} && cat {Path(path).name}",
        f"grep -r diagnosis {Path(path).parent}",
        f"cat {ways.home}/.ohmo/spill/thread/../../{name}",
        f"ls {ways.home}/.ohmo/spill",
        f"find {ways.home}/.ohmo/media",
    ):
        ruling = ways.bash(command, "full_auto", role, allow=["Bash"])
        assert ruling.verdict == "deny", command


def test_a_command_reads_what_is_kept_for_its_own_conversation(ways: House) -> None:
    own = ways.home / ".ohmo" / "spill" / "thread"
    (own / "t.1.txt").write_text("my output\n")
    for link in ("out", "aside"):
        (own / link).unlink()
    for command in (f"cat {own}/t.1.txt", f"cat {own}/*", f"grep -r output {own}", f"ls {own}"):
        assert ways.bash(command).verdict == "allow", command
    assert ways.bash(f"echo > {own}/t.1.txt", "full_auto", allow=["Bash"]).verdict == "deny"


def test_no_conversation_is_shown_the_folders_of_all(ways: House) -> None:
    """Nor is one that was never given a place for files."""
    context = replace(ways.context("full_auto"), media="", thread="")
    for name in ("spill", "media", "spill/thread/x", "media/place/x"):
        path = f"{ways.home}/.ohmo/{name}"
        call = ToolCall("t.1", "Read", {"file_path": path}, "")
        ruling = ways.policy(allow=GENEROUS).rule(call, footprint("Read", path), context)
        assert ruling.layer == "sensitive"


def test_a_home_inside_the_workspace_is_closed_all_the_same(house: House) -> None:
    own = house.work / ".ohmo-of-a-test"
    own.mkdir()
    inside = replace(house, sensitive=SensitivePaths(house.home, own))
    for tool in (*READING, *WRITING):
        assert (
            judged(inside, tool, str(own / "config.yaml"), "full_auto", allow=GENEROUS).layer
            == "sensitive"
        )
    assert inside.sensitive.hides(str(own / "SOUL.md"))  # left out of a search of the workspace
    assert judged(inside, "Read", str(house.work / "a.py")).verdict == "allow"


def test_a_hard_link_to_a_closed_file_is_that_file(ways: House) -> None:
    disguise, own_page, plain = (
        ways.work / "notes.md",
        ways.home / ".ohmo" / "spill" / "thread" / "t.2.txt",
        ways.work / "plain.md",
    )
    os.link(ways.home / ".ohmo" / "run" / "token", disguise)
    os.link(ways.home / ".ohmo" / "config.yaml", own_page)
    os.link(ways.work / "a.py", plain)
    for tool in ("Read", "Edit", "Brief"):
        assert judged(ways, tool, str(disguise), "full_auto", allow=GENEROUS).layer == "sensitive"
    assert judged(ways, "Read", str(own_page), allow=GENEROUS).layer == "sensitive"
    assert judged(ways, "Read", str(plain)).verdict == "allow"


BOUND = """
import sys
from pathlib import Path
from typing import Any
from ohmo.permissions.sensitive_paths import SensitivePaths
seen = SensitivePaths(Path("/nobody"), Path(sys.argv[1]))
print(*(seen.aliases().at(path).name for path in sys.argv[2:]))
"""


@pytest.mark.needs("root", "mounts")
def test_a_folder_of_the_home_that_is_bound_elsewhere_is_that_folder(ways: House) -> None:
    own, whole, part = ways.home / ".ohmo", ways.work / "whole", ways.work / "part"
    whole.mkdir()
    part.mkdir()
    binds = f"mount --bind {own} {whole} && mount --bind {own}/run {part}"
    paths = [
        f"{whole}/new",
        f"{whole}/spill/new",
        f"{part}/token",
        f"{part}/new",
        f"{ways.work}/a.py",
    ]
    mounted = ["unshare", "-m", "sh", "-c", f'{binds} || exit 77; exec "$@"', "sh"]
    seen = run_process(*mounted, sys.executable, "-c", BOUND, str(own), *paths)
    assert seen.stdout.split() == ["INSIDE", "INSIDE", "INSIDE", "INSIDE", "CLEAR"], seen.stderr


def test_what_only_becomes_known_when_a_command_runs_may_be_the_home(house: House) -> None:
    assert house.sensitive.touch("\ue001", f"{house.home}/.ohmo") is Touch.MAYBE
    # the wildcard finds config.yaml there
    assert house.sensitive.touch("\ue000", f"{house.home}/.ohmo") is Touch.INSIDE
    assert house.sensitive.mentioned(f"open('{house.home}/.ohmo/skills/x')") is not None
    seen = house.sensitive.seen_by(house.context())
    assert seen.mentioned(f"open('{house.home}/.ohmo/spill/thread/x')") is None
    for name in ("spill/another/x", "spill/threads/x", "spill", "media/thread"):
        assert seen.mentioned(f"open('{house.home}/.ohmo/{name}')") is not None


# where each change is looked at

OF_PROGRAMS = """
    .git/hooks/pre-commit .git/config .git sub/.git/modules/x/hooks/post-checkout .githooks/pre-push
    .husky/pre-commit .vscode/tasks.json .idea/workspace.xml .envrc .direnv/bin/x .mise.toml
    mise.toml mise.local.toml .devcontainer/devcontainer.json .yarnrc.yml .yarn/releases/yarn.cjs
    .pnp.cjs .pnpmfile.cjs .cargo/config.toml .cargo/config .pre-commit-config.yaml lefthook.yml
    .gitmodules .gitconfig .config/git/config .bashrc .bash_profile .bash_aliases .profile .zshrc
    .zshenv .config/fish/config.fish .inputrc .config/autostart/x.desktop
    .config/systemd/user/x.service Library/LaunchAgents/x.plist .local/bin/git .vimrc
    x.code-workspace sitecustomize.py lib/site-packages/x.pth .exrc .ripgreprc .gdbinit HEAD
""".split()
OF_AGENTS = """
    AGENTS.md docs/AGENTS.md agents.override.md CLAUDE.md CLAUDE.local.md .claude/settings.json
    .claude.json .codex/config.toml .gemini/settings.json GEMINI.md .cursor/rules/x.mdc .cursorrules
    .github/copilot-instructions.md .github/instructions/x.md .windsurfrules .windsurf/rules SOUL.md
    USER.md .ohmo/config.yaml .mcp.json opencode.json .clinerules .aider.conf.yml
""".split()
OF_THE_SYSTEM = """
    /etc/profile /etc/cron.d/x /var/spool/cron/crontabs/ada /usr/local/bin/git
    /lib/systemd/system/x.service /bin/sh
""".split()
ORDINARY = """
    a.py src/hooks/useThing.ts README.md docs/agents.rst .gitignore .gitattributes .dockerignore
    .env.example .editorconfig .github/workflows/ci.yml git/config package.json pyproject.toml
    Makefile etc/nginx.conf usr/x claude.py users.md
""".split()


@pytest.mark.parametrize(
    "before",
    [
        *("echo hi\n\\", "echo \\\\\n", "echo hi # note \\\n", "echo 'b'\\ # ; ", "echo 1\\\n#c; "),
        *("a=\\\n\n", "cat <<'E'\nfoo\\\nE\n", "echo x\v#c; ", "echo x\n[y]#c; ", "echo <\\  \n"),
    ],
)
@pytest.mark.parametrize(
    "command", ["tee AGENTS.md", "rm -f CLAUDE.md", "cp x .git/hooks/pre-push"]
)
def test_no_line_hides_the_one_that_writes_what_agents_obey(
    house: House, before: str, command: str
) -> None:
    behind = "\nE" if "<<" in before else ""
    ruling = house.bash(f"{before}{command}{behind}", "full_auto", allow=["Bash(echo *)"])
    assert ruling.verdict != "allow", ruling


@pytest.mark.parametrize(
    "target", ["AGENT'S'\\.md", '"AGENTS"\\.md', '$"AGENTS".md', "AGEN\\\nTS.md"]
)
def test_a_target_is_found_however_its_word_is_written(house: House, target: str) -> None:
    assert house.bash(f"echo x > {target}", "full_auto").verdict != "allow"


@pytest.mark.parametrize("name", [*OF_PROGRAMS, *OF_AGENTS])
@pytest.mark.parametrize("spelled", [str, str.upper, str.lower])
def test_a_change_of_what_is_run_or_obeyed_asks_whatever_allows_it(
    house: House, name: str, spelled: type[str]
) -> None:
    name = spelled(name)
    for folder in (house.work, house.work / "a" / "b", house.home, Path("/srv/other")):
        for mode in ("default", "full_auto"):
            ruling = judged(house, "Write", f"{folder}/{name}", mode, allow=GENEROUS)
            kept = (ruling.verdict, ruling.layer, ruling.remember)
            assert kept in (("ask", "protected", False), ("deny", "sensitive", False)), (
                f"{folder}/{name}"
            )
        assert judged(house, "Edit", f"{folder}/{name}", "plan", allow=GENEROUS).verdict == "deny"


@pytest.mark.parametrize("path", OF_THE_SYSTEM)
def test_a_change_of_the_system_asks_whatever_allows_it(house: House, path: str) -> None:
    assert judged(house, "Write", path, "full_auto", allow=GENEROUS).layer == "protected"


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_files_are_left_to_the_rules(house: House, name: str) -> None:
    assert judged(house, "Write", f"{house.work}/{name}", allow=GENEROUS).layer == "allow"
    assert judged(house, "Write", f"{house.work}/{name}", "full_auto").verdict == "allow"


def test_reading_protected_places_is_reading(house: House) -> None:
    for name in (".git/config", "CLAUDE.md", ".vscode/tasks.json"):
        assert judged(house, "Read", f"{house.work}/{name}").verdict == "allow"


def test_a_grant_for_such_a_place_is_not_offered_and_does_not_count(house: House) -> None:
    path = f"{house.work}/.git/hooks/pre-commit"
    grant = Grant("g", "*", f"Edit({path})", "ada", datetime(2026, 1, 1, tzinfo=UTC))
    ruling = house.policy().rule(
        ToolCall("t.1", "Write", {}, ""),
        footprint("Write", path),
        house.context("full_auto"),
        [grant],
    )
    assert (ruling.verdict, ruling.layer, ruling.remember) == ("ask", "protected", False)
    assert judged(house, "Write", path, allow=["Edit"], deny=["Edit(.git/**)"]).layer == "deny"


# what docs/permissions.md calls data among the names that begin with a dot
DATA = """
    .*ignore .gitattributes .gitkeep .keep .mailmap .editorconfig .env .env.* .github .gitlab
    .gitlab-ci.yml .circleci .travis.yml .well-known .nojekyll .htaccess .python-version
    .node-version .nvmrc .ruby-version .tool-versions .flake8 .coveragerc .prettierrc
    .prettierrc.json .prettierrc.y*ml .clang-format .clang-tidy .markdownlint.* .yamllint*
    .changeset
""".split()
DOTTED = st.sampled_from([one.replace("*", "x") for one in DATA]).flatmap(
    lambda one: st.sampled_from([one, one.upper(), one + "x", one[:-1]])
) | st.text(
    st.characters(codec="utf-8", exclude_characters="/\0\n", exclude_categories=["Cs"]),
    min_size=1,
    max_size=12,
).map(".".__add__)


@settings(deadline=None, max_examples=300)
@given(
    name=DOTTED,
    above=st.sampled_from(["", "/src", "/a/b"]),
    below=st.sampled_from(["", "/x", "/hooks/pre-commit"]),
)
def test_a_name_that_begins_with_a_dot_is_protected_unless_it_is_known_to_be_data(
    name: str, above: str, below: str
) -> None:
    known = any(fnmatch.fnmatchcase(folded(name), pattern) for pattern in DATA)
    there = ProtectedPlaces(Path("/work")).named(f"/work{above}/{name}{below}")
    assert (there is None) == known or name in ("..", "...")  # the latter stands between revisions


def test_links_lead_where_they_lead(house: House) -> None:
    (house.work / ".git" / "hooks").mkdir(parents=True)
    (house.work / "harmless").symlink_to(house.work / ".git" / "hooks")
    (house.work / "real").mkdir()
    (house.work / ".claude").symlink_to(house.work / "real")
    for path in """
        harmless/pre-commit .claude/settings.json src/../.git/config src//../harmless/../config
    """.split():
        assert (
            judged(house, "Write", f"{house.work}/{path}", "full_auto", allow=GENEROUS).layer
            == "protected"
        ), path


def test_a_repository_without_a_name_of_one_is_known_by_what_git_looks_for(house: House) -> None:
    bare = house.work / "store"
    for name in ("objects", "refs"):
        (bare / name).mkdir(parents=True)
    assert judged(house, "Write", str(bare / "hooks" / "update"), "full_auto").verdict == "allow"
    # what would make it one
    assert judged(house, "Write", str(bare / "HEAD"), "full_auto").layer == "protected"
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("hooks/update", "config"):
        assert judged(house, "Write", str(bare / name), "full_auto").layer == "protected"


def test_how_the_workspace_is_called_protects_nothing_in_it() -> None:
    places = ProtectedPlaces(Path("/usr/src/.build/agent.md"))
    assert places.named("/usr/src/.build/agent.md/a.py") is None
    assert places.named("/usr/src/.build/agent.md/.git/config") == ".git"
    assert places.named("/usr/src/.build/other.py") is not None


# how far reading goes


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere" / "deep"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("x\n")
    return folder.parent


def test_reading_outside_the_workspace_asks_once_per_folder(house: House, elsewhere: Path) -> None:
    inner = elsewhere / "deep" / "a.txt"
    for tool, path, rule in (
        ("Read", inner, f"Read({inner.parent}/**)"),
        ("Read", elsewhere / "missing.txt", f"Read({elsewhere}/**)"),
        ("Glob", elsewhere, f"Read({elsewhere}/**)"),
        ("Grep", inner, f"Read({inner.parent}/**)"),
        ("Brief", inner, f"Read({inner.parent}/**)"),
    ):
        for mode in ("default", "plan"):
            ruling = judged(house, tool, str(path), mode)
            assert (ruling.verdict, ruling.layer, ruling.remember) == ("ask", "mode", True)
            assert str(path) in ruling.reason
            stored, again = answered(house, tool, str(path), mode)
            assert stored == rule
            assert (again.verdict, again.layer) in (("allow", "grant"), ("allow", "mode"))
        assert judged(house, tool, str(path), "full_auto").verdict == "allow"
        assert judged(house, tool, str(path), "full_auto", "user").verdict == "ask"
        assert judged(house, tool, str(path), "full_auto", "guest").verdict == "deny"
        assert judged(house, tool, str(path), allow=[rule]).verdict == "allow"


def test_a_grant_to_read_is_no_grant_to_write_and_covers_no_neighbour(
    house: House, elsewhere: Path
) -> None:
    grant = Grant("g", "*", f"Read({elsewhere}/deep/**)", "ada", datetime(2026, 1, 1, tzinfo=UTC))
    policy = house.policy()

    def verdict(tool: str, path: Path, mode: Mode = "default") -> str:
        return policy.rule(
            ToolCall("t.1", tool, {}, ""), footprint(tool, str(path)), house.context(mode), [grant]
        ).verdict

    assert verdict("Read", elsewhere / "deep" / "further" / "b.txt") == "allow"
    assert verdict("Read", elsewhere / "b.txt") == "ask"
    assert verdict("Read", elsewhere / "deeper" / "b.txt") == "ask"
    assert verdict("Write", elsewhere / "deep" / "a.txt") == "ask"
    assert verdict("Write", elsewhere / "deep" / "a.txt", "plan") == "deny"
    assert verdict("Read", house.home / ".ssh" / "id_rsa") == "deny"


def test_other_grants_still_count_for_nothing_in_plan_mode(house: House) -> None:
    grant = Grant("g", "*", f"Edit({house.work}/a.py)", "ada", datetime(2026, 1, 1, tzinfo=UTC))
    path = str(house.work / "a.py")
    assert (
        house.policy()
        .rule(
            ToolCall("t.1", "Edit", {}, ""), footprint("Edit", path), house.context("plan"), [grant]
        )
        .verdict
        == "deny"
    )


@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.text("ab*?[]!\\(){}$^.~ -", min_size=1, max_size=8).filter(
        lambda text: text not in (".", "..")
    )
)
def test_the_rule_for_a_folder_means_this_folder_whatever_it_is_called(
    house: House, elsewhere: Path, name: str
) -> None:
    path = elsewhere / name / "a.txt"
    rule, again = answered(house, "Read", str(path))
    assert again.verdict == "allow"
    grant = Grant("g", "*", rule, "ada", datetime(2026, 1, 1, tzinfo=UTC))
    other = footprint("Read", str(elsewhere / "another" / "a.txt"))
    assert (
        house.policy()
        .rule(ToolCall("t.1", "Read", {}, ""), other, house.context(), [grant])
        .verdict
        == "ask"
    )


def test_two_folders_are_asked_about_one_after_the_other(house: House, elsewhere: Path) -> None:
    call, policy, context = ToolCall("t.1", "Brief", {}, ""), house.policy(), house.context()
    shown = Footprint(
        reads=(house.work / "a.py", elsewhere / "deep" / "a.txt", Path("/srv/b.txt")),
        effect="house",
    )
    first = Grant("g", "*", f"Read({elsewhere}/**)", "ada", datetime(2026, 1, 1, tzinfo=UTC))
    second = replace(first, rule="Read(/srv/**)")
    assert policy.rule(call, shown, context).suggests == f"Read({elsewhere}/deep/**)"
    assert "/srv/b.txt" in policy.rule(call, shown, context, [first]).reason
    assert policy.rule(call, shown, context, [first, second]).verdict == "allow"


def test_a_link_out_of_the_workspace_leads_outside(house: House, elsewhere: Path) -> None:
    (house.work / "out").symlink_to(elsewhere)
    assert judged(house, "Read", f"{house.work}/out/deep/a.txt").verdict == "ask"
    assert judged(house, "Grep", f"{house.work}/up").verdict == "ask"
    assert judged(house, "Read", f"{house.work}/../../../x").verdict == "ask"
    assert judged(house, "Read", f"{house.work}-of-others/x").verdict == "ask"


def test_the_folder_of_the_turn_is_inside_too(house: House, elsewhere: Path) -> None:
    call = ToolCall("t.1", "Read", {}, "")
    context = replace(house.context(), cwd=elsewhere)
    assert house.policy().rule(call, footprint("Read", "deep/a.txt"), context).verdict == "allow"
    assert (
        house.policy().rule(call, footprint("Read", str(house.work / "a.py")), context).verdict
        == "allow"
    )


def test_what_cannot_be_looked_at_is_judged_all_the_same(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``/proc/1/root`` of another user: realpath(3) and ``Path`` raise there, a judgement never
    does."""
    readlink, lstat, stat = os.readlink, os.lstat, os.stat

    def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(path: Any, *more: Any, **named: Any) -> Any:
            if str(path).startswith("/proc/1/"):
                raise PermissionError(13, "Permission denied", path)
            return call(path, *more, **named)

        return asked

    monkeypatch.setattr(os, "readlink", guarded(readlink))
    monkeypatch.setattr(os, "stat", guarded(stat))
    monkeypatch.setattr(
        os,
        "lstat",
        lambda path, **named: (
            stat("/bin/sh") if str(path) == "/proc/1/root" else lstat(path, **named)
        ),
    )
    for command in (
        "ls > x /proc/1/root/",
        "cat /proc/1/root/x",
        "git -C /proc/1/root status",
        "cd /proc/1/root && ls",
        "cp a /proc/1/root/",
    ):
        assert house.bash(command).verdict != "allow"
    assert judged(house, "Read", "/proc/1/root/x").verdict != "allow"


def test_a_command_that_reads_outside_asks_once_per_folder_and_a_rule_for_it_is_enough(
    house: House, elsewhere: Path
) -> None:
    file = elsewhere / "deep" / "a.txt"
    asked = house.bash(f"cat {file} | wc -l")
    assert (asked.verdict, asked.layer, asked.suggests) == (
        "ask",
        "mode",
        f"Read({elsewhere}/deep/**)",
    )
    grant = Grant("g", "*", asked.suggests, "ada", datetime(2026, 1, 1, tzinfo=UTC))
    assert house.bash(f"cat {file}", grants=[grant]).verdict == "allow"
    assert house.bash(f"cat {file}", "plan", grants=[grant]).verdict == "allow"
    assert house.bash(f"cat {elsewhere}/b.txt", grants=[grant]).verdict == "ask"
    assert house.bash(f"cat {file}", allow=["Bash(cat:*)"]).verdict == "ask"
    assert house.bash(f"cat {file} | wc -l", allow=[f"Bash(cat {file})"]).layer == "allow"
    assert house.bash(f"cat {house.home}/.netrc", allow=["Bash(cat:*)"]).verdict == "deny"
    assert house.bash(f"cd {elsewhere}/deep && ls").verdict == "ask"


@pytest.mark.parametrize("rule", [(), ("Write", "Edit", "NotebookEdit")])
def test_a_mode_or_a_rule_that_names_no_place_opens_none_for_writing(
    house: House, rule: tuple[str, ...]
) -> None:
    inside = judged(house, "Write", f"{house.work}/bin/git", "full_auto", allow=rule)
    assert inside.verdict == "allow"
    for path in (house.home / "bin" / "git", Path("/opt/x"), house.work / ".." / "x"):
        beyond = judged(house, "Write", str(path), "full_auto", allow=rule)
        assert (beyond.verdict, beyond.remember) == ("ask", True), path
    placed = [f"Write({house.home}/bin/**)"]
    assert judged(house, "Write", f"{house.home}/bin/git", "default", allow=placed).layer == "allow"
    assert judged(house, "Write", f"{house.home}/bin/git", "plan").verdict == "deny"


def test_a_mode_opens_no_name_with_a_dot_of_the_home(house: House) -> None:
    for tool, path in (("Read", ".config/x/token"), ("Grep", ".config/x"), ("Grep", "")):
        ruling = judged(house, tool, str(house.home / path), "full_auto")
        assert ruling.verdict == "ask", path
    assert judged(house, "Read", str(house.home / "notes" / "x"), "full_auto").verdict == "allow"
    assert house.bash("cat ~/.config/x/token", "full_auto").verdict == "ask"
    assert house.bash("ls ~/notes", "full_auto").verdict == "allow"
    rule = [f"Read({house.home}/.config/x/**)"]
    token = str(house.home / ".config" / "x" / "token")
    assert judged(house, "Read", token, "default", allow=rule).verdict == "allow"


def test_a_protected_place_is_known_in_quotes_in_code(house: House) -> None:
    for code in (
        """python3 -c 'open(".envrc", "w")'""",
        """node -e 'fs.writeFileSync(".vscode/tasks.json", 1)'""",
        """perl -e 'open F, ">AGENTS.md"'""",
        """awk 'BEGIN { print "x" > ".envrc" }'""",
    ):
        assert house.bash(code, "full_auto").layer == "protected", code
    for code in (
        """python3 -c 'print(open("a.py").read().strip())'""",
        """python3 -c 'print("done.")'""",
        """sed -i 's/"x"/"y"/' a.py""",
    ):
        assert house.bash(code, "full_auto").verdict == "allow", code
