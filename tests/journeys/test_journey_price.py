"""What a model costs, where nobody knows it: the real daemon says so wherever a person reads of
money, and ``pricing`` gives a price."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, UnixConnector

from ohmo.ambient import inert
from ohmo.database.migrations import MIGRATIONS
from ohmo.storefile.recovery import create
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
UNKNOWN = "maker/own-model-7b"


def with_model(home: Keyboard, model: str, **pricing: dict[str, float]) -> None:
    profile = home.written["profiles"]["default"] | {"models": [model]}
    home.configure(
        home.written
        | {
            "profiles": {"default": profile},
            "pricing": {f"maker/{name}": price for name, price in pricing.items()},
        }
    )


async def asked(home: Keyboard) -> dict[str, Any]:
    said = await home.ohmo("-p", "hello", "--output", "json")
    assert said.code == 0, said.err
    return json.loads(said.out)


async def test_a_model_nobody_knows_has_no_price_anywhere(tmp_path: Path) -> None:
    async with keyboard(tmp_path, ModelServer(), running=False) as home:
        with_model(home, UNKNOWN)
        await home.daemon.start()
        found = await asked(home)
        assert (found["cost_usd"], found["usage"]["calls"]) == (None, 1)
        streamed = await home.ohmo("-p", "again", "--output", "stream-json")
        events = [json.loads(line) for line in streamed.out.splitlines()]
        assert [
            event["usage"]["micro_usd"] for event in events if event["event"] == "model_done"
        ] == [None]
        assert events[-1]["cost_usd"] is None

        (row,) = json.loads((await home.ohmo("usage", "--json")).out)
        assert (row["micro_usd"], row["unpriced"], row["calls"]) == (None, 2, 2)
        told = [
            await home.ohmo(*words)
            for words in (["usage"], ["usage", "--by", "thread"], ["status"], ["-p", "/cost"])
        ]
        for said in told:
            assert "price unknown" in said.out
            assert "$0" not in said.out
        assert told[0].out.splitlines()[-2:] == [
            "together: 2 calls, price unknown",
            "`pricing:` in config.yaml gives a model its price, from then on",
        ]
        status = json.loads((await home.ohmo("status", "--json")).out)
        assert (status["budget"]["day"]["usd"], status["budget"]["day"]["unpriced"]) == (None, 2)
        _, thread = await home.daemon.call("GET", f"/api/v1/sessions/{found['thread']}")
        assert [one["micro_usd"] for one in thread["usage"]] == [None]
        async with ClientSession(
            connector=UnixConnector(str(home.home / "run" / "ohmo.sock"))
        ) as session:
            async with session.get("http://localhost/metrics") as answer:
                metrics = (await answer.text()).splitlines()
        assert "ohmo_model_unpriced_calls_total 2.0" in metrics
        assert "ohmo_model_cost_usd_total 0.0" in metrics


async def test_a_written_price_counts_and_what_was_spent_before_stays_unknown(
    tmp_path: Path,
) -> None:
    async with keyboard(tmp_path, ModelServer(), running=False) as home:
        with_model(home, UNKNOWN)
        await home.daemon.start()
        await asked(home)
        await home.daemon.stop()
        with_model(home, UNKNOWN, **{"own-model-7b": {"input": 100, "output": 1000}})
        assert (await home.ohmo("config", "check")).code == 0
        await home.daemon.start()
        found = await asked(home)
        used = found["usage"]
        assert found["cost_usd"] == pytest.approx(
            ((used["input"] + used["cached"]) * 100 + used["output"] * 1000) / 1e6, abs=1e-6
        )
        dollars = f"${found['cost_usd']:.4f}"
        assert (
            f"together: 2 calls, {dollars} and 1 call of unknown price"
            in (await home.ohmo("usage")).out
        )
        assert (
            f"spent today: {dollars} and 1 call of unknown price, "
            in (await home.ohmo("status")).out
        )


async def test_a_price_of_nothing_is_free_and_a_wrong_one_is_refused_with_its_line(
    tmp_path: Path,
) -> None:
    async with keyboard(tmp_path, ModelServer(), running=False) as home:
        with_model(home, UNKNOWN, **{"own-model-7b": {"input": 0, "output": 0}})
        await home.daemon.start()
        assert (await asked(home))["cost_usd"] == 0
        assert "together: 1 call, $0.0000\n" in (await home.ohmo("usage")).out
        (home.home / "config.yaml").write_text(
            "pricing:\n  big:\n    input: -1\n    output: 3\n    cache_red: 1\n  small: {input:"
            " 1}\n"
        )
        said = await home.ohmo("config", "check")
        assert said.code == 78
        assert [
            line.rpartition("config.yaml:")[2][:40].split(": ")[:2]
            for line in said.err.splitlines()
            if "config.yaml:" in line
        ] == [
            ["3", "pricing.big.input"],
            ["5", "pricing.big.cache_red"],
            ["6", "pricing.small.output"],
        ]


async def test_what_an_older_ohmo_counted_as_nothing_is_unknown(tmp_path: Path) -> None:
    async with keyboard(tmp_path, ModelServer(), running=False) as home:
        path = home.home / "ohmo.db"
        create(path, inert, {number: MIGRATIONS[number] for number in (1, 2, 3)})
        with closing(sqlite3.connect(path)) as connection, connection:
            for name, tokens, price in (("own", 100, 0), ("gpt-5", 100, 300), ("offline", 0, 0)):
                connection.execute(
                    "INSERT INTO usage (id, at, day, model, purpose, input, cached, written,"
                    " output, micro_usd) VALUES (?, 1, date('now'), ?, 'turn', ?, 0, 0, ?, ?)",
                    (name, name, tokens, tokens, price),
                )
        await home.daemon.start()
        rows = json.loads((await home.ohmo("usage", "--json")).out)
        assert {row["model"]: (row["micro_usd"], row["unpriced"]) for row in rows} == {
            "own": (None, 1),
            "gpt-5": (300, 0),
            "offline": (0, 0),
        }
