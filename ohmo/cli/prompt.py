"""``ohmo -p``: says one thing, follows the thread until its turn ended, prints the answer. Nobody is there to ask, so questions are refused."""

from __future__ import annotations

import json
import os
import sys
import urllib.parse
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import click

from channels.record import record
from ohmo.cli.client import BETWEEN_LIVES, Client, Happening, Json, connect
from ohmo.cli.question import Wanted, read
from ohmo.cli.show import clean, clean_text, warn
from ohmo.contracts.errors import OhmoError

_FAILED, _REFUSED = 1, 3
NO_MODEL = "no model answered this, only the house itself (provider offline); docs/models.md says how to connect one"
_SILENCE = 120.0  # seconds without even a heartbeat (one comes every 10 s)


@record
class Wishes:
    """The options of ``-p``."""

    output: str = "text"
    again: bool = False
    resume: str | None = None
    model: str | None = None
    permission_mode: str | None = None
    allow: tuple[str, ...] = ()


def prompt(text: str, wishes: Wishes, *, remote: str | None, config: Path | None) -> int:
    """The exit code: 0 answered, 1 failed, 3 something was refused because nobody was there to ask."""
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    if not text.strip():
        raise click.UsageError("-p needs a text to say")
    allowed = _allowed(wishes.allow)
    with house_for(remote, config) as client:
        return _Conversation(client, wishes, allowed).say(text)


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
    """The running daemon; without one, the house in this process for the time of the command (it takes the home's lock)."""
    client = connect(remote, patience=BETWEEN_LIVES)
    if remote is not None or client.probe("/healthz"):
        yield client
        return
    from ohmo.cli.house import settings, surroundings

    found = settings(config)
    from ohmo.daemon import one_shot

    with one_shot(found, surroundings(), tell=warn) as socket:
        yield Client(path=socket, timeout=_SILENCE)


def trouble(event: Happening) -> str:
    """What a person who waits should know of the model; "" for any other event. A failure that ends the turn is told as its end."""
    if event.kind not in ("failure", "status") or event.data.get("fatal") or not event.data["text"]:
        return ""
    line = clean(event.data["text"]).rstrip(".")
    return f"{line}; it is tried again" if event.kind == "failure" else line


class Allowed(Protocol):
    """What ``--allow`` lets pass."""

    def covers(self, wanted: Wanted, cwd: Path) -> bool: ...


class _Conversation:
    def __init__(self, client: Client, wishes: Wishes, allowed: Allowed | None) -> None:
        self._client = client
        self._wishes = wishes
        self._allowed = allowed
        self._refused: list[str] = []
        self._troubles: set[str] = set()

    def say(self, text: str) -> int:
        body = {"text": text, "thread": self._place(), "mode": self._wishes.permission_mode, "model": self._wishes.model}
        accepted = self._client.post("/api/v1/messages", body)
        thread, seq = str(accepted["thread"]), int(accepted["seq"])
        row, answer = self._follow(thread, seq)
        outcome = str(row["ending"])
        self._print(thread, seq, outcome, answer)
        if outcome == "answered" and row["kind"] != "command" and self._client.get("/api/v1/status")["model"] == "offline":
            click.echo(f"ohmo: {NO_MODEL}", err=True)
        for rule in self._refused:
            click.echo(f"ohmo: refused, nobody is there to ask: {rule}; pass --allow '{rule}' or a --permission-mode", err=True)
        return _REFUSED if self._refused else 0 if outcome == "answered" else _FAILED

    def _place(self) -> str | None:
        resume = self._wishes.resume
        if resume is not None and ":" in resume:
            return resume
        if resume is not None:
            return str(self._client.get(f"/api/v1/sessions/{urllib.parse.quote(resume, safe='')}")["session"]["thread"])
        if self._wishes.again:
            known = self._client.get("/api/v1/sessions", channel="house", limit=1)["sessions"]
            if not known:
                raise OhmoError("--continue: there is no earlier conversation of this keyboard; leave it out")
            return str(known[0]["thread"])
        return None

    def _follow(self, thread: str, seq: int) -> tuple[Json, str]:
        """Until the arrival has its ending. Events may be lost, rows may not: each sign of life is a reason to look at the row."""
        while True:
            with self._client.events(thread=thread, since=seq) as events:
                for event in events:
                    if event is not None:
                        self._tell(event)
                    if event is not None and event.kind not in ("turn_ended", "ready", "item"):
                        continue
                    self._refuse(thread)
                    row = self._client.get(f"/api/v1/inbox/{thread}/{seq}")
                    if row["state"] == "ended":
                        return row, self._answer(thread, seq, row)

    def _refuse(self, thread: str) -> None:
        for asked in self._client.get("/api/v1/approvals", thread=thread)["approvals"]:
            ask = asked["ask"]
            if asked["state"] != "asked":
                continue
            wanted = read(ask["question"])
            if ask["question"]["kind"] == "permission" and self._allowed is not None and self._allowed.covers(wanted, Path(ask["cwd"])):
                self._client.post(f"/api/v1/approvals/{ask['id']}", {"verdict": "allowed"})
            else:
                self._refused.append(wanted.rule)
                self._client.post(f"/api/v1/approvals/{ask['id']}", {"verdict": "denied", "word": "nobody is there to answer"})

    def _answer(self, thread: str, seq: int, row: Json) -> str:
        """The text of the turn's last model step, or why there is none."""
        said, since = "", seq
        while True:
            page = self._client.get(f"/api/v1/sessions/{thread}", since=since, limit=1000)
            for item in page["history"]:
                if row["kind"] == "command" and item["type"] == "out_row":
                    return str(item["row"]["outbound"]["text"])  # its reply, committed with its end
                if item["type"] == "step_info" and item["turn"] == row["turn"] and item["step"]["type"] == "model_step":
                    said = "".join(block["text"] for block in item["step"]["blocks"] if block["type"] == "text") or said
            if page["next"] is None:
                return said or str(row["reason"] or "")
            since = page["next"]

    def _tell(self, event: Happening) -> None:
        if self._wishes.output == "stream-json":
            click.echo(json.dumps({"event": event.kind, **event.data}, ensure_ascii=False))
        line = trouble(event)
        seen = "status" if event.kind == "status" else line  # the first of many tries tells enough
        if line and seen not in self._troubles:
            self._troubles.add(seen)
            click.echo(f"ohmo: {line}; Ctrl-C leaves", err=True)

    def _print(self, thread: str, seq: int, outcome: str, answer: str) -> None:
        if self._wishes.output == "text":
            if outcome == "answered":
                click.echo(clean_text(answer) if sys.stdout.isatty() else answer)
            else:
                click.echo(f"ohmo: {outcome}: {clean(answer)}", err=True)
            return
        found = {"outcome": outcome, "text": answer, "thread": thread, "seq": seq, "refused": self._refused}
        click.echo(json.dumps({"event": "result", **found} if self._wishes.output == "stream-json" else found, ensure_ascii=False))


__all__ = ["Wishes", "house_for", "prompt"]
