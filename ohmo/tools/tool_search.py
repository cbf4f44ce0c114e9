"""ToolSearch: brings tools whose schema the model was not sent, by name or by words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ConfigDict, Field

from channels.record import record
from ohmo.contracts.mcp import server_of, words_of
from ohmo.contracts.messages import ToolResult
from ohmo.contracts.provider import ToolSpec
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.inputs import PydanticTool, SafeText
from ohmo.tools.results import description, error_result
from ohmo.tools.workbench import Workbench

MOST_BY_WORDS, MOST_BY_NAME = 5, 20  # tools that one search brings
LISTING = 1_200  # characters of the description that name what there is
PURPOSE = 48  # characters that say what one of them does


class ToolSearchInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="ToolSearch", defer_build=True)
    query: SafeText = Field(max_length=1_000)


@record
class Absent:
    """A tool of the house that nobody has set up. ``wants``: what is to be written for it."""

    spec: ToolSpec
    wants: str


class ToolSearch(PydanticTool):
    """``CallContext.tools`` are what there is, also for a turn that may use less than others."""

    name = "ToolSearch"
    input = ToolSearchInput

    def __init__(self, workbench: Workbench) -> None:  # noqa: ARG002 - as every tool
        self.description = description("ToolSearch")
        self.absent: tuple[Absent, ...] = ()

    def footprint(self, arguments: ToolSearchInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="none")

    async def run(self, arguments: ToolSearchInput, context: CallContext) -> ToolOutput:
        """What servers say of their tools are their words."""
        result = self._found(arguments, context).result
        told = (tool.name for tool in context.tools if tool.name in result.text)
        return ToolOutput(replace(result, taint=words_of(told)))

    def _found(self, arguments: ToolSearchInput, context: CallContext) -> ToolOutput:
        by_name = {tool.name: tool for tool in context.tools}
        absent = {each.spec.name: each for each in self.absent}
        all_names = by_name | {name: each.spec for name, each in absent.items()}
        asked, missing = _named(arguments.query, all_names)
        without = [absent[tool.name] for tool in asked if tool.name not in by_name]
        asked = [tool for tool in asked if tool.name in by_name]
        if asked or missing or without:
            matches = asked[:MOST_BY_NAME]
        else:
            unseen = [tool for tool in context.tools if tool.name in context.hidden]
            seen = [
                tool
                for tool in context.tools
                if tool.name not in context.hidden and tool.name != self.name
            ]
            specs = [each.spec for each in self.absent]
            best = ranked(arguments.query, [*unseen, *specs])
            without = [absent[tool.name] for tool in best if tool.name not in by_name]
            matches = [tool for tool in best if tool.name in by_name]
            matches = matches or ranked(arguments.query, seen)
        lines: list[str] = []
        for tool in matches:
            hidden = tool.name in context.hidden
            purpose = _first_sentence(tool) if hidden else "you have it already; just call it"
            lines.append(f"- {tool.name}: {purpose}")
        for name in missing:
            close = nearest(name, list(by_name))
            meant = f"; did you mean {' or '.join(close)}?" if close else ""
            lines.append(f"- {name}: there is no such tool{meant}")
        lines += [
            f"- {each.spec.name}: not set up, so you cannot call it; say so. It wants {each.wants}"
            for each in without
        ]
        left_out = f"not brought, at most {MOST_BY_NAME} at once"
        lines += [f"- {tool.name}: {left_out}" for tool in asked[MOST_BY_NAME:]]
        if not matches and not without:
            names = ", ".join(sorted(context.hidden)[:30]) or "none"
            return error_result(
                context,
                "\n".join(lines)
                or f"No tool is about {arguments.query!r}. Tools you have not been shown: {names}.",
            )
        brought = tuple(tool.name for tool in matches if tool.name in context.hidden)
        return ToolOutput(ToolResult(context.call, "\n".join(lines), tools=brought))


def listed(tools: Sequence[ToolSpec]) -> str:
    """Names with a few words each; only names when that is too long; and of servers with very many
    tools their number."""
    entries: list[str] = []
    for tool in tools:
        purpose = _first_sentence(tool)
        if len(purpose) > PURPOSE:
            purpose = purpose[:PURPOSE].rsplit(" ", 1)[0].rstrip(",")
        entries.append(f"{tool.name} ({purpose})")
    text = "; ".join(entries)
    if len(text) <= LISTING:
        return text
    names = ", ".join(tool.name for tool in tools)
    if len(names) <= LISTING:
        return names
    servers = Counter(server_of(tool.name) for tool in tools)
    groups = [tool.name for tool in tools if not server_of(tool.name)]
    groups += [f"mcp__{name}__* ({count})" for name, count in sorted(servers.items()) if name]
    return ", ".join(groups)


def ranked(query: str, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The best few by the words of the query: a word of the name counts most, then one of the
    description, then one of the arguments. None scores less than half of the best."""
    words = _words(query)
    scores = {tool.name: sum(_score(word, tool) for word in words) for tool in tools}
    best = max(scores.values(), default=0)
    good = sorted(
        (tool for tool in tools if scores[tool.name] * 2 >= max(best, 1)),
        key=lambda tool: (-scores[tool.name], tool.name),
    )
    return good[:MOST_BY_WORDS]


def nearest(name: str, names: Sequence[str]) -> list[str]:
    """At most three names that ``name`` may have meant."""
    plain = {each.casefold(): each for each in names}
    return [plain[each] for each in get_close_matches(name.casefold(), plain, n=3, cutoff=0.6)]


def _named(query: str, there: Mapping[str, ToolSpec]) -> tuple[list[ToolSpec], list[str]]:
    """What ``select:A,B`` asks for, and what of it there is not; names alone mean the same when all
    are there."""
    select = re.fullmatch(r"\s*select\s*:(.*)", query, re.IGNORECASE | re.DOTALL)
    names = [name for name in re.split(r"[,\s]+", select[1] if select else query) if name]
    plain = {name.casefold(): tool for name, tool in there.items()}
    tools = [plain[name.casefold()] for name in dict.fromkeys(names) if name.casefold() in plain]
    missing = [name for name in names if name.casefold() not in plain]
    if select is None and missing:
        return [], []
    return list({tool.name: tool for tool in tools}.values()), missing


def _score(word: str, tool: ToolSpec) -> int:
    name = set(_words(tool.name))
    if word in name:
        return 12
    if any(
        part.startswith(word) or word.startswith(part)
        for part in name
        if min(len(part), len(word)) >= 3
    ):
        return 6
    purpose = set(_words(tool.description))
    if word in purpose:
        return 4
    if len(word) >= 4 and any(
        part.startswith(word) or word.startswith(part) for part in purpose if len(part) >= 4
    ):
        return 2
    properties = tool.schema.get("properties")
    fields: Mapping[str, object] = {}
    if isinstance(properties, dict):
        fields = cast("Mapping[str, object]", properties)
    for argument, field in fields.items():
        description = ""
        if isinstance(field, dict):
            description = str(cast("Mapping[str, object]", field).get("description", ""))
        if word in _words(argument) or word in _words(description):
            return 1
    return 0


def _words(text: str) -> list[str]:
    """Lower case without marks, cut at capitals and signs; every Han, kana or Hangul character is a
    word."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    plain = "".join(
        char
        for char in unicodedata.normalize("NFKD", spaced.casefold().replace("đ", "d"))
        if not unicodedata.combining(char)
    )
    return re.findall(
        r"[\u2e80-\U0003ffff]|[^\W_\u2e80-\U0003ffff]+", unicodedata.normalize("NFC", plain)
    )


def _first_sentence(tool: ToolSpec) -> str:
    return re.split(r"(?<=[.:;])\s", tool.description.strip(), maxsplit=1)[0].rstrip(".:;")


TOOL = ToolSearch
