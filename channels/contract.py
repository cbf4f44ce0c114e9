"""What a chat platform and the house may say to each other. Standard library only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum, StrEnum
from pathlib import Path
from typing import Literal, NewType, Protocol, runtime_checkable

from channels.record import record


def _utc_now() -> datetime:
    return datetime.now(UTC)


ChatId = NewType("ChatId", str)
TopicId = NewType(
    "TopicId", str
)  # Slack thread_ts, Telegram topic, Discord thread, Matrix root event, Feishu root message
PersonId = NewType("PersonId", str)
MessageId = NewType("MessageId", str)


@record
class Address:
    """A place where something can be said. Never joined into one string."""

    channel: str
    account: str
    chat: ChatId
    topic: TopicId | None = None


@record
class Person:
    id: PersonId
    name: str
    bot: bool = False


@record
class Attachment:
    """A file the platform still holds; its bytes are fetched when a turn needs them."""

    ref: str  # opaque to the house, and fetchable after a restart
    name: str
    media_type: str
    size: int | None  # bytes; None: the platform does not tell


@record(kw_only=True)
class Said:
    """Fields of every arrival. One whose key or alias is known already is a duplicate."""

    # Names the thing that happened, not its delivery: equal in redelivery, twin events, catch-up.
    key: str
    aliases: tuple[str, ...] = ()  # its other names (Slack: client_msg_id beside channel+ts)
    address: Address
    person: Person
    at: datetime  # the platform's clock, UTC
    order: str  # sorts like the platform sorts inside one chat


@record(kw_only=True)
class Inbound(Said):
    message: MessageId
    text: str
    private: bool  # a one-to-one chat
    addressed: bool  # private, or the bot was mentioned or replied to
    attachments: tuple[Attachment, ...] = ()
    reply_to: MessageId | None = None
    quoted: str | None = None
    album: str | None = None  # parts of one album share it
    # seconds within which what was said before it may still be found; until then nobody answers it
    settles: float = 0.0


@record(kw_only=True)
class Edited(Said):
    message: MessageId
    text: str | None  # None: deleted


@record(kw_only=True)
class Reacted(Said):
    message: MessageId
    emoji: str
    added: bool


@record(kw_only=True)
class Answer(Said):
    """Somebody pressed one of our choices."""

    message: MessageId  # that shows them
    choice: str  # Choice.value
    token: str  # what ``Channel.acknowledge`` needs; it may be stale after a restart


Arrival = Inbound | Edited | Reacted | Answer


@record
class Choice:
    # comes back in Answer.choice; ≤ 40 ASCII characters (Telegram's 64 bytes hold it twice)
    value: str
    label: str
    style: Literal["plain", "good", "danger"] = "plain"


class Hint(StrEnum):
    """How a card, or a failure with a button, is answered. The house says it in words where the
    message goes out: they depend on whether there are buttons."""

    DECIDE = "decide"  # a permission, for once or for longer
    DECIDE_ONCE = "decide_once"  # a permission that cannot be remembered
    DECIDE_JOB = "decide_job"  # of a job: its card stands where its person reads
    DECIDE_ONCE_JOB = "decide_once_job"
    DECIDE_HOOK = "decide_hook"  # of a webhook: nothing can be run later
    DECIDE_ONCE_HOOK = "decide_once_hook"
    REFUSE = "refuse"  # a permission that is too long to be allowed here
    WANTED = "wanted"  # whether an old message is still to be answered
    CHOOSE = "choose"  # by a choice, or in words
    CHOOSE_JOB = "choose_job"
    SAY = "say"  # in words
    SAY_JOB = "say_job"
    RUN_LATE = "run_late"  # nobody allowed it in time
    RUN_LATE_JOB = "run_late_job"
    ANSWER_LATE = "answer_late"  # nobody said in time that it is still wanted
    RETRY = "retry"  # it failed
    TRUST = "trust"  # something new, which takes no part before


@record
class Receipt:
    """What a send left on the platform."""

    message: MessageId
    at: datetime | None = None  # the platform's clock, UTC
    chat: ChatId | None = None  # where it stands, when the address named a person


@record
class Outbound:
    """One logical message. CommonMark in; the channel turns it into parts."""

    address: Address
    text: str
    files: tuple[Path, ...] = ()
    choices: tuple[Choice, ...] = ()
    # whom it speaks to; with ``reply_to`` the first is that message's author
    mentions: tuple[PersonId, ...] = ()
    # say the text as it is, without any markup (after the platform rejected the rendered form)
    plain: bool = False
    reply_to: MessageId | None = None
    replaces: tuple[
        Receipt, ...
        # the messages this one takes the place of (edit in order, post the rest, delete the
        # surplus)
    ] = ()
    # newer texts of it follow by revise(); a platform that streams begins its stream with it
    draft: bool = False
    # a question or what became of it: set apart from what is said, where the platform can
    card: bool = False
    hint: Hint | None = None  # None: there is nothing to answer (any more)


@record
class Part:
    """One platform call, rendered and frozen: the house stores it before the first try and repeats
    exactly these bytes."""

    kind: Literal["post", "edit", "delete", "file"]
    payload: str  # JSON of the channel's own making; opaque to the house
    target: MessageId | None = None  # edit, delete


class Repeat(Enum):
    """What a second identical send does."""

    SAFE = "safe"  # the platform folds equal keys for Capabilities.repeat_window
    LOOK = "look"  # find() tells whether it arrived
    RISK = "risk"  # nobody can tell: one narrow retry, then a visible mark


@record
class Capabilities:
    repeat: Repeat
    repeat_window: timedelta  # for so long ``repeat`` holds
    max_text: int  # of one message, in the platform's own measure
    revise: timedelta | None  # least time between revisions of one message; None: cannot edit
    # ephemeral drafts that vanish by themselves (Telegram private chats, web)
    preview: bool = False
    appends: bool = False  # a draft only grows: nothing but the answer's own words belongs into it
    # what is documented to be allowed in one conversation: so many posts, then one each (0: any)
    post_burst: int = 1
    post_every: timedelta = timedelta(0)
    choices: bool = False
    topics: bool = False
    typing: timedelta | None = None  # how long one typing() lasts
    max_file: int = 0
    # the longest a sound connection hears nothing at all; twice that is a dead one. None: it may be
    # quiet for ever
    silence: timedelta | None = None
    # the platform says hello once it talks to us: until receive() has heard it, a connection only
    # speaks
    greets: bool = False


@record
class Cursor:
    """Where to go on asking the platform. ``name``: per conversation where the platform needs
    it."""

    name: str
    value: str


@record
class About:
    """What a channel may tell anybody about the house, where its platform has a page for that."""

    owners: tuple[PersonId, ...] = ()  # on this platform
    model: str = ""


@record
class Options:
    """What every channel is built with beside its own settings."""

    streaming: Literal["off", "edits", "native", "preview"] | None = (
        None  # None: the best the platform offers
    )
    clock: Callable[[], datetime] = _utc_now
    state: Path | None = (
        # the private folder of ChannelContext, for what is needed to connect; None: nothing is kept
        None
    )
    invited: Callable[[Address, Person, bool], bool] | None = (
        None  # may this person bring us into this place (True: one-to-one); None: everybody
    )
    about: Callable[[], About] = About
    since: datetime | None = (
        # when this house began, whatever became of its connections; None: when the channel was
        # built
        None
    )
    elsewhere: frozenset[str] = (
        frozenset()
    )  # names of other agents' commands, which the house answers


class ChannelContext(Protocol):
    """What the house hands to a channel."""

    @property
    def state(self) -> Path: ...  # a private folder (0700), e.g. for a crypto store
    @property
    def catch_up(self) -> tuple[timedelta, int]: ...  # oldest age, most messages
    @property
    def zone(self) -> tzinfo: ...  # in which times are told to people
    async def publish(self, arrivals: Sequence[Arrival], cursor: Cursor | None = None) -> None:
        """Store the arrivals of one batch, in platform order, and the cursor, in one transaction;
        return after the commit. Call it before acknowledging. Raises Unavailable: acknowledge
        nothing, ask the platform again later."""
        ...

    async def cursor(self, name: str) -> str | None: ...
    def heard(self) -> None: ...  # any sign of life from the platform (for /readyz)
    async def missed(self, text: str, address: Address | None = None) -> None:
        """One honest line about messages that may be missing and cannot be fetched: said in the
        chat when ``address`` is known, else to the owner; once per text and place. Never raises."""
        ...


class Channel(Protocol):
    """Built as ``Adapter(settings, options)``: an instance of ``Manifest.settings``, and
    ``Options``. Called by the gateway only. Every method is cancel-safe; failures are ChannelError,
    nothing else (``publish`` inside ``receive`` may raise Unavailable)."""

    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def account(
        self,
    ) -> (
        str
    ): ...  # known inside connect(): team, bot or user id; the same for the same account for ever
    def connect(self) -> AbstractAsyncContextManager[None]:
        """Inside it one can speak. Must prove the credentials (AuthFailed) and bound its own time
        (NotReady); RateLimited: not before."""
        ...

    async def receive(self, context: ChannelContext) -> None:
        """Until cancelled or failed. First what was missed (fenced by context.catch_up), then live;
        live events of a chat wait behind its catch-up."""
        ...

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        """Pure. At least one part; each within the platform's limits."""
        ...

    async def upload(self, part: Part) -> str:
        """Parts of kind ``file`` only: bring the bytes to the platform without showing them; the
        handle is stored and handed to ``send``. A platform that uploads and shows in one call
        returns "". Repeating it is harmless."""
        ...

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        """One call. ``key`` ≤ 25 characters [0-9a-z.]: nonce, txnId, uuid, metadata. Must not retry
        by itself."""
        ...

    def mark(self, part: Part) -> Part:
        """Pure. The same part with a short visible "may be a duplicate"; used before a repeat that
        nobody can prove needless."""
        ...

    async def find(
        self, address: Address, part: Part, key: str, handle: str | None, since: datetime
    ) -> Receipt | None:
        """Repeat.LOOK only: what a send of this part under this key left behind, None when it
        certainly left nothing."""
        ...

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        """Ephemeral: a newer text of a draft. ``receipt`` None: a preview. May be dropped; must not
        be retried."""
        ...

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path: ...
    async def typing(self, address: Address, on: bool) -> None: ...
    async def acknowledge(self, answer: Answer, text: str) -> None: ...
    async def menu(
        self, commands: Sequence[tuple[str, str]]
    ) -> None: ...  # name, one line: the platform's native command menu
    def parse_address(
        self, text: str
    ) -> Address: ...  # "C123", "C123/1700.1": what follows "slack:" on the command line


@runtime_checkable
class Probed(Protocol):
    """A channel that can hear without its credentials being asked for again (an open socket).
    Optional, beside ``Channel``."""

    async def probe(self) -> None:
        """One authenticated call that changes nothing, asked every few minutes. Raises
        ChannelError; AuthFailed ends the connection."""
        ...


@runtime_checkable
class Named(Protocol):
    """A channel whose account has a name people write. Optional, beside ``Channel``."""

    @property
    def handle(self) -> str:
        """Without an @; known once it is connected, empty when the platform told none."""
        ...


@runtime_checkable
class Whispering(Protocol):
    """A channel that can say something in a shared place to one person only. Optional, beside
    ``Channel``."""

    async def whisper(self, address: Address, person: PersonId, text: str) -> None:
        """Ephemeral: nobody else sees it, and nothing stays. Raises ChannelError; must not be
        retried."""
        ...


@runtime_checkable
class Wary(Protocol):
    """A channel that leaves its place to somebody else who is connected with its credentials.
    Optional, beside ``Channel``."""

    @property
    def wary(self) -> bool:
        """Known before connect(): it left its place not long ago, in this life or in another one,
        so that nothing is said before it has listened."""
        ...


@record
class Manifest:
    name: str
    title: str
    settings: type  # a Pydantic model; only the platform's own keys
    adapter: str  # "channels.slack.adapter:Slack"
    extra: str  # the pip extra that brings the SDK
    secrets: tuple[str, ...] = ()  # names of settings that hold secrets


Clock = Callable[[], datetime]
Publish = Callable[[Sequence[Arrival]], Awaitable[None]]
