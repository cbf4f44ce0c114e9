"""Questions as messages with buttons, and what takes their place afterwards. Pure but for new
ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from channels.contract import Address, Choice, Outbound
from channels.text import literal, split_markdown
from ohmo.approvals.job_people import JobPeople
from ohmo.contracts.inwriter import in_writer
from ohmo.contracts.questions import OWN_CHANNELS
from ohmo.contracts.store import Asked, Card, Closing, OutRow, PostRow
from ohmo.ids import NewId
from ohmo.sessions import stale_messages
from ohmo.sessions.notice_text import AGAIN

MOST = (
    16_000  # characters of a question in a chat: some messages of a small platform, one of a large
)
_HEAD = 1_500  # characters of one that is longer


@in_writer
def card(asked: Asked) -> PostRow:
    """The card of a question; its row has the question's id, its choices are ``<number>:<id>``."""
    return _card(asked, asked.address, _how(asked))


def routed(owner: Callable[[], Address], job_people: JobPeople) -> Card:
    """Cards as above; what a job or a webhook asks, in a thread where nobody sits, goes to its
    person, else to the owner."""

    @in_writer
    def made(asked: Asked) -> PostRow:
        kind, colon, name = asked.address.chat.partition(":")
        if asked.address.channel != "house" or not colon or kind not in ("cron", "hook"):
            return card(asked)
        whom, question = job_people.of(asked), asked.ask.question
        # behind it: whose, or for what
        who = f"The {'job' if kind == 'cron' else 'webhook'} {name.partition(':')[0]} asks:"
        if question.kind == "permission":
            how = f"{_ALOUD if question.rule else _ALOUD_ONCE}{_LATER if kind == 'cron' else '.'}"
        else:
            how = _JOB_WORDS if question.choices else _JOB_FREE
        return _card(asked, whom.place if whom is not None else owner(), how, who)

    return made


def _card(asked: Asked, place: Address, how: str, who: str = "") -> PostRow:
    question, choices = asked.ask.question, enumerate(asked.ask.question.choices)
    title = literal(question.title.strip()) if question.kind == "permission" else question.title
    detail = question.detail
    if not is_whole(asked, place):
        head = split_markdown(detail, lambda piece: len(piece) <= _HEAD)[0]
        detail, how = f"{head}\n\n…\n\n{elsewhere(asked)}", _REFUSE
        choices = ((number, choice) for number, choice in choices if choice.value == "deny")
    text = "\n\n".join(filter(None, (who, f"**{title}**", detail, how)))
    buttons = tuple(
        Choice(f"{number}:{asked.ask.id}", one.label, one.style) for number, one in choices
    )
    return PostRow(
        asked.ask.id, "message", Outbound(place, text, choices=buttons, card=True), ttl=86_400.0
    )


def stands(row: OutRow) -> Address:
    """Where it can be seen: of what was sent to a person, in the chat that the platform named."""
    address = row.row.outbound.address
    chat = next(
        (
            state.receipt.chat
            for state in row.parts
            if state.receipt is not None and state.receipt.chat is not None
        ),
        None,
    )
    return address if chat is None else replace(address, chat=chat)


def is_whole(asked: Asked, place: Address) -> bool:
    """Whether whoever is in ``place`` was shown all that a permission is for: nobody allows what
    was cut."""
    question = asked.ask.question
    return (
        question.kind != "permission"
        or place.channel in OWN_CHANNELS
        or len(question.detail) <= MOST
    )


def elsewhere(asked: Asked) -> str:
    """Where a permission that is too long for chats can be read and given."""
    return (
        f"This is {len(asked.ask.question.detail)} characters long and cannot be shown whole in"
        " this chat, so it cannot be allowed here: read it on ohmo's page, or with `ohmo approvals"
        f" show {asked.ask.id}`, and answer there."
    )


_PERMISSION = (
    "Answer with a button, or say `/approve`, `/approve session`, `/approve always` or `/deny`."
)
_ONCE = "Answer with a button, or say `/approve` or `/deny`."  # what is not remembered
_REFUSE = "Answer with a button or `/deny` to refuse it."
# What a job or webhook asks: the chat where its card stands is not its conversation, so other words
# there are no answer.
_ALOUD = (
    "Answer with a button, or with 👍 or 👎, or say `/approve`, `/approve session`, `/approve"
    " always` or `/deny`"
)
_ALOUD_ONCE = "Answer with a button, or with 👍 or 👎, or say `/approve` or `/deny`"
_LATER = " here."  # of a job, whose call can still be run when the time is over
_JOB_WORDS = "Answer with a button, or reply to this message in your own words."
_JOB_FREE = "Answer in reply to this message, in your own words."
_THUMBS, _DENY = (
    "Answer with a button, or with 👍 or 👎.",
    "` or `deny`.",
)  # of cards written before
_PRESS, _PRESS_OR_SAY = "Press the button to ", "Press the button, or say `/approve`, to "
_RUN = "run:"


def _how(asked: Asked) -> str:
    if asked.ask.question.kind == "permission":
        return _PERMISSION if asked.ask.question.rule else _ONCE
    return (
        "Answer with a button or in your own words."
        if asked.ask.question.choices
        else "Answer in your own words."
    )


# how to answer: with buttons, and where there are none; the reaction and the commands mean this
# very card
_WITHOUT = (
    ("Answer with a button, or say ", "Answer with 👍 or 👎 on this message, or say "),
    ("Answer with a button, or with ", "Answer with "),
    ("Answer with a button or in your own words.", "Answer in your own words."),
    (_JOB_WORDS, "Say one of them, or reply to this message in your own words."),
    (_REFUSE, "Answer with 👎 on this message or `/deny` to refuse it."),
    (f"{_PRESS_OR_SAY}run it now.", "Say `/approve` to run it now."),
    (f"{_PRESS_OR_SAY}have it answered now.", "Say `/approve` to have it answered now."),
    (f" {_PRESS}run it now.", ""),
    (AGAIN, "Say `/retry` to try it again."),
)


def without_buttons(said: Outbound) -> Outbound:
    """For a platform that has none. Only the choices of a question that takes words are left, as a
    hint: a permission is never given by chance words."""
    for shown, instead in _WITHOUT:
        head, found, tail = said.text.rpartition(shown)
        if found:
            return replace(
                said,
                text=f"{head}{instead}{tail}",
                choices=said.choices if instead.endswith("words.") else (),
            )
    return said


def parse_choice(text: str) -> tuple[int, str] | None:
    """Number and question id of a pressed button; None: not one of ours."""
    number, colon, ask = text.partition(":")
    return (
        (int(number), ask)
        if colon and number.isascii() and number.isdigit() and len(number) <= 3
        else None
    )


def parse_run(text: str) -> str | None:
    """The id of the question whose call shall run after all; None: another button."""
    return text.removeprefix(_RUN) if text.startswith(_RUN) else None


def lapsing(new_id: NewId) -> Closing:
    """Takes the place of a card that nobody answered in time. A permission can still be given, and
    an old message still be wanted, as a new request."""

    @in_writer
    def close(row: OutRow) -> PostRow:
        text = row.row.outbound.text
        if text.endswith(_REFUSE):
            return closing(new_id, "No answer in time: not run.")(row)
        if not text.endswith(
            (_PERMISSION, _ONCE, f"{_ALOUD}{_LATER}", f"{_ALOUD_ONCE}{_LATER}", _THUMBS, _DENY)
        ):
            return closing(new_id, "No answer in time: denied")(row)
        old = any(choice.label == stale_messages.ANSWER for choice in row.row.outbound.choices)
        note, wanted, label = (
            ("No answer in time: left unanswered.", "have it answered now", "Answer it now")
            if old
            else ("No answer in time: not run.", "run it now", "Run it now")
        )
        made = closing(new_id, note)(row)
        how = (
            f"{_PRESS_OR_SAY}{wanted}."
            if text.endswith((_PERMISSION, _ONCE))
            else f"{_PRESS}{wanted}."
        )
        choices = (Choice(f"{_RUN}{row.row.id}", label),)
        return replace(
            made,
            outbound=replace(made.outbound, text=f"{made.outbound.text} {how}", choices=choices),
        )

    return close


def tried_again(new_id: NewId) -> Closing:
    """Takes the place of a failure that is tried again: without its button and how to press it."""

    @in_writer
    def close(row: OutRow) -> PostRow:
        said = row.row.outbound
        head, _, tail = said.text.rpartition(AGAIN)
        text = f"{head.rstrip()}{tail}\n\n_Tried again._"
        return PostRow(
            new_id(), "edit", replace(said, text=text, choices=(), replaces=()), target=row.row.id
        )

    return close


def closing(
    new_id: NewId, note: str, newest: Callable[[str], str | None] = lambda _: None
) -> Closing:
    """Takes the place of a draft or card: its text, without buttons and how to answer, and
    ``note``. ``newest``: how far a draft has grown since it was stored."""

    @in_writer
    def close(row: OutRow) -> PostRow:
        said = row.row.outbound
        text = (
            (newest(row.row.id) or said.text)
            if row.row.kind == "draft"
            else said.text.rpartition("\n\nAnswer ")[0] or said.text
        )
        return PostRow(
            new_id(),
            "edit",
            replace(said, text=f"{text}\n\n_{note}_", choices=(), files=(), replaces=()),
            target=row.row.id,
        )

    return close
