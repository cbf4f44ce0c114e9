"""Everything one message caused, from its arrival to the receipt of the answer."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from ohmo.cli.connect import connect_or_open
from ohmo.cli.show import Row, address, as_json_text, clean, client_options
from ohmo.contracts.messages import cost_words

Event = tuple[str, str, str]  # when, what kind of thing, in words
_ROOM = 160  # characters of one thing


@click.command("trace", help=__doc__)
@click.argument("id")
@client_options
def COMMAND(id: str, as_json: bool, remote: str | None) -> None:
    """ID: THREAD/SEQ of `ohmo inbox list`, a turn, an id of `ohmo outbox list`, or what the
    platform calls the message."""
    name = urllib.parse.quote(id, safe="/")
    found = connect_or_open(remote).get(f"/api/v1/trace/{name}")
    if as_json:
        click.echo(as_json_text(found))
        return
    events = sorted(_events(found), key=lambda event: event[0])
    place = address(found["thread"]["address"])
    click.echo(f"conversation {found['thread']['thread']} at {place}")
    for when, kind, words in events:
        click.echo(f"{_clock(when)}  {kind:<9} {words}")
    turn = found["turn"]
    if turn is not None and turn["left_out"]:
        click.echo(f"({turn['left_out']} more steps: ohmo sessions show has them)")


def _events(found: Row) -> Iterator[Event]:
    for arrival in found["arrivals"]:
        yield from _arrival(arrival)
    if found["turn"] is not None:
        yield from _turn(found["turn"])
    for call in found["calls"]:
        used = call["usage"]
        sent = used["input"] + used["cached"] + used["written"]
        cost = cost_words(used["micro_usd"], int(used["micro_usd"] is None))
        tokens = f"{sent} tokens in ({used['cached']} cached), {used['output']} out"
        yield call["at"], "model", f"{clean(used['model'])} ({used['purpose']}): {tokens}, {cost}"
    for asked in found["questions"]:
        title = clean(asked["question"]["title"])[:_ROOM]
        yield asked["at"] or "", "question", f"{asked['call']}: {title} ({asked['state']})"
        if asked["answered"]:
            scope = f", {asked['scope']}" if asked["scope"] else ""
            word = f": {clean(asked['word'])[:_ROOM]}" if asked["word"] else ""
            by = f" by {clean(asked['person'])}" if asked["person"] else ""
            yield asked["answered"], "answer", f"{asked['state']}{scope}{by}{word}"
    for post in found["posts"]:
        yield from _post(post)
    for line in found["log"]:
        said = {key: value for key, value in line.items() if key not in _KNOWN}
        words = f"{line.get('level', '')} {line.get('event', '')} {_json(said)}"
        yield str(line.get("at", "")), "log", clean(words)[: 2 * _ROOM]


_KNOWN = ("at", "level", "event", "turn", "thread", "logger")


def _arrival(row: Row) -> Iterator[Event]:
    arrival = row["arrival"]
    said = [arrival.get(name) for name in ("text", "prompt", "emoji", "choice")]
    text = clean(next((value for value in said if value), ""))[:_ROOM]
    name = f"{row['thread']}/{row['seq']}"
    yield row["stored"], "arrival", f"{name} {row['kind']} of {clean(row['person'])}: {text}"
    reason = f" ({clean(row['reason'])})" if row["reason"] else ""
    if row["turn"] is None and row["ending"] in ("noted", "refused"):
        yield row["stored"], "access", f"{name} is not given to the model{reason}"
    else:
        yield row["stored"], "access", f"{name} is heard"
    if row["ended"]:
        yield row["ended"], "end", f"{name} {row['ending']}{reason}"


def _turn(turn: Row) -> Iterator[Event]:
    starts = f", begun {turn['starts']} times" if turn["starts"] > 1 else ""
    failed = f", {turn['attempts']} failed tries" if turn["attempts"] else ""
    yield turn["began"], "turn", f"{turn['turn']} for {clean(turn['person'])}{starts}{failed}"
    for step in turn["steps"]:
        yield from ((step["at"], kind, words) for kind, words in _step(step["step"]))
    if turn["ended"]:
        reason = f": {clean(turn['reason'])}" if turn["reason"] else ""
        yield turn["ended"], "turn", f"{turn['state']}{reason}"


def _step(step: dict[str, Any]) -> Iterator[tuple[str, str]]:
    kind = step.get("type", "")
    if kind == "call_result":
        result = step["result"]
        how = "refused by " + result["refused"] if result["refused"] else "ended"
        how = "failed" if result["error"] and not result["refused"] else how
        how += f" (allowed by {clean(result['allowed'])})" if result["allowed"] else ""
        yield "result", f"{result['call']} {how}: {clean(result['text'])[:_ROOM]}"
    elif kind == "call_started":
        yield "tool", f"{step['call']} runs"
    elif kind == "compaction":
        yield "context", "what came before was made shorter"
    else:
        for block in step.get("blocks", ()):
            if "arguments" in block:
                call = f"{block['id']} {block['name']} {_json(block['arguments'])}"
                yield "call", clean(call)[:_ROOM]
            elif block.get("text"):
                who = step["source"] if kind == "user_step" else "said"
                yield who, clean(block["text"])[:_ROOM]


def _post(post: Row) -> Iterator[Event]:
    row, parts = post["row"], post["parts"]
    receipts = [part["receipt"] for part in parts if part["receipt"]]
    text = clean(row["outbound"].get("text"))[:_ROOM]
    yield post["started"], "post", f"{row['id']} {row['kind']}: {text}"
    how = f"{post['state']}, {len(receipts)} of {len(parts)} parts, {post['attempts']} failed tries"
    names = [str(each) for receipt in receipts for each in receipt.values() if each]
    error = f": {clean(post['error'])}" if post["error"] else ""
    shown = f", receipts {' '.join(map(clean, names))[:_ROOM]}" if names else ""
    yield post["ended"] or post["ready_at"], "receipt", f"{row['id']} {how}{shown}{error}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str) if value else ""


def _clock(when: str) -> str:
    if not when:
        return " " * 23
    at = datetime.fromisoformat(when).astimezone()
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03}"
