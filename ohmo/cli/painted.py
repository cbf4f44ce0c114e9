"""A terminal with Markdown, colours and an editor for lines (rich and prompt_toolkit, imported at
such a terminal only)."""

from __future__ import annotations

import sys
import termios
import time
import tty
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import Heading, Markdown
from rich.segment import Segment
from rich.text import Text
from rich.theme import Theme

from ohmo.cli.editor import Editor
from ohmo.cli.screen import Tone
from ohmo.cli.show import clean_text

_STYLES: dict[Tone, str] = {"plain": "", "aside": "dim", "trouble": "yellow", "question": "bold"}
_THEME = Theme({"markdown.code": "cyan"})  # rich's own has a dark ground, also in a light terminal
_PICTURES = 10  # a second, of what is still written


class Painted:
    """Between two lines the terminal echoes nothing: what is typed meanwhile is read with the next
    line, a paste still as one."""

    live = True

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._console = Console(theme=_THEME, highlight=False, markup=False, emoji=False)
        self._tail: Live | None = None
        self._text = ""  # what grows
        self._stands = 0  # characters of it that stand there for good
        self._looked = 0.0
        self._former = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
        quiet = termios.tcgetattr(sys.stdin)
        quiet[3] |= termios.NOFLSH  # Ctrl-C loses nothing of what was typed before it
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
        editor.expect_paste(True)

    def message(self) -> str | None:
        return self._editor.message()

    def answer(self, prompt: str) -> str | None:
        return self._editor.answer(prompt)

    def line(self, text: str, tone: Tone = "plain") -> None:
        self._console.print(Text(text, _STYLES[tone]))

    def say(self, text: str) -> None:
        self._console.print(_Shown(text))

    def grow(self, text: str) -> None:
        """Finished blocks stand for good; the last one is painted below them again and again until
        it is finished."""
        self._text = clean_text(text)
        if self._tail is None:
            self._tail = Live(
                get_renderable=lambda: _Shown(self._text[self._stands :], last=True),
                console=self._console,
                transient=True,
                refresh_per_second=_PICTURES,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._tail.start()
        if (now := time.monotonic()) - self._looked >= 1 / _PICTURES:
            self._looked = now
            rest = self._text[self._stands :]
            starts = [
                token.map[0]
                for token in _PARSER.parse(rest)
                if token.map is not None and token.level == 0 and token.nesting >= 0
            ]
            if len(starts) > 1:  # no later text changes the blocks before the last one
                self._stand("\n".join([*rest.split("\n")[: starts[-1]], ""]))

    def grown(self) -> None:
        if self._tail is not None:
            self._tail.stop()
        if rest := self._text[self._stands :].strip("\n"):
            self._stand(rest)
        self._tail, self._text, self._stands = None, "", 0

    def close(self) -> None:
        self.grown()
        self._editor.expect_paste(False)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._former)

    def _stand(self, text: str) -> None:
        first, self._stands = (
            self._stands == 0,
            self._stands + len(text),
        )  # first of all: the picture below it is without it
        if not first:
            self._console.print()
        self._console.print(_Shown(text))


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Document(Markdown):
    elements: ClassVar = {**Markdown.elements, "heading_open": _Heading}


_PARSER = MarkdownIt().enable("strikethrough").enable("table")  # as rich reads it


class _Shown:
    """CommonMark: line ends stay, addresses are shown, code has the terminal's own colours, no line
    ends with spaces. ``last``: only as many lines at its end as the screen is high."""

    def __init__(self, text: str, *, last: bool = False) -> None:
        self._last = last
        self._made = _Document(clean_text(text), hyperlinks=False, code_theme="ansi_dark")
        for token in self._made.parsed:
            for child in token.children or ():
                if child.type == "softbreak":
                    child.type = "hardbreak"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._made, options, pad=False)
        for line in lines[-max(options.size.height - 2, 1) :] if self._last else lines:
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                *before, end = line
                yield from before
                yield Segment(end.text.rstrip(), end.style)
            yield Segment.line()
