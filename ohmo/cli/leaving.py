"""Ctrl-C and the signals that end a process, as one exception: what was begun can be taken back
before the command leaves."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Left(BaseException):
    """Somebody wants this command to end. ``code``: its exit code, 128 and the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


def _leave(number: int, _: FrameType | None) -> NoReturn:
    raise Left(number)


@contextmanager
def leaving() -> Generator[None]:
    """Meanwhile such a signal raises Left. Who ignores one, as under ``nohup``, goes on ignoring
    it. Main thread only."""
    former = {one: signal.getsignal(one) for one in _ENDING}
    try:
        for one, was in former.items():
            if was is not signal.SIG_IGN:
                signal.signal(one, _leave)
        yield
    finally:
        for one, was in former.items():
            signal.signal(one, was)
