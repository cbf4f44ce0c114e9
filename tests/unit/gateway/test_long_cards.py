"""A permission that is too long for a chat: nobody allows there what was cut."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from gateway_words import BIRTH, Clock, ident, place
from test_intake import House, permission, thumb, told, words

from channels.contract import Address, ChatId, MessageId, Part, Receipt
from channels.text import parse
from ohmo.approvals.cards import MOST, card, is_whole, worded
from ohmo.approvals.lapsing import lapsing
from ohmo.contracts.messages import ToolCall
from ohmo.contracts.outbox import Ask, Asked, Lapsed, PartState

TOO_LONG = "cannot be allowed here"
QUESTION = replace(permission(), detail="command:\n```\n" + "echo x\n" * 3000 + "the end\n```")


@pytest.fixture
def house(clock: Clock) -> House:
    return House(clock)


def asked(detail: str, at: Address) -> Asked:
    return Asked(
        Ask("q1", "c", replace(QUESTION, detail=detail), "/"),
        "t1",
        "u1",
        at,
        "ada",
        "asked",
        None,
        None,
    )


@pytest.mark.parametrize("answer", ["button", "thumb", "/approve", "/approve always"])
async def test_no_answer_of_a_chat_allows_it(house: House, answer: str) -> None:
    await house.parked(QUESTION)
    await told(house.store, ident("q1"))
    match answer:
        case "button":
            await house.presses(f"0:{ident('q1')}")
            assert TOO_LONG in house.acknowledged[-1][1]
        case "thumb":
            await house.hears(thumb("👍", 1))
            async with house.working():
                pass
        case _:
            assert (await house.said(answer)).ending == "refused"
            assert TOO_LONG in (await house.replies())[-1]
    assert await house.verdicts() == {"q1": ("asked", "")}


@pytest.mark.parametrize("answer", ["button", "thumb", "/deny"])
async def test_every_answer_of_a_chat_refuses_it(house: House, answer: str) -> None:
    await house.parked(QUESTION)
    await told(house.store, ident("q1"))
    if answer == "button":
        await house.presses(f"3:{ident('q1')}")
    elif answer == "thumb":
        await house.hears(thumb("👎", 1))
        async with house.working():
            pass
    else:
        await house.said(answer)
    assert (await house.verdicts())["q1"][0] == "denied"


async def test_it_cannot_be_run_later_from_a_chat_either(house: House) -> None:
    await house.parked(QUESTION)
    house.clock.tick(301)
    await house.store.expire(card, lapsing(house.new_id))
    (closed,) = await house.closings()
    assert closed.endswith("_No answer in time: not run._")
    late = house.late()
    call = ToolCall("t.1", "Bash", {"command": "x"}, "f")
    done, text = await late.run(
        words("/approve"), Lapsed(asked(QUESTION.detail, place()), call), may=True
    )
    assert not done
    assert TOO_LONG in text
    _, text = await late.run(words("/approve"), Lapsed(asked("ls", place()), call), may=True)
    assert TOO_LONG not in text


@pytest.mark.parametrize(
    "channel", ["slack", "discord", "telegram", "feishu", "matrix", "web", "console", "house"]
)
def test_whoever_may_allow_is_shown_everything(channel: str) -> None:
    """At either side of the limit: the whole text and a button that allows, or neither."""
    at = Address(channel, "a", ChatId("c"))
    for size in (1, MOST, MOST + 1, 10 * MOST):
        detail = f"command:\n```\n{'x' * (size - 20)}\n```" if size > 20 else "x"
        made = card(asked(detail, at)).outbound
        allows = any(not choice.value.startswith("3:") for choice in made.choices)
        assert allows == (detail in made.text) == is_whole(asked(detail, at), at)
        for buttons in (True, False):
            shown = worded(made, buttons=buttons).text
            assert allows or (TOO_LONG in made.text and "/approve" not in shown)
        assert {node.type for node in parse(made.text).children} <= {"paragraph", "fence"}


async def test_words_allow_what_was_shown_before_they_were_said_and_nothing_later(
    house: House,
) -> None:
    """The question they meant was answered meanwhile; another one stands there now."""
    await house.parked(permission(), permission())
    await house.presses(f"3:{ident('q1')}")
    card_of_second = house.store.tables.posts[ident("q2")].row.row.outbound
    receipt = Receipt(MessageId("second"), BIRTH + timedelta(seconds=1))
    await house.store.sent(ident("q2"), [PartState(Part("post", card_of_second.text), receipt)])
    assert (await house.said("/approve")).ending == "refused"
    assert (await house.verdicts())["q2"][0] == "asked"
    assert await house.replies() == [
        "This was asked after you said that: Run it?. If you mean it, say it again."
    ]
    later = replace(words("/approve"), key="again", order="6", at=BIRTH + timedelta(seconds=1))
    await house.hears(later)
    async with house.working():
        pass
    assert (await house.verdicts())["q2"][0] == "allowed"


async def test_a_press_counts_on_the_message_that_is_the_card_and_in_its_chat(house: House) -> None:
    await house.parked(permission(), at=place("group"))
    await told(house.store, ident("q1"))
    pressed = f"0:{ident('q1')}"
    info = await house.presses(pressed, person="ned", at=place("elsewhere"))
    assert (info.ending, house.acknowledged[-1][1]) == (
        "refused",
        "This is not the card of this question.",
    )
    assert await house.verdicts() == {"q1": ("asked", "")}
    await house.presses(pressed, person="ned", at=place("group"), number=2)
    assert (await house.verdicts())["q1"][0] == "allowed"
