"""``ohmo -p``: says one thing, follows the thread until its turn ended, prints the answer. Nobody
is there to ask, so questions are refused."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.parse
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import click

from channels.record import record
from channels.text import quote_thinking
from ohmo.cli.client import BETWEEN_LIVES, Client, Happening, Json, connect
from ohmo.cli.lean import structlog_alone
from ohmo.cli.leaving import Left, leaving
from ohmo.cli.question import Wanted, read
from ohmo.cli.show import clean, clean_text, warn
from ohmo.contracts.errors import OhmoError

_FAILED, _REFUSED, _UNREACHED = 1, 3, 69  # 69: EX_UNAVAILABLE of sysexits(3)
_WITHDRAWAL = 10.0  # seconds a withdrawn prompt may take to end
NO_MODEL = (
    "no model answered this: none is connected (provider offline); docs/models.md says how to"
    " connect one"
)
_SILENCE = 120.0  # seconds without even a heartbeat (one comes every 10 s)


@record
class Wishes:
    """The options of ``-p``."""

    output: str = "text"
    wait: bool = False
    again: bool = False
    resume: str | None = None
    model: str | None = None
    permission_mode: str | None = None
    allow: tuple[str, ...] = ()


def prompt(text: str, wishes: Wishes, *, remote: str | None, config: Path | None) -> int:
    """The exit code: 0 answered, 1 failed, 3 something was refused because nobody was there to ask,
    69 the model cannot be reached, 128 and a signal's number: that signal withdrew it."""
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    if not text.strip():
        raise click.UsageError("-p needs a text to say")
    allowed = _allowed(wishes.allow)
    try:
        with leaving(), house_for(remote, config) as client:
            return _Conversation(client, wishes, allowed).say(text)
    except Left as left:
        return left.code


def _allowed(rules: Sequence[str]) -> Allowed | None:
    """Read before anything is said. Brings the shell grammar, so only when asked for."""
    if not rules:
        return None
    from ohmo.cli.allowing import Allowed as Reader

    try:
        return Reader(rules, Path(os.path.expanduser("~")))  # noqa: PTH111 - without a user it must not fail
    except ValueError as error:
        raise click.UsageError(f"--allow {error}") from error


@contextmanager
def house_for(remote: str | None, config: Path | None) -> Generator[Client]:
    """The running daemon; without one, the house in this process for the time of the command (it
    takes the home's lock)."""
    client = connect(remote, patience=BETWEEN_LIVES)
    if remote is not None or client.probe("/healthz"):
        yield client
        return
    from ohmo.cli.house import settings, surroundings

    found = settings(config)
    structlog_alone()
    from ohmo.daemon import one_shot

    with one_shot(found, surroundings(), tell=warn) as socket:
        yield Client(path=socket, timeout=_SILENCE)


def trouble(event: Happening) -> str:
    """What a person who waits should know of the model; "" for any other event. A failure that ends
    the turn is told as its end."""
    if event.kind not in ("failure", "status") or event.data.get("fatal") or not event.data["text"]:
        return ""
    line = clean(event.data["text"]).rstrip(".")
    return f"{line}; it is tried again" if event.kind == "failure" else line


class Allowed(Protocol):
    """What ``--allow`` lets pass."""

    def covers(self, wanted: Wanted, cwd: Path) -> bool: ...


class _GaveUp(Exception):
    """The model's tries are over; the house would begin again later."""


@record
class _Place:
    """Where the prompt stands."""

    thread: str
    seq: int


class _Conversation:
    def __init__(self, client: Client, wishes: Wishes, allowed: Allowed | None) -> None:
        self._client = client
        self._wishes = wishes
        self._allowed = allowed
        self._refused: list[str] = []
        self._troubles: set[str] = set()
        self._streams = wishes.output == "stream-json"
        self._shown = 0  # the newest item that stream-json told
        self._over: set[str] = set()  # turns whose last event was heard

    def say(self, text: str) -> int:
        key = uuid.uuid4().hex
        mode, model = self._wishes.permission_mode, self._wishes.model
        body = {"text": text, "thread": self._place(), "mode": mode, "model": model, "key": key}
        try:
            place, row = self._followed(body)
        except _GaveUp as end:
            reason = (
                f"{clean(str(end)).rstrip('.')}; the prompt is withdrawn, --wait would wait for the"
                " model"
            )
            self._print(self._withdraw(body), "unreachable", reason, {})
            return _UNREACHED
        except (Left, BrokenPipeError):
            self._withdraw(body)
            click.echo("ohmo: interrupted, the prompt is withdrawn", err=True)
            raise
        answer, usage = self._answer(place, row)
        outcome = str(row["ending"])
        self._print(place, outcome, answer, usage)
        if (
            outcome == "answered"
            and row["kind"] != "command"
            and self._client.get("/api/v1/status")["model"] == "offline"
        ):
            click.echo(f"ohmo: {NO_MODEL}", err=True)
        for rule in self._refused:
            click.echo(
                f"ohmo: refused, nobody is there to ask: {rule}; pass --allow '{rule}' or a"
                " --permission-mode",
                err=True,
            )
        return _REFUSED if self._refused else 0 if outcome == "answered" else _FAILED

    def _publish(self, body: Json) -> _Place:
        accepted = self._client.post("/api/v1/messages", body)
        return _Place(str(accepted["thread"]), int(accepted["seq"]))

    def _withdraw(self, body: Json) -> _Place:
        """For good: it has ended when this returns. Said again under its key it is the same
        message, so it is found also when the answer to the first time was lost. Raises
        OhmoError."""
        try:
            place = self._publish(body)
            self._publish({"text": "/stop", "thread": place.thread})
            until = time.monotonic() + _WITHDRAWAL
            while self._client.get(f"/api/v1/inbox/{place.thread}/{place.seq}")["state"] != "ended":
                if time.monotonic() > until:
                    raise OhmoError(f"it did not end within {_WITHDRAWAL:.0f} s")
                time.sleep(0.05)
        except OhmoError as error:
            raise OhmoError(
                f"the prompt could not be withdrawn and may be answered later: {error}"
            ) from error
        return place

    def _place(self) -> str | None:
        resume = self._wishes.resume
        if resume is not None and ":" in resume:
            return resume
        if resume is not None:
            return str(
                self._client.get(f"/api/v1/sessions/{urllib.parse.quote(resume, safe='')}")[
                    "session"
                ]["thread"]
            )
        if self._wishes.again:
            known = self._client.get("/api/v1/sessions", channel="house", limit=1)["sessions"]
            if not known:
                raise OhmoError(
                    "--continue: there is no earlier conversation of this keyboard; leave it out"
                )
            return str(known[0]["thread"])
        return None

    def _followed(self, body: Json) -> tuple[_Place, Json]:
        """Until the message has its ending. The stream of the whole house is open before the words
        are said, so that nothing is missed of an answer that is quick. Events may be lost, rows may
        not: each sign of life is a reason to look at the row. Raises _GaveUp."""
        place, mark = None, ""
        while True:
            with self._client.house_events(mark) as events:
                for event in events:
                    quiet = event is None or event.kind in (
                        "ready",
                        "reset",
                    )  # nothing is on its way
                    mark = event.mark or mark if event is not None else mark
                    if place is None and event is not None and event.kind == "ready":
                        place, quiet = self._publish(body), False
                        self._shown = place.seq - 1
                    if (
                        place is not None
                        and (row := self._heard(event, place, quiet=quiet)) is not None
                    ):
                        return place, row

    def _heard(self, event: Happening | None, place: _Place, *, quiet: bool) -> Json | None:
        """The row, once it has ended and, for who wants every event, its turn has told its last
        one."""
        if event is not None and event.kind not in ("ready", "reset"):
            if event.data["thread"] not in ("", place.thread):
                return None
            if event.kind != "changed":
                self._tell(event)
            if event.kind not in ("changed", "turn_ended"):
                return None
        self._refuse(place.thread)
        row = self._client.get(f"/api/v1/inbox/{place.thread}/{place.seq}")
        if self._streams:
            self._tell_items(place.thread)
        told = quiet or not self._streams or row["kind"] == "command" or row["turn"] in self._over
        if row["state"] == "ended" and told:
            return row
        if event is not None and not self._wishes.wait and (reason := _out_of_reach(event)):
            raise _GaveUp(reason)
        return None

    def _tell_items(self, thread: str) -> None:
        for page in self._pages(thread, self._shown):
            for item in page["history"]:
                self._shown = item["seq"]
                click.echo(json.dumps({"event": "item", **item}, ensure_ascii=False))

    def _pages(self, thread: str, since: int | None) -> Iterator[Json]:
        """The history of the thread after ``since``."""
        while since is not None:
            page = self._client.get(f"/api/v1/sessions/{thread}", since=since, limit=1000)
            yield page
            since = page["next"]

    def _refuse(self, thread: str) -> None:
        for asked in self._client.get("/api/v1/approvals", thread=thread)["approvals"]:
            ask = asked["ask"]
            if asked["state"] != "asked":
                continue
            wanted = read(ask["question"])
            if (
                ask["question"]["kind"] == "permission"
                and self._allowed is not None
                and self._allowed.covers(wanted, Path(ask["cwd"]))
            ):
                self._client.post(f"/api/v1/approvals/{ask['id']}", {"verdict": "allowed"})
            else:
                self._refused.append(wanted.rule)
                self._client.post(
                    f"/api/v1/approvals/{ask['id']}",
                    {"verdict": "denied", "word": "nobody is there to answer"},
                )

    def _answer(self, place: _Place, row: Json) -> tuple[str, Json]:
        """The text of the turn's last model step, or why there is none; and what the turn cost, by
        model."""
        said, usage = "", dict[str, Json]()
        for page in self._pages(place.thread, place.seq):
            usage |= {
                spent["model"]: spent for spent in page["usage"] if spent["turn"] == row["turn"]
            }
            for item in page["history"]:
                if row["kind"] == "command" and item["type"] == "out_row":
                    return (
                        str(item["row"]["outbound"]["text"]),
                        {},
                    )  # its reply, committed with its end
                if (
                    item["type"] == "step_info"
                    and item["turn"] == row["turn"]
                    and item["step"]["type"] == "model_step"
                ):
                    said = (
                        "".join(
                            block["text"]
                            for block in item["step"]["blocks"]
                            if block["type"] == "text"
                        )
                        or said
                    )
        return quote_thinking(said) or str(row["reason"] or ""), usage

    def _tell(self, event: Happening) -> None:
        if self._streams:
            click.echo(json.dumps({"event": event.kind, **event.data}, ensure_ascii=False))
        if event.kind == "turn_ended":
            self._over.add(event.data["turn"])
        line = trouble(event) if event.kind == "status" or self._wishes.wait else ""
        seen = "status" if event.kind == "status" else line  # the first of many tries tells enough
        if line and seen not in self._troubles:
            self._troubles.add(seen)
            click.echo(f"ohmo: {line}; Ctrl-C leaves", err=True)

    def _print(self, place: _Place, outcome: str, answer: str, usage: Json) -> None:
        if self._wishes.output == "text":
            if outcome == "answered":
                click.echo(clean_text(answer) if sys.stdout.isatty() else answer)
            else:
                click.echo(f"ohmo: {outcome}: {clean(answer)}", err=True)
            return
        where = {"thread": place.thread, "seq": place.seq}
        found = {
            "outcome": outcome,
            "text": answer,
            **where,
            "refused": self._refused,
            **_spent(usage),
        }
        click.echo(
            json.dumps({"event": "result", **found} if self._streams else found, ensure_ascii=False)
        )


def _out_of_reach(event: Happening) -> str:
    """Why the model's tries are over; "" for anything else, as a house that begins again."""
    released = event.kind == "turn_ended" and event.data["outcome"] == "released"
    return str(event.data["text"]) if released else ""


def _spent(usage: Mapping[str, Json]) -> Json:
    """Of one turn: tokens together and by model, and US dollars; null when the price of a call is
    not known."""
    kinds = ("calls", "input", "cached", "written", "output")
    tokens = {kind: sum(spent[kind] for spent in usage.values()) for kind in kinds}
    models = {model: {kind: spent[kind] for kind in kinds} for model, spent in usage.items()}
    unpriced = any(spent["unpriced"] for spent in usage.values())
    cost = None if unpriced else sum(spent["micro_usd"] for spent in usage.values()) / 1e6
    return {"usage": {**tokens, "models": models}, "cost_usd": cost}


__all__ = ["Wishes", "house_for", "prompt"]
