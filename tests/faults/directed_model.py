"""A model that does what the person's own words say, so that many threads and daemons can share one
server without a common script.

``m-7-3fa9 #run{echo x >> counter} #chunks{20} #pace{0.1} #wait{2}``: calls Bash once, then answers
in 20 pieces, 0.1 s apart, after 2 s. ``#lines{300}``: that command behind so many lines that do
nothing (``behind``). ``#write{FILE TEXT}``: writes a file. ``#ask{QUESTION|ONE|OTHER}``: asks the
person, and says what the answer was. ``#show{FILES}``: shows files by Brief. ``#then{COMMAND}``: a
second command, when the first has its result. ``#hold{8}``: answers eight events of the wire, and
the rest when the test says so (``model.go``). ``#think{WORDS}``: thinks aloud first, as local
models do. ``#broken{500}``: the server breaks on it, each time.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer

MARKER = re.compile(r"m-\d+-[0-9a-f]{8}")
_DIRECTION = re.compile(r"#(\w+)\{([^}]*)\}")
TAIL = " ".join(f"word{number}" for number in range(20))


def answer_to(marker: str) -> str:
    """The one right answer."""
    return f"echo: {marker} {TAIL} end"


def behind(lines: int, command: str) -> str:
    """The last of so many lines."""
    return "\n".join(
        [*(f": line {number:04d} says that nothing happens" for number in range(lines)), command]
    )


def directed(asked: Asked) -> Turn:
    said = asked.said
    markers, wanted = MARKER.findall(said), dict(_DIRECTION.findall(said))
    if "broken" in wanted:
        return Turn(status=int(wanted["broken"]), kind="api_error", message="it broke on this")
    if "run" in wanted and not results(asked.body):
        command = behind(int(wanted.get("lines", 0)), wanted["run"])
        return Turn(
            calls=(Call("Bash", {"command": command, "description": "count"}),),
            delay=float(wanted.get("wait", 0)),
        )
    if "then" in wanted and results(asked.body) and _last_command(asked.body) == wanted.get("run"):
        return Turn(calls=(Call("Bash", {"command": wanted["then"], "description": "count"}),))
    if "write" in wanted and not results(asked.body):
        path, _, text = wanted["write"].partition(" ")
        return Turn(calls=(Call("Write", {"file_path": path, "content": text}),))
    if "ask" in wanted and not results(asked.body):
        question, *choices = wanted["ask"].split("|")
        return Turn(
            calls=(
                Call(
                    "AskUser", {"question": question, **({"choices": choices} if choices else {})}
                ),
            )
        )
    if "show" in wanted and not results(asked.body):
        return Turn(
            calls=(Call("Brief", {"message": "here it is", "attachments": wanted["show"].split()}),)
        )
    text = answer_to(markers[-1]) if markers else "no marker"
    if "think" in wanted:
        text = f"<think>\n{wanted['think']}\n</think>\n\n{text}"
    hold = int(wanted["hold"]) if "hold" in wanted else None
    return Turn(
        text,
        chunks=int(wanted.get("chunks", 3)),
        between=float(wanted.get("pace", 0)),
        delay=float(wanted.get("wait", 0)),
        hold=hold,
    )


def results(body: dict[str, Any]) -> list[str]:
    """Texts of the tool results that answer the last model step; empty when a person spoke last."""
    last = body["messages"][-1]
    if last["role"] == "tool":  # chat completions: one message for each result
        behind = itertools.takewhile(
            lambda message: message["role"] == "tool", reversed(body["messages"])
        )
        return [_text(message["content"]) for message in behind]
    content = last["content"]
    found = (
        [block for block in content if isinstance(block, dict) and block["type"] == "tool_result"]
        if isinstance(content, list)
        else []
    )
    return [_text(block.get("content", "")) for block in found]


def _last_command(body: dict[str, Any]) -> str | None:
    """What the model itself called last."""
    calls = [
        block
        for block in body["messages"][-2]["content"]
        if isinstance(block, dict) and block["type"] == "tool_use"
    ]
    return calls[-1]["input"].get("command") if calls else None


def _text(content: Any) -> str:
    return (
        content
        if isinstance(content, str)
        else "".join(str(part.get("text", "")) for part in content)
    )


def told(model: ModelServer, marker: str) -> list[str]:
    """Every tool result that the model was given in the turn of ``marker``."""
    return [
        text for asked in list(model.asked) if marker in asked.said for text in results(asked.body)
    ]
