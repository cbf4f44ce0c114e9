"""The browser chat as a channel: rendering, keys, files, previews."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from channels.contract import Attachment, Choice, MessageId, Options, Outbound, Receipt
from channels.errors import RateLimited, Rejected, Unavailable
from channels.web import MANIFEST, WebSettings
from channels.web.adapter import Web
from channels.web.client import Noticed, Posted, Preview, Revised, Shelf, Typing, place, plain_name
from channels.web.render import MAX_TEXT, message_of, read, render, split
from ohmo_testing.channels import FakeContext

HERE = place("c1")
KEY = "01k9y2p7q3r4s5t6v7w8xy"


@pytest.fixture
def web() -> Web:
    return Web(WebSettings(), Options())


@pytest.fixture
async def context(web: Web, tmp_path: Path) -> AsyncIterator[FakeContext]:
    """The channel receives."""
    made = FakeContext(tmp_path)
    async with web.connect():
        receiving = asyncio.create_task(web.receive(made))
        await made.until(lambda context: context.signs_of_life > 0)
        yield made
        receiving.cancel()


async def pieces(*blocks: bytes) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block


def test_the_manifest_leads_to_the_adapter() -> None:
    module, _, name = MANIFEST.adapter.partition(":")
    assert (module, name, MANIFEST.settings) == (Web.__module__, Web.__name__, WebSettings)


def test_choices_hang_on_the_first_message_and_its_name_is_known_before_it_is_sent(
    web: Web,
) -> None:
    parts = render(Outbound(HERE, "x" * (MAX_TEXT + 1), choices=(Choice("yes", "Yes"),)))
    assert [len(read(part).choices) for part in parts] == [1, 0]
    assert message_of(KEY) == f"{KEY}.0"


def test_a_split_text_is_whole_when_joined_and_cut_after_lines() -> None:
    text = "line one\nline two\n" + "x" * 30
    assert split(text, 12) == ("line one\n", "line two\n", "x" * 12, "x" * 12, "x" * 6)
    assert split("", 12) == ("",)


def test_what_is_replaced_is_edited_in_order_and_the_surplus_deleted() -> None:
    receipts = (Receipt(MessageId("a.0")), Receipt(MessageId("b.0")))
    assert [
        (part.kind, part.target) for part in render(Outbound(HERE, "new", replaces=receipts))
    ] == [("edit", "a.0"), ("delete", "b.0")]


async def test_a_message_is_named_by_its_key_for_ever(web: Web) -> None:
    (part,) = web.render(Outbound(HERE, "hi"))
    first, second = await web.send(part, f"{KEY}.0"), await web.send(part, f"{KEY}.0")
    assert first.message == second.message == message_of(KEY)
    (edit,) = web.render(Outbound(HERE, "ho", replaces=(first,)))
    assert (await web.send(edit, "01k9y2p7q3r4s5t6v7w8zz.0")).message == first.message


async def test_saying_returns_after_the_commit_and_fails_when_nothing_was_stored(
    web: Web, context: FakeContext
) -> None:
    context.refuse()
    with pytest.raises(Unavailable):
        await web.browser.say("c1", "hi", "0123456789")
    assert context.messages == []
    await web.browser.say("c1", "hi", "0123456789")
    await web.browser.say("c1", "hi", "0123456789")
    assert [(m.text, m.key, m.message, m.private, m.addressed) for m in context.messages] == [
        ("hi", "m:0123456789", "0123456789", True, True)
    ]


async def test_nobody_is_heard_before_and_after_receiving(web: Web, context: FakeContext) -> None:
    silent = Web(WebSettings(), Options())
    with pytest.raises(Unavailable):
        await silent.browser.say("c1", "hi", "0123456789")


@pytest.mark.parametrize(
    ("chat", "key"),
    [
        ("", "0123456789"),
        ("../x", "0123456789"),
        ("c1", "short"),
        ("c1", "UPPER56789"),
        ("x" * 65, "0123456789"),
    ],
)
async def test_names_that_are_no_names_are_rejected(
    web: Web, context: FakeContext, chat: str, key: str
) -> None:
    with pytest.raises(Rejected):
        await web.browser.say(chat, "hi", key)


async def test_order_grows_also_when_the_clock_stands_still(tmp_path: Path) -> None:
    now = Options().clock()
    web, context = Web(WebSettings(), Options(clock=lambda: now)), FakeContext(tmp_path)
    with web.browser.receiving(context):
        for number in range(3):
            await web.browser.say("c1", str(number), f"key0000{number}")
    assert sorted(m.order for m in context.messages) == [m.order for m in context.messages]
    assert len({m.order for m in context.messages}) == 3


async def test_a_page_sees_the_preview_on_coming_and_its_end_with_the_post(web: Web) -> None:
    await web.revise(HERE, None, "one")
    await web.typing(HERE, True)
    with web.browser.watch("c1", asyncio.Event()) as feed:
        assert feed.take() == [Preview("one"), Typing(True)]
        await web.revise(HERE, None, "one two")
        await web.revise(HERE, None, "one two three")
        assert feed.take() == [Preview("one two three")], "only the newest counts"
        (part,) = web.render(Outbound(HERE, "one two three."))
        await web.send(part, f"{KEY}.0")
        assert feed.take() == [Preview(""), Posted(message_of(KEY), read(part))]
        await web.revise(HERE, Receipt(message_of(KEY)), "newer")
        web.browser.notice("c1", "Thank you")
        assert feed.take() == [Revised(message_of(KEY), "newer"), Noticed("Thank you")]
    await web.typing(HERE, False)
    assert web.browser._chats == {}, "an idle chat costs nothing"


async def test_a_page_that_sleeps_costs_a_bounded_amount(web: Web) -> None:
    with web.browser.watch("c1", asyncio.Event()) as feed:
        for number in range(5000):
            web.browser.notice("c1", str(number))
        items = feed.take()
    assert len(items) == 1024
    assert items[-1] == Noticed("4999")


async def test_a_file_goes_up_and_is_fetched_after_a_restart(
    web: Web, context: FakeContext, tmp_path: Path
) -> None:
    attachment = await web.browser.upload("../a/b?.txt", "text/plain", pieces(b"he", b"llo"))
    assert (attachment.name, attachment.size) == ("b?.txt", 5)
    await web.browser.say("c1", "", "0123456789", attachments=[attachment])
    later = Web(WebSettings(), Options())
    with later.browser.receiving(context):
        into = tmp_path / "into"
        into.mkdir()
        assert (
            await later.fetch(context.messages[0].attachments[0], into, 100)
        ).read_bytes() == b"hello"
        with pytest.raises(Rejected, match="larger than 4 bytes"):
            await later.fetch(attachment, into, 4)


async def test_a_file_that_is_not_there_cannot_be_attached(web: Web, context: FakeContext) -> None:
    for ref in ("0" * 32, "../../etc/passwd"):
        with pytest.raises(Rejected, match="attach it again"):
            await web.browser.say(
                "c1", "", "0123456789", attachments=[Attachment(ref, "x", "text/plain", 1)]
            )


async def test_a_file_for_the_person_is_kept_once_under_its_bytes(
    web: Web, context: FakeContext, tmp_path: Path
) -> None:
    file = tmp_path / "figures.csv"
    file.write_text("a,b\n")
    (part,) = web.render(Outbound(HERE, "", files=(file,)))
    first, second = await web.upload(part), await web.upload(part)
    assert first == second
    kept = web.browser.file(first)
    assert kept is not None
    assert kept.read_text() == "a,b\n"
    file.unlink()
    with pytest.raises(Rejected, match=r"figures\.csv cannot be sent"):
        await web.upload(part)


async def test_a_file_waits_until_the_house_has_given_a_folder(web: Web, tmp_path: Path) -> None:
    (part,) = web.render(Outbound(HERE, "", files=(tmp_path / "x",)))
    with pytest.raises(RateLimited):
        await web.upload(part)


async def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    shelf = Shelf(tmp_path / "files")
    with pytest.raises(ConnectionResetError):
        await shelf.receive(broken(), 100)
    assert list((tmp_path / "files").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a.txt", "a.txt"),
        ("../../a", "a"),
        ("C:\\x\\y.txt", "y.txt"),
        (".ssh", "ssh"),
        ("", "file"),
        ("a\n\x00b", "ab"),
        ("..", "file"),
    ],
)
def test_names_of_files_are_plain(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_an_address_is_read_and_nonsense_is_refused(web: Web) -> None:
    assert web.parse_address("c1") == HERE
    with pytest.raises(ValueError, match="web:a b"):
        web.parse_address("a b")
