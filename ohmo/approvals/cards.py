"""The cards of questions: whom a job asks, how a card is answered in words where a platform has no
buttons, and what takes its place afterwards. Pure but for new ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from channels.contract import Address, Choice, Hint, Outbound
from channels.record import record
from channels.split import split_markdown
from channels.text import literal
from ohmo.ambient import NewId
from ohmo.contracts.inwriter import Card, Closing, in_writer
from ohmo.contracts.outbox import OWN_CHANNELS, Asked, OutRow, PostRow
from ohmo.sessions import admission

# Characters of a question in a chat: some messages of a small platform, one of a large.
MOST = 16_000
_HEAD = 1_500  # characters of one that is longer
TTL = 86_400.0  # seconds until a card that could not be delivered is given up
_ONCE = "`/approve` or `/deny`"
_LONGER = "`/approve`, `/approve session`, `/approve always` or `/deny`"
_BUTTON = "Answer with a button, or say"
_THUMB = "Answer with 👍 or 👎 on this message, or say"  # as the commands, it means this very card
# Where the card of a job or a webhook stands is not its conversation: other words are no answer.
_JOB_BUTTON = "Answer with a button, or with 👍 or 👎, or say"
_JOB_THUMB = "Answer with 👍 or 👎, or say"

# With buttons, and without. A permission is never given by chance words.
_WORDS: Mapping[Hint, tuple[str, str]] = {
    Hint.DECIDE: (f"{_BUTTON} {_LONGER}.", f"{_THUMB} {_LONGER}."),
    Hint.DECIDE_ONCE: (f"{_BUTTON} {_ONCE}.", f"{_THUMB} {_ONCE}."),
    Hint.WANTED: (f"{_BUTTON} {_ONCE}.", f"{_THUMB} {_ONCE}."),
    Hint.DECIDE_JOB: (f"{_JOB_BUTTON} {_LONGER} here.", f"{_JOB_THUMB} {_LONGER} here."),
    Hint.DECIDE_ONCE_JOB: (f"{_JOB_BUTTON} {_ONCE} here.", f"{_JOB_THUMB} {_ONCE} here."),
    Hint.DECIDE_HOOK: (f"{_JOB_BUTTON} {_LONGER}.", f"{_JOB_THUMB} {_LONGER}."),
    Hint.DECIDE_ONCE_HOOK: (f"{_JOB_BUTTON} {_ONCE}.", f"{_JOB_THUMB} {_ONCE}."),
    Hint.REFUSE: (
        "Answer with a button or `/deny` to refuse it.",
        "Answer with 👎 on this message or `/deny` to refuse it.",
    ),
    Hint.CHOOSE: ("Answer with a button or in your own words.", "Answer in your own words."),
    Hint.CHOOSE_JOB: (
        "Answer with a button, or reply to this message in your own words.",
        "Say one of them, or reply to this message in your own words.",
    ),
    Hint.SAY: ("Answer in your own words.", "Answer in your own words."),
    Hint.SAY_JOB: (
        "Answer in reply to this message, in your own words.",
        "Answer in reply to this message, in your own words.",
    ),
    Hint.RUN_LATE: (
        "Press the button, or say `/approve`, to run it now.",
        "Say `/approve` to run it now.",
    ),
    Hint.RUN_LATE_JOB: ("Press the button to run it now.", ""),
    Hint.ANSWER_LATE: (
        "Press the button, or say `/approve`, to have it answered now.",
        "Say `/approve` to have it answered now.",
    ),
    Hint.TRUST: (
        "Press a button, or say `/trust allow` or `/trust leave`.",
        "Say `/trust allow` or `/trust leave`; in reply to this message, if several are open.",
    ),
    Hint.RETRY: (
        "Press the button, or say `/retry`, to try it again.",
        "Say `/retry` to try it again.",
    ),
}
# These stand behind the last words of the message, the others below it.
_BEHIND = (Hint.RUN_LATE, Hint.RUN_LATE_JOB, Hint.ANSWER_LATE, Hint.RETRY)
_IN_WORDS = (Hint.CHOOSE, Hint.CHOOSE_JOB)  # words answer it, and its choices say which


@record
class JobPerson:
    """Whose job it is."""

    person: str  # CHANNEL:PERSON
    place: Address  # where that person is asked; its account is the person's


class JobPeople:
    """Whom the runs of jobs ask, kept up by whoever starts such runs."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], JobPerson] = {}

    def learn(self, thread: Address, person: JobPerson) -> None:
        self._known[thread.chat, person.person] = person

    @in_writer
    def of(self, asked: Asked) -> JobPerson | None:
        """None: the owner is asked, or the thread has people of its own."""
        if asked.address.channel != "house":
            return None
        return self._known.get((asked.address.chat, asked.person))


@in_writer
def card(asked: Asked) -> PostRow:
    """The card of a question; its row has the question's id, its choices are ``<number>:<id>``."""
    question = asked.ask.question
    if question.digest == admission.LATE_DIGEST:
        hint = Hint.WANTED
    elif question.kind == "permission":
        hint = Hint.DECIDE if question.rule else Hint.DECIDE_ONCE
    else:
        hint = Hint.CHOOSE if question.choices else Hint.SAY
    return _card(asked, asked.address, hint)


def routed(owner: Callable[[], Address], job_people: JobPeople) -> Card:
    """Cards as above; what a job or a webhook asks, in a thread where nobody sits, goes to its
    person, else to the owner."""

    @in_writer
    def made(asked: Asked) -> PostRow:
        kind, colon, name = asked.address.chat.partition(":")
        if asked.address.channel != "house" or not colon or kind not in ("cron", "hook"):
            return card(asked)
        person = job_people.of(asked)
        place = person.place if person is not None else owner()
        name = name.partition(":")[0]  # behind it: whose, or for what
        question = asked.ask.question
        if question.kind != "permission":
            hint = Hint.CHOOSE_JOB if question.choices else Hint.SAY_JOB
        elif kind == "cron":
            hint = Hint.DECIDE_JOB if question.rule else Hint.DECIDE_ONCE_JOB
        else:
            hint = Hint.DECIDE_HOOK if question.rule else Hint.DECIDE_ONCE_HOOK
        asker = "job" if kind == "cron" else "webhook"
        return _card(asked, place, hint, f"The {asker} {name} asks:")

    return made


def _card(asked: Asked, place: Address, hint: Hint, heading: str = "") -> PostRow:
    question = asked.ask.question
    title = question.title
    if question.kind == "permission":
        title = literal(title.strip())
    detail = question.detail
    choices = list(enumerate(question.choices))
    if not is_whole(asked, place):
        head = split_markdown(detail, lambda piece: len(piece) <= _HEAD)[0]
        detail = f"{head}\n\n…\n\n{elsewhere(asked)}"
        hint = Hint.REFUSE
        choices = [(number, choice) for number, choice in choices if choice.value == "deny"]
    buttons = tuple(
        Choice(f"{number}:{asked.ask.id}", choice.label, choice.style) for number, choice in choices
    )
    parts = (heading, f"**{title}**", detail)
    text = "\n\n".join(part for part in parts if part)
    outbound = Outbound(place, text, choices=buttons, card=True, hint=hint)
    return PostRow(asked.ask.id, "message", outbound, ttl=TTL)


def stands(row: OutRow) -> Address:
    """Where it can be seen: of what was sent to a person, in the chat that the platform named."""
    address = row.row.outbound.address
    for state in row.parts:
        if state.receipt is not None and state.receipt.chat is not None:
            return replace(address, chat=state.receipt.chat)
    return address


def shown_after(row: OutRow, said_at: datetime) -> bool:
    """Whether words said at that moment cannot mean this card: told by the platform's own clock,
    where it tells when it showed it."""
    shown = [state.receipt.at for state in row.parts if state.receipt and state.receipt.at]
    return bool(shown) and said_at < min(shown)


def is_whole(asked: Asked, place: Address) -> bool:
    """Whether whoever is in ``place`` was shown all that a permission is for: nobody allows what
    was cut."""
    question = asked.ask.question
    if question.kind != "permission" or place.channel in OWN_CHANNELS:
        return True
    return len(question.detail) <= MOST


def elsewhere(asked: Asked) -> str:
    """Where a permission that is too long for chats can be read and given."""
    return (
        f"This is {len(asked.ask.question.detail)} characters long and cannot be shown whole in"
        " this chat, so it cannot be allowed here: read it on ohmo's page, or with `ohmo approvals"
        f" show {asked.ask.id}`, and answer there."
    )


def parse_choice(text: str) -> tuple[int, str] | None:
    """Number and question id of a pressed button; None: not one of ours."""
    number, colon, ask = text.partition(":")
    a_number = number.isascii() and number.isdigit() and len(number) <= 3
    if not colon or not a_number:
        return None
    return int(number), ask


def tried_again(new_id: NewId) -> Closing:
    """Takes the place of a failure that is tried again: without its button and how to press it."""
    return closing(new_id, "Tried again.")


def closing(
    new_id: NewId, note: str, newest: Callable[[str], str | None] = lambda _: None
) -> Closing:
    """Takes the place of a draft or card: its text, without buttons and how to answer, and
    ``note``. ``newest``: how far a draft has grown since it was stored."""

    @in_writer
    def close(row: OutRow) -> PostRow:
        outbound = row.row.outbound
        grown = newest(row.row.id) if row.row.kind == "draft" else None
        text = f"{grown or outbound.text}\n\n_{note}_"
        closed = replace(outbound, text=text, choices=(), files=(), replaces=(), hint=None)
        return PostRow(new_id(), "edit", closed, target=row.row.id)

    return close


def worded(said: Outbound, *, buttons: bool) -> Outbound:
    """``said`` with the words on how to answer it. Without ``buttons`` only the choices of a
    question that takes words are left."""
    if said.hint is None:
        return said
    with_buttons, without = _WORDS[said.hint]
    how = with_buttons if buttons else without
    text = said.text
    if how:
        between = " " if said.hint in _BEHIND else "\n\n"
        text = f"{text}{between}{how}"
    choices = said.choices if buttons or said.hint in _IN_WORDS else ()
    return replace(said, text=text, choices=choices)
