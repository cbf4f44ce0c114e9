"""What a card of trust says, and what became of what it is about. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from channels.contract import Address, Choice, Hint, Outbound
from channels.record import record
from channels.text import code_span
from ohmo.ambient import derived
from ohmo.approvals.cards import TTL
from ohmo.content import one_line
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.trust import SETTINGS, Candidate, Kind, Trust

_TRUST, _LEAVE = "trust:", "leave:"  # begin the values of its buttons
GONE = "It is not there any more as it was shown, so this trusts nothing"
MEANWHILE = "Trusted meanwhile"
_SETTLED_TOOLS = "Settled meanwhile; `ohmo mcp list` shows it"
_OTHER = (
    "It was another meanwhile: unless it is this again, **Trust** trusts nothing and asks anew."
)


def parse_trust(choice: str) -> tuple[str, bool] | None:
    """The id of a card of trust, and whether its button allows; None: another button."""
    for begins, allows in ((_TRUST, True), (_LEAVE, False)):
        if choice.startswith(begins):
            return choice.removeprefix(begins), allows
    return None


def titled(kind: Kind, name: str) -> str:
    """What it is, for people; CommonMark."""
    name = one_line(name)
    if kind == "project" and name.endswith(f"/{SETTINGS}"):
        return f"the settings of the project {code_span(name.removesuffix(f'/{SETTINGS}'))}"
    whose = {"project": "the skills of the project", "hook": "the hooks of the project"}
    if kind == "mcp" and not name.startswith("/"):
        return f"the changed tools of the MCP server {code_span(name)}"
    if kind == "mcp":
        return f"the MCP servers of the project {code_span(name)}"
    return f"{whose.get(kind, f'the {kind}')} {code_span(name)}"


def trusted_before(one: Candidate, rows: Sequence[Trust]) -> list[Trust]:
    """Other contents of that name that are trusted."""
    alike = (row for row in rows if (row.kind, row.name) == (one.kind, one.name))
    return [row for row in alike if row.revoked_at is None]


def roams(kind: Kind, name: str) -> bool:
    """It belongs to no project."""
    return kind == "plugin" or (kind == "mcp" and not name.startswith("/"))


def together(waiting: Sequence[Candidate]) -> list[Candidate]:
    """Without the single skills of projects whose skills can be trusted as a whole."""
    whole = tuple(f"{one.name}/" for one in waiting if one.kind == "project")
    return [one for one in waiting if one.kind != "skill" or not one.where.startswith(whole)]


def active(rows: Sequence[Trust]) -> set[tuple[Kind, str, str]]:
    return {(row.kind, row.name, row.digest) for row in rows if row.revoked_at is None}


def left_off(one: Candidate, rows: Sequence[Trust]) -> bool:
    """Somebody said so of exactly this, or took it back, and allowed nothing else of that name
    since."""
    alike = [row for row in rows if (row.kind, row.name) == (one.kind, one.name)]
    gone = next((row.revoked_at for row in alike if row.digest == one.digest), None)
    return gone is not None and all(row.at < gone for row in alike if row.revoked_at is None)


@record
class Card:
    """That nobody answered yet. ``id``: of its row in the outbox; ``folder``: work in which it is
    there for."""

    id: str
    kind: Kind
    name: str
    digest: str
    folder: str

    @property
    def about(self) -> tuple[Kind, str, str]:
        return self.kind, self.name, self.digest

    def asked(self, facts: str, place: Address, earlier: Sequence[Trust]) -> PostRow:
        """``earlier``: what of that name is trusted."""
        why = "changed since it was trusted" if earlier else "is new here"
        head = f"**Trust {titled(self.kind, self.name)}?**\n\nIt {why}, and off until you say so."
        buttons = (
            Choice(f"{_TRUST}{self.id}", "Trust", "good"),
            Choice(f"{_LEAVE}{self.id}", "Leave off", "danger"),
        )
        text = f"{head}\n\n{facts}"
        said = Outbound(place, text, choices=buttons, card=True, hint=Hint.TRUST)
        return PostRow(self.id, "message", said, ttl=TTL)

    def outdated(self, said: Outbound) -> PostRow:
        """Takes its place while it stays open and its content is another again and again."""
        said = replace(said, text=f"{said.text}\n\n_{_OTHER}_", files=(), replaces=())
        return PostRow(derived("trust-outdated", self.id), "edit", said, target=self.id)

    def still(self, waiting: Sequence[Candidate]) -> bool:
        """Something of that name waits, with whatever content."""
        return any((one.kind, one.name) == self.about[:2] for one in waiting)

    def became(self, rows: Sequence[Trust], waiting: Sequence[Candidate]) -> str:
        """Of one that does not wait any more."""
        if self.about in active(rows):
            return MEANWHILE
        tools = self.kind == "mcp" and roams(self.kind, self.name)
        return _SETTLED_TOOLS if tools and not self.still(waiting) else GONE
