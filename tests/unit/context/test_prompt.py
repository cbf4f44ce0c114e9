"""The sections of the system prompt, the rules a project brings along, and how things stand."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ohmo.config.agent import ChangingSection, Prompt
from ohmo.context.prompt import Facts, system_prompt, too_big
from ohmo.context.rules import MOST_CHARACTERS, ProjectRules, RuleFile, introduced, project_rules
from ohmo.context.surroundings import BEGINS, branch_of, surroundings
from ohmo.context.window import tokens_of
from tests.programs import run_process


def facts(home: Path, rules: ProjectRules | None = None) -> Facts:
    return Facts(home, Path("/w"), "Linux", "plan", None, rules or ProjectRules(Path("/w")))


def repository(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    run_process("git", "init", "-q", "-b", "trunk", root, code=0)
    return root


def test_sections_stand_in_their_order_and_the_last_one_carries_the_breakpoint(
    tmp_path: Path,
) -> None:
    (tmp_path / "SOUL.md").write_text("<!-- what I am -->\nCalm.\n")
    (tmp_path / "USER.md").write_text("<!-- only a comment -->\n")
    (tmp_path / "AGENTS.md").write_text("line\n" * 5_000)
    sections = system_prompt(Prompt(), facts(tmp_path))
    assert [section.name for section in sections] == [
        "role",
        "persona",
        "local_rules",
        "environment",
    ]
    assert [section.breakpoint for section in sections] == [False, False, False, True]
    assert sections[1].text == "<persona>\nCalm.\n</persona>"
    assert tokens_of(sections[2].text) <= Prompt().budgets.local_rules + 20
    assert f"more lines in {tmp_path / 'AGENTS.md'})" in sections[2].text


@pytest.mark.parametrize("words", ["calm and brief ", "落ち着いて短く。"])
@pytest.mark.parametrize("head", ["", "# Soul\n"])
def test_a_paragraph_on_one_line_is_cut_at_a_word_and_keeps_its_beginning(
    tmp_path: Path, head: str, words: str
) -> None:
    (tmp_path / "SOUL.md").write_text(head + words * 7_000)
    persona = system_prompt(Prompt(), facts(tmp_path))[1].text
    budget = Prompt().budgets.persona
    assert budget * 2 // 3 < tokens_of(persona) <= budget + 30
    last, mark, _ = persona.splitlines()[-3:]
    assert last.startswith(words * 100)
    assert last.endswith(("calm", "and", "brief")) or "短" in words
    assert mark == f"(cut: this line goes on in {tmp_path / 'SOUL.md'})"


def test_order_and_switches_are_configuration(tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_text("Calm.")
    layout = Prompt.model_validate({"sections": ["environment", "role"]})
    names = [section.name for section in system_prompt(layout, facts(tmp_path))]
    assert names == ["environment", "role"]


def test_a_window_that_is_too_small_names_the_largest_section(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("word " * 2_000)
    line = too_big(2_000, system_prompt(Prompt(), facts(tmp_path)), 900)
    assert "\n" not in line
    assert "local_rules (28" in line
    assert f" tokens, from {tmp_path / 'AGENTS.md'})" in line
    assert "prompt.budgets.local_rules" in line


def test_the_nearest_rules_come_last_and_nothing_twice(tmp_path: Path) -> None:
    root = repository(tmp_path / "home" / "project")
    deep = root / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "home" / "CLAUDE.md").write_text("above the repository")
    (root / "CLAUDE.md").write_text("of the root")
    (root / "AGENTS.md").symlink_to("CLAUDE.md")
    (root / ".claude" / "rules").mkdir(parents=True)
    (root / ".claude" / "rules" / "style.md").write_text("style")
    (root / "a" / "AGENTS.md").write_text("of a")
    (deep / "CLAUDE.md").write_text("of b")
    rules = project_rules(deep, tmp_path / "home")
    assert [file.text for file in rules.files] == ["of the root", "style", "of a", "of b"]
    assert rules.files[0].path.name == "AGENTS.md"
    assert rules.warnings == ()
    assert rules.text().endswith("of b")


def test_outside_a_repository_and_never_above_the_home_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = home / "notes" / "today"
    folder.mkdir(parents=True)
    repository(tmp_path)  # above the home directory
    (tmp_path / "CLAUDE.md").write_text("of somebody else")
    (home / "notes" / "CLAUDE.md").write_text("beside")
    (folder / "CLAUDE.md").write_text("here")
    assert [file.text for file in project_rules(folder, home).files] == ["here"]


def test_what_git_ignores_is_read_only_when_it_is_named(tmp_path: Path) -> None:
    root = repository(tmp_path / "p")
    (root / ".gitignore").write_text("AGENTS.md\n")
    (root / "AGENTS.md").write_text("private")
    (root / "CLAUDE.md").write_text("shared")
    assert [file.text for file in project_rules(root, tmp_path).files] == ["shared"]
    rules = project_rules(root, tmp_path, although_ignored=["AGENTS.md"])
    assert [file.text for file in rules.files] == ["shared", "private"]


def test_what_cannot_be_read_is_left_out_and_said(tmp_path: Path) -> None:
    root = repository(tmp_path / "p")
    folder = root / ".claude" / "rules"
    folder.mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("token")
    (folder / "circle.md").symlink_to(folder / "circle.md")
    (folder / "latin.md").write_bytes("Größe".encode("latin-1"))
    (folder / "binary.md").write_bytes(b"a\0b")
    (folder / "out.md").symlink_to(tmp_path / "secret.txt")
    (folder / "hidden.md").write_text("key")
    os.mkfifo(folder / "pipe.md")
    (folder / "folder.md").mkdir()
    (folder / "huge.md").write_text("äöü line\n" * 20_000)
    rules = project_rules(root, tmp_path, hides=lambda path: path.endswith("hidden.md"))
    assert [file.path.name for file in rules.files] == ["huge.md"]
    assert len(rules.files[0].text) <= MOST_CHARACTERS + 200
    assert rules.files[0].text.endswith(f"(cut: see {folder / 'huge.md'})")
    said = {Path(line.split(": ", 1)[0]).name: line.split(": ", 1)[1] for line in rules.warnings}
    assert set(said) == {
        "binary.md",
        "circle.md",
        "folder.md",
        "hidden.md",
        "latin.md",
        "out.md",
        "pipe.md",
    }
    assert said["out.md"] == f"it leads out of {root}; left out"
    words = introduced(rules, rules.text())
    followed, _, rest = words.partition(f"\n\nRules in `{root}` that I do not follow:\n")
    assert followed == (
        f"From now on I follow the rules that `{root}` brings along:\n"
        f"- `{folder / 'huge.md'}`, 1334 lines, cut: only its beginning is read"
    )
    assert "latin.md: it is not UTF-8; left out" in rest
    assert "\n\n> äöü line\n> äöü line\n" in rest
    assert "token" not in words


def test_rules_that_the_budget_cuts_or_leaves_out_are_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("Be brief.")
    (tmp_path / "AGENTS.md").write_text("Test first.\n" * 300)
    rules = ProjectRules(
        tmp_path,
        (*project_rules(tmp_path, tmp_path).files, RuleFile(tmp_path / "last.md", "Never push.")),
    )
    layout = Prompt.model_validate({"budgets": {"project_rules": 200}})
    sent = system_prompt(layout, replace(facts(tmp_path), rules=rules))
    words = introduced(rules, next(part.text for part in sent if part.name == "project_rules"))
    assert "CLAUDE.md`, 1 line\n" in words
    assert "AGENTS.md`, 300 lines, cut: only its beginning is read" in words
    assert f"- `{tmp_path / 'last.md'}`: no room is left in" in words
    assert "> Never push." not in words


def test_without_rules_nobody_is_told_anything(tmp_path: Path) -> None:
    assert introduced(project_rules(tmp_path, tmp_path), "") == ""


ALL: tuple[ChangingSection, ...] = ("date", "branch", "issue", "pull_request")
NOW = datetime(2026, 11, 24, 8, 0, tzinfo=UTC)


def test_how_things_stand_names_date_branch_and_issue(tmp_path: Path) -> None:
    root = repository(tmp_path / "p")
    (root / ".ohmo").mkdir()
    (root / ".ohmo" / "issue.md").write_text("Fix the clock.\n" * 900)
    text = surroundings(ALL, 100, root, tmp_path, NOW)
    assert text.startswith(f"{BEGINS}\nDate: Tuesday, 2026-11-24, time zone UTC (UTC+0000)\n")
    assert f"Repository: {root}, branch trunk\n<issue>\nFix the clock.\n" in text
    assert tokens_of(text) < 250
    assert surroundings(("branch",), 100, tmp_path, tmp_path, NOW) == ""


@pytest.mark.parametrize("content", ["", "ref: refs/heads/a\nb\x1b[0m", "../../etc/passwd", "\0"])
def test_a_head_that_means_nothing_names_no_branch(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(content)
    assert branch_of(tmp_path) in ("", "(detached at )")


def test_a_worktree_has_its_own_branch_and_a_commit_its_first_letters(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "HEAD").write_text("0123456789abcdef0123456789abcdef01234567\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".git").write_text("gitdir: ../data\n")
    assert branch_of(tmp_path / "work") == "(detached at 0123456789ab)"
