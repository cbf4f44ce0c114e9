"""Telegram's own rules, each with a switch: a test that still passes with its rule off proves
nothing."""

from __future__ import annotations

from dataclasses import dataclass


class Refusal(Exception):
    """An answer with ``ok: false`` (Telegram Bot API, "Making requests")."""

    def __init__(self, code: int, description: str, **parameters: int | float) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters


def bad(description: str) -> Refusal:
    return Refusal(400, f"Bad Request: {description}")


@dataclass(slots=True)
class Rules:
    """Which rules are kept.

    token          "Authorizing your bot": a wrong token is answered with 401 entities       "HTML
    style": only the listed tags, all closed, in order; everything else is refused length
    sendMessage, text: 1 to 4096 characters after entities parsing, in UTF-16 units callback
    InlineKeyboardButton, callback_data: 1 to 64 bytes one_poller     getUpdates: a second poll ends
    the first one with 409 confirmation   getUpdates, offset: an update is confirmed by a higher
    offset, and only then not sent again retention      "Getting updates": updates are not kept
    longer than 24 hours not_modified   editMessageText: the same content and keyboard are refused
    topics         sendMessage, message_thread_id: forum topics that exist only; the General topic
    has no number when sending drafts         sendMessageDraft: private chats only, draft_id not
    zero commands       BotCommand: [a-z0-9_], 1 to 32; description 1 to 256; at most 100 commands
    files          "Sending files" and getFile: 10 MB as a photo, 50 MB else; 20 MB to download
    album_size     sendMediaGroup, media: "must include 2-10 items" album_kinds    sendMediaGroup:
    "Documents and audio files can be only grouped in an album with messages of the same type" pace
    Bots FAQ, "My bot is hitting limits": one message a second in a chat with short bursts, 20 a
    minute in a group
    """

    token: bool = True
    entities: bool = True
    length: bool = True
    callback: bool = True
    one_poller: bool = True
    confirmation: bool = True
    retention: bool = True
    not_modified: bool = True
    topics: bool = True
    drafts: bool = True
    commands: bool = True
    files: bool = True
    album_size: bool = True
    album_kinds: bool = True
    # "Using a Local Bot API Server", --local: getFile gives paths on the server's disk, without the
    # bound of 20 MB
    local: bool = False
    pace: bool = False
    burst: int = 5  # messages at once in one chat before ``pace`` bites
