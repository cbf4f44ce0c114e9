"""The API of jobs: made, looked at, changed, run and removed; every mistake one line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from channels.contract import Address, ChatId
from ohmo.ambient import IdSource
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.errors import NotConnected, NotEnabled
from ohmo.contracts.turns import Accepted, Seat
from ohmo.control.authentication import Keys, Peers
from ohmo.control.guard import Callers, Guard
from ohmo.control.write_api import CronRoutes
from ohmo.cron.desk import CronDesk, DeskParts
from ohmo.cron.recipes import BUNDLED, read_recipe
from ohmo.cron.spec import spec_of
from ohmo_testing.house import ManualClock
from tests.store_model.store import MemoryStore

JOB = {
    "name": "ci",
    "schedule": "0 9 * * 1-5",
    "tz": "Asia/Shanghai",
    "prompt": "read CI",
    "to": "slack:C1",
    "every": "",
}


async def _nothing_asked(_: object) -> None:
    """No run asked anybody anything."""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    clock = ManualClock()
    store = MemoryStore(clock=clock)

    async def publish(wake: Wake) -> Accepted:
        return (await store.accept([(wake, Seat("", "wake"))]))[0]

    def resolve(text: str) -> Address:
        channel, _, rest = text.partition(":")
        if channel == "irc":
            raise NotEnabled(
                f"{text}: the channel irc is not enabled, only slack; config.yaml enables it"
            )
        if channel != "slack":
            raise NotConnected(f"{text}: the channel {channel} is not connected")
        return Address("slack", "T1", ChatId(rest))

    desk = CronDesk(
        DeskParts(
            store,
            publish,
            resolve,
            lambda _: "",
            (tmp_path,),
            "UTC",
            IdSource(),
            clock,
            _nothing_asked,
        )
    )
    guard = Guard(Keys("t" * 40), Callers(), Peers(None), "c", frozenset())
    application = web.Application(middlewares=[guard.middleware()])
    application.add_routes(CronRoutes(desk).routes())
    async with TestClient(
        TestServer(application), headers={"Authorization": f"Bearer {'t' * 40}"}
    ) as client:
        yield client


async def test_a_job_whose_reports_go_nowhere_yet_is_made_and_says_so(
    client: TestClient[web.Request, web.Application],
) -> None:
    made = await client.post("/api/v1/cron", json={**JOB, "to": "irc:#a"})
    assert made.status == 201
    assert (
        (await made.json())["note"]
        == "irc:#a: the channel irc is not enabled, only slack; config.yaml enables it; until then its reports go to the owner"
    )
    assert (await (await client.post("/api/v1/cron", json={**JOB, "name": "other"})).json())[
        "note"
    ] == ""


async def test_a_job_from_its_making_to_its_end(
    client: TestClient[web.Request, web.Application],
) -> None:
    made = await client.post(
        "/api/v1/cron", json={**JOB, "rules": ["Bash(gh:*)"], "secrets": {"T": "env:T"}}
    )
    found = await made.json()
    assert (made.status, found["next"], found["secrets"]) == (201, "2026-01-06T01:00:00Z", ["T"])
    assert found["next_local"] == "Tue 2026-01-06 09:00 CST (Asia/Shanghai)"
    assert (await client.post("/api/v1/cron", json=JOB)).status == 400
    listed = (await (await client.get("/api/v1/cron")).json())["jobs"]
    wanted = """name schedule at every tz prompt to thread rules secrets deadline catch_up overlap when enabled source next next_local last"""
    assert set(wanted.split()) <= set(listed[0])
    edited = await client.patch("/api/v1/cron/ci", json={"every": "90m", "when": "wrong"})
    assert (await edited.json())["every"] == "1h30m"
    assert (await (await client.post("/api/v1/cron/ci", json={"prompt": "other"})).json())[
        "prompt"
    ] == "other"
    assert not (await (await client.post("/api/v1/cron/ci/pause")).json())["enabled"]
    assert (await (await client.post("/api/v1/cron/ci/resume")).json())["next"] is not None
    assert (await client.post("/api/v1/cron/ci/run")).status == 202
    assert (await client.post("/api/v1/cron/ci/run")).status == 400  # it is running
    history = (await (await client.get("/api/v1/cron/ci/history")).json())["occurrences"]
    assert [(one["state"], one["reason"]) for one in history] == [("claimed", "run by hand")]
    assert (await client.delete("/api/v1/cron/ci")).status == 200
    assert (await client.get("/api/v1/cron/ci/history")).status == 404


async def test_an_empty_value_takes_a_field_of_a_job_away(
    client: TestClient[web.Request, web.Application],
) -> None:
    await client.post(
        "/api/v1/cron",
        json={
            **JOB,
            "name": "ci",
            "deadline": "30m",
            "rules": ["Bash(ls:*)"],
            "expires": "2099-01-01 00:00",
        },
    )
    changed = await client.patch(
        "/api/v1/cron/ci",
        json={"to": "", "thread": "", "deadline": "", "expires": "", "rules": [], "secrets": {}},
    )
    told = await changed.json()
    assert changed.status == 200, told
    assert [told[name] for name in ("to", "thread", "deadline", "expires", "rules", "secrets")] == [
        None,
        None,
        None,
        None,
        [],
        [],
    ]
    assert (told["prompt"], told["schedule"]) == (JOB["prompt"], JOB["schedule"])
    for field in ("prompt", "when", "name"):  # these cannot be empty
        assert (await client.patch("/api/v1/cron/ci", json={field: ""})).status == 400


async def test_a_change_is_looked_at_before_it_is_made(
    client: TestClient[web.Request, web.Application],
) -> None:
    await client.post("/api/v1/cron", json={**JOB, "secrets": {"T": "env:T"}})
    seen = await (
        await client.post(
            "/api/v1/cron/ci", json={"schedule": "0 18 * * *", "to": "", "preview": True}
        )
    ).json()
    assert (seen["upcoming"][0]["local"], seen["to"], seen["secrets"]) == (
        "Mon 2026-01-05 18:00 CST (Asia/Shanghai)",
        None,
        ["T"],
    )
    known = await (await client.get("/api/v1/cron/ci")).json()
    assert (known["to"], known["schedule"]) == ("slack:C1", "0 9 * * 1-5")  # nothing was written
    refused = await client.patch(
        "/api/v1/cron/ci", json={"schedule": "0 99 * * *", "preview": True}
    )
    assert (refused.status, "99" in (await refused.json())["error"]) == (400, True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schedule": "0 9 * *"}, "has 4 fields"),
        ({"tz": "Mars/Base"}, "no time zone"),
        ({"at": "2020-01-01 09:00"}, "exactly one"),
        ({"schedule": None, "at": "2020-01-01 09:00"}, "in the past"),
        ({"schedule": None, "every": "10ms"}, "at least 1s"),
        ({"prompt": " "}, "say what shall be done"),
        ({"name": "a b"}, "cannot be a name"),
        ({"rules": ["Bash("]}, "rules"),
        ({"secrets": {"T": "ghp_secret"}}, "references"),
        ({"when": "never"}, "none of"),
        ({"retry": 99}, "retry"),
        ({"to": "C1"}, "no address"),
        ({"recipe": "nope", "schedule": None}, "there is no 'nope'"),
        ({"schedule": "0 0 30 2 *"}, "never comes"),
        ({"colour": "red"}, "colour"),
        ({"schedule": None, "every": True}, "every"),
        ({"schedule": None, "every": 0}, "every: at least 1s"),
        ({"deadline": False}, "deadline"),
        ({"schedule": None, "at": "9999-12-31T23:59-12:00"}, "is no time"),
        ({"schedule": None, "at": "2099-12-01 09:00", "expires": "2098-01-01 00:00"}, "expires"),
    ],
)
async def test_a_wrong_field_is_refused_with_one_line(
    client: TestClient[web.Request, web.Application], change: dict[str, object], words: str
) -> None:
    body = {key: value for key, value in {**JOB, **change}.items() if value is not None}
    answer = await client.post("/api/v1/cron", json=body)
    line = (await answer.json())["error"]
    assert answer.status == 400
    assert words in line
    assert "\n" not in line
    assert "ghp_secret" not in line


async def test_a_recipe_is_filled_in_and_flags_win(
    client: TestClient[web.Request, web.Application], tmp_path: Path
) -> None:
    (tmp_path / "news.yaml").write_text(
        "title: News\nparameters:\n  repo: {description: owner/name, default: null}\nschedule: 0 8"
        " * * *\nprompt: news of {{repo}}\nrules: ['Bash(gh api repos/{{repo}}/*)']\n"
    )
    missing = await client.post("/api/v1/cron", json={"recipe": "news"})
    assert "--set repo" in (await missing.json())["error"]
    made = await (
        await client.post(
            "/api/v1/cron", json={"recipe": "news", "set": {"repo": "a/b"}, "every": "5m"}
        )
    ).json()
    assert (made["prompt"], made["rules"], made["every"], made["schedule"]) == (
        "news of a/b",
        ["Bash(gh api repos/a/b/*)"],
        "5m",
        None,
    )


@pytest.mark.parametrize("path", sorted(BUNDLED.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_that_comes_along_is_a_job_as_it_stands(path: Path) -> None:
    recipe = read_recipe(path.stem, (BUNDLED,))
    assert recipe.title != path.stem
    needed = {name: "given" for name, one in recipe.parameters.items() if one.default is None}
    spec = spec_of(recipe.job(needed), "UTC", ManualClock()())
    assert (spec.name, spec.recipe) == (path.stem, path.stem)
    assert "{{" not in spec.prompt + "".join(spec.rules)


def test_ci_triage_comes_along() -> None:
    assert (BUNDLED / "ci-triage.yaml").exists()


async def test_a_preview_says_the_next_runs_in_the_jobs_own_time_and_writes_nothing(
    client: TestClient[web.Request, web.Application],
) -> None:
    seen = await (await client.post("/api/v1/cron", json={**JOB, "preview": True})).json()
    assert [run["local"] for run in seen["upcoming"]] == [
        f"{day} 09:00 CST (Asia/Shanghai)"
        for day in (
            "Tue 2026-01-06",
            "Wed 2026-01-07",
            "Thu 2026-01-08",
            "Fri 2026-01-09",
            "Mon 2026-01-12",
        )
    ]
    assert seen["upcoming"][0]["at"] == "2026-01-06T01:00:00Z"
    once = {"name": "one", "at": "2026-01-05 18:00", "prompt": "x", "preview": True}
    assert len((await (await client.post("/api/v1/cron", json=once)).json())["upcoming"]) == 1
    assert (await (await client.get("/api/v1/cron")).json())["jobs"] == []


async def test_recipes_are_listed_with_what_they_need(
    client: TestClient[web.Request, web.Application], tmp_path: Path
) -> None:
    (tmp_path / "news.yaml").write_text(
        "title: What is new\nparameters:\n  repo: {description: owner/name, default:"
        " null}\nschedule: 0 9 * * *\nprompt: 'News of {{repo}}?'\n"
    )
    (tmp_path / "broken.yaml").write_text("no_such_field: 1\n")
    listed = (await (await client.get("/api/v1/recipes")).json())["recipes"]
    assert listed == [
        {
            "name": "news",
            "title": "What is new",
            "parameters": [{"name": "repo", "description": "owner/name", "default": None}],
            "schedule": "0 9 * * *",
            "prompt": "News of {{repo}}?",
        }
    ]
