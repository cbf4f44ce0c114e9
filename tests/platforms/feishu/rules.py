"""Every rule the loopback Feishu keeps, with the page that states it; a mutation test switches one
off and expects a test to notice."""

from __future__ import annotations

from dataclasses import dataclass


class Refusal(Exception):
    """An answer with a code other than 0."""

    def __init__(self, code: int, text: str, status: int = 400, **more: object) -> None:
        super().__init__(text)
        self.code = code
        self.status = status
        self.more = more


@dataclass
class Rules:
    tokens: bool = True  # "tenant_access_token": 99991661 without one, 99991663 with a wrong one
    tickets_once: bool = True  # long connection: the address of an endpoint serves one connection
    connections: int = (
        50  # "Use long connection to receive events": at most 50 for an app (1000040350)
    )
    answer_seconds: float = 3.0  # the same page: handle within three seconds, or it is pushed again
    retry_after: tuple[float, ...] = (15.0, 300.0, 3600.0, 21600.0)  # "Event overview": retries
    retries: bool = True
    callbacks_once: bool = True  # "Callback overview": callbacks are not pushed again
    uuid_seconds: float = 3600.0  # "Send message", uuid: at most one message within an hour
    card_bytes: int = 30_000  # "Send message": 30 KB for cards, 150 KB for texts (230025)
    text_bytes: int = 150_000
    tables: int = 5  # card table number over limit (230099, 11310)
    elements: int = 200  # Card JSON 2.0: elements and components in all (11310)
    label: int = 100  # Button component: characters of its text
    schema: bool = True  # Card JSON 2.0: known tags, unique element_id of at most 20 characters
    update_multi: bool = True  # "Update message card": stated before and after the change
    # the same page: cards of this app, not recalled (230011), not older than 14 days (230031)
    own_cards_only: bool = True
    patches_a_second: int = 5  # the same page (230020)
    posts_a_second: int = 5  # "Send message": to one person or group (230020)
    thread_apart: bool = True  # "Get chat history": a chat shows the roots of its threads only
    page: int = 50  # the same page: page_size
    groups_only: bool = True  # "Obtain groups where the user or bot is in": no one-to-one chats
    entity_once: bool = True  # "Send message", card entity: a card_id can be sent once
    sequences: bool = True  # "Stream updates of text": sequence grows strictly (300317)
    streaming_needed: bool = True  # the same page: only while streaming_mode is on (300309)
    # a card that is streaming takes no other update (200810); seen, not documented for PATCH
    streaming_locks: bool = False
    # a card entity is changed by "Update card entity" only (200810); the sternest reading, not
    # documented
    entities_apart: bool = False
    resources: bool = (
        True  # "Get resource files of a message": of this message, of this type, no stickers
    )
    file_sizes: bool = True  # "Upload image" 10 MB, "Upload file" 30 MB, none empty
    emoji: bool = True  # "Add message reaction": a known emoji_type (231001)
