"""What a slash command is: a name, who may say it, and a function from what was said to an effect
that is committed as one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, Protocol

from channels.contract import Address, Inbound
from channels.record import record
from channels.text import literal
from ohmo.commands.aliases import INSTEAD, SAME
from ohmo.contracts.messages import Step
from ohmo.contracts.outbox import Asked, Lapsed, Scope
from ohmo.contracts.reports import ArrivalInfo, HouseStatus, SessionInfo, ThreadInfo
from ohmo.contracts.spending import Spending
from ohmo.contracts.turns import ThreadSettings
from ohmo.sessions.exporting import Form
from ohmo.sessions.user_steps import begins_plan, compacting, is_steering, words_behind

Standing = Literal["guest", "user", "admin", "owner"]
_COMMAND = re.compile(
    r"\s*/(?P<name>plugin:[^\s@]*|[a-z][a-z_-]*)(?:@\S+)?(?:\s+(?P<argument>.*))?\s*",
    re.DOTALL | re.IGNORECASE,
)
PLUGIN = "plugin:"  # before the name of a plugin and of its file
MEMBERS: frozenset[Standing] = frozenset({"user", "admin", "owner"})
TRUSTING: frozenset[Standing] = frozenset({"admin", "owner"})  # who says what takes part
EVERYBODY: frozenset[Standing] = frozenset({"guest", "user", "admin", "owner"})


@record
class Reply:
    """Only words, and what is too long for them."""

    text: str
    files: tuple[Path, ...] = ()


@record
class Stop:
    """End everything said before."""

    text: str
    fresh: bool = False  # begin a new session too
    resumes: int | None = None  # or go on with the one of this number


@record
class Choose:
    """Change the thread's settings."""

    text: str
    settings: ThreadSettings


@record
class Decide:
    """Answer an open question."""

    approval: str
    verdict: Literal["allowed", "denied"]
    scope: Scope = "once"
    word: str = ""


@record
class RunNow:
    """Run the call of a permission that nobody gave in time, as a new request."""

    lapsed: Lapsed


@record
class Restart:
    """End this life of the house and begin the next; after its reply is stored."""

    text: str


@record
class Retry:
    """Bring back what failed. The answer to it is the reply."""

    letters: tuple[int, ...]  # numbers of dead letters of the thread


@record
class TakeBack:
    """Files become what they were before the last turn (``undo``) or the last ``back`` changes;
    ``force``: also those that somebody else changed since."""

    kind: Literal["undo", "rollback"]
    back: int
    force: bool


Effect = Reply | Stop | Choose | Decide | RunNow | Restart | Retry | TakeBack


class Desk(Protocol):
    """What commands may look at."""

    async def open_questions(self, thread: str) -> list[Asked]: ...
    async def meant(self, order: Order) -> list[Asked]:
        """What this person may mean here; more than one: nobody can say which."""
        ...

    async def lapsed(self, thread: str) -> Lapsed | None:
        """The newest permission here that nobody gave in time."""
        ...

    async def failed(self, thread: str, turn: str | None = None) -> list[ArrivalInfo]:
        """Dead letters of that turn, None: the last one."""
        ...

    async def thread(self, thread: str) -> ThreadInfo | None: ...
    async def status(self) -> HouseStatus: ...
    async def usage_of(self, order: Order) -> Spending: ...
    async def context_of(self, thread: str) -> str: ...
    async def inbox_of(self, thread: str) -> str: ...
    async def jobs_of(self, order: Order) -> str:
        """May pause, resume or remove one of the person's own: done twice it is the same."""
        ...

    async def memory_of(self, order: Order) -> str:
        """May forget one of what this person sees, accept, reject or take back a proposal: done
        twice it is the same."""
        ...

    async def permissions_of(self, order: Order) -> str:
        """May revoke one of the person's own: done twice it is the same."""
        ...

    async def trust_of(self, order: Order) -> str:
        """May allow, leave off or revoke what takes part by its content: done twice it is the
        same."""
        ...

    async def why(self, thread: str, number: int | None) -> tuple[str, list[Step]]:
        """What became of a message, the newest or the one with this number; and the steps of its
        turn."""
        ...

    async def sessions_of(self, thread: str) -> list[SessionInfo]:
        """Earlier conversations there, newest first."""
        ...

    async def holding(self, thread: str, words: str) -> set[int]:
        """Numbers of those in which all these words were said; marks and case do not count."""
        ...

    async def exported(self, order: Order, form: Form) -> tuple[str, tuple[Path, ...]]:
        """The present conversation as a file, or why there is none."""
        ...

    async def diff_of(self, thread: str, back: int) -> tuple[str, tuple[Path, ...]]:
        """What the change did that lies so many changes back, in words and as a file."""
        ...

    def running_turn(self, thread: str) -> str | None: ...
    def free_until(self) -> tuple[datetime, str]:
        """When a full_auto that is chosen now ends, and that in words."""
        ...

    def when(self, at: datetime) -> str: ...
    def now(self) -> datetime: ...
    def commands(self) -> tuple[Command, ...]: ...
    def models(self) -> tuple[str, ...]:
        """Configured ones, small to large; the last is the default."""
        ...


@record
class Order:
    """A command as somebody said it."""

    thread: str
    address: Address
    person: str
    standing: Standing
    argument: str
    settings: ThreadSettings
    said: Inbound | None = None  # the message itself


@record
class Command:
    """One slash command, as its file exports it."""

    name: str
    summary: str
    #: Must not write: its effect, its reply and the command's ending are one transaction of the
    #: caller.
    run: Callable[[Order, Desk], Awaitable[Effect]]
    standings: frozenset[Standing] = field(default=EVERYBODY)  # who may say it
    alone: bool = False  # it reads no words behind its name; who writes some is told so
    usage: str = ""  # what may stand behind the name, ``[NAME|default]``
    place: int = 1000  # in every list: small numbers first, which are used most

    def heeded(self, effect: Effect, argument: str) -> Effect:
        """``effect``, with a word about words that were not read: they were meant for somebody, and
        nothing may get lost in silence."""
        speaks = isinstance(effect, Reply | Choose | Stop | Restart)
        if not self.alone or not argument or not speaks:
            return effect
        text = (
            f"{effect.text} The words behind `/{self.name}` were not read: say them again as a"
            " message of their own."
        )
        return replace(effect, text=text)


async def taking_back(order: Order, desk: Desk, effect: TakeBack) -> Effect:
    """Not while a turn is open: it would go on with files that are others by then."""
    info = await desk.thread(order.thread)
    if info is not None and info.state in ("running", "parked"):
        return Reply("A turn is open here: wait for its end, or say `/stop` first.")
    return effect


_FORCE = re.compile(r"\s*[-\u2012-\u2015]+force\s*$", re.IGNORECASE)  # of two dashes or one long


def forced(argument: str) -> tuple[str, bool]:
    """An argument without ``--force`` behind it, and whether it was there."""
    words = _FORCE.sub("", f" {argument}").strip()
    return words, words != argument.strip()


def changes_ago(argument: str) -> int | None:
    """1 for the last; None: it is no number."""
    if not argument:
        return 1
    plain = argument.isascii() and argument.isdigit() and len(argument) < 5
    return int(argument) if plain and int(argument) else None


def of_plugin(text: str) -> str | None:
    """The name of a plugin's command, also behind ``/steer`` or ``/plan``."""
    parsed = parse(words_behind(text))
    return parsed[0] if parsed is not None and parsed[0].startswith(PLUGIN) else None


def parse(text: str) -> tuple[str, str] | None:
    """Name (lower case) and argument of ``/name@bot argument``; None: not a command. A name known
    from elsewhere is read as ours."""
    match = _COMMAND.fullmatch(text)
    if match is None:
        return None
    name, argument = match["name"].lower(), (match["argument"] or "").strip()
    ours, _, fixed = SAME.get(name, name).partition(" ")
    return ours, f"{fixed} {argument}".strip()


def listed(found: Mapping[str, object]) -> dict[str, Command]:
    """The commands among ``found`` (what a scan of this package for ``COMMAND`` gives), by name, in
    the order of lists."""
    commands = [command for command in found.values() if isinstance(command, Command)]
    return {
        command.name: command
        for command in sorted(commands, key=lambda command: (command.place, command.name))
    }


def several(questions: Sequence[Asked]) -> Reply:
    """What is said when a command may mean more than one question."""
    titles = ", ".join(f"**{literal(asked.ask.question.title)}**" for asked in questions)
    return Reply(
        f"Several things are asked here: {titles}. Use the button of the one you mean, or reply to"
        " it with this command."
    )


def unknown(name: str, known: Collection[str]) -> str:
    """What is said of a command that there is not."""
    if name in INSTEAD:
        return INSTEAD[name]
    if name.startswith(PLUGIN):
        shown = literal(name[:100])
        return f"No trusted plugin has /{shown}: `/trust` and `ohmo plugins list` say why."
    close = get_close_matches(name, known, n=1)
    meant = f"; did you mean `/{close[0]}`?" if close else "."
    return f"There is no `/{name}`{meant} `/help` shows what there is."


def is_order(text: str, known: Collection[str]) -> bool:
    """Whether a text is for the house: a command it knows, one known from elsewhere, one of
    a plugin that is not trusted (the caller knows the others), or a lone word that can only be one
    mistyped (``/stpo`` must not go to the model)."""
    parsed = parse(text)
    if parsed is None:
        return False
    name, argument = parsed
    if of_plugin(text) is not None:
        return True
    if is_steering(text) or begins_plan(text) or compacting(text) is not None:
        return False  # its words are a message, or its turn does it
    if name in known or name in INSTEAD:
        return True
    return not argument and bool(get_close_matches(name, known, n=1, cutoff=0.7))
