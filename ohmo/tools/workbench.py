"""What assembly hands to every tool: limits, folders and seams to the outside."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from channels.contract import Address
from channels.record import record
from ohmo.contracts.cron import JobTools
from ohmo.contracts.tool import Judged
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.processes.job import ProcessRunner
from ohmo.tools.background import BackgroundJobs
from ohmo.tools.files.opening import Opening
from ohmo.tools.files.writing import FileStamps
from ohmo.tools.web.addresses import is_elsewhere

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to IP addresses as text. Raises OSError."""


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """What the operating system answers."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(item[4][0]) for item in found]


@record
class Limits:
    """Sizes in bytes, times in seconds; the configuration's ``limits`` fill the first three."""

    bash_output: int = 12 * 1024
    web_output: int = 50 * 1024
    read_lines: int = 200
    line_chars: int = 2000
    read_output: int = 64 * 1024
    search_lines: int = 250
    small_tree: int = 200
    bash_timeout: float = 120.0
    bash_timeout_most: float = 600.0
    web_timeout: float = 30.0
    page_timeout: float = 15.0  # to turn a page into Markdown
    web_bytes: int = 5 * 1024 * 1024
    image_bytes: int = 5 * 1024 * 1024
    # What is longer keeps its two ends: a command that never stops talking must not fill the
    # disk.
    spill: int = 16 * 1024 * 1024


@record
class Workbench:
    """What assembly hands to every tool."""

    spill: Path  # folder for full outputs (made 0700 when missing)
    sensitive: SensitivePaths  # what search tools leave out
    processes: ProcessRunner = field(default_factory=ProcessRunner)
    limits: Limits = field(default_factory=Limits)
    #: What the child environment is picked from.
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    resolver: Resolver = system_resolver
    reachable: Callable[[IPv4Address | IPv6Address], bool] = is_elsewhere
    ripgrep: Path | None = None  # the program; None: search in process
    stamps: FileStamps = field(default_factory=FileStamps)
    background: BackgroundJobs = field(default_factory=lambda: BackgroundJobs(8))
    cron: JobTools | None = None  # None: there are no tools for jobs
    #: Where the people of a thread are; None: nobody can be shown anything.
    place: Callable[[str], Awaitable[Address | None]] | None = None
    #: Bytes of one file that can be shown in a place; None: nobody knows now.
    largest: Callable[[Address], int | None] = lambda _: None

    def opening(self, judged: Judged) -> Opening:
        """How one call opens its files."""
        sensitive = self.sensitive
        return Opening(
            lambda path: sensitive.hides(path) or judged.forbidden(path), sensitive.aliases()
        )
