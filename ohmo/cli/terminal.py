"""The screen of ``ohmo chat`` at a capable terminal: Markdown and colours by rich, an editor for
lines by prompt_toolkit. Imported at such a terminal only."""

from __future__ import annotations

import os
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from markdown_it import MarkdownIt
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import Heading, Markdown
from rich.segment import Segment
from rich.text import Text
from rich.theme import Theme

from ohmo.cli.client import Client
from ohmo.cli.screen import Tone
from ohmo.cli.show import clean_text
from ohmo.contracts.errors import OhmoError
from ohmo.logs.redaction import Redactor

_STYLES: dict[Tone, str] = {"plain": "", "aside": "dim", "trouble": "yellow", "question": "bold"}
_THEME = Theme({"markdown.code": "cyan"})  # rich's own has a dark ground, also in a light terminal
_REFRESHES = 10  # a second, of what is still written
_HISTORY_BYTES = 2**20  # the newer half stays
_BRACKETED_PASTE = {True: "\x1b[?2004h", False: "\x1b[?2004l"}  # of xterm
_ARGUMENTS = {
    "approve": ("session", "workspace", "always"),
    "mode": ("default", "plan", "full_auto"),
    "cron": ("history", "pause", "resume", "remove"),
    "permissions": ("revoke",),
}


class RichScreen:
    """Between two lines the terminal echoes nothing: what is typed meanwhile is read with the next
    line, a paste still as one."""

    live = True

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._console = Console(theme=_THEME, highlight=False, markup=False, emoji=False)
        self._tail: Live | None = None
        self._text = ""  # what is streamed
        self._printed = 0  # characters of it that stand there for good
        self._parsed_at = 0.0
        self._former = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
        quiet = termios.tcgetattr(sys.stdin)
        quiet[3] |= termios.NOFLSH  # Ctrl-C loses nothing of what was typed before it
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
        editor.expect_paste(True)

    def read_message(self) -> str | None:
        return self._editor.read_message()

    def read_answer(self, prompt: str) -> str | None:
        return self._editor.read_answer(prompt)

    def print_line(self, text: str, tone: Tone = "plain") -> None:
        self._console.print(Text(text, _STYLES[tone]))

    def print_markdown(self, text: str) -> None:
        self._console.print(_Rendered(text))

    def stream(self, text: str) -> None:
        """Finished blocks stand for good; the last one is painted below them again and again until
        it is finished."""
        self._text = clean_text(text)
        if self._tail is None:
            self._tail = Live(
                get_renderable=lambda: _Rendered(self._text[self._printed :], last=True),
                console=self._console,
                transient=True,
                refresh_per_second=_REFRESHES,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._tail.start()
        now = time.monotonic()
        if now - self._parsed_at < 1 / _REFRESHES:
            return
        self._parsed_at = now
        rest = self._text[self._printed :]
        starts = [
            token.map[0]
            for token in _PARSER.parse(rest)
            if token.map is not None and token.level == 0 and token.nesting >= 0
        ]
        if len(starts) > 1:  # no later text changes the blocks before the last one
            self._print_block("\n".join([*rest.split("\n")[: starts[-1]], ""]))

    def end_stream(self) -> None:
        if self._tail is not None:
            self._tail.stop()
        if rest := self._text[self._printed :].strip("\n"):
            self._print_block(rest)
        self._tail = None
        self._text = ""
        self._printed = 0

    def close(self) -> None:
        self.end_stream()
        self._editor.expect_paste(False)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._former)

    def _print_block(self, text: str) -> None:
        first = self._printed == 0
        self._printed += len(text)  # before it is printed: what is painted below is without it
        if not first:
            self._console.print()
        self._console.print(_Rendered(text))


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Document(Markdown):
    elements: ClassVar = {**Markdown.elements, "heading_open": _Heading}


_PARSER = MarkdownIt().enable("strikethrough").enable("table")  # as rich reads it


class _Rendered:
    """CommonMark: line ends stay, addresses are shown, code has the terminal's own colours, no line
    ends with spaces. ``last``: only as many lines at its end as the screen is high."""

    def __init__(self, text: str, *, last: bool = False) -> None:
        self._last = last
        self._document = _Document(clean_text(text), hyperlinks=False, code_theme="ansi_dark")
        for token in self._document.parsed:
            for child in token.children or ():
                if child.type == "softbreak":
                    child.type = "hardbreak"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._document, options, pad=False)
        for line in lines[-max(options.size.height - 2, 1) :] if self._last else lines:
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                *before, end = line
                yield from before
                yield Segment(end.text.rstrip(), end.style)
            yield Segment.line()


class Editor:
    """Lines are edited, remembered and completed; a paste of several lines is one message."""

    def __init__(self, history: History, client: Client) -> None:
        self._messages: PromptSession[str] = PromptSession(
            history=history,
            completer=_SlashCompleter(client),
            complete_while_typing=True,
            complete_in_thread=True,
            multiline=True,
            prompt_continuation="  ",
            key_bindings=_key_bindings(),
            enable_open_in_editor=False,
        )
        self._answers: PromptSession[str] = PromptSession(reserve_space_for_menu=0)

    def read_message(self) -> str | None:
        return self._typed(self._messages, "> ")

    def read_answer(self, prompt: str) -> str | None:
        """What was typed before the question stood there does not answer it: it stays for the next
        message."""
        source = self._answers.app.input
        earlier = [*get_typeahead(source), *source.read_keys()]
        try:
            return self._typed(self._answers, prompt)
        finally:
            store_typeahead(source, [*earlier, *get_typeahead(source)])

    def expect_paste(self, on: bool) -> None:
        """Also while no line is asked for."""
        sys.stdout.write(_BRACKETED_PASTE[on])
        sys.stdout.flush()

    def _typed(self, session: PromptSession[str], prompt: str) -> str | None:
        try:
            return session.prompt(prompt)
        except EOFError:
            return None
        finally:
            self.expect_paste(True)


def _key_bindings() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    return keys


class _SlashCompleter(Completer):
    """Completes slash commands and their arguments; runs in a thread when a slash was typed."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002
    ) -> Iterable[Completion]:
        typed = document.text_before_cursor
        if not typed.startswith("/") or "\n" in typed:
            return
        name, space, words = typed[1:].partition(" ")
        if not space:
            for known, summary in self._commands.items():
                if known.startswith(name.lower()):
                    yield Completion(
                        known, start_position=-len(name), display=f"/{known}", display_meta=summary
                    )
            return
        for choice in self._arguments(name.lower(), words):
            if choice.lower().startswith(words.lower()):
                yield Completion(choice, start_position=-len(words))

    @cached_property
    def _commands(self) -> Mapping[str, str]:
        """Name and summary of each command, in order of use. Imports all of them."""
        from ohmo.commands.contract import listed
        from ohmo.discovery import scan

        commands = listed(scan("ohmo.commands", "COMMAND"))
        summaries = {
            name: f"{command.usage} {command.summary}".strip() for name, command in commands.items()
        }
        return summaries | {"exit": "leave; the daemon goes on"}

    def _arguments(self, name: str, words: str) -> Sequence[str]:
        """Everything that may stand behind ``/name``, where ``words`` stand now; a daemon that does
        not answer completes nothing."""
        verb, space, _ = words.partition(" ")
        try:
            if name == "model":
                return (*self._client.get("/api/v1/status")["models"], "default")
            if name == "cron" and space and verb in _ARGUMENTS["cron"]:
                return [f"{verb} {job['name']}" for job in self._client.get("/api/v1/cron")["jobs"]]
            if name == "permissions" and space and verb == "revoke":
                grants = self._client.get("/api/v1/permissions")["permissions"]
                return [f"{verb} {grant['id']}" for grant in grants]
        except OhmoError:
            return ()
        return _ARGUMENTS.get(name, ())


class _RedactedHistory(FileHistory):
    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        super().__init__(str(path))
        self._redact = redact

    def store_string(self, string: str) -> None:
        super().store_string(self._redact(string))


def history_in(folder: Path, environ: Mapping[str, str]) -> History:
    """``history`` in that folder: for its owner's eyes, without what is or looks like a secret
    (values of ``environ`` with such a name, and the shapes of credentials). Where it cannot be
    kept, only this conversation is remembered."""
    path = folder / "history"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "r+b") as file:  # noqa: PTH123 - by its descriptor
            os.fchmod(descriptor, 0o600)
            if os.fstat(descriptor).st_size > _HISTORY_BYTES:
                newer = file.read()[-_HISTORY_BYTES // 2 :]
                file.seek(0)
                file.write(newer[max(newer.find(b"\n# "), 0) :])
                file.truncate()
    except OSError:
        return InMemoryHistory()
    secrets = frozenset(
        value
        for name, value in environ.items()
        if name.upper().endswith(("TOKEN", "KEY", "SECRET", "PASSWORD"))
    )
    return _RedactedHistory(path, Redactor(lambda: secrets).text)
