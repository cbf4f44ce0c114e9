"""A provider that says what a test told it to; records what it was asked."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import field

from channels.record import record
from ohmo.ambient import IdSource
from ohmo.contracts.errors import ProviderError
from ohmo.contracts.messages import Json, ModelStep, Text, ToolCall, Usage, UserStep
from ohmo.contracts.provider import Delta, ModelEvent, ModelRequest, Reply


@record
class Says:
    """One answer: text in ``chunks`` deltas, calls as (tool, arguments)."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Json]], ...] = ()
    chunks: int = 2
    before: Callable[[], Awaitable[None]] | None = (
        None  # awaited before the first delta: a gate a test opens
    )
    between: Callable[[], Awaitable[None]] | None = None  # awaited after each delta
    usage: tuple[int, int] = field(default=(10, 5))  # input, output tokens


Answer = Says | str | ProviderError
Script = Answer | Callable[[ModelRequest], Answer]


def echo(request: ModelRequest) -> Answer:
    """``echo: <the last text a person said>``."""
    return "echo: " + last_text(request)


def last_text(request: ModelRequest) -> str:
    for step in reversed(request.steps):
        if isinstance(step, UserStep):
            return "\n".join(block.text for block in step.blocks if isinstance(block, Text))
    return ""


class ScriptedProvider:
    """Answers in turn from ``script``, then by ``default``. ``requests``: all it was asked. Needs
    no network; implements ``Provider``."""

    def __init__(
        self,
        script: Iterable[Script] = (),
        *,
        default: Script = echo,
        window: int = 200_000,
        name: str = "scripted",
    ) -> None:
        self.script: deque[Script] = deque(script)
        self.default = default
        self.requests: list[ModelRequest] = []
        self._window = window
        self._name = name
        self._new_id = IdSource()  # unique across restarts of a journey

    @property
    def name(self) -> str:
        return self._name

    def window(self, model: str) -> int:  # noqa: ARG002 (every model of a script is the same)
        return self._window

    def next(self, *answers: Script) -> None:
        self.script.extend(answers)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        chosen = self.script.popleft() if self.script else self.default
        answer = chosen if isinstance(chosen, Says | str | ProviderError) else chosen(request)
        if isinstance(answer, ProviderError):
            raise answer
        says = Says(answer) if isinstance(answer, str) else answer
        if says.before is not None:
            await says.before()
        size = max(1, -(-len(says.text) // max(1, says.chunks)))
        for start in range(0, len(says.text), size):
            yield Delta(says.text[start : start + size])
            if says.between is not None:
                await says.between()
        blocks: list[Text | ToolCall] = [Text(says.text)] if says.text else []
        for name, arguments in says.calls:
            blocks.append(ToolCall(identity := self._new_id(), name, dict(arguments), identity))
        step = ModelStep(tuple(blocks), request.model, "tools" if says.calls else "end")
        yield Reply(
            step, Usage(request.model, request.purpose, says.usage[0], 0, 0, says.usage[1], 0)
        )
