"""What the model is told about an arrival. Pure: the same arrival always gives the same step."""

from __future__ import annotations

from channels.contract import Answer, Attachment, Edited, Inbound, Reacted
from channels.text import clean
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.messages import Image, Text, UserStep
from ohmo.media import Media, is_picture

LONGEST = 200_000  # characters of one message that the model sees; the rest is said to be cut


class Teller:
    """Turns arrivals into user steps; files are named by the path where a turn will find them."""

    def __init__(self, media: Media) -> None:
        self._media = media

    def __call__(self, arrival: Arrival) -> UserStep:
        match arrival:
            case Wake():
                return UserStep((Text(_cut(arrival.prompt)),), arrival.person, "wake")
            case Inbound():
                return self._message(arrival)
            case Edited():
                text = "(deleted their message)" if arrival.text is None else f"(edited their message; it now says:)\n{_cut(arrival.text)}"
                return UserStep((Text(text),), arrival.person.id, "message")
            case Reacted():
                verb = "reacted with" if arrival.added else "took back"
                return UserStep((Text(f"({arrival.person.name} {verb} {clean(arrival.emoji)})"),), arrival.person.id, "message")
            case Answer():
                return UserStep((Text(arrival.choice),), arrival.person.id, "message")

    def _message(self, said: Inbound) -> UserStep:
        blocks: list[Text | Image] = []
        head = [] if said.private else [f"{clean(said.person.name)}:"]
        if said.quoted:
            head.append("(in reply to: " + _cut(said.quoted)[:2_000] + ")")
        files = [f"[file: {clean(file.name)}, {file.media_type}, {self._media.path(said.address, file)}]" for file in said.attachments]
        blocks += [Text("\n".join([*head, *files]))] if head or files else []
        blocks += [Image(self._media.path(said.address, file), file.media_type) for file in said.attachments if is_picture(file)]
        if said.text or not blocks:
            blocks.append(Text(_cut(said.text)))
        return UserStep(tuple(blocks), said.person.id, "message")


def attachments(arrival: Arrival) -> tuple[Attachment, ...]:
    """Files that came with it."""
    return arrival.attachments if isinstance(arrival, Inbound) else ()


def _cut(text: str) -> str:
    text = clean(text)
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n(cut: {len(text) - LONGEST} of {len(text)} characters left out)"
