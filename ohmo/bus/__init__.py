"""The river: what arrives, and what a turn says while it runs."""

from ohmo.bus.bus import MessageBus
from ohmo.bus.events import EventStream

__all__ = ["EventStream", "MessageBus"]
