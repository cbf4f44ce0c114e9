"""Traps of discord.py and of the gateway, each with the real SDK against the loopback Discord."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from channels.contract import Address, Answer, Attachment, ChatId, Choice, Edited, Outbound, Reacted
from channels.discord.client_line import Pace, patience
from channels.errors import Ambiguous, AuthFailed, NotReady, RateLimited, Rejected
from ohmo_testing.channels import FakeContext
from tests.conformance.channels.stage import deliver, live, texts
from tests.platforms.discord.rig import DiscordRig, rig
from tests.platforms.discord.world import BOT, DIRECT, FORUM, GROUP, OWN_ROLE, PEOPLE

QUICK = Pace(rest=0.0, identify=0.0)
HERE = Address("discord", BOT["id"], ChatId(DIRECT["dm:ada"]))


@pytest.fixture
async def discord() -> AsyncIterator[DiscordRig]:
    async with rig() as made:
        yield made


@asynccontextmanager
async def hearing(
    discord: DiscordRig, context: FakeContext, pace: Pace = QUICK
) -> AsyncIterator[asyncio.Task[None]]:
    """A channel that has heard a first word."""
    async with live(discord.channel(pace=pace), context) as task:
        before = len(context.messages)
        await discord.says("hello")
        await texts(context, before + 1, task)
        yield task


async def heard(context: FakeContext, kind: type) -> list[object]:
    await context.until(lambda context: any(isinstance(one, kind) for one in context.arrivals))
    return [arrival for arrival in context.arrivals if isinstance(arrival, kind)]


# the gateway


@pytest.mark.parametrize(
    "raw",
    [
        '{"op": 0, "t": "MESSAGE_CREATE", "s"',
        '{"op":0,"t":"MESSAGE_CREATE","s":null,"d":{"id":"1"}}',
        "[]",
        '"x"',
        '{"op":99}',
        '{"op":0,"t":"NEW_THING","s":null,"d":{}}',
        '{"op":0,"t":"MESSAGE_CREATE","s":null,"d":[]}',
        "[" * 100_000,
        '{"op":0,"t":"MESSAGE_CREATE","s":null,"d":{"content":"' + "x" * (10 << 20) + '"}}',
    ],
    ids=["cut", "fields missing", "list", "text", "op", "event", "wrong type", "nested", "10 MB"],
)
@pytest.mark.fault(31)
async def test_a_frame_nobody_can_read_is_passed_over_and_the_next_message_is_heard(
    discord: DiscordRig, context: FakeContext, raw: str
) -> None:
    """The SDK's client dies of the first two."""
    async with hearing(discord, context) as task:
        discord.server.gateway.say(raw)
        await discord.says("after it")
        assert await texts(context, 2, task) == ["hello", "after it"]
    assert discord.server.gateway.resumed == 0, "the connection went on"


@pytest.mark.parametrize("code", [4000, 4001, 4008, 1000, 4007, 4009])
@pytest.mark.fault(20)
async def test_a_closed_connection_is_resumed_or_begun_anew_without_loss(
    discord: DiscordRig, context: FakeContext, code: int
) -> None:
    async with hearing(discord, context) as task:
        await discord.server.gateway.close(code)
        await discord.says("meanwhile")
        assert await texts(context, 2, task) == ["hello", "meanwhile"]
    assert discord.server.gateway.identified == (2 if code in (4007, 4009) else 1)


@pytest.mark.parametrize("code", [4004, 4010, 4011, 4012, 4013, 4014])
@pytest.mark.fault(20)
async def test_a_fatal_close_code_stops_the_account_with_its_reason(
    discord: DiscordRig, context: FakeContext, code: int
) -> None:
    async with hearing(discord, context) as task:
        await discord.server.gateway.close(code)
        with pytest.raises(
            AuthFailed, match="discord.com/developers" if code in (4004, 4014) else str(code)
        ):
            await asyncio.wait_for(task, 20)


async def test_a_missing_intent_is_explained_when_connecting(discord: DiscordRig) -> None:
    discord.server.world.content_allowed = False
    with pytest.raises(AuthFailed, match=r"Message Content Intent at discord\.com/developers"):
        async with discord.channel().connect():
            pass


@pytest.mark.fault(29)
async def test_op_7_resumes_and_an_invalid_session_is_begun_anew_with_its_gap_filled(
    discord: DiscordRig, context: FakeContext
) -> None:
    async with hearing(discord, context) as task:
        discord.server.gateway.order(7)
        await discord.says("one")
        await texts(context, 2, task)
        discord.server.world.sessions.clear()
        await discord.cut()
        await discord.says("two")
        assert await texts(context, 3, task) == ["hello", "one", "two"]
    assert (discord.server.gateway.resumed, discord.server.gateway.identified) == (1, 2)


async def test_the_first_handshake_failing_is_an_outage_and_no_crash(discord: DiscordRig) -> None:
    """The SDK's client ends with an AttributeError here."""
    discord.server.gateway.refuse = 1
    with pytest.raises(NotReady):
        async with discord.channel().connect():
            pass
    async with discord.channel().connect():
        pass


async def test_a_login_during_an_outage_is_an_outage(discord: DiscordRig) -> None:
    discord.server.faults.login = [503]
    with pytest.raises(NotReady):
        async with discord.channel().connect():
            pass


@pytest.mark.parametrize(
    ("beat", "seconds"), [(1.0, 5.0), (20.0, 40.0), (41.25, 55.0), (60.0, 75.0)]
)
def test_a_connection_is_given_up_after_two_heartbeats_and_never_before_one_can_be_acknowledged(
    beat: float, seconds: float
) -> None:
    assert patience(beat, Pace().mute) == seconds


@pytest.mark.fault(22)
async def test_a_mute_socket_is_noticed_and_resumed(
    discord: DiscordRig, context: FakeContext
) -> None:
    discord.server.gateway.beat = 1000
    async with hearing(discord, context) as task:
        discord.server.gateway.mute = True
        await discord.says("into the void")
        await discord.server.until(
            lambda server: 4000 in server.gateway.codes or not server.gateway.connections
        )
        discord.server.gateway.mute = False
        assert await texts(context, 2, task) == ["hello", "into the void"]


@pytest.mark.fault(22)
async def test_a_connection_that_acknowledges_no_heartbeat_is_left_although_it_goes_on_telling(
    discord: DiscordRig, context: FakeContext
) -> None:
    gateway = discord.server.gateway
    gateway.beat = 1000
    async with hearing(discord, context) as task:
        discord.server.rules.heartbeat = False
        said = 0
        async with asyncio.timeout(20):
            while not gateway.resumed:
                said += 1
                await discord.says(f"n{said}")
                await asyncio.sleep(0.2)
        discord.server.rules.heartbeat = True
        assert await texts(context, 1 + said, task) == [
            "hello",
            *(f"n{number + 1}" for number in range(said)),
        ]
    assert gateway.codes[0] == 4000


async def test_new_sessions_keep_discords_distance(
    discord: DiscordRig, context: FakeContext
) -> None:
    discord.server.rules.between = 1.0
    async with hearing(discord, context, Pace(rest=0.0, identify=1.0)) as task:
        discord.server.gateway.order(9, False)
        await discord.server.until(lambda server: server.gateway.identified == 2)
        await discord.says("after it")
        assert await texts(context, 2, task) == ["hello", "after it"]
    assert discord.server.gateway.hasty == 0


async def test_the_former_session_still_has_a_first_direct_message_and_the_presses_of_a_dead_life(
    discord: DiscordRig, context: FakeContext
) -> None:
    async with hearing(discord, context):
        (receipt,) = await deliver_again(
            discord, Outbound(HERE, "Shall I?", choices=(Choice("1:yes", "Yes"),))
        )
    await discord.says("the first word of a stranger", chat="dm:77")
    discord.server.world.presses(receipt.message, "1:yes", "dm:ada")
    async with live(discord.channel(pace=QUICK), context) as task:
        await texts(context, 2, task)
        (answer,) = await heard(context, Answer)
    assert context.messages[-1].text == "the first word of a stranger"
    assert isinstance(answer, Answer)
    assert answer.choice == "1:yes"


@pytest.mark.parametrize("session", ["kept", "gone"])
async def test_what_a_stranger_said_while_we_were_away_comes_before_what_they_say_now(
    discord: DiscordRig, context: FakeContext, session: str
) -> None:
    """No list shows a direct conversation nobody knows of; once somebody speaks there, its history
    does. A session that is kept tells it again."""
    async with hearing(discord, context):
        pass
    await discord.says("missed", chat="dm:77")
    if session == "gone":
        discord.server.world.sessions.clear()
    channel = discord.channel(pace=QUICK)
    async with channel.connect():
        # it waits in the open line, in front of what the former session tells
        await discord.says("heard", chat="dm:77")
        task = asyncio.create_task(channel.receive(context))
        assert await texts(context, 3, task) == ["hello", "missed", "heard"]
        await discord.says("and now", chat="dm:77")
        assert await texts(context, 4, task) == ["hello", "missed", "heard", "and now"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def deliver_again(discord: DiscordRig, outbound: Outbound) -> list:  # type: ignore[type-arg]
    channel = discord.channel(pace=QUICK)
    async with channel.connect():
        return await deliver(channel, outbound)


async def test_after_a_long_absence_channels_threads_and_posts_are_read_and_the_rest_is_said_aloud(
    tmp_path: Path,
) -> None:
    async with rig() as discord:
        context = FakeContext(tmp_path)
        world = discord.server.world
        async with hearing(discord, context):
            pass
        world.sessions.clear()
        for number in range(130):
            await discord.says(f"word {number}", chat="group")
        thread = world.thread("new", GROUP)
        await discord.says("in a new thread", chat="group", topic=thread)
        post = world.thread("asleep", FORUM, first="a question in the forum")
        world.channels[post].asleep = True
        async with live(discord.channel(pace=QUICK), context) as task:
            await texts(context, 1 + 100 + 1, task)
            await context.until(
                lambda context: (
                    {"in a new thread", "a question in the forum"}
                    <= {one.text for one in context.messages}
                )
            )
        said = {message.text: message for message in context.messages}
        assert "word 129" in said
        assert "word 5" not in said
        assert (said["in a new thread"].address.chat, said["in a new thread"].address.topic) == (
            GROUP,
            thread,
        )
        assert said["a question in the forum"].address.topic == post
        assert any("Not read: 31 messages" in text for text, _ in context.gaps), context.gaps


# what is heard


async def test_mentions_roles_replies_edits_deletions_and_reactions_arrive(
    discord: DiscordRig, context: FakeContext
) -> None:
    world = discord.server.world
    async with hearing(discord, context) as task:
        world.says(f"<@&{OWN_ROLE}> role", "group", mention=False, mention_roles=[OWN_ROLE])
        world.says("@everyone listen", "group", mention=False, mention_everyone=True)
        ours = world.add(world.channels[GROUP], BOT, "our words")
        world.says(
            "and this?",
            "group",
            mention=False,
            type=19,
            message_reference={"message_id": ours["id"]},
            referenced_message=ours,
        )
        world.says("from a hook", "group", mention=False, webhook_id="99")
        await texts(context, 5, task)
        role, everybody, reply, hook = context.messages[1:]
        assert (role.addressed, role.text) == (True, "role")
        assert not everybody.addressed
        assert (reply.addressed, reply.quoted, reply.reply_to) == (True, "our words", ours["id"])
        assert hook.person.bot
        world.reacts(everybody.message, "👍", "group")
        (reaction,) = await heard(context, Reacted)
        assert isinstance(reaction, Reacted)
        assert (reaction.emoji, reaction.added, reaction.person.id) == ("👍", True, PEOPLE["ada"])
        world.deletes([everybody.message, role.message], "group")
        await context.until(
            lambda context: sum(isinstance(one, Edited) for one in context.arrivals) == 2
        )
        gone = [arrival for arrival in context.arrivals if isinstance(arrival, Edited)]
        assert {(one.message, one.text, one.person.id) for one in gone} == {
            (one.message, None, PEOPLE["ada"]) for one in (everybody, role)
        }


async def test_an_answer_whose_message_discord_did_not_look_up_is_looked_up(
    discord: DiscordRig, context: FakeContext
) -> None:
    world = discord.server.world
    async with hearing(discord, context) as task:
        ours = world.add(world.channels[GROUP], BOT, "our words")
        for message in (ours["id"], "1"):
            world.says(
                "and this?",
                "group",
                mention=False,
                type=19,
                message_reference={"message_id": message, "channel_id": GROUP},
            )
        await texts(context, 3, task)
    found, gone = context.messages[1:]
    assert (found.addressed, found.quoted, found.reply_to) == (True, "our words", ours["id"])
    assert (gone.addressed, gone.quoted, gone.text) == (False, None, "and this?")


async def test_a_slash_command_and_a_press_are_answered_after_they_are_stored(
    discord: DiscordRig, context: FakeContext
) -> None:
    world = discord.server.world
    async with hearing(discord, context) as task:
        made = world.interacts(
            "group",
            "ada",
            type=2,
            data={"name": "status", "options": [{"name": "text", "type": 3, "value": "all"}]},
        )
        await texts(context, 2, task)
        await discord.server.until(lambda _: bool(made.answers))
        command = context.messages[-1]
        assert (command.text, command.addressed, command.address.chat) == (
            "/status all",
            True,
            GROUP,
        )
        context.refuse()
        late = world.interacts("group", "ada", type=2, data={"name": "help"})
        await texts(context, 3, task)
        await discord.server.until(lambda _: bool(late.answers))
    assert context.refused == 1


async def test_a_file_is_fetched_also_when_its_address_has_expired(
    discord: DiscordRig, context: FakeContext, tmp_path: Path
) -> None:
    world = discord.server.world
    channel = discord.channel(pace=QUICK)
    async with live(channel, context) as task:
        stored = world.store("notes.txt", b"kettle")
        world.says("look", "dm:ada", attachments=[stored])
        await texts(context, 1, task)
        (attachment,) = context.messages[0].attachments
        world.stale.add(stored["id"])
        path = await channel.fetch(attachment, tmp_path, 1000)
        assert path.read_bytes() == b"kettle"
        with pytest.raises(Rejected, match="at most 3"):
            await channel.fetch(attachment, tmp_path, 3)


async def test_a_stand_in_on_this_machine_may_keep_its_files_behind_another_port(
    discord: DiscordRig, tmp_path: Path
) -> None:
    async with rig() as other:
        stored = other.server.world.store("notes.txt", b"kettle")
        channel = discord.channel(pace=QUICK)
        async with channel.connect():
            path = await channel.fetch(
                Attachment(
                    f"{GROUP} 1 {stored['id']} {stored['url']}", "notes.txt", "text/plain", 6
                ),
                tmp_path,
                1000,
            )
            assert path.read_bytes() == b"kettle"
            with pytest.raises(Rejected, match="not on Discord's hosts"):
                await channel.fetch(
                    Attachment(f"{GROUP} 1 2 https://elsewhere.test/a", "a", "text/plain", 6),
                    tmp_path,
                    1000,
                )


# REST


@pytest.mark.parametrize("status", [500, 502, 503, 504, 524])
@pytest.mark.fault(24)
async def test_a_failed_post_is_ambiguous_at_once_and_its_repeat_shows_one(
    discord: DiscordRig, status: int
) -> None:
    channel = discord.channel(pace=QUICK)
    async with channel.connect():
        (part,) = channel.render(Outbound(HERE, "once"))
        discord.server.faults.fail = [status]
        with pytest.raises(Ambiguous):
            await channel.send(part, "k.0")
        await channel.send(part, "k.0")
        await channel.send(part, "k.0")
    assert [message.text for message in await discord.visible() if message.by_bot] == ["once"]


@pytest.mark.parametrize("via", [True, False])
@pytest.mark.fault(23)
async def test_a_rate_limit_is_told_with_and_without_a_via_header(
    discord: DiscordRig, via: bool
) -> None:
    """The SDK sleeps through the first and takes the second for a ban."""
    channel = discord.channel(pace=QUICK)
    async with channel.connect():
        (part,) = channel.render(Outbound(HERE, "later"))
        discord.server.faults.limit, discord.server.faults.via = 4.0, via
        with pytest.raises(RateLimited) as limited:
            await channel.send(part, "k.0")
    assert 3.9 <= limited.value.retry_after <= 5.0


@pytest.mark.fault(24)
async def test_an_answer_that_is_no_json_is_ambiguous(discord: DiscordRig) -> None:
    channel = discord.channel(pace=QUICK)
    async with channel.connect():
        (part,) = channel.render(Outbound(HERE, "once"))
        discord.server.faults.garbage = 1
        with pytest.raises(Ambiguous):
            await channel.send(part, "k.0")


async def test_two_bots_of_one_process_speak_to_their_own_servers(discord: DiscordRig) -> None:
    """The SDK's base address is one for the whole process."""
    async with rig() as other:
        first, second = discord.channel(), other.channel()
        async with first.connect(), second.connect():
            await deliver(first, Outbound(HERE, "here"))
            await deliver(second, Outbound(HERE, "there"))
        assert [message.text for message in await discord.visible()] == ["here"]
        assert [one.text for one in await other.visible()] == ["there"]


async def test_a_persons_number_opens_their_conversation_and_a_sleeping_thread_is_woken(
    discord: DiscordRig,
) -> None:
    world = discord.server.world
    channel = discord.channel()
    async with channel.connect():
        (part,) = channel.render(Outbound(channel.parse_address(PEOPLE["ada"]), "to a person"))
        with pytest.raises(RateLimited):
            await channel.send(part, "k.0")
        await channel.send(part, "k.0")
        place = channel.parse_address(f"{GROUP}/{world.thread()}")
        (receipt,) = await deliver(channel, Outbound(place, "draft"))
        world.channels[str(place.topic)].asleep = True
        (edit,) = channel.render(Outbound(place, "final", replaces=(receipt,)))
        with pytest.raises(RateLimited):
            await channel.send(edit, "k.1")
        await channel.send(edit, "k.1")
    assert [message.text for message in await discord.visible()] == ["to a person"]
    with pytest.raises(ValueError, match="CHANNEL or CHANNEL/THREAD"):
        channel.parse_address("#general")


async def test_the_menu_is_written_once_and_only_when_it_changed(discord: DiscordRig) -> None:
    channel = discord.channel()
    async with channel.connect():
        for _ in range(2):
            await channel.menu([("stop", "Stop what runs"), ("Not One", "x")])
        assert [one["name"] for one in discord.server.world.commands] == ["stop"]
    assert sum(call.method == "PUT" for call in discord.server.calls) == 1
