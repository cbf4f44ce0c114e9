"""What a person is told who makes a job at the keyboard: names, days, seconds, times of which zone,
and what is dear; the real daemon, the real command."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.faults.daemon import until
from tests.journeys.at_keyboard import keyboard
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
DAILY = "0 9 * * *"


async def test_two_jobs_of_the_same_words_have_names_of_their_own(tmp_path: Path) -> None:
    async with keyboard(tmp_path, ModelServer()) as home:
        for name in ("water-the-plants", "water-the-plants-2", "water-the-plants-3"):
            assert (
                await home.ohmo("cron", "add", DAILY, "--prompt", "Water the plants!")
            ).out.startswith(f"{name}: next run ")
        chosen = await home.ohmo(
            "cron", "add", DAILY, "--prompt", "Water them", "--name", "water-the-plants"
        )
        assert (chosen.code, chosen.out) == (2, "")
        assert chosen.err.startswith(
            "ohmo: name: there is a job water-the-plants already; choose another name, or change it"
            " with: "
        )
        jobs = json.loads((await home.ohmo("cron", "list", "--json")).out)
        assert [job["name"] for job in jobs] == [
            "water-the-plants",
            "water-the-plants-2",
            "water-the-plants-3",
        ]


async def test_a_date_alone_is_the_last_day_of_a_job(tmp_path: Path) -> None:
    async with keyboard(tmp_path, ModelServer()) as home:
        day = (datetime.now(UTC) + timedelta(days=2)).date()
        made = await home.ohmo(
            "cron",
            "add",
            "30 23 * * *",
            "--name",
            "last",
            "--tz",
            "Asia/Tokyo",
            "--prompt",
            "x",
            "--expires",
            str(day),
        )
        assert made.code == 0, made.err
        assert (
            f"expires: {day}T14:59:59.999000+00:00" in (await home.ohmo("cron", "show", "last")).out
        )  # the end of that day in Tokyo
        _, seen = await home.daemon.call(
            "POST",
            "/api/v1/cron",
            {
                "schedule": "30 23 * * *",
                "tz": "Asia/Tokyo",
                "prompt": "x",
                "expires": str(day),
                "preview": True,
            },
        )
        assert seen["upcoming"][-1]["local"].split()[1:3] == [str(day), "23:30"]
        edited = await home.ohmo("cron", "edit", "last", "--expires", "31.12.2099")
        assert edited.code == 2
        assert edited.err.startswith("ohmo: expires: '31.12.2099' is no time; write ")
        assert edited.err.endswith(", or a day such as 2026-12-31\n")
        at = await home.ohmo("cron", "add", "--at", str(day), "--prompt", "x")
        assert at.err.startswith(f"ohmo: at: '{day}' is no time")  # when on that day, nobody said


async def test_seconds_are_explained_and_what_asks_the_model_every_second_says_so(
    tmp_path: Path,
) -> None:
    async with keyboard(tmp_path, ModelServer()) as home:
        every = await home.ohmo("cron", "add", "--every", "1s", "--name", "a", "--prompt", "x")
        assert every.out.rstrip().endswith("; the model is asked, and paid, every 1s")
        await home.ohmo("cron", "remove", "a")
        fields = await home.ohmo("cron", "add", "0 9 * * * */20", "--name", "b", "--prompt", "x")
        assert fields.out.rstrip().endswith(
            "; the sixth field, */20, is seconds; the model is asked, and paid, every 20s"
        )
        daily = await home.ohmo("cron", "add", "0 9 * * * 30", "--name", "c", "--prompt", "x")
        assert daily.out.rstrip().endswith("; the sixth field, 30, is seconds")
        assert (
            "seconds"
            not in (await home.ohmo("cron", "add", DAILY, "--name", "d", "--prompt", "x")).out
        )
        wrong = await home.ohmo("cron", "add", "0 0 30 9 * * *", "--prompt", "x")
        assert wrong.err.endswith(
            "has 7 fields; write minute hour day month weekday, and seconds behind them if need be,"
            " for example 0 9 * * 1-5\n"
        )
        assert "with seconds as a sixth" in (await home.ohmo("cron", "add", "--help")).out.replace(
            "\n ", ""
        )
        doctor = await home.ohmo("doctor", "--only", "cron.often")
        assert "b asks the model every 20s" in doctor.out


TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


async def test_times_bear_the_name_of_the_zone_they_are_told_in(tmp_path: Path) -> None:
    async with keyboard(tmp_path, ModelServer(), cron={"timezone": "Asia/Kolkata"}) as home:
        said = json.loads((await home.ohmo("-p", "hello", "--output", "json")).out)
        why = await home.ohmo("-p", f"/why {said['seq']}", "--resume", said["thread"])
        assert re.fullmatch(
            rf"Message \d+ of {TIME} IST \(Asia/Kolkata\): answered\.", why.out.strip()
        ), why

        await home.ohmo("cron", "add", "0 9 * * *", "--name", "daily", "--prompt", "hello")
        await home.ohmo("cron", "run", "daily")

        async def ran() -> bool:
            _, found = await home.daemon.call("GET", "/api/v1/cron/daily/history")
            return any(occurrence["state"] == "done" for occurrence in found["occurrences"])

        await until("the job has run", ran)
        for zone, shown in (("America/New_York", r"E[SD]T \(America/New_York\)"), ("UTC", "UTC")):
            history = await home.ohmo("cron", "history", "daily", TZ=zone)
            assert re.search(rf"^{TIME} {shown}  done", history.out, re.MULTILINE), history
            status = await home.ohmo("status", TZ=zone)
            assert re.search(rf"next run {TIME} {shown}$", status.out, re.MULTILINE), status
