"""JUnit XML, the JSON of gh and glab, and logs, as their documentation shows them; and what is not
taken from a stranger."""

from __future__ import annotations

import json

import pytest

from ohmo.triage.ci_servers import gitlab_runs, listed_github_runs
from ohmo.triage.formats import form_of, read_results
from ohmo.triage.logs import failures_of, jobs_in, read_junit
from ohmo.triage.results import MOST_FAILURES, MOST_TEXT, BadResults

JUNIT = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites name="all"><testsuite name="pytest" tests="4" timestamp="2026-11-22T08:00:00">
 <testcase classname="tests.db" name="test_one"><failure message="ConnectionError: no route to db-1">trace &lt;here&gt;</failure></testcase>
 <testcase classname="tests.db" name="test_two"><error type="OSError">OSError: disk full
   more</error></testcase>
 <testcase classname="tests.db" name="test_three"><skipped message="not here"/></testcase>
 <testcase classname="tests.db" name="test_four"/>
</testsuite></testsuites>"""


def test_junit_gives_tests_and_the_first_line_they_said() -> None:
    run = read_junit(JUNIT, commit="abc1234")
    assert [(failure.job, failure.test, failure.message) for failure in run.failures] == [
        ("pytest", "tests.db.test_one", "ConnectionError: no route to db-1"),
        ("pytest", "tests.db.test_two", "OSError"),
    ]
    assert (run.stream, run.commit, run.at) == ("tests", "abc1234", "2026-11-22T08:00:00")


NESTED = b"""<testsuites xmlns:j="urn:j"><testsuite name="unit" timestamp="2026-11-22T08:00:00">
 <testsuite><testcase name="a"><failure/><error message="second">x</error></testcase></testsuite>
 <j:testcase name="b"><j:failure><![CDATA[

 boom
 more]]></j:failure></j:testcase><testcase><failure message="nameless"/></testcase></testsuite>
 <testcase name="c"><failure message="in no suite"/></testcase>
</testsuites>"""


def test_suites_in_suites_prefixes_and_tests_without_a_name_are_read() -> None:
    run = read_junit(NESTED)
    assert run.at == "2026-11-22T08:00:00"
    assert {(failure.job, failure.test, failure.message) for failure in run.failures} == {
        ("unit", "a", "failure"),
        ("unit", "a", "second"),
        ("unit", "b", "boom"),
        ("unit", "", "nameless"),
        ("", "c", "in no suite"),
    }


def test_of_a_suite_that_is_broken_as_a_whole_enough_is_kept() -> None:
    many = b'<testcase name="x"><failure/></testcase>' * (MOST_FAILURES + 100)
    assert len(read_junit(b"<testsuite>%s</testsuite>" % many).failures) == MOST_FAILURES
    long = b"<testsuite><testcase name='x'><failure>%s</failure></testcase></testsuite>"
    assert len(read_junit(long % (b"y" * 10 * MOST_TEXT)).failures[0].message) == MOST_TEXT


BOMB = (
    b'<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;">]><testsuite><testcase'
    b' name="&y;"/></testsuite>'
)
FOREIGN = (
    b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><testsuite><testcase'
    b' name="&x;"/></testsuite>'
)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (BOMB, "declares a document type"),
        (FOREIGN, "declares a document type"),
        (b"<testsuite><testcase>", "is the file whole"),
        (b"<html></html>", "no <testsuite>"),
        (b"<testsuite>" + b"<a>" * 100, "deep in each other"),
        (b"<testsuite>" + b" " * 33 * 2**20, "at most"),
    ],
    ids=["bomb", "foreign", "cut", "page", "deep", "long"],
)
def test_xml_that_is_no_report_is_refused_with_a_line(data: bytes, said: str) -> None:
    with pytest.raises(BadResults, match=said):
        read_junit(data)


GITHUB_JOBS = {  # docs.github.com/rest/actions/workflow-jobs, "List jobs for a workflow run"
    "total_count": 3,
    "jobs": [
        {
            "id": 399444496,
            "run_id": 29679449,
            "run_attempt": 1,
            "head_sha": "f83a356604ae3c5d03e1b46ef4d1ca77d64a90b0",
            "workflow_name": "CI",
            "html_url": "https://github.com/octo-org/octo-repo/actions/runs/29679449/job/399444496",
            "status": "completed",
            "conclusion": "failure",
            "name": "build (3.12)",
            "started_at": "2026-01-20T17:42:40Z",
            "steps": [
                {"name": "Set up job", "conclusion": "success"},
                {"name": "Run pytest", "conclusion": "failure"},
            ],
        },
        {
            "id": 2,
            "run_id": 29679449,
            "status": "completed",
            "conclusion": "success",
            "name": "lint",
            "started_at": "2026-01-20T17:42:41Z",
        },
        {
            "id": 3,
            "run_id": 29679449,
            "status": "completed",
            "conclusion": "skipped",
            "name": "deploy",
            "started_at": "2026-01-20T17:42:42Z",
        },
    ],
}


def test_github_jobs_are_one_run_with_the_step_that_failed() -> None:
    run = read_results(json.dumps(GITHUB_JOBS).encode()).runs[0]
    assert (run.stream, run.key, run.commit[:7]) == ("CI", "29679449.1", "f83a356")
    assert [(failure.job, failure.message) for failure in run.failures] == [
        ("build (3.12)", "build (3.12): step Run pytest failed")
    ]
    assert run.failures[0].url.endswith("/job/399444496")


def test_a_run_that_goes_on_or_was_cancelled_says_nothing() -> None:
    going = {"jobs": [{**GITHUB_JOBS["jobs"][0], "status": "in_progress", "conclusion": None}]}  # type: ignore[index]
    with pytest.raises(BadResults, match="has ended yet"):
        read_results(json.dumps(going).encode(), "github")
    listed = [
        {
            "databaseId": 1,
            "status": "in_progress",
            "conclusion": "",
            "workflowName": "CI",
            "createdAt": "2026-01-03",
        },
        {
            "databaseId": 2,
            "status": "completed",
            "conclusion": "cancelled",
            "workflowName": "CI",
            "createdAt": "2026-01-02",
        },
        {
            "databaseId": 3,
            "status": "completed",
            "conclusion": "failure",
            "workflowName": "CI",
            "createdAt": "2026-01-01",
            "attempt": 2,
        },
    ]
    assert [(one.run.key, one.failed) for one in listed_github_runs(listed)] == [("3.2", True)]


GITLAB_JOBS = [  # docs.gitlab.com/api/jobs, "List pipeline jobs"
    {
        "id": 6,
        "name": "rspec:other",
        "stage": "test",
        "status": "failed",
        "failure_reason": "stuck_or_timeout_failure",
        "allow_failure": False,
        "created_at": "2026-12-24T15:51:21.727Z",
        "web_url": "https://gitlab.example.com/foo/bar/-/jobs/6",
        "commit": {"id": "0ff3ae198f8601a285adcf5c0fff204ee6fba5fd", "title": "Test the CI"},
        "pipeline": {
            "id": 6,
            "ref": "main",
            "sha": "0ff3ae198f8601a285adcf5c0fff204ee6fba5fd",
            "status": "failed",
        },
    },
    {
        "id": 7,
        "name": "teaspoon",
        "stage": "test",
        "status": "failed",
        "failure_reason": "script_failure",
        "allow_failure": True,
        "created_at": "2026-12-24T15:51:21.802Z",
        "pipeline": {"id": 6},
        "commit": {},
    },
]


def test_gitlab_jobs_that_may_fail_do_not_count() -> None:
    run = read_results(json.dumps(GITLAB_JOBS).encode()).runs[0]
    assert (run.key, run.commit[:7]) == ("6", "0ff3ae1")
    assert [(failure.job, failure.message) for failure in run.failures] == [
        ("rspec:other", "rspec:other in test: stuck or timeout failure")
    ]
    traced = gitlab_runs(GITLAB_JOBS, lambda _: "FAILED spec/a_spec.py::x - boom went the thing")[0]
    assert traced.failures[0].message == "boom went the thing"


@pytest.mark.parametrize(
    ("log", "test", "said"),
    [
        (
            "x\nFAILED tests/a.py::test_x[1] - ValueError: bad day\n1 failed in 0.1s",
            "tests/a.py::test_x[1]",
            "ValueError: bad day",
        ),
        (
            "FAIL: test_b (mod.Case)\n----\nTraceback\nKeyError: 'k'\n",
            "test_b (mod.Case)",
            "KeyError: 'k'",
        ),
        (
            "--- FAIL: TestSum (0.00s)\n    sum_test.go:9: got 3, want 4\n",
            "TestSum",
            "got 3, want 4",
        ),
        (
            "test parse::tests::empty ... FAILED\nthread 'parse' panicked at src/lib.rs:3:5\n",
            "parse::tests::empty",
            "thread 'parse' panicked at src/lib.rs:3:5",
        ),
        ("not ok 3 - opens the door\n  ---\n", "opens the door", "---"),
        (
            "src/a.c:10:5: error: expected ';' before 'x'\nmake: *** [all] Error 2\n",
            "",
            "src/a.c:10:5: error: expected ';' before 'x'",
        ),
        (
            (
                "2026-11-22T08:00:00.1Z ##[error]No space left on device\n##[error]Process"
                " completed with exit code 1."
            ),
            "",
            "No space left on device",
        ),
        ("##[error]Process completed with exit code 1.", "", "Process completed with exit code 1."),
    ],
)
def test_logs_of_the_usual_runners_say_what_failed(log: str, test: str, said: str) -> None:
    found = failures_of(log, job="unit")
    assert [(one.test, one.message) for one in found] == [(test, said)]


def test_a_log_without_a_failure_is_green_unless_its_job_failed() -> None:
    assert failures_of("all is well\n0 errors, 3 passed\n") == ()
    assert (
        failures_of("all is well\nthen it stopped\n", failed=True)[0].message == "then it stopped"
    )


def test_the_log_of_gh_is_cut_into_its_jobs() -> None:
    text = (
        "unit\tRun tests\t2026-11-22T08:00:00.1Z \x1b[31mFAILED a.py::x - one\x1b[0m\nlint\tUNKNOWN"
        " STEP\t2026-11-22T08:00:00.1Z E two\n"
    )
    found = jobs_in(text)
    assert sorted(found) == ["lint", "unit"]
    assert failures_of(found["unit"])[0].message == "one"


def test_forms_are_known_by_what_they_hold() -> None:
    assert [
        form_of(data)
        for data in (
            JUNIT,
            json.dumps(GITHUB_JOBS).encode(),
            json.dumps(GITLAB_JOBS).encode(),
            b"make: ok",
            b"[1/3] Building",
        )
    ] == ["junit", "github", "gitlab", "log", "log"]
    with pytest.raises(BadResults, match="it answered: Bad credentials"):
        form_of(b'{"message": "Bad credentials"}')
    with pytest.raises(BadResults, match="has no jobs"):
        form_of(b'{"runs": []}')
    with pytest.raises(BadResults, match="are empty"):
        read_results(b" \n")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"jobs": [{"name": "unit", "status": "completed", "conclusion": "fail', "not whole"),
        (b"[" * 100_000, "not whole"),
        (b'[{"id": 1, "status": "fai', "not whole"),
        (b"null", "no jobs"),
        (b"PK\x03\x04\x00\x00", "no text"),
        (
            json.dumps({"total_count": 31, "jobs": [{**GITHUB_JOBS["jobs"][1]}]}).encode(),
            "only 1 of 31 jobs",
        ),
    ],
    ids=["cut", "deep", "cut list", "null", "binary", "first page"],
)
def test_what_cannot_be_read_whole_is_not_taken_for_green(data: bytes, said: str) -> None:
    with pytest.raises(BadResults, match=said):
        read_results(data)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig"])
def test_what_powershell_writes_is_read(encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    for text in (
        JUNIT.decode().partition("?>")[2] or JUNIT.decode(),
        json.dumps(GITHUB_JOBS),
        "FAILED tests/test_a.py::test_b - ValueError: no\n",
    ):
        assert read_results((mark + text).encode(encoding)).runs[0].failures


def test_lines_of_json_are_a_log() -> None:
    said = '{"Action": "output", "Output": "ok"}\n{"Action": "pass"}\n'
    assert read_results(said.encode()).runs[0].failures == ()


@pytest.mark.parametrize(
    "line",
    [
        "make: *** [Makefile:2: test] Error 1",
        "bash: line 1: foo: command not found",
        "/bin/sh: 1: foo: not found",
        "BUILD FAILED in 3s",
        "BUILD FAILURE",
        "FAILED (failures=1)",
        "Tests: 1 failed, 2 passed",
        "  1 failing",
        "==== 1 failed, 3 passed in 0.1s ====",
        "FAIL\tpkg/x [build failed]",
        "[  FAILED  ] Foo.Bar (1 ms)",
        "5 examples, 2 failures",
        "Tests  2 failed | 3 passed (5)",
        "Segmentation fault (core dumped)",
        "npm error code 1",
        "FAILURE: Build failed with an exception.",
        "Failed!  - Failed: 1, Passed: 2",
        "curl: (7) Failed to connect to ci.example",
        "FAILURES!",
        "test result: FAILED. 1 passed; 1 failed; 0 ignored",
        "Bail out! no database",
        "ninja: build stopped: subcommand failed.",
    ],
)
def test_a_log_that_only_ends_badly_is_not_green(line: str) -> None:
    assert failures_of(f"building\n{line}\ndone\n")


@pytest.mark.parametrize(
    "line",
    [
        "== 3 passed, 0 failed in 0.1s ==",
        "5 examples, 0 failures",
        "test result: ok. 1 passed; 0 failed; 0 ignored",
        "checking for foo... not found",
        "10 failed attempts before it worked",
        "Errors: 0, Failures: 0",
        "Tests  3 passed (3)",
        "PASS a",
        "FAILSAFE on",
    ],
)
def test_a_log_that_only_speaks_of_failures_is_green(line: str) -> None:
    assert failures_of(f"building\n{line}\ndone\n") == ()
