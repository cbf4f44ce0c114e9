"""Imports go down only; rooms on one floor do not know each other."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.house_report import parsed
from tests.programs import run_process

ROOT = Path(__file__).parents[2]

FLOORS: dict[int, tuple[str, ...]] = {
    0: (
        "channels.record",
        "channels.text",
        "channels.durable",
        "channels.entry_points",
        "channels.contract",
        "channels.errors",
        "channels.payloads",
    ),
    1: (
        "ohmo.contracts",
        "ohmo.regular_file",
        "channels.registry",
        "channels.split",
        "channels.catch_up",
        "channels.competing_instance",
        "channels.no_retry",
        "channels.platform_calls",
        "channels.platform_calls",
        "channels.stale_typing",
    ),
    2: (
        "ohmo.config",
        "ohmo.store",
        "ohmo.bus",
        "ohmo.lifecycle",
        "ohmo.processes",
        "ohmo.shell",
        "ohmo.logs",
        "ohmo.heap",
        "ohmo.discovery",
        "ohmo.media",
        "ohmo.content",
        "ohmo.ambient",
        "ohmo.tracing",
        "channels",
    ),
    3: (
        "ohmo.providers",
        "ohmo.permissions",
        "ohmo.sandbox",
        "ohmo.hooks",
        "ohmo.skills",
        "ohmo.plugins",
        "ohmo.memory",
        "ohmo.mcp",
        "ohmo.codeintel",
        "ohmo.checkpoints",
        "ohmo.triage",
        "ohmo.database",
    ),
    4: ("ohmo.engine", "ohmo.context", "ohmo.storefile"),
    5: ("ohmo.sessions", "ohmo.cron", "ohmo.swarm", "ohmo.harness"),
    6: ("ohmo.tools", "ohmo.commands", "ohmo.autopilot"),
    7: (
        "ohmo.approvals",
        "ohmo.replay",
        "ohmo.upkeep",
    ),  # use cases: what gateway and control both call
    8: ("ohmo.gateway", "ohmo.control", "ohmo.tui", "ohmo.service", "ohmo.setup"),
    9: ("ohmo.assembly",),
    10: ("ohmo.daemon", "ohmo.worker", "ohmo.doctor"),
    11: ("ohmo.cli", "ohmo.__main__"),
}
# Small trades that carry no state and that every room above or beside them may use; they know
# nothing themselves.
PLAIN = (
    "ohmo.ambient",
    "ohmo.discovery",
    "channels.entry_points",
    "channels.record",
    "channels.contract",
    "channels.errors",
)
SDKS: dict[str, str] = {  # SDK -> the one room that imports it
    "slack_sdk": "channels.slack.client",
    "telegram": "channels.telegram.uploads",
    "mautrix": "channels.matrix.client",
    "vodozemac": "channels.matrix.client_olm",
    "Crypto": "channels.matrix.client_olm",
    "discord": "channels.discord.client",
    "lark_oapi": "channels.feishu.client",
    "anthropic": "ohmo.providers.anthropic",
    "openai": "ohmo.providers.openai",
    "asyncpg": "ohmo.database.postgres",
    "croniter": "ohmo.cron",
    "junitparser": "ohmo.triage.logs",
    "jsonschema_rs": "ohmo.mcp.tools",
    "mcp": "ohmo.mcp",
    "mcp_types": "ohmo.mcp",
    "opentelemetry": "ohmo.tracing.spans",
    "prompt_toolkit": "ohmo.cli.terminal",
    "rich": "ohmo.cli.terminal",
}


@cache
def modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for package in ("ohmo", "channels"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = path
    return found


def room_of(module: str) -> tuple[int, str] | None:
    best: tuple[int, str] | None = None
    for floor, rooms in FLOORS.items():
        for room in rooms:
            if (module == room or module.startswith(room + ".")) and (
                best is None or len(room) > len(best[1])
            ):
                best = (floor, room)
    if best is not None and best[1] == "channels":  # each platform is a room of its own
        parts = module.split(".")
        return best[0], ".".join(parts[:2])
    return best


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            known = modules()
            found += [
                (
                    node.lineno,
                    full if (full := f"{node.module}.{alias.name}") in known else node.module,
                )
                for alias in node.names
            ]
    return found


def violations() -> list[str]:
    wrong: list[str] = []
    for module, path in modules().items():
        if module in ("ohmo", "channels"):
            continue
        own = room_of(module)
        if own is None:
            wrong.append(f"{module}: stands on no floor; add its room to FLOORS")
            continue
        for line, target in imports(path):
            if target.split(".")[0] not in ("ohmo", "channels") or target in ("ohmo", "channels"):
                continue
            other = room_of(target)
            if other is None:
                wrong.append(f"{module}:{line}: {target} stands on no floor")
            elif other[1] == own[1] or other[1] in PLAIN:
                continue
            elif other[0] >= own[0]:
                wrong.append(
                    f"{module}:{line}: floor {own[0]} imports {target} of floor {other[0]}"
                )
    return wrong


def test_imports_go_down_only() -> None:
    assert violations() == []


def test_channels_import_nothing_of_ohmo() -> None:
    wrong = [
        f"{m}:{line}"
        for m, p in modules().items()
        if m.startswith("channels")
        for line, t in imports(p)
        if t.split(".")[0] == "ohmo"
    ]
    assert wrong == []


def test_contract_uses_the_standard_library_only() -> None:

    for name in ("channels.contract", "channels.errors"):
        for line, target in imports(modules()[name]):
            assert target.split(".")[0] in sys.stdlib_module_names or target.startswith(
                "channels."
            ), f"{name}:{line}: {target}"


@pytest.mark.parametrize(("sdk", "home"), sorted(SDKS.items()))
def test_each_sdk_is_imported_by_one_room(sdk: str, home: str) -> None:
    wrong = [
        f"{m}:{line}"
        for m, p in modules().items()
        for line, t in imports(p)
        if t.split(".")[0] == sdk and not (m == home or m.startswith((home + ".", home + "_")))
    ]
    assert wrong == []


LATE = {  # imported at first need: nobody waits for them at the start
    "markdown_it": "before the first answer",
    "pathspec": "before the first .gitignore",
    "croniter": "before the first job with cron fields",
    "junitparser": "before the first test report",
    "bs4": "before the first web page, in a process of its own",
    "markdownify": "the same",
    "docker": "before the first container, in a thread",
    "json_repair": "before the first broken call",
}


def _packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = (
        [node.module or ""]
        if isinstance(node, ast.ImportFrom)
        else [name.name for name in node.names]
    )
    return {name.split(".")[0] for name in names}


def test_only_the_cli_imports_inside_functions_and_else_what_is_named_as_late() -> None:
    wrong: list[str] = []
    for module, path in modules().items():
        if module.startswith("ohmo.cli") or module == "ohmo.__main__":
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                late = [
                    inner
                    for inner in ast.walk(node)
                    if isinstance(inner, ast.Import | ast.ImportFrom)
                ]
                wrong += [f"{module}:{one.lineno}" for one in late if _packages(one) - LATE.keys()]
    assert wrong == []


BROAD = {  # the named boundaries where everything may be caught, each with its reason
    "ohmo/database/writer.py": "one bad operation must not take the writer and its neighbours down",
    "ohmo/lifecycle.py": "supervision",
    "ohmo/engine/executor.py": "tool execution: every exit is a value",
    "ohmo/gateway/switchboard.py": "channel supervision",
    "ohmo/bus.py": "one batch that cannot be stored must not make every channel deaf",
    "ohmo/hooks/project.py": "whatever a project of somebody else's holds",
    "ohmo/plugins/shelf.py": "whatever a plugin of somebody else's holds",
    "ohmo/discovery.py": "import of a package of somebody else's",
    "channels/registry.py": "import of a package of somebody else's",
    "ohmo/worker.py": "worker main",
}


def test_everything_is_caught_only_at_the_named_boundaries() -> None:
    wrong: list[str] = []
    for module, path in modules().items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ExceptHandler):
                if isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None:
                    continue  # it cleans up and lets the failure go on
                names = (
                    [n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)]
                    if node.type is not None
                    else ["everything"]
                )
                if {"Exception", "BaseException", "everything"} & set(names) and str(
                    path.relative_to(ROOT)
                ) not in BROAD:
                    wrong.append(f"{module}:{node.lineno}")
    assert wrong == []


FORBIDDEN = {"utils", "helpers", "common", "manager", "runtime", "base", "misc"}


def test_names_say_what_a_room_is_for() -> None:
    assert [m for m in modules() if FORBIDDEN & set(m.split("."))] == []


def test_every_module_says_what_it_is_in_one_sentence() -> None:
    assert [m for m, p in modules().items() if not ast.get_docstring(parsed(p))] == []


# What passes the bounds since every line ends at 100 columns, and by how much: it may only shrink.
TOO_LONG: dict[str, int] = {}


def test_no_file_passes_400_lines_and_no_function_60() -> None:
    long: dict[str, int] = {}
    for module, path in modules().items():
        text = path.read_text(encoding="utf-8")
        if (lines := text.count("\n")) > 400:
            long[module] = lines
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno
                if lines > 60:
                    long[f"{module}:{node.name}"] = lines
    assert {name: lines for name, lines in long.items() if lines > TOO_LONG.get(name, 0)} == {}
    assert sorted(set(TOO_LONG) - set(long)) == [], "these are short enough now: take them out"


def test_no_line_of_the_tests_and_benchmarks_passes_170_columns() -> None:
    wrong: list[str] = []
    for folder in ("tests", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if len(line) > 170:
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: {len(line)}")
    assert wrong == []


def test_top_level_of_the_repository_is_what_the_card_says() -> None:
    allowed = set(
        """
        pyproject.toml ohmo ohmo_testing channels deploy tests config.example.yaml Dockerfile
        README.md docs benchmarks Makefile .ci .gitignore .git .dockerignore CONTRIBUTING.md
        .git-blame-ignore-revs CHANGELOG.md LICENSE requirements.lock requirements-dev.lock
    """.split()
    )

    tracked = run_process("git", "ls-files", code=0, cwd=ROOT).stdout.split("\n")
    assert {line.split("/")[0] for line in tracked if line} <= allowed


def test_the_page_of_the_architecture_shows_every_room_on_its_floor() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    shown = {
        (int(floor), name.removesuffix(".py").replace("/", "."))
        for floor, rooms in re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)
        for name in re.findall(r"`(ohmo/[a-z/._]+)`", rooms)
    }
    rooms = {
        (floor, name)
        for floor, names in FLOORS.items()
        for name in names
        if name.startswith("ohmo.") and _exists(name)
    }
    assert shown == rooms - {(max(FLOORS), "ohmo.__main__")}


def _exists(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_nothing_of_the_product_exists_only_for_tests() -> None:
    imports = re.compile(r"^\s*(?:from|import) (?:ohmo_testing|tests)\b", re.MULTILINE)
    files = [*ROOT.glob("ohmo/**/*.py"), *ROOT.glob("channels/**/*.py")]
    assert [str(file) for file in files if imports.search(file.read_text(encoding="utf-8"))] == []
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"][
        "build"
    ]
    assert built["targets"]["wheel"]["packages"] == ["ohmo", "channels"]


def reach(start: str) -> set[str]:
    """Every module that is loaded with this one, packages too."""
    known = modules()
    found: set[str] = set()
    open_ = [start]
    while open_:
        module = open_.pop()
        if module in found or module not in known:
            continue
        found.add(module)
        open_ += [target for _, target in imports(known[module])]
        open_ += [module.rpartition(".")[0]]
    return found


def test_what_builds_an_agent_knows_nothing_of_who_speaks_to_it() -> None:
    """A process that only runs turns loads no channel, no door and no clock."""
    rooms = {room_of(module) for module in reach("ohmo.assembly.agent") if "." in module}
    names = {room for _, room in filter(None, rooms)}
    assert names & {"ohmo.gateway", "ohmo.control", "ohmo.cron"} == set()
    shared = set(FLOORS[0]) | set(FLOORS[1])
    assert {name for name in names if name.startswith("channels.")} - shared == set()
