"""ProjectTests: the project's own command is found, run as in Bash, and what failed is told as
data. pytest is real; what cargo, go and node print was kept from real runs, or is what their
documentation shows."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tool_calls import Call, judged

from ohmo.contracts.messages import ToolResult
from ohmo.contracts.tool import CallContext
from ohmo.tools.catalogue import load_tools
from ohmo.tools.workbench import Workbench
from ohmo.triage.outcomes import read

TESTS = """
import pytest
def test_good(): pass
class TestGroup:
    @pytest.mark.parametrize("n", [1, 2])
    def test_bad(self, n):
        assert n == 2, "it is not two"
@pytest.mark.skip
def test_later(): pass
@pytest.mark.xfail
def test_known(): assert False
@pytest.fixture
def broken(): raise RuntimeError("no room")
def test_set_up(broken): pass
"""
CARGO = """
running 6 tests
test tests::good ... ok
test tests::later ... ignored
test tests::never - should panic ... FAILED
test tests::result ... FAILED
test tests::slow ... ignored, slow
test tests::bad ... FAILED

failures:

---- tests::never stdout ----
note: test did not panic as expected at src/lib.rs:10:32
---- tests::result stdout ----
Error: "no luck"

---- tests::bad stdout ----

thread 'tests::bad' (21112) panicked at src/lib.rs:8:24:
assertion `left == right` failed: one is not two
  left: 1
 right: 2
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace


failures:
    tests::bad
    tests::never
    tests::result

test result: FAILED. 1 passed; 3 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.32s

running 2 tests
test src/lib.rs - f (line 1) ... ok
test src/old.rs - g (line 1) ... FAILED

failures:

---- src/old.rs - g (line 1) stdout ----
thread 'main' panicked at 'no', src/old.rs:3:1
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

failures:
    src/old.rs - g (line 1)

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
"""
GO = [
    {"Action": "start", "Package": "example.org/m"},
    {"Action": "run", "Package": "example.org/m", "Test": "TestGood"},
    {"Action": "pass", "Package": "example.org/m", "Test": "TestGood", "Elapsed": 0},
    {"Action": "run", "Package": "example.org/m", "Test": "TestTable"},
    {"Action": "output", "Package": "example.org/m", "Test": "TestTable", "Output": "=== RUN\n"},
    {
        "Action": "output",
        "Package": "example.org/m",
        "Test": "TestTable/two",
        "Output": "    m_test.go:12: got 1\n",
    },
    {
        "Action": "output",
        "Package": "example.org/m",
        "Test": "TestTable/two",
        "Output": "        want 2\n",
    },
    {"Action": "pass", "Package": "example.org/m", "Test": "TestTable/one", "Elapsed": 0},
    {"Action": "fail", "Package": "example.org/m", "Test": "TestTable/two", "Elapsed": 0},
    {"Action": "fail", "Package": "example.org/m", "Test": "TestTable", "Elapsed": 0},
    {"Action": "skip", "Package": "example.org/m", "Test": "TestLater", "Elapsed": 0},
    {"Action": "output", "Package": "example.org/m", "Output": "FAIL\n"},
    {"Action": "fail", "Package": "example.org/m", "Elapsed": 0.01},
    {
        "ImportPath": "example.org/m/b [example.org/m/b.test]",
        "Action": "build-output",
        "Output": "b/b.go:3:5: undefined: x\n",
    },
    {"Action": "output", "Package": "example.org/m/b", "Output": "FAIL\tb [build failed]\n"},
    {"Action": "fail", "Package": "example.org/m/b", "Elapsed": 0},
]
NODE = """<?xml version="1.0" encoding="utf-8"?>
<testsuites>
	<testcase name="adds" time="0.001261" classname="test"/>
	<testsuite name="group" tests="3" failures="1" skipped="2" hostname="vm">
		<testcase name="breaks" time="0.000676" classname="test" failure="one is not two">
			<failure type="testCodeFailure" message="one is not two">
Error [ERR_TEST_FAILURE]: one is not two
    at new Promise (&lt;anonymous>)
  cause: AssertionError [ERR_ASSERTION]: one is not two
      at TestContext.&lt;anonymous> ({work}/a.test.js:3:55)
      at Test.runInAsyncScope (node:async_hooks:206:9)
			</failure>
		</testcase>
		<testcase name="later" classname="test"><skipped type="skipped" message="true"/></testcase>
		<testcase name="some day" classname="test"><skipped type="todo" message="true"/></testcase>
	</testsuite>
</testsuites>
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs that stand in for runners this machine may lack."""
    folder = tmp_path / "programs"
    folder.mkdir()
    return folder


async def run(
    bench: Workbench, context: CallContext, programs: Path, **arguments: Any
) -> ToolResult:
    """With these programs before all others."""
    path = f"{programs}:{bench.environ['PATH']}"
    tool = load_tools(replace(bench, environ={**bench.environ, "PATH": path}))["ProjectTests"]
    given = tool.parse(arguments)
    ready = replace(judged(tool, given, context), deadline=time.monotonic() + 300)
    return (await tool.run(given, ready)).result


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def data(result: ToolResult) -> dict[str, Any]:
    """What was told, without what stands below it."""
    return json.loads(result.text.splitlines()[0])


@pytest.fixture
def project(work: Path) -> Path:
    """Tests of pytest, with an environment of their own."""
    script(work / ".venv/bin/pytest", f'exec "{sys.executable}" -m pytest "$@"\n')
    (work / "pytest.ini").write_text("[pytest]\naddopts = -q -p no:cacheprovider\n")
    (work / "tests").mkdir()
    (work / "tests/test_it.py").write_text(TESTS)
    return work


async def test_failures_of_pytest_come_as_data(call: Call, project: Path) -> None:
    told = await call("ProjectTests")
    assert not told.error
    assert told.text.count("\n") == 0
    assert data(told) == {
        "command": ".venv/bin/pytest",
        "exit_code": 1,
        "passed": 2,
        "failed": 2,
        "skipped": 2,
        "failures": [
            {
                "name": "tests/test_it.py::TestGroup::test_bad[1]",
                "at": "tests/test_it.py:7",
                "message": "AssertionError: it is not two\nassert 1 == 2",
            },
            {
                "name": "tests/test_it.py::test_set_up",
                "at": "tests/test_it.py:13",
                "message": 'failed on setup with "RuntimeError: no room"',
            },
        ],
    }
    again = await call("ProjectTests", tests=[data(told)["failures"][0]["name"]])
    assert (data(again)["passed"], data(again)["failed"]) == (0, 1)
    good = await call("ProjectTests", tests=["tests/test_it.py::test_good"])
    assert (data(good)["exit_code"], data(good)["failures"]) == (0, [])


async def test_tests_that_cannot_be_imported_or_found_are_told(call: Call, project: Path) -> None:
    (project / "tests/test_it.py").write_text("import nothing_of_this_name\n")
    told = data(await call("ProjectTests"))
    assert (told["passed"], told["failed"]) == (0, 1)
    assert told["failures"][0]["message"].startswith("ModuleNotFoundError: No module named 'noth")
    lost = await call("ProjectTests", tests=["tests/nowhere.py"])
    assert lost.error
    assert data(lost)["exit_code"] == 4
    assert "file or directory not found: tests/nowhere.py" in lost.text


async def test_a_project_in_another_folder(call: Call, project: Path, work: Path) -> None:
    (work / "part two").mkdir()
    for name in (".venv", "pytest.ini", "tests"):
        (work / name).rename(work / "part two" / name)
    told = data(await call("ProjectTests", path="part two"))
    assert told["command"] == f"cd '{work}/part two' && .venv/bin/pytest"
    assert told["failures"][0]["at"] == "tests/test_it.py:7"


async def test_more_failures_than_fit_are_counted(call: Call, project: Path) -> None:
    text = (
        "import pytest\n@pytest.mark.parametrize('n', range(300))\ndef test_bad(n): assert not 1\n"
    )
    (project / "tests/test_it.py").write_text(text)
    told = await call("ProjectTests")
    assert len(told.text) < 14_000
    assert data(told)["failed"] == 300
    assert len(data(told)["failures"]) + data(told)["more_failures"] == 300


async def test_a_timeout_says_so(call: Call, project: Path) -> None:
    (project / "tests/test_it.py").write_text("import time\ndef test_slow(): time.sleep(60)\n")
    told = await call("ProjectTests", timeout=2)
    assert told.error
    assert "[ended after its timeout of 2 s" in told.text
    assert "passed" not in data(told)


async def test_secrets_of_a_job_are_not_told(
    call: Call, project: Path, context: CallContext
) -> None:
    text = "import os\ndef test_bad(): assert not os.environ['LENT']\n"
    (project / "tests/test_it.py").write_text(text)
    lent = replace(context, secrets={"LENT": "s3cret-word"})
    told = await call("ProjectTests", context=lent)
    assert data(told)["failed"] == 1
    assert "s3cret-word" not in told.text


@pytest.mark.parametrize(
    ("files", "tests", "command"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]"}, ["a b"], "python3 -m pytest 'a b'"),
        ({"conftest.py": "", "uv.lock": ""}, [], "uv run pytest"),
        ({"tox.ini": "[pytest]", "poetry.lock": ""}, [], "poetry run pytest"),
        ({"setup.cfg": "[tool:pytest]", "venv/bin/pytest": ""}, [], "venv/bin/pytest"),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, ["a.js"], "npm test -- a.js"),
        ({"package.json": '{"scripts": {"test": "x"}}', "yarn.lock": ""}, [], "yarn test"),
        ({"package.json": '{"scripts": {"test": "x"}}', "pnpm-lock.yaml": ""}, ["a"], "pnpm test a"),
        ({"Cargo.toml": ""}, ["one"], "cargo test one"),
        ({"go.mod": ""}, [], "go test -json ./..."),
        ({"go.mod": ""}, ["./b"], "go test -json ./b"),
        ({"Makefile": "all:\n\ntest: all\n\ttrue\n"}, [], "make test"),
        ({"package.json": '{"scripts": {"test": "echo no test specified"}}', "go.mod": ""}, [], "go test -json ./..."),
        ({"package.json": "[", "GNUmakefile": "test:\n"}, [], "make test"),
    ],
)  # fmt: skip
def test_the_command_of_a_project_is_found(
    bench: Workbench, work: Path, files: dict[str, str], tests: list[str], command: str
) -> None:
    for name, text in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    tool = load_tools(bench)["ProjectTests"]
    footprint = tool.footprint(tool.parse({"tests": [*tests]}), work)
    assert footprint.command == command
    assert footprint.effect == "once"
    assert f"runs: `{command}`" in footprint.note or command in footprint.note


@pytest.mark.parametrize(
    ("files", "arguments", "why"),
    [
        ({}, {}, "has no tests that are known"),
        ({"Makefile": "test := 1\n"}, {}, "has no tests that are known"),
        ({"Makefile": "test:\n"}, {"tests": ["one"]}, "takes no names of tests"),
        ({}, {"path": "nowhere"}, "nowhere has no tests"),
    ],
)
async def test_what_cannot_be_run_says_why(
    call: Call,
    bench: Workbench,
    work: Path,
    files: dict[str, str],
    arguments: dict[str, Any],
    why: str,
) -> None:
    for name, text in files.items():
        (work / name).write_text(text)
    told = await call("ProjectTests", **arguments)
    assert told.error
    assert told.text.startswith("not run: ")
    assert why in told.text
    tool = load_tools(bench)["ProjectTests"]
    footprint = tool.footprint(tool.parse(arguments), work)
    assert (footprint.command, footprint.effect) == (None, "none")


async def test_a_runner_without_a_report_is_told_in_its_own_words(call: Call, work: Path) -> None:
    (work / "Makefile").write_text("test:\n\t@echo 3 ok, 1 broken; exit 7\n")
    told = await call("ProjectTests")
    assert told.error
    assert data(told) == {"command": "make test", "exit_code": 2}
    assert "3 ok, 1 broken" in told.text
    (work / "Makefile").write_text("test:\n\t@echo all is well\n")
    good = await call("ProjectTests")
    assert not good.error
    assert data(good) == {"command": "make test", "exit_code": 0}
    assert "all is well" in good.text


async def test_a_report_of_node_is_read(
    bench: Workbench, context: CallContext, work: Path, programs: Path
) -> None:
    """Its runner is told by its environment where each report goes (nodejs.org/api/cli.html)."""
    (work / "package.json").write_text('{"scripts": {"test": "node --test"}}')
    (work / "report").write_text(NODE.replace("{work}", str(work)))
    script(
        programs / "npm",
        f"exec {sys.executable} - \"$@\" << 'END'\n"
        "import os, shlex, shutil, sys\n"
        "words = [word.split('=', 1) for word in shlex.split(os.environ['NODE_OPTIONS'])]\n"
        "names = [value for _, value in words]\n"
        "assert names[::2] == ['junit', 'spec'] and names[3] == 'stdout', names\n"
        "assert sys.argv[1:] == ['test', '--', 'a.test.js'], sys.argv\n"
        "shutil.copy('report', names[1])\n"
        "sys.exit(1)\nEND\n",
    )
    told = await run(bench, context, programs, tests=["a.test.js"])
    assert data(told) == {
        "command": "npm test -- a.test.js",
        "exit_code": 1,
        "passed": 1,
        "failed": 1,
        "skipped": 2,
        "failures": [{"name": "test.breaks", "at": "a.test.js:3", "message": "one is not two"}],
    }


async def test_what_a_runner_prints_at_length_is_read_whole(
    bench: Workbench, context: CallContext, work: Path, programs: Path
) -> None:
    (work / "Cargo.toml").touch()
    (work / "said").write_text("noise\n" * 9000 + CARGO + "noise\n" * 9000)
    script(programs / "cargo", "cat said; exit 101\n")
    told = await run(bench, context, programs)
    assert not told.error
    assert (data(told)["passed"], data(told)["failed"], data(told)["skipped"]) == (2, 4, 2)
    script(programs / "cargo", "echo 'error: could not compile `x`' >&2; exit 101\n")
    broken = await run(bench, context, programs)
    assert broken.error
    assert "could not compile `x`" in broken.text


def test_what_cargo_prints_is_read() -> None:
    outcome = read("cargo", CARGO.encode(), Path("/w"))
    assert outcome is not None
    assert (outcome.passed, outcome.failed, outcome.skipped) == (2, 4, 2)
    told = [(failure.name, failure.at, failure.message) for failure in outcome.failures]
    assert told[0][:2] == ("tests::never", "src/lib.rs:10")
    assert told[1] == ("tests::result", "", 'Error: "no luck"')
    assert told[2][:2] == ("tests::bad", "src/lib.rs:8")
    assert told[2][2].startswith("assertion `left == right` failed: one is not two\n  left: 1")
    assert told[3][:2] == ("src/old.rs - g (line 1)", "src/old.rs:3")
    assert read("cargo", b"error: could not compile", Path("/w")) is None


def test_events_of_go_are_read() -> None:
    lines = [json.dumps(event) for event in GO]
    outcome = read("go", "\n".join(["go: downloading x", *lines, "{", "[1]"]).encode(), Path("/w"))
    assert outcome is not None
    assert (outcome.passed, outcome.failed, outcome.skipped) == (2, 2, 1)
    told = [(failure.name, failure.at, failure.message) for failure in outcome.failures]
    assert told == [
        ("example.org/m.TestTable/two", "m_test.go:12", "got 1\n        want 2"),
        ("example.org/m/b", "", "b/b.go:3:5: undefined: x"),
    ]
    assert read("go", b"go: no modules", Path("/w")) is None


@pytest.mark.parametrize(
    "report",
    [
        b"",
        b"<testsuite",
        b"<testsuites/>",
        b"<!DOCTYPE x [<!ENTITY a 'b'>]><testsuite><testcase/></testsuite>",
        b"\xff\xfe\x00",
        b"<a>" * 100,
    ],
)
def test_a_report_that_is_none_is_no_result(report: bytes) -> None:
    assert read("junit", report, Path("/w")) is None


def test_more_failures_than_are_kept_did_not_pass() -> None:
    case = '<testcase name="a"><failure message="x"/></testcase>'
    report = f"<testsuite>{case * 2500}<testcase name='b'/></testsuite>"
    outcome = read("junit", report.encode(), Path("/w"))
    assert outcome is not None
    assert (outcome.passed, outcome.failed) == (1, 2500)


@pytest.mark.parametrize("before", ["", "Makefile"], ids=["nothing was judged", "make test was"])
async def test_only_the_command_that_was_judged_is_run(
    bench: Workbench, context: CallContext, work: Path, before: str
) -> None:
    if before:
        (work / before).write_text("test:\n\ttouch RAN\n")
    tool = load_tools(bench)["ProjectTests"]
    given = tool.parse({})
    ready = replace(judged(tool, given, context), deadline=time.monotonic() + 300)
    script(work / ".venv/bin/pytest", "touch RAN\n")
    (work / "pytest.ini").touch()
    told = (await tool.run(given, ready)).result
    assert told.error
    assert told.text == (
        "not run: the project changed: its tests are run by `.venv/bin/pytest` now, which was not"
        " judged; call it again"
    )
    assert not (work / "RAN").exists()


async def test_the_folder_of_a_report_is_made_and_removed_beside_the_event_loop(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[threading.Thread] = []

    class Watched(tempfile.TemporaryDirectory[str]):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            seen.append(threading.current_thread())
            super().__init__(*arguments, **named)

        def cleanup(self) -> None:
            seen.append(threading.current_thread())
            super().cleanup()
            assert not Path(self.name).exists()

    monkeypatch.setattr(tempfile, "TemporaryDirectory", Watched)
    assert data(await call("ProjectTests"))["failed"] == 2
    assert len(seen) == 2
    assert threading.main_thread() not in seen


HOSTILE = {  # by what each once took time that grows with its square
    "heads without an end": "---- x\n",
    "heads in one line": "---- x stdout ----",
    "sections": "---- x stdout ----\n",
    "panics in one line": "panicked at '",
    "places in one line": "panicked at 'a', b",
    "names": "test a ",
    "sums": "test result: 1 passed; 1 failed; ",
    "numbers": "1",
    "spaces": " ",
    "lines": "\n",
}


@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE)
def test_what_a_hostile_test_prints_is_read_in_time_that_grows_with_its_length(words: str) -> None:
    """4 MiB within seconds, in a process that can be ended: each of them took hours or none."""
    program = (
        "import sys; from pathlib import Path; from ohmo.triage.outcomes import read\n"
        "body = sys.argv[1] * (4 * 2**20 // len(sys.argv[1]))\n"
        "for head in ('', '---- x stdout ----\\n', 'test result: FAILED. '):\n"
        "    text = 'test x ... FAILED\\n' + head + body + '\\nfailures:\\n' + sys.argv[2]\n"
        "    told = read('cargo', text.encode(), Path('/w'))\n"
        "    assert told is not None and told.failed == 1, told\n"
        "read('go', text.encode(), Path('/w'))\n"
    )
    end = "\ntest result: FAILED. 1 passed; 1 failed; 0 ignored;\n"
    subprocess.run([sys.executable, "-c", program, words, end], check=True, timeout=60)
