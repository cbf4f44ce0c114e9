"""What tools speak to beside files, commands and pages. Each is there because the owner configured
it, or because the house has it; where it is not, there is no tool of it. And one way to call a
service whose address the owner wrote down."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Literal, Protocol

import aiohttp

from channels.record import record
from ohmo.contracts.messages import Image, Json
from ohmo.contracts.provider import Payer
from ohmo.tools.results import ToolError

_SECONDS = 30.0
_MOST = 5 << 20  # bytes of an answer


@record
class SearchService:
    provider: Literal["brave", "tavily", "searxng"]
    url: str  # of the service, without the path of its search
    key: str = field(default="", repr=False)


@record
class ImageService:
    """An endpoint of OpenAI's kind."""

    base_url: str
    model: str
    key: str = field(default="", repr=False)
    micro_usd: int | None = None  # of one picture


@record
class OtherHouse:
    """A webhook of another ohmo, by its address and the secret both know."""

    url: str
    secret: str = field(repr=False)


class Settings(Protocol):
    """Keys of ``config.yaml`` by their dotted names. Raises ConfigError with one line."""

    def read(self, key: str) -> str:
        """What holds, as YAML; secrets are blotted out."""
        ...

    def refuse(self, key: str, value: str) -> None:
        """Raises ConfigError: this may not be written, or would not be taken."""
        ...

    def write(self, key: str, value: str) -> str:
        """``value`` as YAML, every remark of the owner kept. When it holds, in words."""
        ...


#: Asks a model that can see about one picture. Raises ProviderError.
See = Callable[[Image, str, Payer], Awaitable[str]]


@record
class Systems:
    """None, empty: it is not there."""

    search: SearchService | None = None
    images: ImageService | None = None
    remotes: Mapping[str, OtherHouse] = field(default_factory=dict[str, OtherHouse])
    settings: Callable[[], Settings] | None = None  # made when it is first needed
    see: See | None = None


@record
class ServiceAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Json:
        """Raises ToolError: it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ToolError("the service answered with something that is not JSON") from None


async def call_service(
    method: Literal["GET", "POST"],
    url: str,
    *,
    headers: Mapping[str, str],
    query: Mapping[str, str] | None = None,
    body: bytes | None = None,
    seconds: float = _SECONDS,
    most: int = _MOST,
) -> ServiceAnswer:
    """To this host only: no redirect is followed, no proxy of the environment asked, no cookie
    kept. Raises ToolError with one line when there is no answer of at most ``most`` bytes."""
    timeout = aiohttp.ClientTimeout(total=seconds)
    jar = aiohttp.DummyCookieJar()
    try:
        async with (
            aiohttp.ClientSession(cookie_jar=jar, trust_env=False, timeout=timeout) as session,
            session.request(
                method, url, headers=headers, params=query, data=body, allow_redirects=False
            ) as answer,
        ):
            received = bytearray()
            async for piece in answer.content.iter_chunked(1 << 16):
                received += piece
                if len(received) > most:
                    raise ToolError(f"the service answered with more than {most} bytes")
            return ServiceAnswer(answer.status, dict(answer.headers), bytes(received))
    except TimeoutError as error:
        raise ToolError(f"the service did not answer within {seconds:.0f} s") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        words = str(error).split("\n", maxsplit=1)[0] or type(error).__name__
        raise ToolError(f"the service cannot be reached: {words}") from error


def table(value: Json) -> Mapping[str, Json]:
    """Of an answer: what is no object has no fields."""
    return value if isinstance(value, dict) else {}


def refusal(answer: ServiceAnswer, key: str) -> str:
    """Why a service refused, in one line; "" when it did not. ``key``: of the configuration, where
    its secret stands."""
    match answer.status:
        case 200 | 201 | 202:
            return ""
        case 401:
            return f"the service does not know the key (401); the owner has to mend {key}"
        case 403:
            return "the service refuses this (403)"
        case 429:
            # "Response Headers" of Brave: the seconds until each of its limits, the nearest first
            resets = answer.headers.get("X-RateLimit-Reset", "").partition(",")[0]
            wait = answer.headers.get("Retry-After", resets).strip()[:40]
            when = f" in {wait} s" if wait.isdigit() else " later"
            return f"too many requests (429); try again{when}"
        case status if 300 <= status < 400:
            return f"the service leads to another address ({status}), which is not followed"
        case status:
            return f"the service answered {status}"
