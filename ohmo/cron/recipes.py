"""Recipes: jobs that somebody else has thought out.

A recipe is one YAML file, named after it: ``$OHMO_HOME/recipes/NAME.yaml`` beats the one that comes
with ohmo (``ohmo/cron/recipes/NAME.yaml``). It holds the fields of a job (``docs/cron.md``), beside
them ``title`` (one line for people) and ``parameters``: a name each, with ``description`` and
``default`` (null: must be given). ``{{name}}`` in any text of the job is replaced by the
parameter's value:

    title: What is new in a repository
    parameters:
      repo: {description: owner/name, default: null}
    schedule: 0 9 * * 1-5
    prompt: Tell me what is new in {{repo}}.
    rules: ["Bash(gh api repos/{{repo}}/*)"]
    when: changed

``ohmo cron add --recipe NAME --set repo=a/b`` makes a job of it; every field given beside it wins
over the recipe's.

Of a job of the recipe ``ci-triage`` ohmo knows more: the one command such a run begins with, what
it printed as the report, and the file that goes with it."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from channels.record import record
from ohmo.config.source import Plain, parse
from ohmo.contracts.cron import BadJob
from ohmo.contracts.messages import ToolCall, ToolResult
from ohmo.cron.spec import FIELDS

BUNDLED = Path(__file__).with_name("recipes")
_MOST_BYTES = 2 * 2**20  # bytes of the file that goes with a report of ``ci-triage``
_TRIAGE_RULE = "Bash(ohmo triage "
_FILE_LINE = re.compile(
    r"\s*^\s*`?\[file:"
    r" (?P<folder>ci-triage)/(?P<name>[a-z0-9][a-z0-9._-]{0,79}-[0-9a-f]{16}\.md)\]`?\s*\Z",
    re.MULTILINE,
)
_PARAMETER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


@record
class Parameter:
    """``default`` None: it must be given."""

    description: str
    default: str | None


@record
class Recipe:
    """``fields`` still hold their ``{{parameters}}``."""

    name: str
    title: str
    parameters: Mapping[str, Parameter]
    fields: Mapping[str, Plain]

    def job(self, values: Mapping[str, str]) -> dict[str, object]:
        """The fields of a job. Raises BadJob: a parameter is missing or not known."""
        if unknown := sorted(values.keys() - self.parameters.keys()):
            raise BadJob(
                f"recipe {self.name}: there is no parameter {unknown[0]}; it has"
                f" {', '.join(self.parameters) or 'none'}"
            )
        defaults = {
            name: parameter.default
            for name, parameter in self.parameters.items()
            if parameter.default is not None
        }
        given = {**defaults, **values}
        if missing := [name for name in self.parameters if name not in given]:
            what = "; ".join(f"{name}: {self.parameters[name].description}" for name in missing)
            given_so = "=… --set ".join(missing)
            raise BadJob(f"recipe {self.name} needs --set {given_so}=… ({what})")
        filled = cast("dict[str, object]", _filled(dict(self.fields), given))
        return {"name": self.name, **filled, "recipe": self.name}


def _filled(value: Plain, given: Mapping[str, str]) -> Plain:
    if isinstance(value, str):
        return _PARAMETER.sub(lambda match: given.get(match[1], match[0]), value)
    if isinstance(value, list):
        return [_filled(item, given) for item in value]
    if isinstance(value, dict):
        return {name: _filled(item, given) for name, item in value.items()}
    return value


def recipes(folders: Sequence[Path]) -> Mapping[str, Path]:
    """Every recipe there is by name; an earlier folder wins."""
    paths: dict[str, Path] = {}
    for folder in reversed(folders):
        paths.update({path.stem: path for path in sorted(folder.glob("*.yaml"))})
    return dict(sorted(paths.items()))


def read_recipe(name: str, folders: Sequence[Path]) -> Recipe:
    """Raises BadJob with the place of what is wrong."""
    paths = recipes(folders)
    if name not in paths:
        raise BadJob(
            f"there is no {name!r}; there are {', '.join(paths) or 'none'}, and you can"
            f" write {folders[0]}/{name}.yaml",
            "recipe",
        )
    try:
        source = parse(paths[name].read_text(encoding="utf-8"), str(paths[name]))
    except (OSError, UnicodeDecodeError) as error:
        raise BadJob(f"{paths[name]} cannot be read ({error})", "recipe") from error
    if source.problems:
        raise BadJob(f"{source.problems[0]}", "recipe")
    data = dict(source.data)
    title = data.pop("title", "")
    parameters = data.pop("parameters", None) or {}
    if unknown := sorted(data.keys() - FIELDS):
        raise BadJob(
            f"{source.place((unknown[0],))}: {unknown[0]}: a job has no such field", "recipe"
        )
    if not isinstance(parameters, dict):
        raise BadJob(
            f"{source.place(('parameters',))}: parameters: expected names, each with"
            " description and default",
            "recipe",
        )
    understood: dict[str, Parameter] = {}
    for key, value in parameters.items():
        default = value.get("default") if isinstance(value, dict) else value
        description = value.get("description") if isinstance(value, dict) else None
        understood[key] = Parameter(
            str(description or ""), None if default is None else str(default)
        )
    return Recipe(name=name, title=str(title or name), parameters=understood, fields=data)


def attached(text: str, workspace: Path) -> tuple[str, tuple[Path, ...]]:
    """The text without its last line when that names such a file, and the file. A model could be
    talked into naming others: those stay words."""
    match = _FILE_LINE.search(text)
    if match is None:
        return text, ()
    folder = workspace / match["folder"]
    path = folder / match["name"]
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return text, ()
        status = path.lstat()
    except OSError:
        return text, ()
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
        return text, ()
    return text[: match.start()], (path,)


def triage_report(rules: Sequence[str], calls: Sequence[tuple[ToolCall, ToolResult]]) -> str | None:
    """What ``ohmo triage`` printed in this run, word for word, where a rule of the job names that
    very command; also at the end of a pipe. None: it is no such job, or the command brought
    nothing."""
    commands = {rule[len("Bash(") : -1] for rule in rules if rule.startswith(_TRIAGE_RULE)}
    printed: str | None = None
    for call, result in calls:
        command = str(call.arguments.get("command", "")) if call.name == "Bash" else ""
        if command.rpartition(" | ")[2].strip() in commands and not result.error:
            printed = result.text
    return printed


def own_command(rules: Sequence[str]) -> str | None:
    """The very command that ``triage_report`` looks for: what reads its source itself, or what is
    read by a pipe of the one other command that a rule names. None: the rules leave a choice, which
    is the model's."""
    exact = [
        rule[len("Bash(") : -1] for rule in rules if rule.startswith("Bash(") and "*" not in rule
    ]
    reading = [command for command in exact if f"Bash({command}".startswith(_TRIAGE_RULE)]
    others = [command for command in exact if command not in reading]
    if len(reading) != 1 or len(others) > 1:
        return None
    return f"{others[0]} 2>&1 | {reading[0]}" if others else reading[0]
