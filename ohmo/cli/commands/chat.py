"""Talk with ohmo in this terminal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from channels.text import quote_growing, quote_thinking
from ohmo.cli.client import Client, Json, Refused, ServerEvent, text_of
from ohmo.cli.connect import connect_or_run
from ohmo.cli.prompt import ConversationOptions, thread_of, trouble
from ohmo.cli.screen import PlainScreen, Screen, is_capable_terminal
from ohmo.cli.show import clean, ended_how

# Events after which the rows are looked at: events may be lost, rows may not.
_ROW_EVENTS = ("turn_ended", "ready", "item")
_SCOPES = {
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
_EXITS = ("/exit", "/quit")


@click.command("chat", help=__doc__)
@click.option(
    "--continue", "again", is_flag=True, help="Go on with the latest conversation of this keyboard."
)
@click.option(
    "--resume", metavar="ID", help="Go on with this session, as `ohmo sessions list` shows it."
)
@click.option("--model", metavar="M", help="The model of this conversation.")
@click.option(
    "--permission-mode",
    type=click.Choice(["default", "plan", "full_auto"]),
    help="The mode of this conversation.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Without a running daemon: another config.yaml.",
)
@click.option("--remote", metavar="URL", help="A daemon elsewhere; its token in OHMO_TOKEN.")
def COMMAND(remote: str | None, config: Path | None, **options: Any) -> None:
    chat(ConversationOptions(**options), remote, config)


def chat(options: ConversationOptions, remote: str | None, config: Path | None) -> None:
    """Attached to the daemon; without one, ohmo runs in this process for as long as the
    conversation lasts."""
    with connect_or_run(remote, config) as client:
        thread = thread_of(client, options)
        if is_capable_terminal():
            from ohmo.cli.terminal import Editor, RichScreen, history_in
            from ohmo.config.home import environment, find_home

            history = history_in(find_home(os.environ).root / "state", environment(os.environ))
            screen = RichScreen(Editor(history, client))
        else:
            screen = PlainScreen()
        try:
            _Chat(client, screen, options, thread).run()
        finally:
            screen.close()


class _Chat:
    """Each line is a message to the daemon; what it says, does and asks is printed as it comes.
    ``thread``: the session that goes on; empty: the first line begins one."""

    def __init__(
        self, client: Client, screen: Screen, options: ConversationOptions, thread: str = ""
    ) -> None:
        self._client = client
        self._screen = screen
        self._thread = thread
        self._settings: dict[str, str | None] = {
            "mode": options.permission_mode,
            "model": options.model,
        }  # sent with the first line only
        self._seen = 0  # the newest item of the thread that was shown
        self._streamed = ""  # of the model's present step
        self._shown_texts: list[str] = []  # that were shown while they were written
        self._shown_calls: set[str] = set()  # that were shown as they began
        self._troubles: set[str] = set()  # of the model, that were told since the last line

    def run(self) -> None:
        """Until nobody types any more."""
        status = self._client.get("/api/v1/status")
        if self._screen.live:
            model = self._settings.get("model")
            if model is None and self._thread:
                page = self._client.get(f"/api/v1/sessions/{self._thread}", limit=1)
                model = page["session"]["settings"]["model"]
            answering = f"{clean(model or status['model'])}, {clean(status['provider'])}"
            self._screen.print_line(
                f"ohmo {status['version']}, {answering}. /help says what can be said, /exit leaves,"
                " Ctrl-C stops a turn.",
                "aside",
            )
        if status["model"] == "offline":
            click.echo(f"ohmo: {_NO_MODEL}", err=True)
        if self._thread:
            last = self._client.get(f"/api/v1/sessions/{self._thread}", before=2**62, limit=1)
            self._seen = int(last["history"][0]["seq"]) if last["history"] else 0
        while True:
            if self._thread:
                self._catch_up()
            try:
                line = self._screen.read_message()
            except KeyboardInterrupt:
                self._screen.print_line("")
                return
            if line is None or line.strip() in _EXITS:
                return
            if line.strip():
                self._send(line)

    def _send(self, text: str) -> None:
        message = {"text": text, "thread": self._thread or None, **self._settings}
        accepted = self._client.post("/api/v1/messages", message)
        self._thread = str(accepted["thread"])
        seq = int(accepted["seq"])
        self._seen = max(self._seen, seq)
        self._settings = {}
        self._troubles.clear()
        unended: int | None = seq
        while unended is not None:
            # Until it has its ending. The first Ctrl-C stops the turn, the second leaves.
            stopping = False
            row: Json | None = None
            while row is None:
                try:
                    row = self._ended_row(unended)
                except KeyboardInterrupt:
                    if stopping:
                        raise
                    stopping = True
                    self._client.post("/api/v1/messages", {"text": "/stop", "thread": self._thread})
            self._catch_up()
            expected = ("answered", "merged", "stopped") if stopping else ("answered", "merged")
            if row["ending"] not in expected:
                click.echo(f"ohmo: {ended_how(row['ending'])}: {clean(row['reason'])}", err=True)
            unended = None
            if text.startswith("/"):  # what a command begins is a message of its own
                rows = self._client.get("/api/v1/inbox", limit=100)["inbox"]  # what waits is first
                waiting = [
                    row["seq"]
                    for row in rows
                    if row["thread"] == self._thread and row["state"] != "ended"
                ]
                unended = min(waiting, default=None)

    def _ended_row(self, seq: int) -> Json:
        """The arrival's row, once it has its ending."""
        while True:
            with self._client.events(thread=self._thread, since=self._seen) as events:
                for event in events:
                    if event is not None:
                        self._show(event)
                        if event.kind not in _ROW_EVENTS:
                            continue
                    answer = self._client.get("/api/v1/approvals", thread=self._thread)
                    approvals = answer["approvals"]
                    asks = [item["ask"] for item in approvals if item["state"] == "asked"]
                    if asks:
                        break
                    row = self._client.get(f"/api/v1/inbox/{self._thread}/{seq}")
                    if row["state"] == "ended":
                        self._end_stream()
                        return row
                else:
                    continue
            self._answer(asks[0])

    # questions

    def _answer(self, ask: Json) -> None:
        self._end_stream()
        question = ask["question"]
        self._screen.print_line(clean(question["title"]), "question")
        if detail := question["detail"].rstrip():
            self._screen.print_markdown(detail)
        if question["kind"] == "permission":
            verdict = self._decide(question)
        else:
            labels = [str(choice["label"]) for choice in question["choices"]]
            for number, label in enumerate(labels, 1):
                self._screen.print_line(f"  {number}) {clean(label)}")
            word = (self._screen.read_answer("Your answer: ") or "").strip()
            if word.isascii() and word.isdigit() and 1 <= int(word[:6]) <= len(labels):
                word = labels[int(word) - 1]
            verdict = {"verdict": "allowed", "word": word}
            if not word:
                verdict = {"verdict": "denied", "word": "no answer was given"}
        try:
            self._client.post(f"/api/v1/approvals/{ask['id']}", verdict)
        except Refused as error:  # its time was over, or somebody else was faster
            self._screen.print_line(f"({clean(error)})", "trouble")

    def _decide(self, question: Json) -> dict[str, Any]:
        wider = ", [s]ession, [a]lways" if question.get("rule") else ""
        wider += ", all edits in this [w]orkspace" if question.get("wider") else ""
        prompt = f"Allow it? [y]es once{wider}, [N]o: "
        while True:
            typed = self._screen.read_answer(prompt)
            if typed is None:
                return {"verdict": "denied", "word": "nobody is there to answer"}
            word = typed.strip().lower()
            if word in _SCOPES:
                return {"verdict": "allowed", "scope": _SCOPES[word]}
            head, _, why = typed.strip().partition(" ")
            if head.lower().rstrip(",.:") in (*_NO, "/deny"):
                return {"verdict": "denied", "word": why.strip()}
            if not self._screen.live or not word:
                return {"verdict": "denied", "word": ""}
            self._screen.print_line(
                "that is none of these letters; nothing was decided (`no WORDS` says why not)",
                "trouble",
            )

    # what is shown

    def _show(self, event: ServerEvent) -> None:
        data = event.data
        match event.kind:
            case "text_delta" if self._screen.live:
                self._stream(self._streamed + data["text"])
            case "snapshot" if self._screen.live and data["text"] and not self._streamed:
                self._stream(data["text"])
            case "model_done":
                self._end_stream()
            case "text_reset" if self._streamed:
                self._screen.end_stream()
                self._screen.print_line("(it begins again)", "aside")
                self._streamed = ""
            case "tool_started" | "tool_refused":
                self._end_stream()
                self._shown_calls.add(data["call"])
                mark = "·" if event.kind == "tool_started" else "✗"
                line = f"{mark} {clean(data['name'])} {clean(data['summary'] or '')}"
                self._screen.print_line(line.rstrip(), "aside")
            case "status" | "failure" if (line := trouble(event)) and line not in self._troubles:
                self._end_stream()
                self._troubles.add(line)
                self._screen.print_line(f"({line})", "trouble")
            case _:
                pass

    def _stream(self, text: str) -> None:
        self._streamed = text
        self._screen.stream(quote_growing(text))

    def _end_stream(self) -> None:
        if self._streamed:
            self._screen.stream(quote_thinking(self._streamed))
            self._screen.end_stream()
            self._shown_texts.append(self._streamed.strip())
        self._streamed = ""

    def _catch_up(self) -> None:
        """What is durable and was not shown: the answer when it was not streamed, notices, and what
        others said here."""
        for page in self._client.history(self._thread, self._seen):
            for item in page["history"]:
                self._seen = item["seq"]
                if item["type"] == "out_row":
                    row = item["row"]
                    if row["kind"] == "notice" and row["target"] is None:
                        self._screen.print_markdown(row["outbound"]["text"])
                if item["type"] != "step_info" or item["step"]["type"] != "model_step":
                    continue
                answer = text_of(item["step"]).strip()
                if answer and answer not in self._shown_texts:
                    self._screen.print_markdown(quote_thinking(answer))
                for block in item["step"]["blocks"]:
                    # what began while nobody listened, as after an answer
                    if block["type"] == "tool_call" and block["id"] not in self._shown_calls:
                        values = block["arguments"].values()
                        texts = [value for value in values if isinstance(value, str)]
                        about = next((clean(text)[:120] for text in texts if text), "")
                        line = f"· {clean(block['name'])} {about}".rstrip()
                        self._screen.print_line(line, "aside")
        self._shown_texts = []
        self._shown_calls = set()
