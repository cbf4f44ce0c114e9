"""What a conversation is shown on and typed at: the protocol, and the screen for pipes, dumb
terminals and ``NO_COLOR``, where lines and text stay as they are."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal, Protocol

import click

from ohmo.cli.client import NOT_TEXT
from ohmo.cli.show import clean_text
from ohmo.contracts.errors import OhmoError

Tone = Literal["plain", "aside", "trouble", "question"]


class Screen(Protocol):
    """``live``: a person sits there, who is shown an answer while it is written."""

    @property
    def live(self) -> bool: ...

    def read_message(self) -> str | None:
        """The next thing to say, None: nobody will type any more. Raises KeyboardInterrupt."""
        ...

    def read_answer(self, prompt: str) -> str | None:
        """To a question; as ``read_message``."""
        ...

    def print_line(self, text: str, tone: Tone = "plain") -> None: ...

    def print_markdown(self, text: str) -> None:
        """CommonMark from the model or from ohmo."""
        ...

    def stream(self, text: str) -> None:
        """The whole of an answer that is still written; it begins with what was shown of it
        before."""
        ...

    def end_stream(self) -> None:
        """Nothing more comes of it. May be repeated."""
        ...

    def close(self) -> None: ...


class PlainScreen:
    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._streamed = ""

    def read_message(self) -> str | None:
        return self.read_answer("> ")

    def read_answer(self, prompt: str) -> str | None:
        """From the terminal, or from a pipe, where a prompt would only stand in the way."""
        try:
            return input(prompt if sys.stdin.isatty() else "")
        except EOFError:
            return None
        except UnicodeDecodeError as error:
            raise OhmoError(NOT_TEXT) from error

    def print_line(self, text: str, tone: Tone = "plain") -> None:  # noqa: ARG002 - nothing is painted here
        click.echo(text)

    def print_markdown(self, text: str) -> None:
        click.echo(clean_text(text))

    def stream(self, text: str) -> None:
        click.echo(clean_text(text[len(self._streamed) :]), nl=False)
        self._streamed = text

    def end_stream(self) -> None:
        if self._streamed:
            click.echo()
        self._streamed = ""

    def close(self) -> None:
        self.end_stream()


def is_capable_terminal(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether lines may be edited and text painted: at a terminal that understands it, unless
    ``NO_COLOR`` is there (no-color.org)."""
    return (
        sys.stdin.isatty()
        and sys.stdout.isatty()
        and environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
        and not environ.get("NO_COLOR")
    )
