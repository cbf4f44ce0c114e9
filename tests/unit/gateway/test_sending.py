"""One row on its way: frozen, settled after a crash by what its platform can promise, never
silently lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from gateway_words import BIRTH, LOOK, RISK, SAFE, Stage, ended, ident, place, post

from channels.contract import Choice, MessageId, Receipt
from channels.errors import Ambiguous, AuthFailed, NotReady, RateLimited, Rejected, Unavailable
from ohmo.approvals.cards import card, worded
from ohmo.approvals.lapsing import lapsing
from ohmo.contracts.outbox import Ask, Asked, OutRow, PartState
from ohmo.contracts.tool import Question
from ohmo.gateway.sending import RISKY_TRIES
from ohmo_testing.channels import MARK
from tests.store_model.store import MemoryStore

MARKED = f"hello ({MARK})"
WAYS = {"safe": SAFE, "look": LOOK, "risk": RISK}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, stage: Stage) -> str:
    stage.channel.capabilities = WAYS[request.param]
    return request.param


async def crashed(stage: Stage, *, visible: bool) -> None:
    """A row that was in flight when the process died: before or after the platform took it."""
    await stage.store.post([post("a", "hello")])
    (part,) = stage.channel.render(post("a", "hello").outbound)
    await stage.store.sending(ident("a"), [PartState(part)])
    if visible:
        await stage.channel.send(part, f"{ident('a')}.0")


# frozen


async def test_a_row_is_rendered_once_whatever_happens_to_its_sends(stage: Stage) -> None:
    await stage.store.post([post("a", "hello")])
    stage.platform.fail("send", NotReady("away"), times=3)
    for _ in range(4):
        await stage.sender().send(await stage.head())
    assert len(stage.channel.rendered) == 1
    assert stage.texts() == ["hello"]


async def test_what_will_be_said_is_stored_before_the_first_call(stage: Stage) -> None:
    await stage.store.post([post("a", "hello")])
    stage.platform.hold()
    sending = asyncio.create_task(stage.sender().send(await stage.head()))
    await stage.platform.until(
        lambda platform: any(call.method == "send" for call in platform.calls)
    )
    row = await stage.row("a")
    assert (row.state, [state.part for state in row.parts]) == (
        "sending",
        list(stage.channel.render(row.row.outbound)),
    )
    await ended(sending)


async def test_parts_are_sent_in_order_under_keys_of_their_own(stage: Stage) -> None:
    stage.channel.capabilities = replace(SAFE, max_text=2)
    await stage.store.post([post("a", "x" * 80)])
    done = await stage.sender().send(await stage.head())
    assert (done.state, len(done.receipts)) == ("sent", 40)
    assert [key.removeprefix(ident("a")) for key in stage.keys()[:3]] == [".0", ".1", ".2"]
    assert len(set(stage.keys())) == 40
    assert max(map(len, stage.keys())) <= 25
    assert stage.hits == ["send.accepted"] * 40


# after a crash


@pytest.mark.parametrize("visible", [False, True])
async def test_a_row_that_was_in_flight_is_settled_by_what_the_platform_can_promise(
    stage: Stage, way: str, visible: bool
) -> None:
    await crashed(stage, visible=visible)
    assert (await stage.sender().send(await stage.head())).state == "sent"
    if way == "risk":
        assert stage.texts() == ["hello", MARKED] if visible else [MARKED]
    else:
        assert stage.texts() == ["hello"]


async def test_a_row_that_was_frozen_but_given_back_carries_no_mark(stage: Stage) -> None:
    stage.channel.capabilities = RISK
    await stage.store.post([post("a", "hello")])
    stage.platform.fail("send", NotReady("away"))
    assert (await stage.sender().send(await stage.head())).state == "later"
    assert (await stage.sender().send(await stage.head())).state == "sent"
    assert stage.texts() == ["hello"]


async def test_what_was_safe_is_marked_behind_its_window(stage: Stage) -> None:
    stage.channel.capabilities = replace(SAFE, repeat_window=timedelta(minutes=10))
    await crashed(stage, visible=False)
    stage.clock.tick(601)
    await stage.sender().send(await stage.head())
    assert stage.texts() == [MARKED]


async def test_several_parts_go_on_at_the_one_that_was_in_flight(stage: Stage, way: str) -> None:
    stage.channel.capabilities = replace(WAYS[way], max_text=4)
    await stage.store.post([post("a", "one two thr")])
    first, second, third = stage.channel.render(post("a", "one two thr").outbound)
    receipt = await stage.channel.send(first, f"{ident('a')}.0")
    await stage.channel.send(second, f"{ident('a')}.1")
    await stage.store.sending(
        ident("a"), [PartState(first, receipt), PartState(second), PartState(third)]
    )
    assert (await stage.sender().send(await stage.head())).state == "sent"
    repeated = [f"two  ({MARK})"] if way == "risk" else []
    assert stage.texts() == ["one ", "two ", *repeated, "thr"]


@pytest.mark.parametrize("kind", ["edit", "delete"])
async def test_an_edit_is_repeated_without_a_mark(stage: Stage, kind: str) -> None:
    stage.channel.capabilities = RISK
    await stage.store.post([post("old")])
    old = (await stage.sender().send(await stage.head())).receipts[0]
    await stage.store.post([post("a", "hello")])
    part = replace(
        stage.channel.render(post("a", "hello").outbound)[0], kind=kind, target=old.message
    )
    await stage.store.sending(ident("a"), [PartState(part)])
    assert (await stage.sender().send(await stage.head())).state == "sent"
    assert stage.texts() == ([] if kind == "delete" else ["hello"])


# doubt


async def test_a_lost_answer_is_settled_at_once(stage: Stage, way: str) -> None:
    await stage.store.post([post("a", "hello")])
    stage.platform.lose_next_response()
    assert (await stage.sender().send(await stage.head())).state == "sent"
    assert stage.texts() == ["hello", MARKED] if way == "risk" else ["hello"]


@pytest.mark.parametrize("error", [NotReady("away"), RateLimited(3.0), Ambiguous("lost")])
async def test_doubt_survives_whatever_happens_while_it_is_settled(
    stage: Stage, way: str, error: Any
) -> None:
    await crashed(stage, visible=True)
    stage.platform.fail(
        "find" if way == "look" else "send",
        error,
        times=2 if isinstance(error, Ambiguous) and way != "look" else 1,
    )
    done = await stage.sender().send(await stage.head())
    assert (done.state, (await stage.row("a")).state) == ("unsure", "sending")
    assert done.retry_after > 0
    assert (await stage.sender().send(await stage.head(), 1)).state == "sent"
    assert stage.texts() == ["hello", MARKED] if way == "risk" else ["hello"]


async def test_a_look_that_found_nothing_ends_the_doubt(stage: Stage) -> None:
    stage.channel.capabilities = LOOK
    await crashed(stage, visible=False)
    stage.platform.fail("send", NotReady("away"))
    assert (await stage.sender().send(await stage.head())).state == "later"
    assert (await stage.row("a")).state == "ready"


async def test_where_every_try_may_show_it_again_tries_end_in_a_dead_letter(stage: Stage) -> None:
    stage.channel.capabilities = RISK
    await crashed(stage, visible=False)
    stage.platform.fail("send", Ambiguous("lost"), times=2 * RISKY_TRIES)
    states = [
        (await stage.sender().send(await stage.head(), tries)).state for tries in range(RISKY_TRIES)
    ]
    assert states == ["unsure"] * (RISKY_TRIES - 1) + ["dead"]


async def test_where_a_repeat_shows_nothing_new_only_time_ends_the_tries(stage: Stage) -> None:
    await crashed(stage, visible=False)
    stage.platform.fail("send", Ambiguous("lost"), times=2)
    assert (await stage.sender().send(await stage.head(), 500)).state == "unsure"


# refusals


async def test_what_the_platform_refuses_is_said_plainly_once(stage: Stage) -> None:
    await stage.store.post([post("a", "hello")])
    stage.platform.reject_next()
    assert (await stage.sender().send(await stage.head())).state == "sent"
    assert [outbound.plain for outbound in stage.channel.rendered] == [False, True]
    assert stage.texts() == ["hello"]


async def test_what_is_refused_plainly_too_is_a_dead_letter_with_the_reason(stage: Stage) -> None:
    await stage.store.post([post("a", "hello"), post("b", "next")])
    stage.platform.fail("send", Rejected("no such entity"), times=2)
    done = await stage.sender().send(await stage.head())
    assert done.state == "dead"
    assert "no such entity" in done.reason
    assert (await stage.row("a")).state == "dead"
    assert (await stage.head()).row.id == ident("b")


async def test_what_is_plain_already_has_no_plainer_form(stage: Stage) -> None:
    row = post("a", "hello")
    await stage.store.post([replace(row, outbound=replace(row.outbound, plain=True))])
    stage.platform.reject_next()
    assert (await stage.sender().send(await stage.head())).state == "dead"


async def test_a_refusal_in_the_middle_repeats_nothing(stage: Stage) -> None:
    stage.channel.capabilities = replace(SAFE, max_text=4)
    await stage.store.post([post("a", "one two thr")])
    first, second, third = stage.channel.render(post("a", "one two thr").outbound)
    receipt = await stage.channel.send(first, f"{ident('a')}.0")
    await stage.store.sending(
        ident("a"), [PartState(first, receipt), PartState(second), PartState(third)]
    )
    await stage.store.unsent(ident("a"), retry_after=0.0, error="")
    stage.platform.reject_next()
    done = await stage.sender().send(await stage.head())
    assert stage.texts() == ["one ", "two ", "thr"]
    assert [shown.edits for shown in stage.platform.chats["dm:ada"]] == [0, 0, 0]
    assert [one.message for one in done.receipts] == [
        shown.id for shown in stage.platform.chats["dm:ada"]
    ]
    # what was accepted under a key is never said otherwise under it
    assert stage.keys().count(f"{ident('a')}.0") == 1


# waiting


async def test_a_rate_limit_is_obeyed_and_blocks_its_chat_only(stage: Stage) -> None:
    await stage.store.post([post("a"), post("b", at=place("dm:bob"))])
    stage.platform.limit_next(40.0)
    sender = stage.sender()
    done = await sender.send(await stage.head())
    assert (done.state, done.retry_after) == ("later", 40.0)
    row = await stage.row("a")
    assert (row.state, row.ready_at) == ("ready", stage.clock() + timedelta(seconds=40))
    assert 35 < sender.wait(row) <= 40
    assert sender.wait(await stage.row("b")) == 0
    assert stage.sleeps.asked == []


async def test_what_could_not_be_sent_is_tried_until_its_time_is_over(stage: Stage) -> None:
    await stage.store.post([post("a", ttl=3_600.0)])
    stage.platform.down(True)
    for _ in range(600):
        assert (await stage.sender().send(await stage.head())).state == "later"
    assert (await stage.row("a")).attempts == 600
    stage.clock.tick(3_601)
    done = await stage.sender().send(await stage.head())
    assert (done.state, done.reason) == ("dead", "it could not be delivered within its time")


async def test_an_expired_row_in_doubt_is_not_called_undelivered(stage: Stage) -> None:
    await crashed(stage, visible=True)
    stage.clock.tick(86_401)
    done = await stage.sender().send(await stage.head())
    assert (done.state, done.reason) == (
        "dead",
        "it could not be found out whether it was delivered within its time",
    )


async def test_refused_credentials_leave_the_row_and_no_doubt(stage: Stage) -> None:
    stage.channel.capabilities = RISK
    await stage.store.post([post("a", "hello")])
    stage.platform.revoke()
    with pytest.raises(AuthFailed):
        await stage.sender().send(await stage.head())
    stage.platform.revoke(False)
    assert (await stage.row("a")).state == "ready"
    await stage.sender().send(await stage.head())
    assert stage.texts() == ["hello"]


async def test_refused_credentials_do_not_end_a_doubt(stage: Stage) -> None:
    stage.channel.capabilities = RISK
    await crashed(stage, visible=True)
    stage.platform.revoke()
    with pytest.raises(AuthFailed):
        await stage.sender().send(await stage.head())
    assert (await stage.row("a")).state == "sending"


async def test_a_row_that_was_taken_back_is_not_said(stage: Stage) -> None:
    await stage.store.post([post("a")])
    row = await stage.head()
    await stage.store.drop_post(ident("a"))
    assert (await stage.sender().send(row)).state == "gone"
    assert stage.texts() == []


# files


async def test_an_upload_is_done_once_and_its_handle_is_kept(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "figures.csv"
    file.write_text("1")
    await stage.store.post([post("a", files=[file])])
    stage.platform.fail("send", NotReady("away"), times=1)
    assert (await stage.sender().send(await stage.head())).state == "later"
    stage.platform.calls.clear()
    assert (await stage.sender().send(await stage.head())).state == "sent"
    assert [call.method for call in stage.platform.calls] == ["send", "upload", "send"]
    row = await stage.row("a")
    assert [state.handle for state in row.parts] == [None, "upload-0"]


async def test_a_handle_survives_a_crash(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "figures.csv"
    file.write_text("1")
    text, shown = stage.channel.render(post("a", "hello", files=[file]).outbound)
    await stage.store.post([post("a", "hello", files=[file])])
    handle = await stage.channel.upload(shown)
    await stage.store.sending(
        ident("a"), [PartState(text, Receipt(MessageId("1"))), PartState(shown, None, handle)]
    )
    stage.platform.calls.clear()
    assert (await stage.sender().send(await stage.head())).state == "sent"
    assert [call.method for call in stage.platform.calls] == ["send"]


async def test_a_file_that_was_not_uploaded_was_not_shown_and_needs_no_mark(
    stage: Stage, tmp_path: Path
) -> None:
    stage.channel.capabilities = RISK
    file = tmp_path / "figures.csv"
    file.write_text("1")
    text, shown = stage.channel.render(post("a", "hello", files=[file]).outbound)
    await stage.store.post([post("a", "hello", files=[file])])
    await stage.store.sending(
        ident("a"), [PartState(text, Receipt(MessageId("1"))), PartState(shown)]
    )
    await stage.sender().send(await stage.head())
    assert [one.text for one in stage.platform.chats["dm:ada"]] == [""]


# the store


class Flaky(MemoryStore):
    """Cannot write receipts for a while."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(clock=stage.clock)
        self.away = 3

    async def sent(self, id: str, parts: Sequence[PartState]) -> None:
        if self.away:
            self.away -= 1
            raise Unavailable("disk full")
        await super().sent(id, parts)


async def test_a_receipt_is_written_as_soon_as_the_store_is_back(stage: Stage) -> None:
    stage.channel.capabilities = RISK
    stage.store = Flaky(stage)
    await stage.store.post([post("a", "hello")])
    assert (await stage.sender().send(await stage.head())).state == "sent"
    assert len(stage.sleeps.asked) == 3
    assert stage.texts() == ["hello"]


async def test_a_row_that_cannot_be_frozen_is_not_said(stage: Stage) -> None:
    class Away(MemoryStore):
        async def sending(self, id: str, parts: Sequence[PartState]) -> None:
            raise Unavailable("disk full")

    stage.store = Away(clock=stage.clock)
    await stage.store.post([post("a")])
    with pytest.raises(Unavailable):
        await stage.sender().send(await stage.head())
    assert stage.texts() == []


# no buttons


@pytest.mark.parametrize(
    ("kind", "choices", "how", "left"),
    [
        (
            "permission",
            ("Allow once", "Deny"),
            "Answer with 👍 or 👎 on this message, or say `/approve`",
            0,
        ),
        ("question", ("red", "blue"), "Answer in your own words.", 2),
    ],
)
async def test_where_there_are_no_buttons_a_card_does_not_speak_of_them(
    stage: Stage, kind: Any, choices: Sequence[str], how: str, left: int
) -> None:
    stage.channel.capabilities = replace(SAFE, choices=False)
    question = Question(
        kind, "Paint it?", "the shed", tuple(Choice(word, word) for word in choices), "digest"
    )
    await stage.store.post(
        [
            card(
                Asked(
                    Ask(ident("a"), "1", question, "/"),
                    "thread",
                    "turn",
                    place(),
                    "ada",
                    "asked",
                    None,
                    None,
                )
            )
        ]
    )
    await stage.sender().send(await stage.head())
    (shown,) = stage.channel.rendered
    assert how in shown.text
    assert "button" not in shown.text
    assert len(shown.choices) == left


async def test_where_there_are_no_buttons_the_word_that_runs_it_now_is_named(stage: Stage) -> None:
    question = Question(
        "permission", "Paint it?", "the shed", (Choice("once", "Allow once"),), "digest"
    )
    row = card(
        Asked(
            Ask(ident("a"), "1", question, "/"),
            "thread",
            "turn",
            place(),
            "ada",
            "asked",
            None,
            None,
        )
    )
    over = lapsing(lambda: ident("b"))(
        OutRow(row, "thread", 1, "turn", "sent", (), 0, BIRTH, BIRTH, BIRTH)
    )
    assert [choice.label for choice in over.outbound.choices] == ["Run it now"]
    said = worded(over.outbound, buttons=False)
    assert (said.choices, said.text.splitlines()[-1]) == (
        (),
        "_No answer in time: not run._ Say `/approve` to run it now.",
    )
