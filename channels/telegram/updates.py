"""The parts of Telegram's updates that ohmo reads, checked on arrival (Telegram Bot API, "Available
types")."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from channels.errors import ChannelError, NotReady

Seconds = Annotated[int, Field(ge=0, le=1 << 40)]


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Malformed(ValueError):
    """An update of a shape that Telegram does not document."""


class TwoPollers(NotReady):
    """Somebody else asks for the updates of this bot (409)."""


class Moved(ChannelError):
    """The group became a supergroup (ResponseParameters, migrate_to_chat_id)."""

    def __init__(self, chat: int) -> None:
        super().__init__(f"Telegram: the group is now the supergroup {chat}")
        self.chat = chat


class User(_Shape):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""


class Chat(_Shape):
    id: int
    type: str = "private"
    title: str = ""


class Entity(_Shape):
    type: str
    offset: Annotated[int, Field(ge=0)]  # in UTF-16 units, like ``length``
    length: Annotated[int, Field(ge=0)]
    url: str = ""
    user: User | None = None


class File(_Shape):
    """PhotoSize, Document, Voice, Audio, Video, VideoNote, Animation and Sticker have this in
    common."""

    file_id: str
    file_unique_id: str = ""
    file_name: str = ""
    mime_type: str = ""
    file_size: int | None = None
    emoji: str = ""  # Sticker


class Origin(_Shape):
    """MessageOrigin of a forwarded message."""

    type: str
    sender_user: User | None = None
    sender_user_name: str = ""
    sender_chat: Chat | None = None
    chat: Chat | None = None


class Quote(_Shape):
    text: str = ""


class Contact(_Shape):
    phone_number: str = ""
    first_name: str = ""
    last_name: str = ""


class Place(_Shape):
    latitude: float
    longitude: float


class Venue(_Shape):
    title: str = ""
    address: str = ""


class PollOption(_Shape):
    text: str = ""


class Poll(_Shape):
    question: str = ""
    options: tuple[PollOption, ...] = ()


class Dice(_Shape):
    emoji: str = ""
    value: int = 0


class Task(_Shape):
    text: str = ""


class Checklist(_Shape):
    title: str = ""
    tasks: tuple[Task, ...] = ()


class Story(_Shape):
    chat: Chat


class Message(_Shape):
    message_id: int
    date: Seconds = 0  # 0: the message itself cannot be read any more (InaccessibleMessage)
    edit_date: Seconds = 0
    chat: Chat
    sender: Annotated[User | None, Field(alias="from")] = None
    is_automatic_forward: bool = False
    sender_chat: Chat | None = None
    message_thread_id: int | None = None
    migrate_to_chat_id: int | None = None  # the group is a supergroup under this number from now on
    is_topic_message: bool = False
    media_group_id: str | None = None
    text: str = ""
    caption: str = ""
    entities: tuple[Entity, ...] = ()
    caption_entities: tuple[Entity, ...] = ()
    reply_to_message: Message | None = None
    quote: Quote | None = None
    forward_origin: Origin | None = None
    photo: tuple[File, ...] = ()
    document: File | None = None
    voice: File | None = None
    audio: File | None = None
    video: File | None = None
    video_note: File | None = None
    animation: File | None = None
    sticker: File | None = None
    contact: Contact | None = None
    location: Place | None = None
    venue: Venue | None = None
    poll: Poll | None = None
    dice: Dice | None = None
    checklist: Checklist | None = None
    story: Story | None = None


class Press(_Shape):
    """CallbackQuery."""

    id: str
    sender: Annotated[User, Field(alias="from")]
    message: Message | None = None
    data: str | None = None


class Emoji(_Shape):
    """ReactionType."""

    type: Literal["emoji", "custom_emoji", "paid"]
    emoji: str = ""
    custom_emoji_id: str = ""


class Reaction(_Shape):
    """MessageReactionUpdated."""

    chat: Chat
    message_id: int
    user: User | None = None
    date: Seconds
    old_reaction: tuple[Emoji, ...] = ()
    new_reaction: tuple[Emoji, ...] = ()


class Update(_Shape):
    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    callback_query: Press | None = None
    message_reaction: Reaction | None = None


def read_update(raw: object) -> Update:
    """One update, a decoded JSON object. Raises Malformed."""
    try:
        return Update.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise Malformed(f"cannot be read at {where or 'its top'}") from None
    except RecursionError:
        raise Malformed("is nested too deeply") from None


def number(raw: object) -> int | None:
    """The update_id, even of an update that cannot be read otherwise."""
    if not isinstance(raw, dict):
        return None
    update_id = cast("dict[str, object]", raw).get("update_id")
    if isinstance(update_id, int) and not isinstance(update_id, bool):
        return update_id
    return None


def moved(raw: object) -> tuple[int, int] | None:
    """The old and the new number of a group that became a supergroup (Message, migrate_to_chat_id);
    None: this update tells of none."""
    fields = cast("dict[str, object]", raw).get("message") if isinstance(raw, dict) else None
    if not isinstance(fields, dict) or "migrate_to_chat_id" not in fields:
        return None
    try:
        message = Message.model_validate(fields)
    except (ValidationError, RecursionError):
        return None
    new = message.migrate_to_chat_id
    if new is not None:
        return (message.chat.id, new)
    return None
