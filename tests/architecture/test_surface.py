"""The names in ``surface.yaml`` are there, under exactly these names: commands, keys, routes,
metrics, tools, failpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from channels.registry import discover
from ohmo.assembly.house import commands
from ohmo.cli import main
from ohmo.commands.aliases import INSTEAD
from ohmo.config.export import schema
from ohmo.config.home import FOLDERS, Home
from ohmo.config.source import parse
from ohmo.contracts.reports import ChannelStatus, Counts, HouseStatus
from ohmo.control.metrics import Metrics
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.tools.catalogue import load_tools, tool_specs
from ohmo.tools.workbench import Workbench
from tests.programs import OHMO, run_process

ROOT = Path(__file__).parents[2]
SURFACE: dict[str, Any] = YAML(typ="safe").load(
    Path(__file__).with_name("surface.yaml").read_text(encoding="utf-8")
)


def leaves(
    command: click.Command, path: tuple[str, ...], above: click.Context | None
) -> Iterator[tuple[str, click.Command]]:
    here = click.Context(command, parent=above)
    if not isinstance(command, click.Group) or not path:
        yield " ".join(path), command
    if isinstance(command, click.Group):
        for name in command.list_commands(here):
            inner = command.get_command(here, name)
            assert inner is not None
            yield from leaves(inner, (*path, name), here)


COMMANDS = dict(leaves(main.ohmo, (), None))


def options(command: click.Command) -> set[str]:
    return {
        name for parameter in command.params for name in parameter.opts if name.startswith("--")
    }


def source(*folders: str) -> str:
    return "\n".join(
        file.read_text(encoding="utf-8")
        for folder in folders
        for file in sorted((ROOT / folder).rglob("*.py"))
    )


@pytest.mark.parametrize("name", SURFACE["commands"], ids=lambda name: name or "ohmo")
def test_a_command_has_its_name_and_its_options(name: str) -> None:
    assert name in COMMANDS
    assert set(SURFACE["commands"][name]) <= options(COMMANDS[name])


def test_every_command_that_lists_knows_json() -> None:
    lists = [
        name
        for name in COMMANDS
        if name.split(" ")[-1]
        in ("list", "history", "show", "status", "audit", "usage", "doctor", "logs", "check", "why")
    ]
    assert len(lists) > 15
    assert [
        name for name in lists if name != "service logs" and "--json" not in options(COMMANDS[name])
    ] == []


@pytest.mark.parametrize("name", SURFACE["later"])
def test_what_comes_later_is_refused_with_one_line(name: str, tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    said = run_process(*OHMO, name, "list", cwd=ROOT, env=environ)
    assert (said.returncode, said.stdout) == (2, "")
    assert (
        said.stderr
        == f"ohmo: 'ohmo {name}' comes in a later version; ohmo --help shows what there is today\n"
    )
    assert not (tmp_path / ".ohmo").exists()


def test_exit_codes_are_fixed() -> None:
    assert {name: getattr(main, name) for name in SURFACE["exit_codes"]} == SURFACE["exit_codes"]


def test_the_commands_of_a_chat_have_their_names() -> None:
    assert set(SURFACE["chat"]) <= set(commands())
    assert set(SURFACE["chat_later"]) <= set(INSTEAD)


def test_the_home_has_its_places(tmp_path: Path) -> None:
    home = Home(tmp_path)
    places = {
        home.config,
        home.database,
        home.lock,
        home.token,
        home.socket(),
        home.log,
        home.media,
        home.spill,
        home.state("slack"),
        home.quarantine,
        home.backups,
    }
    assert {str(place.relative_to(tmp_path)) for place in places} == set(SURFACE["home"])
    assert set(FOLDERS) == set(SURFACE["prepared"])


def test_the_api_has_its_routes() -> None:
    found = re.findall(r'web\.(get|post)\(\s*"([^"]+)"', source("ohmo/control"))
    known = {f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}" for method, path in found}
    assert [
        route for route in SURFACE["routes"] if re.sub(r"{[^}]*}", "{}", route) not in known
    ] == []


def test_the_status_has_its_fields() -> None:
    assert set(SURFACE["status"]) <= set(HouseStatus.__match_args__)
    assert set(SURFACE["status_channel"]) <= set(ChannelStatus.__match_args__)


async def test_the_numbers_have_their_names_and_labels() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    channel = ChannelStatus("connected", now, now, "")
    status = HouseStatus(
        True, "1", now, "p", "m", {"slack": channel}, {}, {}, None, 0, 0, {"lag_seconds": 0.0}, {}
    )
    text = (
        Metrics()
        .scrape(Counts({("slack", "waiting"): 1}, {("slack", "ready"): 1}, None, 0, 0), status)
        .decode()
    )
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = re.sub(r"_(?:bucket|sum|count|created)$", "", sample.name)
            labels.setdefault(name, set()).update(set(sample.labels) - {"le"})
    assert {name: set(labels[name]) for name in SURFACE["metrics"]} == {
        name: set(given) for name, given in SURFACE["metrics"].items()
    }


def test_tools_have_their_names_and_arguments(tmp_path: Path) -> None:
    bench = Workbench(
        tmp_path / "spill",
        SensitivePaths(tmp_path, tmp_path / ".ohmo"),
        environ={"PATH": "/usr/bin:/bin"},
        ripgrep=None,
    )
    told = {spec.name: spec.schema for spec in tool_specs(load_tools(bench))}
    missing = {
        name: set(given) - set(told[name]["properties"]) for name, given in SURFACE["tools"].items()
    }
    assert {name: gone for name, gone in missing.items() if gone} == {}


def test_failpoints_have_their_names() -> None:
    text = source("ohmo")
    assert [name for name in SURFACE["failpoints"] if f'"{name}"' not in text] == []
    assert [name for name in SURFACE["failpoints_later"] if f'"{name}"' in text] == []
    assert "failpoint" not in source("channels")


def flat(
    table: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, (*above, name))
        else:
            yield (*above, name), value


@pytest.mark.parametrize(
    ("path", "default"),
    list(flat(SURFACE["config"])),
    ids=lambda part: ".".join(part) if isinstance(part, tuple) else "",
)
def test_a_key_has_its_name_and_its_default(path: tuple[str, ...], default: Any) -> None:
    found: Any = parse(
        (ROOT / "config.example.yaml").read_text(encoding="utf-8"), "config.example.yaml"
    ).data
    for name in path:
        found = found[name]
    if isinstance(found, Mapping) and default == {}:
        found = {name: value for name, value in found.items() if value is not None}
    assert found == default


def test_the_schema_is_one_of_json_schema() -> None:
    assert schema(discover(strangers=()).manifests)["$schema"].startswith(
        "https://json-schema.org/"
    )


def said_in_documentation() -> Iterator[tuple[str, list[str]]]:
    """Every command line of ohmo in a block or in backticks, with where it stands, as words."""
    for page in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "deploy" / "README.md",
    ):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        blocks = re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL)
        lines = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        lines += [line for kind, body in blocks if kind in ("", "sh") for line in body.splitlines()]
        # what a terminal showed: a line with a prompt is a command, any other one is an answer
        lines += [
            line[2:]
            for kind, body in blocks
            if kind == "console"
            for line in body.splitlines()
            if line.startswith("$ ")
        ]
        for line in lines:
            if (found := re.match(r"\s*(?:\.venv/bin/)?ohmo(?: (.*))?$", line)) is not None:
                yield str(page.relative_to(ROOT)), (found[1] or "").split("#")[0].split()


def test_every_command_in_the_documentation_exists_with_its_options() -> None:
    later, wrong, seen = set(SURFACE["later"]), [], 0
    for page, words in said_in_documentation():
        if not words or words[0].startswith("[") or words[0] in later:
            continue
        seen += 1
        name = next(
            (" ".join(words[:many]) for many in (2, 1, 0) if " ".join(words[:many]) in COMMANDS), ""
        )
        group = words[0] in {known.split(" ")[0] for known in COMMANDS}
        if not name and not group and not words[0].startswith("-"):
            wrong.append(f"{page}: ohmo {' '.join(words)}: there is no such command")
            continue
        known = {
            one
            for command, found in COMMANDS.items()
            if command == name or (not name and group and command.startswith(f"{words[0]} "))
            for one in options(found)
        }
        asked = {word.split("=")[0].rstrip(",;") for word in words if word.startswith("--")} - {
            "--help"
        }
        wrong += [
            f"{page}: ohmo {' '.join(words)}: no {option}" for option in sorted(asked - known)
        ]
    assert seen > 150
    assert wrong == []
