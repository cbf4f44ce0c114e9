"""What ``/memory`` answers, in words."""

from __future__ import annotations

from channels.text import code_span, literal
from ohmo.memory.desk import Memory, Said, glimpse, shown
from ohmo.memory.notes import NotRemembered
from ohmo.memory.proposals import Proposal
from ohmo.memory.scopes import Viewer

_USAGE = (
    "Say `/memory`, `/memory search WORDS`, `/memory show NAME`, `/memory forget NAME`, `/memory"
    " tidy`, `/memory accept NUMBER`, `/memory reject NUMBER` or `/memory undo NUMBER`."
)
_LISTED = 30  # notes
_LONGEST = 6_000  # characters of a note or a change


def spoken(memory: Memory, viewer: Viewer, argument: str, who: str) -> str:
    """Blocks. What is said again after a crash changes nothing more. ``who``: accepts or
    forgets."""
    verb, _, rest = argument.partition(" ")
    rest = rest.strip()
    number = int(rest) if rest.isascii() and rest.isdigit() and len(rest) < 10 else 0
    try:
        scopes = memory.scopes(viewer)
        match verb:
            case "" | "list":
                return _listed(memory, viewer)
            case "search" if rest:
                lines = [literal(glimpse(each)[2:]) for each in memory.search(scopes, rest)]
                return "\n".join(f"- {line}" for line in lines) or "Nothing I remember fits."
            case "show" if number:
                waiting = [one for one in memory.proposals(scopes) if one.number == number]
                return change(memory, waiting[0]) if waiting else f"There is no proposal {number}."
            case "show" if rest:
                return _fenced(shown(memory.read(scopes, rest)))
            case "forget" if rest:
                memory.forget(scopes, rest, Said(who, ""))
                return f"Forgotten: {literal(rest)}."
            case "accept" if number:
                accepted = memory.accept(scopes, number, who)
                title = literal(accepted.origin.title)
                return f"Done: {title}. `/memory undo {number}` takes it back."
            case "undo" if number:
                undone = memory.undo(scopes, number)
                return f"Taken back: {literal(undone.origin.title)}."
            case "reject" if number:
                rejected = memory.reject(scopes, number)
                return f"Rejected, nothing was changed: {literal(rejected.origin.title)}."
            case _:
                return _USAGE
    except NotRemembered as error:
        return literal(str(error))
    except OSError as error:
        return f"The memory cannot be reached: {error.strerror or error}."


def _listed(memory: Memory, viewer: Viewer) -> str:
    scopes = memory.scopes(viewer)
    notes = memory.newest(scopes, _LISTED + 1)
    lines = [f"- {literal(glimpse(each)[2:])}" for each in notes[:_LISTED]]
    if len(notes) > _LISTED:
        lines.append(f"- … only the newest {_LISTED}; `/memory search WORDS` finds the others")
    if not lines:
        lines = ["I remember nothing here yet. Say what I shall remember."]
    for proposal in memory.proposals(scopes):
        number = proposal.number
        lines.append(
            f"- proposal {number}: {literal(proposal.origin.title)} (`/memory show {number}`)"
        )
    return "\n".join([*lines, *(f"- {literal(wrong)}" for wrong in memory.problems(scopes))])


def change(memory: Memory, proposal: Proposal) -> str:
    """What a proposal would do, and how it is answered. Blocks."""
    origin = proposal.origin
    number = proposal.number
    behind = f", because of {code_span(origin.why)}" if origin.why else ""
    return (
        f"Proposal {number}: {literal(origin.title)}{behind}.\n{_fenced(memory.diff(proposal))}\n"
        f"`/memory accept {number}` or `/memory reject {number}`"
    )


def _fenced(text: str) -> str:
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}\n(cut: {len(text) - _LONGEST} more characters)"
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
