"""What joins two failures, and what keeps them apart."""

from __future__ import annotations

import pytest

from ohmo.triage.results import Failure, fingerprint, normal, plain


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
