"""Times as a person reads them: in a chat in the zone of the configuration, at a terminal in its
own, each with its name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.faults.daemon import until
from tests.journeys.at_keyboard import keyboard
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
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
            return any(one["state"] == "done" for one in found["occurrences"])

        await until("the job has run", ran)
        for zone, shown in (("America/New_York", r"E[SD]T \(America/New_York\)"), ("UTC", "UTC")):
            history = await home.ohmo("cron", "history", "daily", TZ=zone)
            assert re.search(rf"^{TIME} {shown}  done", history.out, re.MULTILINE), history
            status = await home.ohmo("status", TZ=zone)
            assert re.search(rf"next run {TIME} {shown}$", status.out, re.MULTILINE), status
