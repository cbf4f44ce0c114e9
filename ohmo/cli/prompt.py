"""``ohmo -p``: says one thing, follows the thread until its turn ended, prints the answer. Nobody
is there to ask, so questions are refused unless ``--allow`` covers them."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.parse
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from channels.record import record
from channels.text import quote_thinking, unescaped
from ohmo.cli.client import Client, Json, ServerEvent, permission_request, text_of
from ohmo.cli.connect import connect_or_run
from ohmo.cli.show import clean, clean_text, ended_how
from ohmo.contracts.errors import OhmoError

if TYPE_CHECKING:
    from ohmo.cli.allow_rules import AllowRules

# Exit codes; 69: EX_UNAVAILABLE of sysexits(3).
_FAILED, _REFUSED, _UNREACHABLE = 1, 3, 69
_WITHDRAWAL = 10.0  # seconds a withdrawn prompt may take to end
_NO_MODEL = (
    "no model answered this: none is connected (provider offline); docs/models.md says how to"
    " connect one"
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@record
class ConversationOptions:
    """The options of ``-p``; ``ohmo chat`` has some of them."""

    output: str = "text"
    wait: bool = False
    again: bool = False
    resume: str | None = None
    model: str | None = None
    permission_mode: str | None = None
    allow: tuple[str, ...] = ()


def prompt(
    text: str, options: ConversationOptions, *, remote: str | None, config: Path | None
) -> int:
    """The exit code: 0 answered, 1 failed, 3 something was refused because nobody was there to ask,
    69 the model cannot be reached, 128 and a signal's number: that signal withdrew it."""
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    if not text.strip():
        raise click.UsageError("-p needs a text to say")
    allowed = None
    if options.allow:  # read before anything is said; brings the shell grammar
        from ohmo.cli.allow_rules import AllowRules

        try:
            allowed = AllowRules(options.allow, Path(os.path.expanduser("~")))  # noqa: PTH111 - without a user it must not fail
        except ValueError as error:
            raise click.UsageError(f"--allow {error}") from error
    try:
        with _interruptible(), connect_or_run(remote, config) as client:
            return _Prompt(client, options, allowed).run(text)
    except Interrupted as interrupted:
        return interrupted.code


def thread_of(client: Client, options: ConversationOptions) -> str:
    """The session that ``--resume`` or ``--continue`` names; empty for a new one. Raises Refused,
    UsageError."""
    if options.resume is not None:
        path = f"/api/v1/sessions/{urllib.parse.quote(options.resume, safe='')}"
        return str(client.get(path)["session"]["thread"])
    if not options.again:
        return ""
    latest = client.get("/api/v1/sessions", channel="house", limit=1)["sessions"]
    if not latest:
        raise click.UsageError(
            "--continue: there is no earlier conversation of this keyboard; leave it out"
        )
    return str(latest[0]["thread"])


def trouble(event: ServerEvent) -> str:
    """What a person who waits should know of the model; "" for any other event. A failure that ends
    the turn is told as its end."""
    if event.kind not in ("failure", "status") or event.data.get("fatal") or not event.data["text"]:
        return ""
    line = clean(event.data["text"]).rstrip(".")
    return f"{line}; it is tried again" if event.kind == "failure" else line


class Interrupted(BaseException):
    """A signal ends this command; what was begun can be taken back first. ``code``: its exit code,
    128 and the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


@contextmanager
def _interruptible() -> Generator[None]:
    """Meanwhile such a signal raises Interrupted. Who ignores one, as under ``nohup``, goes on
    ignoring it. Main thread only."""
    former = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        for number, handler in former.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, _interrupt)
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _interrupt(number: int, _: FrameType | None) -> NoReturn:
    raise Interrupted(number)


class _ModelUnreachable(Exception):
    """The model's tries are over; the daemon would begin again later."""


@record
class _Message:
    """The prompt, once it is accepted."""

    thread: str
    seq: int


class _Prompt:
    def __init__(
        self, client: Client, options: ConversationOptions, allowed: AllowRules | None
    ) -> None:
        self._client = client
        self._options = options
        self._allowed = allowed
        self._refused: dict[str, tuple[str, str]] = {}  # by rule: why, and what would allow it
        self._troubles: set[str] = set()
        self._streams = options.output == "stream-json"
        self._printed = 0  # the newest item that stream-json printed
        self._ended_turns: set[str] = set()  # whose last event came

    def run(self, text: str) -> int:
        resume = self._options.resume
        if resume is not None and ":" in resume:  # an address
            thread = resume
        else:
            thread = thread_of(self._client, self._options)
        body = {
            "text": text,
            "thread": thread or None,
            "mode": self._options.permission_mode,
            "model": self._options.model,
            "key": uuid.uuid4().hex,
        }
        try:
            message, row = self._follow(body)
        except _ModelUnreachable as error:
            reason = (
                f"{clean(str(error)).rstrip('.')}; the prompt is withdrawn, --wait would wait for"
                " the model"
            )
            self._print(self._withdraw(body), "unreachable", reason, {})
            return _UNREACHABLE
        except (Interrupted, BrokenPipeError):
            self._withdraw(body)
            click.echo("ohmo: interrupted, the prompt is withdrawn", err=True)
            raise
        answer, usage = self._answer(message, row)
        if row["kind"] == "command" and self._options.output == "text":
            answer = unescaped(answer)  # the house's own words are made for chats
        outcome = str(row["ending"])
        self._print(message, outcome, answer, usage)
        if (
            outcome == "answered"
            and row["kind"] != "command"
            and self._client.get("/api/v1/status")["model"] == "offline"
        ):
            click.echo(f"ohmo: {_NO_MODEL}", err=True)
        for rule, (why, hint) in self._refused.items():
            because = f" ({clean(why)})" if why else ""
            step = f"pass --allow '{hint}'" if hint else "no --allow covers it, ask in a chat"
            click.echo(f"ohmo: refused, nobody is there to ask: {rule}{because}; {step}", err=True)
        if self._refused:
            return _REFUSED
        return 0 if outcome == "answered" else _FAILED

    def _publish(self, body: Json) -> _Message:
        accepted = self._client.post("/api/v1/messages", body)
        return _Message(str(accepted["thread"]), int(accepted["seq"]))

    def _withdraw(self, body: Json) -> _Message:
        """For good: it has ended when this returns. Said again under its key it is the same
        message, so it is found also when the answer to the first time was lost. Raises
        OhmoError."""
        try:
            message = self._publish(body)
            self._publish({"text": "/stop", "thread": message.thread})
            deadline = time.monotonic() + _WITHDRAWAL
            while self._row(message)["state"] != "ended":
                if time.monotonic() > deadline:
                    raise OhmoError(f"it did not end within {_WITHDRAWAL:.0f} s")
                time.sleep(0.05)
        except OhmoError as error:
            raise OhmoError(
                f"the prompt could not be withdrawn and may be answered later: {error}"
            ) from error
        return message

    def _row(self, message: _Message) -> Json:
        return self._client.get(f"/api/v1/inbox/{message.thread}/{message.seq}")

    def _follow(self, body: Json) -> tuple[_Message, Json]:
        """Until the message has its ending. The stream of all events is open before the words are
        said, so that nothing is missed of an answer that is quick. Events may be lost, rows may
        not: each sign of life is a reason to look at the row. Raises _ModelUnreachable."""
        message: _Message | None = None
        mark = ""
        while True:
            with self._client.all_events(mark) as events:
                for event in events:
                    # nothing is on its way
                    idle = event is None or event.kind in ("ready", "reset")
                    if event is not None and event.mark:
                        mark = event.mark
                    if message is None:
                        if event is None or event.kind != "ready":
                            continue
                        message = self._publish(body)
                        self._printed = message.seq - 1
                        idle = False
                    row = self._handle(event, message, idle=idle)
                    if row is not None:
                        return message, row

    def _handle(self, event: ServerEvent | None, message: _Message, *, idle: bool) -> Json | None:
        """The row, once it has ended and, for who wants every event, its turn has told its last
        one."""
        if event is not None and event.kind not in ("ready", "reset"):
            if event.data["thread"] not in ("", message.thread):
                return None
            if event.kind != "changed":
                if self._streams:
                    told = {"event": event.kind, **event.data}
                    click.echo(json.dumps(told, ensure_ascii=False))
                is_status = event.kind == "status"
                line = trouble(event) if is_status or self._options.wait else ""
                key = "status" if is_status else line  # the first of many tries tells enough
                if line and key not in self._troubles:
                    self._troubles.add(key)
                    click.echo(f"ohmo: {line}; Ctrl-C leaves", err=True)
            if event.kind == "turn_ended":
                self._ended_turns.add(event.data["turn"])
            elif event.kind != "changed":
                return None
        self._answer_questions(message.thread)
        row = self._row(message)
        complete = True
        if self._streams:
            for page in self._client.history(message.thread, self._printed):
                for item in page["history"]:
                    self._printed = item["seq"]
                    click.echo(json.dumps({"event": "item", **item}, ensure_ascii=False))
            complete = idle or row["kind"] == "command" or row["turn"] in self._ended_turns
        if row["state"] == "ended" and complete:
            return row
        if event is None or event.kind != "turn_ended" or self._options.wait:
            return None
        # the text says why the model's tries are over; without one, ohmo begins again
        if event.data["outcome"] == "released" and event.data["text"]:
            raise _ModelUnreachable(str(event.data["text"]))
        return None

    def _answer_questions(self, thread: str) -> None:
        for approval in self._client.get("/api/v1/approvals", thread=thread)["approvals"]:
            if approval["state"] != "asked":
                continue
            ask = approval["ask"]
            request = permission_request(ask["question"])
            rules = self._allowed if ask["question"]["kind"] == "permission" else None
            scope = rules.covers(request, Path(ask["cwd"])) if rules is not None else None
            if scope is not None:
                verdict = {"verdict": "allowed", "scope": scope}
                if scope == "rule":  # ``/why`` names it
                    verdict["word"] = f"--allow {request.tool}"
            else:
                self._refused[request.rule] = (ask["question"]["why"], request.hint)
                verdict = {"verdict": "denied", "word": "nobody is there to answer"}
            self._client.post(f"/api/v1/approvals/{ask['id']}", verdict)

    def _answer(self, message: _Message, row: Json) -> tuple[str, Json]:
        """The text of the turn's last model step, or why there is none; and what the turn cost, by
        model."""
        text = ""
        usage: Json = {}
        for page in self._client.history(message.thread, message.seq):
            for spent in page["usage"]:
                if spent["turn"] == row["turn"]:
                    usage[spent["model"]] = spent
            for item in page["history"]:
                if row["kind"] == "command" and item["type"] == "out_row":
                    return str(item["row"]["outbound"]["text"]), {}  # committed with its end
                if item["type"] != "step_info" or item["turn"] != row["turn"]:
                    continue
                if item["step"]["type"] == "model_step":
                    text = text_of(item["step"]) or text
        return quote_thinking(text) or str(row["reason"] or ""), usage

    def _print(self, message: _Message, outcome: str, answer: str, usage: Json) -> None:
        if self._options.output == "text":
            if outcome == "answered":
                click.echo(clean_text(answer) if sys.stdout.isatty() else answer)
            else:
                click.echo(f"ohmo: {ended_how(outcome)}: {clean(answer)}", err=True)
            if outcome == "dead":
                again = f"ohmo inbox retry {message.thread}/{message.seq}"
                click.echo(f"ohmo: to try it again: {again}", err=True)
            return
        result: Json = {"event": "result"} if self._streams else {}
        result |= {"outcome": outcome, "text": answer}
        result |= {"thread": message.thread, "seq": message.seq}
        # of this turn: tokens together and by model, and US dollars; null when the price of a call
        # is not known
        kinds = ("calls", "input", "cached", "written", "output")
        tokens: Json = {kind: sum(used[kind] for used in usage.values()) for kind in kinds}
        tokens["models"] = {
            model: {kind: used[kind] for kind in kinds} for model, used in usage.items()
        }
        unpriced = any(used["unpriced"] for used in usage.values())
        cost = None if unpriced else sum(used["micro_usd"] for used in usage.values()) / 1e6
        result |= {"refused": list(self._refused), "usage": tokens, "cost_usd": cost}
        click.echo(json.dumps(result, ensure_ascii=False))
