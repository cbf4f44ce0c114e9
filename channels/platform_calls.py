"""What every platform's client needs: the proxy, the check of its credentials, bounded downloads,
names of people asked for once, a pause of drafts after a rate limit, a lean import of its SDK."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import ipaddress
import re
import sys
import time
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Protocol, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from channels.contract import Attachment
from channels.errors import AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.record import Recent

PATIENCE = 2.0  # seconds for the question why a connection was lost
MOST_NAMES = 5_000  # people whose names are kept

T = TypeVar("T")


def is_loopback(url: str) -> bool:
    """No proxy is ever asked for such an address, and a secret may go there without TLS."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def proxy_for(url: str) -> str | None:
    """The address of the proxy (``HTTPS_PROXY``, ``HTTP_PROXY``), with the credentials that stand
    in it; None for loopback and for what ``NO_PROXY`` names."""
    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get("https" if parts.scheme in {"https", "wss"} else "http")


async def checked(title: str, seconds: float, asking: Awaitable[T], advice: str = "") -> T:
    """What the platform says of us. ``advice``: what to do about a refusal, which asking again does
    not change. Raises AuthFailed, NotReady."""
    try:
        async with asyncio.timeout(seconds):
            return await asking
    except TimeoutError:
        raise NotReady(f"{title} did not answer within {seconds:g} s") from None
    except Rejected as refused:
        raise AuthFailed(f"{refused}{advice}") from refused


async def why_lost(asking: Awaitable[object]) -> None:
    """An app that was revoked is cut off without a word: AuthFailed is raised then, because
    NotReady would only repeat the question. Any other failure is left to the next connection."""
    with contextlib.suppress(NotReady, RateLimited, Rejected, TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await asking


class Download(Protocol):
    def __call__(self, path: Path, limit: int, /) -> Awaitable[object]: ...


def plain_name(attachment: Attachment) -> str:
    """Its name as that of a file inside a folder: without folders, leading dots and control
    characters, at most 80 characters."""
    return re.sub(r"[\x00-\x1f/\\]", "_", Path(attachment.name).name).lstrip(".")[-80:] or "file"


async def downloaded(
    title: str, attachment: Attachment, path: Path, limit: int, download: Download
) -> Path:
    """``path``, once ``download`` has written it. ``title``: of the platform; ``limit``: bytes.

    Raises Rejected for a file that is announced as larger, and whatever ``download`` raises, also
    when it is cancelled: nothing is left of it then."""
    if (attachment.size or 0) > limit:
        raise Rejected(
            f"{title}: the file has {attachment.size} bytes, at most {limit} are fetched"
        )
    whole = False
    try:
        await download(path, limit)
        whole = True
    finally:
        if not whole:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 - must also happen when cancelled
    return path


def opened(title: str, path: Path) -> IO[bytes]:
    """A file that is sent. ``title``: of the platform. Raises Rejected."""
    try:
        return path.open("rb")
    except OSError as error:
        raise Rejected(f"{title}: {path} cannot be read: {error.strerror}") from error


async def save(title: str, chunks: AsyncIterable[bytes], path: Path, limit: int) -> None:
    """What a platform sends of a file. ``title``: of the platform. Raises Rejected past ``limit``
    bytes."""
    taken = 0
    with path.open("wb") as out:
        async for chunk in chunks:
            taken += len(chunk)
            if taken > limit:
                raise Rejected(f"{title}: the file has more than {limit} bytes")
            out.write(chunk)


async def copied(title: str, source: Path, path: Path, limit: int) -> None:
    """A file that a platform's server keeps on this disk. Raises Rejected, as ``save`` does."""

    async def chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
        while chunk := await asyncio.to_thread(file.read, 1 << 16):
            yield chunk

    with opened(title, source) as file:
        await save(title, chunks(file), path, limit)


class Names:
    """People's names by their ids. Each person is asked for once; a name that cannot be had in time
    is the id until it is there."""

    def __init__(self, ask: Callable[[str], Awaitable[str]], patience: float) -> None:
        """``ask``: one question to the platform, "" when the answer holds no name; raises
        ChannelError. ``patience``: seconds for which a message waits for the names in it."""
        self._ask = ask
        self._patience = patience
        self._known = Recent[str, str](MOST_NAMES)
        self._asking: dict[str, asyncio.Task[None]] = {}

    @property
    def known(self) -> Mapping[str, str]:
        return self._known

    def tell(self, person: str, name: str) -> None:
        """A name that came by itself: some platforms write it beside a mention."""
        if person and name:
            self._known[person] = name

    async def learn(self, people: Collection[str], group: asyncio.TaskGroup) -> None:
        """Waits a moment only; the questions themselves go on in ``group``, which AuthFailed
        ends."""
        for person in people:
            if person and person not in self._known and person not in self._asking:
                self._asking[person] = group.create_task(
                    self._learn(person), name=f"name of {person}"
                )
        asked = [self._asking[person] for person in people if person in self._asking]
        if asked:
            await asyncio.wait(asked, timeout=self._patience)

    async def _learn(self, person: str) -> None:
        try:
            self.tell(person, await self._ask(person) or person)
        except AuthFailed:
            raise
        except Rejected:  # no scope, no such person: asking again changes nothing
            self.tell(person, person)
        except ChannelError:
            return
        finally:
            del self._asking[person]


class DraftPause:
    """Revisions of an account's drafts rest after a rate limit, so that final texts get through.
    One that is refused is dropped, because a newer one follows."""

    def __init__(self) -> None:
        self._until = 0.0  # monotonic

    @property
    def active(self) -> bool:
        return time.monotonic() < self._until

    @contextmanager
    def observe(self) -> Generator[None]:
        """Around one revision. Rejected is swallowed, and so is RateLimited, whose wait begins
        now."""
        try:
            yield
        except RateLimited as limited:
            self._until = time.monotonic() + limited.retry_after
        except Rejected:
            return


# Imports of an SDK that do not bring what we never use of it


class Closed(ModuleType):
    """A package whose modules can be imported one by one. Its own ``__init__`` runs at the first
    name that it does not have yet."""

    def __init__(self, name: str, blanks: Sequence[str]) -> None:
        """``blanks``: empty stand-ins, which make room for the real modules then. Raises
        ImportError when it is not installed."""
        super().__init__(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        self.__spec__ = spec
        self.__loader__ = spec.loader
        self.__file__ = spec.origin
        self.__package__ = name
        self.__path__ = list(spec.submodule_search_locations)
        self.__dict__["_blanks"] = tuple(blanks)

    def __getattr__(self, name: str) -> object:
        blanks = None
        if not name.startswith("__") or name == "__all__":
            blanks = self.__dict__.pop("_blanks", None)
        if blanks is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        for blank in blanks:
            sys.modules.pop(blank, None)
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(self)
        return getattr(self, name)


class PartialImport:
    """A context for imports of ``sdk`` that shall not bring all the rest.

    ``closed``: packages of it, outermost first, whose ``__init__`` waits until somebody asks for
    what only it gives. ``blanks``: modules that are not wanted at all, with the classes their
    importers ask for. Nothing happens when the SDK is there already. Raises ImportError when it is
    not installed."""

    def __init__(
        self, sdk: str, blanks: Mapping[str, Sequence[str]], *, closed: Sequence[str] = ()
    ) -> None:
        self._sdk = sdk
        self._closed = closed
        self._blanks = blanks
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> None:
        if self._sdk in sys.modules:
            return
        for name in self._closed:
            sys.modules[name] = closed = Closed(name, tuple(self._blanks))
            parent, _, own = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], own, closed)
        for name, wanted in self._blanks.items():
            sys.modules[name] = blank = ModuleType(name)
            blank.__dict__.update({each: type(each, (), {}) for each in wanted})
        # Modules that ask for an event loop while they are imported would make one and leave it
        # open.
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)

    def __exit__(self, *failure: object) -> None:
        for name in self._blanks:
            if name in sys.modules and sys.modules[name].__spec__ is None:
                del sys.modules[name]
        if self._loop is not None:
            asyncio.set_event_loop(None)
            self._loop.close()
            self._loop = None
