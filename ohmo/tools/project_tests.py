"""ProjectTests: runs a project's own tests by its own command, judged and run as in Bash, and tells
what failed as data."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from channels.record import record
from ohmo.checkpoints.theirs import content_of
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.discovery import load
from ohmo.permissions.wording import argument
from ohmo.processes.job import JobEnded
from ohmo.tools.bash import Bash, BashInput, blotted, job_report
from ohmo.tools.inputs import PathText, PydanticTool, SafeText
from ohmo.tools.results import (
    ToolError,
    absolute_path,
    description,
    error_result,
    in_thread,
    temporary_folder,
    text_result,
)
from ohmo.tools.workbench import Workbench

if TYPE_CHECKING:
    from ohmo.triage.outcomes import Form, Outcome

_MOST_SETTINGS = 1 << 20  # bytes of a project's file
_MOST_REPORT = 16 << 20
_TARGET = re.compile(rb"^test\s*:(?!=)", re.MULTILINE)
_LOCKS = (  # which package manager a project is worked on with
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun run"),
    ("bun.lockb", "bun run"),
)


def _no_option(text: str) -> str:
    if text.startswith("-"):
        raise ValueError("is an option; name a test, a file or a package")
    return text


class ProjectTestsInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="ProjectTests", defer_build=True)
    path: PathText | None = Field(default=None, description="folder of the project")
    tests: list[Annotated[SafeText, AfterValidator(_no_option)]] = Field(
        default=[], max_length=100, description="only these, as the runner names them"
    )
    timeout: float | None = Field(default=None, gt=0, description="seconds")


@record
class Runner:
    """A project's own test command. ``environ``: how its report comes to a file."""

    command: str
    form: Form
    environ: Callable[[str], Mapping[str, str]] = lambda _: {}


class ProjectTests(PydanticTool):
    name = "ProjectTests"
    input = ProjectTestsInput

    def __init__(self, workbench: Workbench) -> None:
        self._bash = Bash(workbench)
        self._limits = workbench.limits
        self.description = description("ProjectTests", most=int(workbench.limits.bash_timeout_most))

    def footprint(self, arguments: ProjectTestsInput, cwd: Path) -> Footprint:
        folder = absolute_path(arguments.path or ".", cwd)
        try:
            order = self._order(arguments, folder, _runner(folder, arguments.tests), cwd)
        except ToolError:  # nothing will be run
            return Footprint(reads=(folder,), effect="none")
        plain = self._bash.footprint(order, cwd)
        return replace(plain, note=argument("runs", order.command))

    async def run(self, arguments: ProjectTestsInput, context: CallContext) -> ToolOutput:
        folder = absolute_path(arguments.path or ".", context.cwd)
        try:
            runner = await in_thread(lambda: _runner(folder, arguments.tests))
            order = self._order(arguments, folder, runner, context.cwd)
            if order.command != context.judged.command:
                raise ToolError(
                    f"the project changed: its tests are run by `{order.command}` now, which was"
                    " not judged; call it again"
                )
            async with temporary_folder("ohmo-tests-") as made:
                report = made / "report.xml"
                more = runner.environ(str(report))
                ended, limit = await self._bash.ended(order, context, more, (made,))
                results = await in_thread(lambda: _outcome(runner, ended, report, folder))
        except ToolError as error:
            return error_result(context, f"not run: {error}")
        except OSError as error:
            return error_result(context, f"not run: {error.strerror or error}")
        told: dict[str, Any] = {"command": order.command, "exit_code": ended.code}
        room = self._limits.bash_output
        if results is not None:
            told |= _counted(results, room)
        text = json.dumps(told, ensure_ascii=False)
        if results is None or (ended.code != 0 and not results.failures):
            text += f"\n{job_report(ended, room, limit)}"
        text = blotted(text, context)
        unknown = results is None and ended.code != 0
        return (error_result if unknown else text_result)(context, text, spill=ended.spill)

    def _order(
        self, arguments: ProjectTestsInput, folder: Path, runner: Runner, cwd: Path
    ) -> BashInput:
        there = "" if folder == cwd else f"cd {shlex.quote(str(folder))} && "
        seconds = arguments.timeout or self._limits.bash_timeout_most
        return BashInput(command=there + runner.command, timeout=seconds)


def _runner(folder: Path, tests: list[str]) -> Runner:
    """The first that the project has. Raises ToolError: it has none, or none that takes
    ``tests``."""
    runner = next(_runners(folder, f" {shlex.join(tests)}" if tests else ""), None)
    if runner is None:
        raise ToolError(
            f"{folder} has no tests that are known: no settings of pytest, no test script in"
            " package.json, no Cargo.toml, no go.mod, no target `test` in a Makefile; run them with"
            " Bash"
        )
    if tests and runner.command == "make test":
        raise ToolError("`make test` takes no names of tests; leave `tests` out, or use Bash")
    return runner


def _runners(folder: Path, tests: str) -> Iterator[Runner]:
    def has(*names: str) -> bool:
        return any((folder / name).is_file() for name in names)

    def says(name: str, words: bytes) -> bool:
        return words in content_of(folder / name, _MOST_SETTINGS)

    if (
        has("pytest.ini", "conftest.py", "tests/conftest.py")
        or says("pyproject.toml", b"pytest")
        or says("setup.cfg", b"[tool:pytest]")
        or says("tox.ini", b"[pytest]")
    ):
        own = next((name for name in (".venv/bin/pytest", "venv/bin/pytest") if has(name)), None)
        pytest = own or "python3 -m pytest"
        if own is None and has("uv.lock", "poetry.lock"):
            pytest = "uv run pytest" if has("uv.lock") else "poetry run pytest"
        # With the file of each test (docs.pytest.org, junit_family).
        yield Runner(
            pytest + tests,
            "junit",
            lambda report: {
                "PYTEST_ADDOPTS": f"--junitxml={shlex.quote(report)} -o junit_family=xunit1"
            },
        )
    script = _npm_script(content_of(folder / "package.json", _MOST_SETTINGS))
    if script:
        manager = next((name for lock, name in _LOCKS if has(lock)), "npm")
        between = " --" if tests and manager == "npm" else ""
        by_node = script.startswith("node ") and "--test" in script
        yield Runner(
            f"{manager} test{between}{tests}",
            "junit" if by_node else "text",
            _node_reports if by_node else lambda _: {},
        )
    if has("Cargo.toml"):
        yield Runner(f"cargo test{tests}", "cargo")
    if has("go.mod"):
        yield Runner(f"go test -json{tests or ' ./...'}", "go")
    for name in ("Makefile", "makefile", "GNUmakefile"):
        if _TARGET.search(content_of(folder / name, _MOST_SETTINGS)):
            yield Runner("make test", "text")


def _npm_script(package: bytes) -> str:
    """What package.json says under scripts.test; "" for nothing, and for npm's own refusal."""
    try:
        told = json.loads(package)
    except (ValueError, RecursionError):
        return ""
    scripts = cast("Mapping[str, Any]", told).get("scripts") if isinstance(told, dict) else None
    script = cast("Mapping[str, Any]", scripts).get("test") if isinstance(scripts, dict) else None
    return script if isinstance(script, str) and "no test specified" not in script else ""


def _node_reports(report: str) -> Mapping[str, str]:
    """nodejs.org/api/test.html, test reporters."""
    quoted = report.replace("\\", "\\\\").replace('"', '\\"')
    pairs = ((f'"{quoted}"', "junit"), ("stdout", "spec"))
    words = (f"--test-reporter={how} --test-reporter-destination={to}" for to, how in pairs)
    return {"NODE_OPTIONS": " ".join(words)}


def _outcome(runner: Runner, ended: JobEnded, report: Path, folder: Path) -> Outcome | None:
    """What the runner told; None when it told nothing that can be read. Its reader is imported
    late: most conversations run no tests."""
    if ended.reason:
        return None
    told = ended.output.out.head + ended.output.out.tail
    if runner.form == "junit":
        told = content_of(report, _MOST_REPORT)
    elif ended.spill is not None:
        told = content_of(ended.spill, 2 * _MOST_REPORT)
    read = cast("Callable[[Form, bytes, Path], Outcome | None]", load("ohmo.triage.outcomes:read"))
    return read(runner.form, told, folder)


def _counted(results: Outcome, room: int) -> dict[str, Any]:
    """``room``: bytes of all failures."""
    shown: list[dict[str, str]] = []
    for failure in results.failures:
        row = {"name": failure.name, "at": failure.at, "message": failure.message}
        room -= len(json.dumps(row))
        if room < 0:
            break
        shown.append(row)
    told: dict[str, Any] = {
        "passed": results.passed,
        "failed": results.failed,
        "skipped": results.skipped,
        "failures": shown,
    }
    if len(shown) < len(results.failures):
        told["more_failures"] = len(results.failures) - len(shown)
    return told


TOOL = ProjectTests
