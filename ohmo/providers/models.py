"""What is known about models (windows, output limits, prices), and what a provider and a profile
say of their endpoint before an SDK is imported.

Prices are micro USD per token (the same number as USD per million tokens). Sources, read November
2026: "Models overview" and each model's page on platform.claude.com; the model pages on
developers.openai.com. A model nobody knows has no price and a careful window.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import field
from functools import lru_cache
from ipaddress import ip_address
from typing import Literal, Protocol
from urllib.parse import urlsplit

from channels.record import record
from ohmo.config.agent import Rate
from ohmo.contracts.provider import ModelEvent, ModelRequest

# what local servers commonly load a model with; a wrong guess is corrected by the endpoint's own
# error
UNKNOWN_WINDOW = 32_768


@record
class Price:
    """Micro USD per token."""

    input: float  # neither read from nor written to the cache
    cached: float  # read from the cache
    written: float  # to the cache
    output: float
    #: Longer prompts (tokens) cost the factors times as much, as a whole.
    long: int | None = None
    input_factor: float = 1.0
    output_factor: float = 1.0

    def micro_usd(self, input: int, cached: int, written: int, output: int) -> int:
        """``input`` are prompt tokens neither read from nor written to the cache."""
        prompt = input * self.input + cached * self.cached + written * self.written
        answer = output * self.output
        if self.long is not None and input + cached + written > self.long:
            prompt *= self.input_factor
            answer = answer * self.output_factor
        return round(prompt + answer)


@record
class Model:
    """What is known about one."""

    window: int  # tokens
    max_output: int  # tokens
    price: Price | None  # None: nobody knows it


def _claude(input: float, output: float, *, cached: float | None = None) -> Price:
    return Price(input, cached if cached is not None else input / 10, input * 1.25, output)


def _gpt(input: float, output: float, *, long: bool = True) -> Price:
    if not long:
        return Price(input, input / 10, input, output)
    return Price(input, input / 10, input * 1.25, output, 272_000, 2.0, 1.5)


_TABLE: dict[str, Model] = {  # the longest prefix of a model's name that is in here counts
    "claude-fable-5": Model(1_000_000, 128_000, _claude(10, 50)),
    "claude-opus-5-5": Model(1_000_000, 128_000, _claude(4, 20, cached=0.2)),
    "claude-opus-5": Model(1_000_000, 128_000, _claude(5, 25)),
    "claude-opus-4-8": Model(1_000_000, 128_000, _claude(5, 25)),
    "claude-opus-4-7": Model(1_000_000, 128_000, _claude(5, 25)),
    "claude-opus-4-6": Model(1_000_000, 128_000, _claude(5, 25)),
    "claude-opus-4-5": Model(200_000, 64_000, _claude(5, 25)),
    "claude-sonnet-5": Model(1_000_000, 128_000, _claude(2, 10)),
    "claude-sonnet-4-6": Model(1_000_000, 64_000, _claude(3, 15)),
    "claude-sonnet-4-5": Model(200_000, 64_000, _claude(3, 15)),
    "claude-haiku-5-5": Model(1_000_000, 128_000, Price(0.1, 0.01, 0.125, 0.5, 100_000, 5.0, 5.0)),
    "claude-haiku-4-5": Model(200_000, 64_000, _claude(1, 5)),
    "gpt-6-sol": Model(1_050_000, 128_000, _gpt(2, 10)),
    "gpt-6-luna": Model(1_050_000, 128_000, _gpt(0.1, 0.5)),
    "gpt-5.6-sol": Model(1_050_000, 128_000, _gpt(4, 20)),
    "gpt-5.6-terra": Model(1_050_000, 128_000, _gpt(2, 10)),
    "gpt-5.6-luna": Model(1_050_000, 128_000, _gpt(0.2, 1.2)),
    "gpt-5-nano": Model(400_000, 128_000, _gpt(0.05, 0.4, long=False)),
    "gpt-5-mini": Model(400_000, 128_000, _gpt(0.25, 2, long=False)),
    "gpt-5": Model(400_000, 128_000, _gpt(1.25, 10, long=False)),
    "gpt-4.1": Model(1_047_576, 32_768, Price(2, 0.5, 2, 8)),
    "gpt-4o-mini": Model(128_000, 16_384, Price(0.15, 0.075, 0.15, 0.6)),
    "gpt-4o": Model(128_000, 16_384, Price(2.5, 1.25, 2.5, 10)),
}
# A name of a known maker that is newer than this table: window only, no price.
_FAMILIES = {"claude-": 200_000, "gpt-": 128_000}


_SEES = re.compile(
    r"claude-|gpt-(?:4o|4\.1|[5-9])|gemini|gemma-?3|pixtral|llava|.*(?:vision|-vl\b|[0-9]vl\b)"
)


def sees(model: str) -> bool:
    """Whether it is known to read pictures."""
    return _SEES.match(plain_name(model).lower()) is not None


def plain_name(model: str) -> str:
    """``anthropic/claude-x`` and ``claude-x`` are the same model; gateways put the maker in
    front."""
    return model.rsplit("/", 1)[-1]


@lru_cache(256)
def known(model: str) -> Model:
    """What is known about a model; for an unknown one a careful window and no price. A dated or
    variant name counts as its family, but a different version does not: ``gpt-5.1`` is not
    ``gpt-5``."""
    name = plain_name(model)
    prefixes = [key for key in _TABLE if name == key or name.startswith(f"{key}-")]
    if prefixes:
        return _TABLE[max(prefixes, key=len)]
    windows = [window for start, window in _FAMILIES.items() if name.startswith(start)]
    window = windows[0] if windows else UNKNOWN_WINDOW
    return Model(window, window // 4, None)


Load = Callable[[str], object]  # ohmo.discovery.load


@record
class Manifest:
    """Exported as ``MANIFEST`` by every provider's package."""

    name: str
    title: str
    models: tuple[str, ...]  # small to large; the last is the default
    key_environment: str | None  # where the key is looked for when the profile names none
    client: str  # "module:Class", built as Class(Endpoint); imports the SDK
    heavy: bool = True  # import it late, in a thread
    #: "module:function" of an Endpoint: the ways its requests become bytes, without the SDK.
    renderings: str = ""
    #: Import name of an SDK whose packages may come lean (``ohmo.providers.lazy_provider``).
    sdk: str = ""
    #: Modules of it that are imported when one of their functions is called, if ever.
    late: tuple[str, ...] = ()


@record
class Endpoint:
    """One profile, its secrets resolved."""

    provider: str
    models: tuple[str, ...] = ()
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    profile: str = "default"
    window: int | None = None  # tokens; overrides the table
    silence: float = 120.0  # seconds without a byte before TimedOut
    #: Of OpenAI's two APIs; auto: Responses at OpenAI itself, chat completions everywhere else.
    wire: Literal["auto", "chat", "responses"] = "auto"
    #: Sent with every request, besides what the SDK sends.
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    hints: bool | None = None  # help for weak models; None: where it seems to be needed
    rate: Rate = Rate()  # what may be asked for in a minute

    @property
    def gateway(self) -> bool:
        """Whether it stands before the models of others: no maker's own address, and not on this
        machine."""
        host = urlsplit(self.base_url or "").hostname
        makers = ("api.anthropic.com", "api.openai.com", "localhost", "::1")
        return host is not None and host not in makers and not host.startswith("127.")

    @property
    def model(self) -> str:
        """The default model: the last of the tiers."""
        return self.models[-1] if self.models else ""


# ``qwen3:8b``, ``llama-3.2-3b-instruct``: billions of parameters
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)b(?![a-z0-9])", re.IGNORECASE)
_SMALL = 14  # billions of parameters up to which a model needs help anywhere


def weak(endpoint: Endpoint, model: str) -> bool:
    """Whether calls of this model need help: what the profile says; else a model of a size that is
    written in its name, and on this machine or in this network any that is not in the table."""
    if endpoint.hints is not None:
        return endpoint.hints
    if known(model).price is not None or model == "offline":
        return False
    sizes = [float(size) for size in _SIZE.findall(plain_name(model))]
    return any(size <= _SMALL for size in sizes) or _is_near(endpoint.base_url)


def _is_near(base_url: str | None) -> bool:
    host = (urlsplit(base_url or "").hostname or "").rstrip(".")
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local"))
    return address.is_private  # loopback, too


class Client(Protocol):
    """The heavy half of a provider."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]: ...
    def learnt_window(self, model: str) -> int | None:
        """A window smaller than the table's that the endpoint has told us in an error."""
        ...

    async def aclose(self) -> None: ...
