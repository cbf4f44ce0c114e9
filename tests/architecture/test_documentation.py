"""Links and paths in the documentation lead somewhere; decisions are numbered one by one."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from ohmo.config.models import Written
from ohmo.contracts.agent import Event
from tests.programs import OHMO, run_process

ROOT = Path(__file__).parents[2]


def pages() -> list[Path]:
    found = [
        *ROOT.glob("*.md"),
        *(page for room in ("docs", "deploy") for page in (ROOT / room).rglob("*.md")),
    ]
    assert ROOT / "README.md" in found
    return found


def anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, spaces to hyphens, what is neither letter, digit, hyphen
    nor underscore left out."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_link_leads_to_a_file_and_a_heading_that_exist() -> None:
    broken: list[str] = []
    for page in pages():
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            goal = page.parent / path if path else page
            if not goal.exists() or (anchor and anchor not in anchors(goal)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


def configurations() -> Iterator[object]:
    """Blocks of YAML whose first key is one of config.yaml; manifests and others' files are not."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"^ *```yaml\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
            shown = textwrap.dedent(block[1])
            first = re.search(r"^(\w+):", shown, re.MULTILINE)
            if first is not None and first[1] in Written.model_fields:
                line = text.count("\n", 0, block.start()) + 1
                yield pytest.param(shown, id=f"{page.relative_to(ROOT)}:{line}")


SHAPES = {
    "TELEGRAM": "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11",
    "FEISHU_APP_ID": "cli_a1b2c3d4e5f6",
    "BOT": "xoxb-1-2-a",
    "APP": "xapp-1-a-2-b",
}


def secret(name: str) -> str:
    """A value of the form that the platform's own check wants, by words in the variable's name."""
    return next((value for word, value in SHAPES.items() if word in name), "a-secret-for-the-check")


@pytest.mark.parametrize("shown", list(configurations()))
def test_every_configuration_that_is_shown_passes_the_check(shown: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(shown, encoding="utf-8")
    file.chmod(0o600)
    secrets = {
        name: secret(name)
        for name in [*re.findall(r"env:(\w+)", shown), "ANTHROPIC_API_KEY", "OPENAI_API_KEY"]
    }
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **secrets}
    run_process(*OHMO, "config", "check", "--config", file, env=environ, cwd=ROOT, code=0)


def test_decisions_are_numbered_one_by_one_and_say_their_number_in_the_title() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [page.name[:4] for page in decisions] == [
        f"{number:04}" for number in range(1, len(decisions) + 1)
    ]
    for page in decisions:
        assert page.read_text(encoding="utf-8").startswith(f"# {page.name[:4]} · "), (
            f"{page.name}: begin with '# {page.name[:4]} · Title'"
        )


def test_every_page_is_named_on_the_first_one() -> None:
    first = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [
        page.name
        for page in sorted((ROOT / "docs").glob("*.md"))
        if f"({page.name})" not in first and page.name != "README.md"
    ] == []


def test_what_the_house_measures_and_logs_is_told_to_who_operates_it() -> None:
    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    metrics = set(
        re.findall(
            r'"(ohmo_\w+)"', (ROOT / "ohmo" / "control" / "metrics.py").read_text(encoding="utf-8")
        )
    )
    assert len(metrics) > 9
    logged = set(
        re.findall(
            r'log\.\w+\(\s*"(\w+)"',
            (ROOT / "ohmo" / "tracing" / "turn_log.py").read_text(encoding="utf-8"),
        )
    )
    assert len(logged) == 3
    assert sorted(name for name in metrics | logged if f"`{name}" not in operations) == []


def test_every_event_of_a_turn_stands_in_the_description_of_the_api() -> None:
    api = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    names = [re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower() for kind in get_args(Event)]
    assert len(names) > 10
    assert [name for name in names if not re.search(rf"\b{name}\b", api)] == []
