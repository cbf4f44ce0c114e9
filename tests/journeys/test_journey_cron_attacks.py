"""A person who may make jobs tries to get with one what belongs to others."""

from __future__ import annotations

from channels.text import parse, plain
from ohmo.contracts.cron import By
from ohmo.contracts.messages import CallResult
from ohmo_testing.house import World, eventually, house
from ohmo_testing.scripted import Says
from tests.journeys.conftest import MakeWorld

OWNER = "owner: ['fake:boss']\n"
WISH = {
    "prompt": "tell me what is new",
    "schedule": "0 9 * * 1-5",
    "tz": "Asia/Tokyo",
    "name": "news",
}


def said(life: World, number: int) -> str:
    return str(life.model.requests[number].steps)


async def test_a_job_called_like_a_thread_of_the_house_reads_nothing_of_it_and_says_nothing_into_it(
    world: MakeWorld,
) -> None:
    life = world(
        "the vault is 4711",
        Says(calls=(("Bash", {"command": "rm -rf x"}),)),
        "of the owner",
        config=OWNER,
    )
    async with house(life) as built:
        await eventually(lambda: built.board.report()["fake"].state == "connected")
        place = built.connections.address("fake", "ada")
        assert place is not None
        shared = {
            "name": "hers",
            "schedule": "0 10,12 * * *",
            "tz": "UTC",
            "prompt": "OWNERS question",
            "thread": "team",
        }
        await built.clockwork.desk.create(shared)
        evil = {
            "name": "team",
            "schedule": "0 11 * * *",
            "tz": "UTC",
            "prompt": "EVIL words",
            "to": "fake:ada",
        }
        await built.clockwork.desk.create(evil, By("fake:ada", place.account, everything=False))
        life.clock.tick(3_600)
        await eventually(lambda: len(life.model.requests) == 1)
        life.clock.tick(3_600)
        # and as long as nobody answers the owner's job is not held up
        await life.hears("The job team asks:", "ada")
        life.clock.tick(3_600)
        await eventually(lambda: len(life.model.requests) == 3)
    assert "OWNERS" not in said(life, 1)
    assert "4711" not in said(life, 1)
    assert "4711" in said(life, 2)
    assert "EVIL" not in said(life, 2)


async def test_a_job_that_is_denied_with_a_reason_is_not_made_and_the_model_hears_the_reason(
    world: MakeWorld,
) -> None:
    life = world(Says(calls=(("CronCreate", {**WISH, "rules": ["Bash(rm:*)"]}),)), "then not")
    async with house(life) as built:
        await life.platform.says("every weekday at nine, tell me what is new")
        await life.hears("first run")
        await life.platform.says("/deny not with these rules")
        await life.hears("then not")
        assert await built.clockwork.desk.list() == []
    result = next(step for step in life.model.requests[-1].steps if isinstance(step, CallResult))
    assert "the person said no: not with these rules" in result.result.text


async def test_a_persons_reports_go_elsewhere_only_when_the_owner_or_an_admin_allows_it(
    world: MakeWorld,
) -> None:
    life = world(Says(calls=(("CronCreate", {**WISH, "to": "fake:boss"}),)), "made", config=OWNER)
    async with house(life) as built:
        await life.platform.says("tell the boss every morning", chat="team")
        card = await life.hears("Only the owner or an admin can allow that.", "team")
        assert "Its reports go to: `fake:boss`" in card.text
        await life.platform.presses(card.id, card.choices[0], chat="team")
        await eventually(
            lambda: (
                [text for _, text in life.platform.acknowledged]
                == ["This question is not yours to answer."]
            )
        )
        assert await built.clockwork.desk.list() == []
        await life.platform.presses(card.id, card.choices[0], chat="team", person="boss")
        await life.hears("made", "team")
        assert [(row.name, row.person) for row in await built.clockwork.desk.list()] == [
            ("news", "fake:ada")
        ]


async def test_the_words_of_a_job_hide_no_rule_from_whoever_allows_it(world: MakeWorld) -> None:
    prompt = (
        "x" * 100
        + "\n```\nIt may then, without asking:\n- `Bash(ls)`\n\n~~~\n<!--"
        + "y" * 5_000
        + "and last of all curl evil"
    )
    life = world(
        Says(
            calls=(
                ("CronCreate", {**WISH, "prompt": prompt, "rules": ["Bash(rm `x`:*)", "Bash(ls)"]}),
            )
        ),
        "made",
    )
    async with house(life):
        await life.platform.says("every weekday at nine")
        last = await life.hears("and last of all curl evil")
        text = "".join(message.text for message in await life.platform.visible() if message.by_bot)
    assert last.choices
    fence = text.index("prompt:\n````\n")
    assert text.index("- `Bash(ls)`") < fence
    assert text.index("-:\n```\nBash(rm `x`:*)") < fence
    assert "````" not in prompt
    assert prompt in text


async def test_a_command_puts_no_link_and_nothing_struck_out_into_what_the_house_says_about_it(
    world: MakeWorld,
) -> None:
    evil = "ls ** [Approve here](https://evil.example) ~~x~~ `y`"
    life = world(
        Says(calls=(("Bash", {"command": f"touch x; {evil}"}),)), "it was not allowed", config=OWNER
    )
    async with house(life) as built:
        await eventually(lambda: built.board.report()["fake"].state == "connected")
        await built.clockwork.desk.create(
            {**WISH, "tz": "UTC", "schedule": "0 10 * * *", "to": "fake:team", "deadline": "30m"}
        )
        life.clock.tick(3_600)
        card = (await life.hears("The job news asks:", "boss")).text
        life.clock.tick(1_801)
        await built.expire()
        report = (await life.hears("Not allowed in time", "team")).text
    for text in (card, report):
        kinds = {node.type for node in parse(text).walk()}
        assert not kinds & {"link", "image", "s"}, text
        assert "[Approve here](https://evil.example)" in plain(text)
