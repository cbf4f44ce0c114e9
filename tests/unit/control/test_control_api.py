"""The local API: what it answers, and whom."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from channels.contract import Address, ChatId
from channels.web.client import place
from ohmo.contracts.spending import Limit
from ohmo.contracts.turns import PersonRow
from tests.unit.control.small_house import PERMISSION, T0, SmallHouse, said


async def test_alive_and_ready_tell_the_truth(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    async with session.get("/healthz") as response:
        assert (response.status, await response.json()) == (200, {"alive": True})
    async with session.get("/readyz") as response:
        assert (response.status, await response.json()) == (
            200,
            {"ready": True, "channels": {"web": True, "slack": False}},
        )
    house.ready = False
    async with session.get("/readyz") as response:
        assert response.status == 503


async def test_metrics_have_the_promised_names(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(place("c1"))
    await house.turn(thread, "four words of answer")
    async with session.get("/metrics") as response:
        text = await response.text()
    for line in (
        'ohmo_inbox_total{channel="web",state="answered"} 3.0',
        'ohmo_outbox_total{channel="web",state="sent"} 3.0',
        'ohmo_channel_connected{channel="slack"} 0.0',
        'ohmo_model_tokens_total{kind="output"} 20.0',
        "ohmo_model_cost_usd_total 0.0015",
        "ohmo_turn_seconds_count 1.0",
        "ohmo_first_token_seconds_count 1.0",
        "ohmo_ack_seconds_count 0.0",
        "ohmo_overhead_seconds_count 1.0",
        "ohmo_events_dropped_total 3.0",
    ):
        assert line in text.splitlines()


async def test_status_has_its_fields_at_the_top(session: aiohttp.ClientSession) -> None:
    async with session.get("/api/v1/status") as response:
        status = await response.json()
    assert status["ready"] is True
    assert status["channels"]["slack"]["detail"].startswith("slack refuses bot_token")
    assert {"version", "channels", "inbox", "outbox", "cron", "budget"} <= status.keys()


async def test_a_message_by_api_becomes_a_wake_once_per_key(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    body = {"text": "hi", "thread": "slack:C1", "mode": "plan", "key": "k1"}
    async with session.post("/api/v1/messages", json=body) as response:
        assert response.status == 202
        first = await response.json()
    async with session.post("/api/v1/messages", json=body) as response:
        second = await response.json()
    wake, settings = house.wakes[0]
    assert (wake.origin, wake.prompt, wake.place, wake.deliver) == (
        "api",
        "hi",
        Address("slack", "local", ChatId("C1")),
        wake.place,
    )
    assert settings is not None
    assert settings.mode == "plan"
    assert (first["thread"], first["seq"], first["turn_key"], first["duplicate"]) == (
        "t1",
        1,
        "api:k1",
        False,
    )
    assert second == {**first, "duplicate": True}


async def test_a_message_goes_on_with_a_session_by_its_id(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(Address("slack", "T1", ChatId("C1")))
    async with session.post("/api/v1/messages", json={"text": "hi", "thread": thread}) as response:
        assert (response.status, (await response.json())["thread"]) == (202, thread)
    assert house.wakes[0][0].place == Address("slack", "T1", ChatId("C1"))


async def test_a_session_is_begun_anew_from_outside_as_by_its_owners_command(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(Address("slack", "T1", ChatId("C1")))
    async with session.post(f"/api/v1/sessions/{thread}/reset", json={}) as response:
        assert (response.status, await response.json()) == (202, {"thread": thread, "seq": 1})
    wake, settings = house.wakes[0]
    assert (wake.origin, wake.prompt, wake.person, wake.deliver, settings) == (
        "owner",
        "/new",
        "owner",
        wake.place,
        None,
    )
    async with session.post("/api/v1/sessions/nothere/reset", json={}) as response:
        assert response.status == 404


async def test_a_message_without_a_thread_begins_one_and_is_delivered_nowhere(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    async with session.post("/api/v1/messages", json={"text": "hi"}) as response:
        assert response.status == 202
    wake, settings = house.wakes[0]
    assert (wake.place.channel, wake.deliver, settings) == ("house", None, None)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("{", "body: Invalid JSON"),
        ('{"text": ""}', "text: String should have at least 1 character"),
        ('{"text": "x", "txet": 1}', "txet: Extra inputs are not permitted"),
        ('{"text": "x", "thread": "nowhere"}', "thread: nowhere: CHANNEL:REST is wanted"),
        ('{"text": "x", "mode": "yolo"}', "mode: Input should be 'default', 'plan' or 'full_auto'"),
    ],
)
async def test_bad_input_is_answered_with_one_line_naming_the_field(
    session: aiohttp.ClientSession, body: str, line: str
) -> None:
    async with session.post(
        "/api/v1/messages", data=body, headers={"Content-Type": "application/json"}
    ) as response:
        assert response.status == 400
        error = (await response.json())["error"]
    assert error.startswith(line)
    assert "\n" not in error


@pytest.mark.parametrize(
    ("path", "known"),
    [("inbox", "waiting, taken, ended, answered"), ("outbox", "ready, sending, sent")],
)
async def test_a_state_that_there_is_not_is_named_instead_of_answered_with_nothing(
    session: aiohttp.ClientSession, path: str, known: str
) -> None:
    async with session.get(f"/api/v1/{path}?state=daed") as response:
        assert response.status == 400
        assert (await response.json())["error"].startswith(f"state: expected one of {known}")
    async with session.get(f"/api/v1/{path}?state=dead") as response:
        assert response.status == 200


async def test_sessions_are_listed_and_read_page_by_page(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(place("c1"))
    await house.turn(thread, "one two", tool=True)
    async with session.get("/api/v1/sessions?limit=5") as response:
        assert [s["thread"] for s in (await response.json())["sessions"]] == [thread]
    read: list[int] = []
    since: int | None = 0
    while since is not None:
        async with session.get(f"/api/v1/sessions/{thread}?since={since}&limit=2") as response:
            page = await response.json()
        read += [item["seq"] for item in page["history"]]
        since = page["next"]
    assert read == [item.seq for item in house.history_of[thread]]
    async with session.get("/api/v1/sessions/nothere") as response:
        assert response.status == 404


async def test_why_tells_what_became_of_a_message(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    async with session.post("/api/v1/messages", json={"text": "hi", "key": "k"}) as response:
        told = await response.json()
    async with session.get(f"/api/v1/inbox/{told['thread']}/{told['seq']}") as response:
        assert (await response.json())["ending"] == "answered"
    async with session.get("/api/v1/inbox/t1/99") as response:
        assert response.status == 404
    async with session.get("/api/v1/inbox/audit") as response:
        assert (await response.json())["problems"] == []


async def test_dead_letters_can_be_tried_again_and_nothing_else(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    for path, status in (
        ("/api/v1/outbox/dead/retry", 200),
        ("/api/v1/outbox/alive/retry", 409),
        ("/api/v1/outbox/dead/drop", 200),
        ("/api/v1/outbox/alive/drop", 409),
        ("/api/v1/inbox/t9/1/retry", 404),
    ):
        async with session.post(path) as response:
            assert response.status == status, path


async def test_an_approval_is_answered_once(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    question = await house.ask(house.thread_at(place("c1")), PERMISSION)
    async with session.get("/api/v1/approvals") as response:
        assert [a["ask"]["id"] for a in (await response.json())["approvals"]] == [question]
    async with session.post(
        f"/api/v1/approvals/{question}", json={"verdict": "allowed", "scope": "session"}
    ) as response:
        assert response.status == 200
    async with session.post(
        f"/api/v1/approvals/{question}", json={"verdict": "denied"}
    ) as response:
        assert response.status == 404
    assert house.verdicts == [(question, "allowed", "session", "")]


async def test_a_stranger_is_let_in_by_code_and_the_hash_stays_inside(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    house.persons.append(PersonRow("slack", "T1", "U1", "Ada", "asking", "hash of 1234", T0))
    async with session.get("/api/v1/pairing") as response:
        assert "hash of" not in await response.text()
    async with session.post("/api/v1/pairing", json={"code": "9999"}) as response:
        assert response.status == 404
    async with session.post("/api/v1/pairing", json={"code": "1234", "role": "owner"}) as response:
        assert response.status == 400
    async with session.post("/api/v1/pairing", json={"code": "1234", "role": "admin"}) as response:
        assert (await response.json())["role"] == "admin"
    async with session.post(
        "/api/v1/pairing/revoke", json={"channel": "slack", "account": "T1", "person": "U1"}
    ) as response:
        assert response.status == 200


async def test_a_browser_says_something_once_however_often_it_is_sent(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    body = {"text": "hello", "key": "0123456789abcdef"}
    for _ in range(3):
        async with session.post("/api/v1/web/chats/c1/messages", json=body) as response:
            assert response.status == 202
    assert [item.arrival.text for item in await house.inbox()] == ["hello"]  # pyright: ignore
    async with session.get("/api/v1/web/chats") as response:
        assert [(c["chat"], c["title"]) for c in (await response.json())["chats"]] == [
            ("c1", "hello")
        ]


async def test_a_file_goes_up_and_comes_down_the_same(
    house: SmallHouse, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    form = aiohttp.FormData(quote_fields=False)
    form.add_field(
        "file", b"\x00bytes" * 50_000, filename="../../evil.html", content_type="text/html"
    )
    async with session.post("/api/v1/web/files", data=form) as response:
        assert response.status == 201, await response.text()
        attachment = await response.json()
    assert attachment["name"] == "evil.html"
    del attachment["type"]
    async with session.post(
        "/api/v1/web/chats/c1/messages",
        json={"text": "", "key": "0123456789abcdef", "attachments": [attachment]},
    ) as response:
        assert response.status == 202, await response.text()
    async with session.get("/api/v1/web/files/t1/1/0") as response:
        assert await response.read() == b"\x00bytes" * 50_000
        assert response.headers["Content-Disposition"].startswith("attachment")
        assert response.headers["Content-Type"] == "application/octet-stream"
        assert "sandbox" in response.headers["Content-Security-Policy"]
    async with session.get("/api/v1/web/files/t1/1/1") as response:
        assert response.status == 404


async def test_a_file_past_the_limit_is_refused_and_leaves_nothing(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    house.web.browser.max_file = 1000
    form = aiohttp.FormData()
    form.add_field("file", b"x" * 2000, filename="big.bin")
    async with session.post("/api/v1/web/files", data=form) as response:
        assert response.status == 400
        assert "larger than 1000 bytes" in (await response.json())["error"]
    assert list((house.state / "files").iterdir()) == []


async def test_a_message_that_could_not_be_stored_is_sent_again_later(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    house.web.browser._context = None
    async with session.post(
        "/api/v1/web/chats/c1/messages", json={"text": "x", "key": "0123456789"}
    ) as response:
        assert response.status == 503
        assert response.headers["Retry-After"] == "1"


async def test_every_answer_has_a_type(session: aiohttp.ClientSession) -> None:
    async with session.get("/api/v1/usage") as response:
        assert json.loads(await response.text())["usage"][0]["type"] == "usage_total"


async def test_what_is_left_of_a_day_is_of_now_where_the_status_may_be_of_a_moment_ago(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    house.limits["day"] = Limit(tokens=1_000)
    async with session.get("/api/v1/usage") as response:
        found = await response.json()
    (row,) = found["usage"]
    (day,) = found["budgets"]
    assert (day["budget"], day["tokens_limit"]) == ("day", 1_000)
    assert day["tokens"] == 180
    assert day["usd"] == row["micro_usd"] / 1_000_000


async def test_words_are_looked_for_without_case_and_accents_page_by_page(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    for number in range(600):
        house.accept(
            said(
                place(f"c{number % 7}"),
                f"Ngày {number} mới" if number % 100 == 0 else f"line {number}",
                f"k{number}",
            )
        )

    async def found(query: str) -> tuple[list[str], str | None]:
        async with session.get(f"/api/v1/inbox?{query}") as response:
            page = await response.json()
        return [row["arrival"]["text"] for row in page["inbox"]], page["next"]

    first, mark = await found("text=MOI+ngay&limit=4")
    rest, end = await found(f"text=MOI+ngay&limit=4&after={mark}")
    assert sorted(first + rest) == [f"Ngày {number} mới" for number in range(0, 600, 100)]
    assert end is None
    async with session.get("/api/v1/sessions?text=ng%C3%A0y+300") as response:
        assert [row["address"]["chat"] for row in (await response.json())["sessions"]] == [
            f"c{300 % 7}"
        ]
    async with session.get("/api/v1/sessions?text=" + "x" * 201) as response:
        assert response.status == 400
