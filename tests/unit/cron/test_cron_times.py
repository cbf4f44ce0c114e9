"""When jobs are due, in every kind of zone."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ohmo.contracts.cron import BadJob, JobBody, JobSpec
from ohmo.cron.times import Every, after, fields_of, local_zone, moment_of, period, zone_of
from ohmo.cron.wakes import MOST_SLOTS, judge, slots
from tests.unit.cron.zone_walk import problems

BERLIN, APIA, HOWE = (
    ZoneInfo("Europe/Berlin"),
    ZoneInfo("Pacific/Apia"),
    ZoneInfo("Australia/Lord_Howe"),
)
ODD = "Europe/Berlin Australia/Lord_Howe Pacific/Apia Africa/Monrovia America/Scoresbysund".split()


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def run(expression: str, zone: ZoneInfo, since: str, count: int) -> list[str]:
    found, at = [], utc(since)
    for _ in range(count):
        at = fields_of(expression, zone).after(at)
        assert at is not None
        found.append(at.astimezone(zone).isoformat(timespec="minutes"))
    return found


def test_a_fixed_time_in_a_gap_runs_at_the_first_valid_instant_after_it() -> None:
    assert run("30 2 * * *", BERLIN, "2026-03-28T00:00", 3) == [
        "2026-03-28T02:30+01:00",
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]


def test_a_fixed_time_in_an_overlap_runs_once_at_the_first_of_both() -> None:
    assert run("30 2 * * *", BERLIN, "2026-10-24T12:00", 2) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]


def test_a_date_that_a_zone_left_out_has_no_run() -> None:
    assert run("0 9 * * *", APIA, "2011-12-29T00:00", 2) == [
        "2011-12-29T09:00-10:00",
        "2011-12-31T09:00+14:00",
    ]


def test_half_an_hour_of_a_gap_is_enough() -> None:
    assert run("15 2 * * *", HOWE, "2026-10-03T00:00", 2) == [
        "2026-10-04T02:30+11:00",
        "2026-10-05T02:15+11:00",
    ]


def test_every_hour_is_an_hour_by_the_clock_on_the_wall_of_the_world() -> None:
    assert (
        run("0 * * * *", BERLIN, "2026-10-24T23:30", 4)
        == """
        2026-10-25T02:00+02:00 2026-10-25T02:00+01:00 2026-10-25T03:00+01:00 2026-10-25T04:00+01:00
    """.split()
    )
    assert run("*/30 * * * *", BERLIN, "2026-03-29T00:15", 3) == [
        "2026-03-29T01:30+01:00",
        "2026-03-29T03:00+02:00",
        "2026-03-29T03:30+02:00",
    ]


@pytest.mark.timeout(20)  # it looked for the change for ever
@pytest.mark.parametrize("fraction", ["0.001", "0.123", "0.5", "0.999"])
def test_a_moment_between_two_seconds_just_before_a_change_has_its_next_run(fraction: str) -> None:
    """A daemon that starts, or a job that is made, in the last hour before a change does so at no
    whole second."""
    since = utc("2026-03-29T00:59:30") + timedelta(seconds=float(fraction))
    assert fields_of("0 * * * *", BERLIN).after(since) == utc("2026-03-29T01:00")
    assert fields_of("*/20 * * * *", BERLIN).after(since - timedelta(hours=11, seconds=17)) == utc(
        "2026-03-28T14:00"
    )
    late = utc("2026-10-25T00:59:58") + timedelta(seconds=float(fraction))
    assert fields_of("0 * * * *", BERLIN).after(late) == utc("2026-10-25T01:00")


def test_two_times_of_one_gap_are_one_run() -> None:
    assert run("0,30 2 * * *", BERLIN, "2026-03-28T12:00", 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:00+02:00",
    ]


@pytest.mark.parametrize("name", ODD)
def test_around_every_change_of_a_zone_a_daily_job_runs_once_a_date(name: str) -> None:
    count, wrong = problems(name, random.Random(name))
    assert wrong == []
    assert count


def test_names_and_six_fields_are_understood() -> None:
    assert fields_of("@daily", BERLIN).after(utc("2026-01-05T09:00")) == utc("2026-01-05T23:00")
    assert fields_of("0 9 * * mon-fri", BERLIN).after(utc("2026-01-09T09:00")) == utc(
        "2026-01-12T08:00"
    )
    assert fields_of("* * * * * */15", BERLIN).after(utc("2026-01-05T09:00:01")) == utc(
        "2026-01-05T09:00:15"
    )


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 9 * *", "has 4 fields"),
        ("61 9 * * *", "no cron expression"),
        ("every day", "has 2 fields"),
        ("@reboot", "not known"),
        ("H 9 * * *", "by chance"),
        ("R 9 * * *", "by chance"),
        ("", "fields"),
        ("a b c d e", "no cron expression"),
    ],
)
def test_a_wrong_expression_is_refused_with_one_line(expression: str, words: str) -> None:
    with pytest.raises(BadJob, match=words) as caught:
        fields_of(expression, BERLIN)
    assert "\n" not in str(caught.value)


def test_a_date_that_never_comes_has_no_slot() -> None:
    assert fields_of("0 0 30 2 *", BERLIN).after(utc("2026-01-05T09:00")) is None
    assert fields_of("0 0 29 2 *", BERLIN).after(utc("2026-03-05T09:00")) == utc("2028-02-28T23:00")


def test_a_distance_counts_from_its_anchor_and_never_drifts() -> None:
    every = Every(utc("2026-01-05T09:00:00.5"), timedelta(seconds=2))
    assert every.after(utc("2026-01-05T09:00:00.5")) == utc("2026-01-05T09:00:02.5")
    assert every.after(utc("2026-01-05T09:00:02.6")) == utc("2026-01-05T09:00:04.5")
    assert every.after(utc("2026-01-05T09:00")) == utc("2026-01-05T09:00:02.5")
    # the clock was set back: it goes on
    assert every.after(utc("1970-01-01T00:00")) == utc("1970-01-01T00:00:00.5")


def test_an_expired_job_has_no_slot() -> None:
    spec = JobSpec("x", "p", "UTC", schedule="0 9 * * *", expires="2026-01-06T10:00:00+00:00")
    body = JobBody(spec, utc("2026-01-01T00:00"))
    assert after(body, utc("2026-01-05T10:00")) == utc("2026-01-06T09:00")
    assert after(body, utc("2026-01-06T09:00")) is None
    assert period(body, utc("2026-01-06T09:00")) == timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-12-01 09:00", "2026-12-01T08:00"),
        ("2026-12-01T09:00Z", "2026-12-01T09:00"),
        ("2026-12-01T09:00+05:30", "2026-12-01T03:30"),
        ("tomorrow 9:00", "2026-01-06T08:00"),
        ("tomorrow at 9am", "2026-01-06T08:00"),
        ("17:30", "2026-01-05T16:30"),
        ("8:00", "2026-01-06T07:00"),
        ("5pm", "2026-01-05T16:00"),
        ("in 20 minutes", "2026-01-05T09:20"),
        ("in 2h", "2026-01-05T11:00"),
        ("2026-03-29 02:30", "2026-03-29T01:00"),
        ("today 11:15", "2026-01-05T10:15"),
        ("2026-12-01 9:00", "2026-12-01T08:00"),
        ("2026-12-01 at 9pm", "2026-12-01T20:00"),
    ],
)
def test_times_are_understood_as_people_write_them(text: str, at: str) -> None:
    assert moment_of(text, BERLIN, utc("2026-01-05T09:00")) == utc(at)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2026-12-01",
        "25:00",
        "2026-13-01 09:00",
        "13pm",
        "9",
        "tomorrow",
        "2026-W49-1",
        "9999-12-31T23:59-12:00",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(BadJob, match="is no time"):
        moment_of(text, BERLIN, utc("2026-01-05T09:00"))


def test_zones_have_names() -> None:
    assert zone_of("Asia/Shanghai").key == "Asia/Shanghai"
    for wrong in ("Mars/Base", "", "../etc/passwd", "CEST+99"):
        with pytest.raises(ValueError, match="no time zone"):
            zone_of(wrong)
    assert local_zone({"TZ": "Asia/Tokyo"}) == "Asia/Tokyo"
    assert zone_of(local_zone({})).key


def test_a_thousand_and_more_slots_that_one_run_makes_up_for_are_all_accounted_for() -> None:
    """The newest thousand have rows of their own; the oldest row stands for those before, whether
    they were missed or made up for."""
    spec = JobSpec("j", "x", "Asia/Tokyo", every=2.0)
    first = datetime(2026, 1, 1, tzinfo=UTC)
    awake = first + timedelta(seconds=2 * 1_500)
    judged = judge(
        JobBody(spec, first - timedelta(seconds=2)), first, awake, awake - timedelta(seconds=1)
    )
    assert judged.run is not None
    assert judged.passed[0].due == first
    assert "and every slot from here to Thu 2026-01-01 09:16:40 JST" in judged.passed[0].reason
    assert {one.state for one in judged.passed} == {"skipped"}


@pytest.mark.parametrize("schedule", ["* * * * *", "0 9 * * 1-5", "* 9 1 1 *", "*/7 * * * * *"])
def test_of_years_that_went_by_only_the_end_is_walked_through(schedule: str) -> None:
    """A clock that comes back from 1970, or a machine that was off for years: the loop is not held
    up for minutes."""
    spec = JobSpec("j", "p", "UTC", schedule=schedule)
    body, until = JobBody(spec, utc("1970-01-01T00:00")), utc("2026-01-05T09:30")
    first = after(body, utc("1970-01-01T00:00"))
    assert first is not None
    found, following = slots(body, first, until)
    near = [found[0]]
    while (behind := after(body, near[-1])) is not None and behind < until:
        near.append(behind)
    assert (found, following) == (near, behind)
    assert len(found) == MOST_SLOTS
