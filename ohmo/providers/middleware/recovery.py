"""What can go wrong with an answer, by class, and what is done about each: one table, which the
links of the chain go by."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from channels.record import record
from ohmo.contracts.errors import (
    CutOff,
    Empty,
    Overloaded,
    ProviderError,
    Refused,
    TimedOut,
    TooLong,
)


class Fault(StrEnum):
    """Classes of failures."""

    MALFORMED = "malformed call"
    UNKNOWN_TOOL = "unknown tool"
    ARGUMENTS = "wrong arguments"
    PROSE = "prose instead of call"
    LOOP = "loop"
    EMPTY = "empty"
    OVERLOAD = "overload"
    OVERFLOW = "overflow"
    REFUSAL = "refusal"
    UNUSABLE = "unusable endpoint"


@record
class Recovery:
    """What is done about a class. ``told``: what a model that gets help is asked once more with,
    after the exact fault; empty: it is not asked."""

    told: str = ""
    waits: bool = False  # the same request is tried again, in a while
    elsewhere: bool = True  # another profile may be asked


RECOVERY: Mapping[Fault, Recovery] = {
    Fault.MALFORMED: Recovery("Send the whole call again, and nothing else."),
    Fault.UNKNOWN_TOOL: Recovery("Send the call again with a tool there is."),
    Fault.ARGUMENTS: Recovery("Send the call again with arguments that fit."),
    Fault.PROSE: Recovery(
        "Words do not run. To have it run, send it as a call of the tool and nothing else; if it is"
        " for the person to read, answer only OK."
    ),
    Fault.LOOP: Recovery("Use that result, call something else, or say what stops you."),
    Fault.EMPTY: Recovery(waits=True),
    Fault.OVERLOAD: Recovery(waits=True),
    Fault.OVERFLOW: Recovery(elsewhere=False),
    Fault.REFUSAL: Recovery(elsewhere=False),
    Fault.UNUSABLE: Recovery(),
}


def fault_of(error: ProviderError) -> Fault:
    """The class of what the endpoint, or its silence, said."""
    match error:
        case Empty():
            return Fault.EMPTY
        case Overloaded() | TimedOut() | CutOff():
            return Fault.OVERLOAD
        case TooLong():
            return Fault.OVERFLOW
        case Refused():
            return Fault.REFUSAL
        case _:
            return Fault.UNUSABLE
