"""Discord's own rules, each with a switch: a test that still passes with its rule off proves
nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Refusal(Exception):
    """An answer that is no success (Opcodes and status codes, "JSON error codes")."""

    def __init__(
        self, status: int, code: int, message: str, errors: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.errors = errors


def invalid(field: str, message: str) -> Refusal:
    """Reference, "Error messages": 50035 with a tree of what is wrong."""
    leaf: dict[str, Any] = {"_errors": [{"code": "BASE_TYPE_BAD", "message": message}]}
    for name in reversed(field.split(".")):
        leaf = {name: leaf}
    return Refusal(400, 50035, "Invalid Form Body", leaf)


@dataclass(slots=True)
class Rules:
    """Which rules are kept.

    token          Reference, "Authentication": 401 for a wrong bot token; gateway close code 4004
    identify       Gateway close event codes: 4003 for anything but a heartbeat before IDENTIFY or
    RESUME intents        Gateway, "Privileged intents": 4014 for one that is not switched on;
    without MESSAGE_CONTENT no content but in DMs and mentions resume         Gateway, "Resuming":
    missed events come again, in order, then RESUMED; 9 (false) for a session nobody knows starts
    Get Gateway Bot, session_start_limit: max_concurrency IDENTIFYs in five seconds, here one; 9
    (false) for more ending         Gateway, "Disconnecting": a session ends when the app closes
    with 1000 or 1001 heartbeat      Gateway, "Sending heartbeats": every one is acknowledged length
    Create Message: content of 1 to 2000 characters (50006 when there is nothing to show) components
    Component reference: five rows, five buttons each, label 80, custom_id 1 to 100 and unique nonce
    Create Message: nonce of at most 25 characters; with enforce_nonce an equal one of the past
    minutes gives that message echo           Create Message, nonce: "Value will appear in the
    Message Create event"; no history keeps it own            Edit Message: another's message cannot
    be edited (50005) history        Get Channel Messages: limit 1 to 100; after gives the next
    ones, the newest of them first interactions   Receiving and responding: three seconds to the
    first answer (10062), one answer (40060), follow-ups only after it commands       Application
    commands: at most 100, names of 1 to 32, descriptions of 1 to 100 characters files
    Reference, "Uploading files": ten to a message, 10 MiB each (40005) signed         Reference,
    "Signed attachment CDN URLs": an expired address is refused asleep         Threads, "Archived":
    nothing in one can be edited (50083); a message wakes it limits         Rate limits: X-RateLimit
    headers, 429 with retry_after
    """

    token: bool = True
    identify: bool = True
    intents: bool = True
    resume: bool = True
    starts: bool = True
    ending: bool = True
    heartbeat: bool = True
    length: bool = True
    components: bool = True
    nonce: bool = True
    echo: bool = True
    own: bool = True
    history: bool = True
    interactions: bool = True
    commands: bool = True
    files: bool = True
    signed: bool = True
    asleep: bool = True
    limits: bool = True
    between: float = (
        0.0  # seconds that ``starts`` wants between two IDENTIFYs; 0: as many as one likes
    )
    bucket: int = (
        0  # messages per second in one channel before ``limits`` bites; 0: as many as one likes
    )
    nonce_window: float = 180.0  # seconds; "the past few minutes"
    to_answer: float = 3.0  # seconds for the first answer to an interaction
