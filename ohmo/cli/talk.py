"""A conversation at the keyboard: each line is a message to the running daemon; what it says, does
and asks is printed as it comes."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from typing import Any

import click

from channels.text import quote_growing, quote_thinking
from ohmo.cli.client import Client, Happening, Json, Refused
from ohmo.cli.prompt import Wishes, trouble
from ohmo.cli.screen import Screen
from ohmo.cli.show import clean

_LOOKS = (
    "turn_ended",
    "ready",
    "item",
)  # events after which the rows are looked at: events may be lost, rows may not
_WORDS = {
    "y": "once",
    "yes": "once",
    "once": "once",
    "s": "session",
    "session": "session",
    "a": "always",
    "always": "always",
    "w": "workspace",
    "workspace": "workspace",
}
_NO = ("n", "no")  # so does an empty line; from a pipe any other
_NO_MODEL = (
    "no model is connected: only tools can be tried by hand; docs/models.md says how to connect one"
)
LEAVE = ("/exit", "/quit")


class Talk:
    """``thread``: the session that goes on; empty: the first line begins one."""

    def __init__(self, client: Client, screen: Screen, wishes: Wishes, thread: str = "") -> None:
        self._client = client
        self._screen = screen
        self._thread = thread
        self._first: dict[str, str | None] = {
            "mode": wishes.permission_mode,
            "model": wishes.model,
        }  # said with the first line only
        self._seen = 0  # the newest item of the thread that was shown
        self._streamed = ""  # of the model's present step
        self._told: list[str] = []  # texts that were shown while they were written
        self._calls: set[str] = set()  # that were shown as they began
        self._troubles: set[str] = set()  # of the model, that were told since the last line

    def run(self) -> None:
        """Until nobody types any more."""
        status = self._client.get("/api/v1/status")
        if self._screen.live:
            model = f"{self._model(status)}, {clean(status['provider'])}"
            self._screen.line(
                f"ohmo {status['version']}, {model}. /help says what can be said, /exit leaves,"
                " Ctrl-C stops a turn.",
                "aside",
            )
        if status["model"] == "offline":
            click.echo(f"ohmo: {_NO_MODEL}", err=True)
        if self._thread:
            self._seen = self._newest()
        while (line := self._line()) is not None and line.strip() not in LEAVE:
            if line.strip():
                self._say(line)

    def _line(self) -> str | None:
        if self._thread:
            self._catch_up()
        try:
            return self._screen.message()
        except KeyboardInterrupt:
            self._screen.line("")
            return None

    def _model(self, status: Json) -> str:
        """Which answers here."""
        chosen = self._first.get("model")
        if chosen is None and self._thread:
            chosen = self._client.get(f"/api/v1/sessions/{self._thread}", limit=1)["session"][
                "settings"
            ]["model"]
        return clean(chosen or status["model"])

    def _say(self, text: str) -> None:
        accepted = self._client.post(
            "/api/v1/messages", {"text": text, "thread": self._thread or None, **self._first}
        )
        self._thread, seq = str(accepted["thread"]), int(accepted["seq"])
        self._seen, self._first = max(self._seen, seq), {}
        self._troubles.clear()
        waits: int | None = seq
        while waits is not None:
            self._to_its_end(waits)
            waits = (
                self._waiting() if text.startswith("/") else None
            )  # what a command begins is a message of its own

    def _to_its_end(self, seq: int) -> None:
        stopping = False
        while True:
            try:
                row = self._followed(seq)
                break
            except KeyboardInterrupt:
                if stopping:
                    raise
                stopping = True
                self._client.post("/api/v1/messages", {"text": "/stop", "thread": self._thread})
        self._catch_up()
        if row["ending"] not in ("answered", "merged") and not (
            stopping and row["ending"] == "stopped"
        ):
            click.echo(f"ohmo: {row['ending']}: {clean(row['reason'])}", err=True)

    def _waiting(self) -> int | None:
        """The oldest message of this conversation that has no ending yet."""
        found = self._client.get("/api/v1/inbox", limit=100)["inbox"]  # what waits stands first
        return min(
            (
                one["seq"]
                for one in found
                if one["thread"] == self._thread and one["state"] != "ended"
            ),
            default=None,
        )

    def _followed(self, seq: int) -> Json:
        """The arrival's row, once it has its ending."""
        while True:
            with self._client.events(thread=self._thread, since=self._seen) as events:
                for event in events:
                    if event is not None:
                        self._show(event)
                    if event is not None and event.kind not in _LOOKS:
                        continue
                    if asked := self._open_question():
                        break
                    row = self._client.get(f"/api/v1/inbox/{self._thread}/{seq}")
                    if row["state"] == "ended":
                        self._end_stream()
                        return row
                else:
                    continue
            self._answer(asked)

    # questions

    def _open_question(self) -> Json | None:
        found = self._client.get("/api/v1/approvals", thread=self._thread)["approvals"]
        return next((one["ask"] for one in found if one["state"] == "asked"), None)

    def _answer(self, ask: Json) -> None:
        self._end_stream()
        question = ask["question"]
        self._screen.line(clean(question["title"]), "question")
        if detail := question["detail"].rstrip():
            self._screen.say(detail)
        verdict = (
            self._permission(question)
            if question["kind"] == "permission"
            else self._words(question)
        )
        try:
            self._client.post(f"/api/v1/approvals/{ask['id']}", verdict)
        except Refused as error:  # its time was over, or somebody else was faster
            self._screen.line(f"({clean(error)})", "trouble")

    def _permission(self, question: Json) -> dict[str, Any]:
        wider = ", [s]ession, [a]lways" if question.get("rule") else ""
        wider += ", all edits in this [w]orkspace" if question.get("wider") else ""
        asked = f"Allow it? [y]es once{wider}, [N]o: "
        said = self._screen.answer(asked)
        while (
            self._screen.live
            and said is not None
            and (word := said.strip().lower())
            and word not in _WORDS
            and word not in _NO
        ):
            self._screen.line("that is none of these letters; nothing was decided", "trouble")
            said = self._screen.answer(asked)
        scope = _WORDS.get((said or "").strip().lower())
        if scope is None:
            return {
                "verdict": "denied",
                "word": "" if said is not None else "nobody is there to answer",
            }
        return {"verdict": "allowed", "scope": scope}

    def _words(self, question: Json) -> dict[str, Any]:
        labels = [str(choice["label"]) for choice in question["choices"]]
        for number, label in enumerate(labels, 1):
            self._screen.line(f"  {number}) {clean(label)}")
        said = self._screen.answer("Your answer: ")
        if said is None or not said.strip():
            return {"verdict": "denied", "word": "no answer was given"}
        text = said.strip()
        chosen = (
            labels[int(text) - 1]
            if text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= len(labels)
            else text
        )
        return {"verdict": "allowed", "word": chosen}

    # what is shown

    def _show(self, event: Happening) -> None:
        data = event.data
        match event.kind:
            case "text_delta" if self._screen.live:
                self._stream(self._streamed + data["text"])
            case "snapshot" if self._screen.live and data["text"] and not self._streamed:
                self._stream(data["text"])
            case "model_done":
                self._end_stream()
            case "text_reset" if self._streamed:
                self._screen.grown()
                self._screen.line("(it begins again)", "aside")
                self._streamed = ""
            case "tool_started" | "tool_refused":
                self._end_stream()
                self._calls.add(data["call"])
                mark = "·" if event.kind == "tool_started" else "✗"
                self._screen.line(
                    f"{mark} {clean(data['name'])} {clean(data['summary'] or '')}".rstrip(), "aside"
                )
            case "status" | "failure" if (line := trouble(event)) and line not in self._troubles:
                self._end_stream()
                self._troubles.add(line)
                self._screen.line(f"({line})", "trouble")
            case _:
                pass

    def _stream(self, text: str) -> None:
        self._streamed = text
        self._screen.grow(quote_growing(text))

    def _end_stream(self) -> None:
        if self._streamed:
            self._screen.grow(quote_thinking(self._streamed))
            self._screen.grown()
            self._told.append(self._streamed.strip())
        self._streamed = ""

    def _catch_up(self) -> None:
        """What is durable and was not shown: the answer when it was not streamed, notices, and what
        others said here."""
        for item in self._items():
            self._seen = item["seq"]
            match item["type"]:
                case "step_info" if item["step"]["type"] == "model_step":
                    said = "".join(
                        block["text"] for block in item["step"]["blocks"] if block["type"] == "text"
                    ).strip()
                    if said and said not in self._told:
                        self._screen.say(quote_thinking(said))
                    for block in item["step"][
                        "blocks"
                    ]:  # what began while nobody listened, as after an answer
                        if block["type"] == "tool_call" and block["id"] not in self._calls:
                            self._screen.line(
                                f"· {clean(block['name'])} {_about(block['arguments'])}".rstrip(),
                                "aside",
                            )
                case "out_row" if item["row"]["kind"] == "notice" and item["row"]["target"] is None:
                    self._screen.say(item["row"]["outbound"]["text"])
                case _:
                    pass
        self._told, self._calls = [], set()

    def _items(self) -> Iterator[Json]:
        since: int | None = self._seen
        while since is not None:
            page = self._client.get(f"/api/v1/sessions/{self._thread}", since=since, limit=1000)
            yield from page["history"]
            since = page["next"]

    def _newest(self) -> int:
        last = self._client.get(f"/api/v1/sessions/{self._thread}", before=2**62, limit=1)[
            "history"
        ]
        return int(last[0]["seq"]) if last else 0


def _about(arguments: Json) -> str:
    """The first argument that is text, on one short line."""
    return next(
        (clean(value)[:120] for value in arguments.values() if isinstance(value, str) and value), ""
    )


def thread_of(client: Client, wishes: Wishes) -> str:
    """The session that ``--resume`` or ``--continue`` names; empty for a new one. Raises Refused,
    UsageError."""
    if wishes.resume is not None:
        return str(
            client.get(f"/api/v1/sessions/{urllib.parse.quote(wishes.resume, safe='')}")["session"][
                "thread"
            ]
        )
    if not wishes.again:
        return ""
    known = client.get("/api/v1/sessions", channel="house", limit=1)["sessions"]
    if not known:
        raise click.UsageError(
            "--continue: there is no earlier conversation of this keyboard; leave it out"
        )
    return str(known[0]["thread"])
