"""Skill: instructions for a kind of work. Files that belong to them are laid where the conversation
may read them: exactly what was trusted, whatever becomes of the folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from channels.durable import replacing
from ohmo.content import Content, Unfit, content_of
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.skills.folder import FILE, BadSkill, Skill
from ohmo.skills.shelf import Skills
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import (
    description,
    error_result,
    head_cut,
    in_thread,
    os_message,
    text_result,
)
from ohmo.tools.workbench import Workbench

_MOST = 48 << 10  # bytes of instructions that one call shows
_MOST_NAMED = 40  # files


class SkillInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Skill", defer_build=True)
    name: str = Field(min_length=1, max_length=200)


class SkillTool(PydanticTool):
    name = "Skill"
    input = SkillInput

    @staticmethod
    def ready(workbench: Workbench) -> bool:
        """Whether there is where skills come from."""
        return workbench.skills is not None

    def __init__(self, workbench: Workbench) -> None:
        self._bench = workbench
        self.description = description("Skill")

    def footprint(self, arguments: SkillInput, cwd: Path) -> Footprint:  # noqa: ARG002
        return Footprint(effect="none")

    async def run(self, arguments: SkillInput, context: CallContext) -> ToolOutput:
        skills: Skills | None = self._bench.skills
        if skills is None:
            return error_result(context, "there are no skills here")
        try:
            entry, content = await skills.take(context.cwd, arguments.name.strip())
        except BadSkill as error:
            return error_result(context, str(error))
        skill = entry.skill
        assert skill is not None  # it was taken
        long = len(skill.body.encode()) > _MOST
        where = ""
        if skill.files or long:
            folder = self._bench.spill / context.thread
            try:
                copy = await in_thread(lambda: _laid(folder, skill, content))
            except OSError as error:
                return error_result(context, os_message(error, folder))
            named = ", ".join(skill.files[:_MOST_NAMED])
            where = f"Its files are in {copy} (paths below mean that folder): {named}\n"
        head = f"Skill {skill.name}, from {entry.source}.\n{where}\n"
        body = head_cut(skill.body, _MOST)
        cut = f"\n(cut: the rest is in {FILE} there)" if long else ""
        return text_result(context, f"{head}{body}{cut}")


def _laid(folder: Path, skill: Skill, content: Content) -> Path:
    """A copy of its files, whole or not at all; what lies there already is compared. Raises
    OSError."""
    plain = re.sub(r"[^\w.-]", "-", skill.name)
    place = folder / "skills" / f"{plain}-{content.digest[:12]}"
    try:
        if content_of(place).digest == content.digest:
            return place
    except Unfit:  # there is none, or no whole one
        pass
    if place.exists():
        shutil.rmtree(place)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, part in content.files.items():
        file = place / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(file) as draft:
            draft.write(part.data)
        file.chmod(0o700 if part.runs else 0o600)
    return place


TOOL = SkillTool
