"""ArchiveSearch: what was said in this conversation and is not sent to the model any more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ohmo.context.archive import SLICE, Search
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.messages import MOST_PLACES
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.inputs import PydanticTool, SafeText
from ohmo.tools.results import description, in_thread, text_result
from ohmo.tools.workbench import Workbench


class ArchiveSearchInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="ArchiveSearch", defer_build=True)
    query: SafeText = Field(min_length=1, max_length=1_000)
    limit: int = Field(default=5, ge=1, le=20)


def has_log(workbench: Workbench) -> bool:
    """Whether there is a log to look through."""
    return workbench.steps is not None


class ArchiveSearch(PydanticTool):
    """Reads the thread of its own call, whatever it is asked for."""

    name = "ArchiveSearch"
    input = ArchiveSearchInput

    ready = staticmethod(has_log)

    def __init__(self, workbench: Workbench) -> None:
        if workbench.steps is None:
            raise ConfigError("tools: there is no log to look through")
        self._steps = workbench.steps
        self.description = description("ArchiveSearch")

    def footprint(self, arguments: ArchiveSearchInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="none")

    async def run(self, arguments: ArchiveSearchInput, context: CallContext) -> ToolOutput:
        search = Search(arguments.query, arguments.limit)
        since = 0
        while since < context.archived:
            rows = await self._steps(context.thread, since, limit=SLICE)
            older = [row for row in rows if row[0] < context.archived]
            await in_thread(lambda older=older: search.look(older))
            if len(rows) < SLICE:
                break
            since = rows[-1][0] + 1
        hits = search.best()
        lines = [f"#{hit.seq} {hit.who}: {hit.text}" for hit in hits]
        if not lines:
            lines = ["Nothing that was said here before holds these words. Try other ones."]
        output = text_result(context, "\n".join(lines))
        taint = tuple(dict.fromkeys(place for hit in hits for place in hit.taint))
        return replace(output, result=replace(output.result, taint=taint[:MOST_PLACES]))


TOOL = ArchiveSearch
