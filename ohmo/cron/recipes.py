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
over the recipe's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from channels.record import record
from ohmo.config.source import Plain, parse
from ohmo.contracts.cron import BadJob
from ohmo.cron.spec import FIELDS

BUNDLED = Path(__file__).with_name("recipes")
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
            name: one.default for name, one in self.parameters.items() if one.default is not None
        }
        given = {**defaults, **values}
        if missing := [name for name in self.parameters if name not in given]:
            what = "; ".join(f"{name}: {self.parameters[name].description}" for name in missing)
            raise BadJob(f"recipe {self.name} needs --set {'=… --set '.join(missing)}=… ({what})")
        filled = cast("dict[str, object]", _filled(dict(self.fields), given))
        return {"name": self.name, **filled, "recipe": self.name}


def _filled(value: Plain, given: Mapping[str, str]) -> Plain:
    if isinstance(value, str):
        return _PARAMETER.sub(lambda found: given.get(found[1], found[0]), value)
    if isinstance(value, list):
        return [_filled(one, given) for one in value]
    return (
        {name: _filled(one, given) for name, one in value.items()}
        if isinstance(value, dict)
        else value
    )


def recipes(folders: Sequence[Path]) -> Mapping[str, Path]:
    """Every recipe there is by name; an earlier folder wins."""
    found: dict[str, Path] = {}
    for folder in reversed(folders):
        found.update({path.stem: path for path in sorted(folder.glob("*.yaml"))})
    return dict(sorted(found.items()))


def read_recipe(name: str, folders: Sequence[Path]) -> Recipe:
    """Raises BadJob with the place of what is wrong."""
    known = recipes(folders)
    if name not in known:
        raise BadJob(
            f"there is no {name!r}; there are {', '.join(known) or 'none'}, and you can"
            f" write {folders[0]}/{name}.yaml",
            "recipe",
        )
    try:
        source = parse(known[name].read_text(encoding="utf-8"), str(known[name]))
    except (OSError, UnicodeDecodeError) as error:
        raise BadJob(f"{known[name]} cannot be read ({error})", "recipe") from error
    if source.problems:
        raise BadJob(f"{source.problems[0]}", "recipe")
    data = dict(source.data)
    title, parameters = data.pop("title", ""), data.pop("parameters", None) or {}
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
    return Recipe(
        name,
        str(title or name),
        {key: _parameter(value) for key, value in parameters.items()},
        data,
    )


def _parameter(value: Plain) -> Parameter:
    if not isinstance(value, dict):
        return Parameter("", None if value is None else str(value))
    default = value.get("default")
    return Parameter(str(value.get("description") or ""), None if default is None else str(default))
