"""New, still, flaky, fixed; what joins two failures; the first bad commit; one answer for one input;
nothing hostile in a report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ohmo.triage.compare import Compared, Past, compare, read, written
from ohmo.triage.results import BadResults, CiRun, Failure, Reading, fingerprint, normal, plain
from ohmo.triage.triage import AGAIN, MOST, Memory, report, triage


def sha(number: int) -> str:
    return f"{number:x}" * 7 + "f" * 8


def ran(number: int, *said: str, commit: str = "") -> CiRun:
    page = f"https://github.com/o/r/actions/runs/{number}"
    return CiRun(
        "CI",
        f"{number}.1",
        commit or sha(number),
        f"2026-01-{number:02}",
        page,
        tuple(Failure("unit", "", one, f"{page}/job/1") for one in said),
    )


def told(compared: Compared) -> list[tuple[str, str]]:
    return [(group.status, group.message) for group in compared.groups]


DB, UI = "cannot reach the database", "button is missing on page"


def test_new_then_still_then_fixed_and_only_changes_are_told() -> None:
    first = compare(Reading([ran(1), ran(2, DB)]), Past())
    assert (told(first), first.changed) == ([("new", DB)], True)
    assert (first.groups[0].bad, first.groups[0].good) == (sha(2), sha(1))
    second = compare(Reading([ran(2, DB), ran(3, DB)]), first.past)
    assert (told(second), second.changed) == ([("still", DB)], False)
    assert second.groups[0].bad == sha(2)
    third = compare(Reading([ran(4)]), second.past)
    assert (told(third), third.changed, third.groups[0].mended) == ([("fixed", DB)], True, sha(4))
    assert not compare(Reading([ran(5)]), third.past).changed


def test_what_comes_back_is_flaky_and_told_once() -> None:
    past = compare(Reading([ran(1, UI), ran(2), ran(3, UI)]), Past())
    assert (told(past), past.changed) == ([("flaky", UI)], True)
    for number in range(4, 10):  # it passes and fails: nothing new for anybody
        past = compare(Reading([ran(number, *([UI] if number % 2 else []))]), past.past)
        assert (told(past), past.changed) == ([("flaky", UI)], False)
    for number in range(10, 17):
        past = compare(Reading([ran(number)]), past.past)
    assert (told(past), past.changed) == ([("fixed", UI)], True)  # seven runs without it


def test_a_commit_that_fails_and_passes_is_flaky() -> None:
    first = compare(Reading([ran(1, UI)]), Past())
    again = compare(Reading([ran(2, commit=sha(1))]), first.past)
    assert (told(again), again.changed, again.groups[0].passes) == ([("flaky", UI)], True, True)


def test_the_first_bad_commit_is_remembered_longer_than_its_run() -> None:
    past = compare(Reading([ran(1), ran(2, DB)]), Past()).past
    for number in range(3, 15):
        found = compare(Reading([ran(number, DB)]), past)
        past = found.past
    assert len(past.runs["CI"]) == 7
    assert (found.groups[0].bad, found.groups[0].good) == (sha(2), sha(1))


def test_runs_that_were_forgotten_do_not_come_back_as_news() -> None:
    runs = [ran(number, *([DB] if number == 1 else [])) for number in range(1, 11)]
    first = compare(Reading(runs), Past())
    again = compare(Reading(runs), first.past)
    assert (told(again), again.changed) == ([], False)


def test_a_workflow_that_did_not_run_keeps_what_it_said() -> None:
    other = CiRun("Nightly", "9.1", sha(9), "", "", (Failure("e2e", "", UI),))
    past = compare(Reading([ran(1), other]), Past()).past
    found = compare(Reading([ran(2)]), past)
    assert (told(found), found.changed) == ([("still", UI)], False)


def test_what_is_remembered_reads_back_as_it_was() -> None:
    past = compare(Reading([ran(1), ran(2, DB, UI)]), Past()).past
    assert read(written(past)) == past
    for damaged in ("", "[]", '{"version": 99}', written(past)[:-9]):
        with pytest.raises(BadResults, match="what is remembered"):
            read(damaged)


def nothing(*_: str) -> str:
    return ""


def test_hostile_words_call_nobody_and_end_no_markup() -> None:
    said = (
        "boom `]( @everyone <!channel> <@U1> \x1b[2J [SILENT]\n# head\n[file:"
        " ci-triage/x-0123456789abcdef.md]"
    )
    job = CiRun(
        "CI](http://evil)",
        "1",
        "c0ffee1",
        "",
        "javascript:alert(1)",
        (Failure("j](http://evil) @here", "t`@here", said, "http://a b"),),
    )
    text = report(compare(Reading([job]), Past()), "o/r", commits=lambda *_: "@all `x`").text
    assert not any(word in text for word in ("@", "<", "\x1b", "javascript:"))
    assert "evil" not in re.sub("`[^`]*`", "", text)
    assert [line[:2] for line in text.splitlines()[3:]] == ["**", "- "]


def test_a_long_report_fits_and_the_whole_is_beside_it() -> None:
    words = [
        f"{first} {second} is broken"
        for first in ("alpha", "beta", "gamma", "delta")
        for second in ("disk", "cable", "socket", "parser", "cache", "clock")
    ]
    made = report(compare(Reading([ran(1), ran(2, *words)]), Past()), "o/r main", commits=nothing)
    assert len(made.text) <= MOST
    assert "more: see the file" in made.text
    assert "https://github.com/o/r/actions/runs/2/job/1" in made.text
    assert all(word in made.rest for word in words)


def test_the_same_results_give_the_same_answer_until_the_next_morning(tmp_path: Path) -> None:
    with Memory(tmp_path, "n").held() as memory:
        answers = [
            triage(
                Reading([ran(1), ran(2, DB)]), "o/r", memory, now=now, commits=nothing, clean=str
            ).text
            for now in (0.0, 60.0, AGAIN - 1, AGAIN + 1)
        ]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0].startswith("**CI triage: 1 new**")
    assert answers[3] == "[SILENT]"


def test_green_says_nothing_and_secrets_are_remembered_nowhere(tmp_path: Path) -> None:
    with Memory(tmp_path, "n").held() as memory:
        assert (
            triage(Reading([ran(1)]), "o/r", memory, now=0.0, commits=nothing, clean=str).text
            == "[SILENT]"
        )
        answer = triage(
            Reading([ran(2, "login with hunter22 was refused")]),
            "o/r",
            memory,
            now=1.0,
            commits=nothing,
            clean=lambda text: text.replace("hunter22", "***"),
        )
    assert "***" in answer.text
    assert "hunter22" not in answer.text + (tmp_path / "ci-triage" / "n.json").read_text()


def test_two_at_once_and_a_damaged_memory_are_said(tmp_path: Path) -> None:
    with Memory(tmp_path, "n").held() as memory:
        with pytest.raises(BadResults, match="another triage"), Memory(tmp_path, "n").held():
            pass
        (tmp_path / "ci-triage" / "n.json").write_text("{")
        with pytest.raises(BadResults, match="remove it"):
            memory.read()
    with pytest.raises(BadResults, match="cannot be a name"):
        Memory(tmp_path, "../n")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "ConnectionError: cannot reach db at 10.0.0.1:5432",
            "ConnectionError: cannot reach db at 10.0.0.99:6000",
        ),
        (
            "no such file: /home/runner/work/a/b/data.json",
            "no such file: /builds/group/project/data.json",
        ),
        ("no such file: C:\\Users\\a\\data.json", "no such file: D:\\b\\c\\data.json"),
        (
            "lock taken since 2026-11-22T08:00:01.123Z by worker",
            "lock taken since 2026-11-23T09:15:44+01:00 by worker",
        ),
        (
            "object deadbeef01 is missing in store",
            "object 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567 is missing in store",
        ),
        (
            "session 123e4567-e89b-12d3-a456-426614174000 has expired",
            "session 00000000-aaaa-bbbb-cccc-0123456789ab has expired",
        ),
        ("timed out after 30.02s waiting for element", "timed out after 31s waiting for element"),
        ("<Client at 0x7f0011aa> was closed early", "<Client at 0x55aa> was closed early"),
        (
            "\x1b[31mGET https://a.example/1 refused the login\x1b[0m",
            "GET https://b.example/2?x=1 refused the login",
        ),
    ],
)
def test_what_changes_from_run_to_run_does_not_count(one: str, other: str) -> None:
    assert normal(one) == normal(other)
    assert fingerprint(Failure("a", "t1", one)) == fingerprint(Failure("b", "t2", other))


def test_other_words_are_another_cause() -> None:
    assert fingerprint(Failure("a", "t", "cannot reach the database")) != fingerprint(
        Failure("a", "t", "cannot parse the answer")
    )


def test_a_message_that_could_be_anybodys_counts_with_its_test() -> None:
    said = "AssertionError: assert 1 == 2"
    assert fingerprint(Failure("a", "test_one", said)) != fingerprint(
        Failure("a", "test_two", said)
    )
    assert fingerprint(Failure("a", "test_one", said)) == fingerprint(
        Failure("b", "test_one", "AssertionError: assert 3 == 4")
    )
    assert fingerprint(Failure("build", "", "exit code 1")) != fingerprint(
        Failure("lint", "", "exit code 1")
    )


def test_nothing_unseen_stays_in_a_message() -> None:
    assert plain("\x1b]0;title\x07a\u202eb\u200bc\x00\ud800") == "abc"
