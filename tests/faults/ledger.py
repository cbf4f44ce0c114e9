"""The promise as a check: what people said against what they see, from the platforms' own histories
only. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.conformance.rig import Visible
from tests.faults.directed_model import MARKER, answer_to

MARK = "may be a duplicate"
FOOTER = re.compile(r"\n+[_*]?\S+ in / \S+ out · \d+ s · \d+ turns? · \d+ calls?[_*]?\s*$")
Place = tuple[str, str, str | None]  # platform, chat, topic


@dataclass(frozen=True, slots=True)
class Word:
    """Something a person said that must be answered (or, with ``ending`` "none", must not be)."""

    marker: str
    place: Place
    answered: bool = True


def problems(
    words: Sequence[Word],
    seen: Mapping[tuple[str, str], Sequence[Visible]],
    *,
    repeats: int = 0,
    also: Callable[[Visible], bool] | None = None,
) -> list[str]:
    """L1 to L4. ``seen`` by (platform, chat). ``repeats``: second answers that may be there when
    each is marked. ``also``: other messages of the bot that are right."""
    places = {word.marker: word.place for word in words}
    times: Counter[str] = Counter()
    marked: Counter[str] = Counter()
    order: dict[Place, list[str]] = {}
    found: list[str] = []
    for (platform, chat), messages in seen.items():
        for message in messages:
            if not message.by_bot or (also is not None and also(message)):
                continue
            markers = MARKER.findall(message.text)
            if len(markers) != 1 or (platform, chat) != places.get(markers[0], ("", ""))[:2]:
                found.append(f"L4: {platform} {chat} shows {message.text[:120]!r}")
                continue
            marker = markers[0]
            if (topic := places[marker][2]) is not None and message.topic != topic:
                found.append(f"L4: {marker} was said in {topic} and answered in {message.topic}")
            if (text := _bare(message.text)) != answer_to(marker):
                found.append(f"L1: {marker} has a half answer {text[:120]!r}")
            if MARK in message.text:
                marked[marker] += 1
            if not times[marker]:
                order.setdefault(places[marker], []).append(marker)
            times[marker] += 1
    found += _counts(words, times, marked, repeats)
    return found + _order(words, order)


def _bare(text: str) -> str:
    """Without the mark, wherever the platform puts it, and without what the work cost."""
    text = FOOTER.sub("", text)
    return " ".join(
        text.replace(f"({MARK})", "")
        .replace(f"_{MARK}_", "")
        .replace(MARK, "")
        .strip(" _()\n")
        .split()
    )


def _counts(
    words: Iterable[Word], times: Counter[str], marked: Counter[str], repeats: int
) -> list[str]:
    found: list[str] = []
    for word in words:
        number = times[word.marker]
        if word.answered and not number:
            found.append(f"L1: {word.marker} in {word.place} is not answered")
        if not word.answered and number:
            found.append(f"L1: {word.marker} in {word.place} was stopped and is answered")
        if number > 1 and marked[word.marker] < number - 1:
            found.append(
                f"L2: {word.marker} is answered {number} times, {marked[word.marker]} of them"
                " marked"
            )
    if (more := sum(number - 1 for number in times.values() if number > 1)) > repeats:
        found.append(f"L2: {more} second answers, {repeats} are allowed")
    return found


def _order(words: Iterable[Word], order: Mapping[Place, Sequence[str]]) -> list[str]:
    """L3. A marked repeat may stand anywhere; the first showing of each answer counts."""
    said: dict[Place, list[str]] = {}
    for word in words:
        said.setdefault(word.place, []).append(word.marker)
    found: list[str] = []
    for place, answers in order.items():
        wanted = [marker for marker in said[place] if marker in answers]
        if list(answers) != wanted:
            found.append(f"L3: {place} is answered in the order {answers}, said in {wanted}")
    return found


def transcript_problems(histories: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """L6 at rest: each tool call has exactly one result, before the model speaks again."""
    found: list[str] = []
    for thread, items in histories.items():
        waiting: list[str] = []
        for step in (item["step"] for item in items if item["type"] == "step_info"):
            match step["type"]:
                case "call_result":
                    call = step["result"]["call"]
                    found += (
                        []
                        if call in waiting
                        else [f"L6: {thread}: a result for {call}, which does not wait for one"]
                    )
                    waiting = [one for one in waiting if one != call]
                case "call_started":
                    found += (
                        []
                        if step["call"] in waiting
                        else [f"L6: {thread}: {step['call']} started without being asked for"]
                    )
                # a person may speak before a stopped call is closed; the request puts the result
                # first
                case "model_step":
                    found += (
                        [f"L6: {thread}: {waiting} have no result before the next answer"]
                        if waiting
                        else []
                    )
                    waiting = [
                        block["id"] for block in step["blocks"] if block["type"] == "tool_call"
                    ]
                case _:
                    pass
        found += [f"L6: {thread}: {waiting} have no result at the end"] if waiting else []
    return found
