"""What the house may fail with; the docstring is the default message.

OhmoError
├── ConfigError            78: file, line, key and what to do
├── HomeTaken              75: another instance owns the home
├── StoreError
│   ├── LeaseLost          somebody else owns the thread; nothing was written; stop at once
│   ├── Conflict           a law of the schema refused the write; a bug, never retried
│   └── Damaged            the store file is not readable as what it should be
└── ProviderError
    ├── Overloaded         429/529/5xx: wait ``retry_after`` seconds
    ├── TimedOut           no byte, or no further byte, within the limit
    │   └── OutOfReach     nobody answers at the endpoint's address
    ├── CutOff             the stream ended before its end
    │   └── Empty          it ended, and nothing was said: waiting does not help
    ├── TooLong            the prompt does not fit the model's window
    ├── Refused            the provider will never accept this request as it is
    │   ├── NoMoney        the account cannot pay for it
    │   └── OverBudget     a budget of the house does not leave enough for it; nothing was asked
    ├── BadKey             the key is missing or wrong
    │   └── NotAllowed     the key is known, and may not do this
    └── NoSuchModel        the endpoint has no route for this model
BadArguments (OhmoError)   arguments that do not fit a tool; the model is told, the turn goes on
ValueError                 an address (`CHANNEL:REST`) that cannot be read
└── NotConnected           its channel is not connected now: read it later
    └── NotEnabled         nor will it be before config.yaml enables it
(`Unavailable` lives in channels/errors.py, because channels see it too.)
"""

from __future__ import annotations


class OhmoError(Exception):
    """Something in ohmo failed."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "failed").strip().splitlines()[0])


class ConfigError(OhmoError):
    """The configuration is wrong."""


class HomeTaken(OhmoError):
    """Another instance owns this home."""


class StoreError(OhmoError):
    """The store failed."""


class LeaseLost(StoreError):
    """Somebody else owns the thread now; nothing was written."""


class Conflict(StoreError):
    """A law of the schema refused the write."""


class Damaged(StoreError):
    """The store file is damaged."""


class ProviderError(OhmoError):
    """The model could not answer."""


class Overloaded(ProviderError):
    """The model endpoint is overloaded."""

    def __init__(
        self, message: str = "", *, retry_after: float | None = None, served: bool = False
    ) -> None:
        """``served``: an error of the server's own (5xx), not a wish to wait."""
        super().__init__(message)
        self.retry_after = retry_after
        self.served = served


class TimedOut(ProviderError):
    """The model endpoint did not answer in time."""


class OutOfReach(TimedOut):
    """Nobody answers at the model endpoint's address."""


class CutOff(ProviderError):
    """The answer was cut off in the middle."""


class Empty(CutOff):
    """The model gave an empty answer."""


class TooLong(ProviderError):
    """The prompt is longer than the model's window."""


class Refused(ProviderError):
    """The model endpoint refuses this request."""


class NoMoney(Refused):
    """The account of the API key cannot pay for this request."""


class OverBudget(Refused):
    """A budget of the house is used up."""


class BadKey(ProviderError):
    """The API key is missing or not accepted."""


class NotAllowed(BadKey):
    """The API key is not allowed to do this."""


class NoSuchModel(ProviderError):
    """The endpoint has no route for this model."""


class NotConnected(ValueError):
    """The channel that would read the address is not connected now."""


class NotEnabled(NotConnected):
    """The channel that would read the address is not enabled in the configuration."""


class BadArguments(OhmoError):
    """The arguments do not fit the tool: a line for each problem."""
