"""Lines typed at a terminal: edited, remembered in the home, completed; a paste of several lines is
one message."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from ohmo.logs.redaction import Redactor

MOST = 2**20  # bytes of history; the newer half stays
_PASTES = {True: "\x1b[?2004h", False: "\x1b[?2004l"}  # xterm's bracketed paste
Commands = Callable[[], Mapping[str, str]]
Arguments = Callable[[str, str], Sequence[str]]


class Editor:
    """``commands``: name and summary. ``arguments``: for a command's name and the words behind it,
    what may stand there. Both are asked in a thread when somebody types a slash."""

    def __init__(self, history: History, commands: Commands, arguments: Arguments) -> None:
        self._messages: PromptSession[str] = PromptSession(
            history=history,
            completer=_Commands(commands, arguments),
            complete_while_typing=True,
            complete_in_thread=True,
            multiline=True,
            prompt_continuation="  ",
            key_bindings=_keys(),
            enable_open_in_editor=False,
        )
        self._answers: PromptSession[str] = PromptSession(reserve_space_for_menu=0)

    def message(self) -> str | None:
        return self._typed(self._messages, "> ")

    def answer(self, prompt: str) -> str | None:
        """What was typed before the question stood there does not answer it: it stays for the next
        message."""
        source = self._answers.app.input
        earlier = [*get_typeahead(source), *source.read_keys()]
        try:
            return self._typed(self._answers, prompt)
        finally:
            store_typeahead(source, [*earlier, *get_typeahead(source)])

    def expect_paste(self, wanted: bool) -> None:
        """Also while no line is asked for."""
        sys.stdout.write(_PASTES[wanted])
        sys.stdout.flush()

    def _typed(self, session: PromptSession[str], prompt: str) -> str | None:
        try:
            return session.prompt(prompt)
        except EOFError:
            return None
        finally:
            self.expect_paste(True)


def _keys() -> KeyBindings:
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


class _Commands(Completer):
    def __init__(self, commands: Commands, arguments: Arguments) -> None:
        self._commands = commands
        self._arguments = arguments

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
            for known, summary in self._commands().items():
                if known.startswith(name.lower()):
                    yield Completion(
                        known, start_position=-len(name), display=f"/{known}", display_meta=summary
                    )
            return
        for choice in self._arguments(name.lower(), words):
            if choice.lower().startswith(words.lower()):
                yield Completion(choice, start_position=-len(words))


class _Kept(FileHistory):
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
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(file, "r+b") as kept:  # noqa: PTH123 - by its descriptor
            os.fchmod(file, 0o600)
            if os.fstat(file).st_size > MOST:
                newer = kept.read()[-MOST // 2 :]
                kept.seek(0)
                kept.write(newer[max(newer.find(b"\n# "), 0) :])
                kept.truncate()
    except OSError:
        return InMemoryHistory()
    secrets = frozenset(
        value
        for name, value in environ.items()
        if name.upper().endswith(("TOKEN", "KEY", "SECRET", "PASSWORD"))
    )
    return _Kept(path, Redactor(lambda: secrets).text)
