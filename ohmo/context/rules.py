"""Rules that a project brings along for agents: which files there are, from the root of the
repository down to the folder, and what of them is read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from channels.record import record
from channels.text import some
from ohmo.context.window import beginning
from ohmo.regular_file import open_regular

NAMES = ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md")
FOLDER = ".claude/rules"  # every *.md in it
MOST_CHARACTERS = 12_000  # of one file
MOST_FILES = 50
MOST_LEVELS = 64
GIT_SECONDS = 5.0
SHOWN = 600  # characters of the nearest file, when they are followed for the first time


@record
class RuleFile:
    path: Path
    text: str


@record
class ProjectRules:
    """``files``: the root's first, the folder's own last. ``warnings``: what was left out, and why,
    a line each."""

    root: Path
    files: tuple[RuleFile, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Of all that is read."""
        words = "\0".join(f"{file.path}\0{file.text}" for file in self.files)
        return sha256(words.encode("utf-8", "surrogatepass")).hexdigest()

    def text(self) -> str:
        """As the model reads them; empty without any."""
        if not self.files:
            return ""
        parts = [f"{file.path}:\n{file.text}" for file in self.files]
        return "Where two disagree, the later one counts.\n\n" + "\n\n".join(parts)


def introduced(rules: ProjectRules, sent: str) -> str:
    """What people are told when rules are followed for the first time; empty: nothing. ``sent``:
    what the model gets of them."""
    followed: list[RuleFile] = []
    lines: list[str] = []
    left_out = [f"- {warning}" for warning in rules.warnings]
    for file in rules.files:
        if f"{file.path}:\n" not in sent:
            why = "no room is left in `prompt.budgets.project_rules`"
            left_out.append(f"- `{file.path}`: {why}; left out")
            continue
        followed.append(file)
        count = len(file.text.splitlines())
        line = f"- `{file.path}`, {some(count, 'line')}"
        whole = file.text in sent and not file.text.endswith(_cut_mark(file.path))
        lines.append(line if whole else f"{line}, cut: only its beginning is read")
    if not (lines or left_out):
        return ""
    if lines:
        lines.insert(0, f"From now on I follow the rules that `{rules.root}` brings along:")
    if left_out:
        lines += ["", f"Rules in `{rules.root}` that I do not follow:", *left_out]
    if followed:
        lines += ["", *(f"> {line}" for line in followed[-1].text[:SHOWN].splitlines())]
    lines += ["", "`/context` shows what is read; `prompt.sections` switches it off."]
    return "\n".join(lines).strip()


def _cut_mark(path: Path) -> str:
    return f"(cut: see {path})"


class _Unread(Exception):
    """Why a file is left out."""


def project_rules(
    cwd: Path,
    home: Path,
    *,
    hides: Callable[[str], bool] = lambda _: False,
    although_ignored: Sequence[str] = (),
) -> ProjectRules:
    """Blocks: reads files, and asks git which of them it ignores. ``home``: of the user, above
    which nothing is looked for. ``hides``: a place that no model may be shown.
    ``although_ignored``: names of files that are read also where git ignores them. Outside a
    repository only ``cwd`` counts. Raises nothing: what cannot be read is a warning."""
    root = repository_of(cwd, home)
    folders = [cwd]
    while root is not None and folders[-1] != root and len(folders) < MOST_LEVELS:
        folders.append(folders[-1].parent)
    warnings: list[str] = []
    paths: list[Path] = []
    for folder in reversed(folders):
        paths += [folder / name for name in NAMES]
        paths += sorted((folder / FOLDER).glob("*.md"))
    paths = [path for path in paths if os.path.lexists(path)]
    if len(paths) > MOST_FILES:
        warnings.append(f"{len(paths)} files of rules: only the first {MOST_FILES} are read")
    paths = paths[:MOST_FILES]
    inside = root or cwd
    if root is not None and paths:
        ignored = _ignored(root, [path for path in paths if path.name not in although_ignored])
        paths = [path for path in paths if path not in ignored]
    files: dict[str, RuleFile] = {}  # by their text: of equal ones the nearest counts
    for path in paths:
        try:
            text = _read(path, inside, hides)
        except _Unread as error:
            warnings.append(f"{path}: {error}; left out")
            continue
        if text:
            files.pop(text, None)
            files[text] = RuleFile(path, text)
    return ProjectRules(inside, tuple(files.values()), tuple(warnings))


def repository_of(cwd: Path, home: Path) -> Path | None:
    """The nearest folder with ``.git`` from ``cwd`` upwards, not above ``home`` where it is below;
    None: there is none."""
    for folder in (cwd, *cwd.parents)[:MOST_LEVELS]:
        if os.path.lexists(folder / ".git"):
            return folder
        if folder == home:
            return None
    return None


def _read(path: Path, inside: Path, hides: Callable[[str], bool]) -> str:
    """Raises _Unread."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else "its links lead in a circle"
        raise _Unread(why or "cannot be read") from None
    if not real.is_relative_to(inside.resolve()):
        raise _Unread(f"it leads out of {inside}")
    if hides(str(real)):
        raise _Unread("it leads to a place no model is shown")
    try:
        with open_regular(real) as file:
            content = file.read(MOST_CHARACTERS * 4 + 1)
    except OSError as error:
        raise _Unread(error.strerror or "cannot be read") from None
    if b"\0" in content:
        raise _Unread("it is no text")
    # the last character may have been cut in two
    text = content.decode("utf-8", "replace").removesuffix("\ufffd")
    if "\ufffd" in text:
        raise _Unread("it is not UTF-8")
    if len(text) > MOST_CHARACTERS:
        text = f"{beginning(text, MOST_CHARACTERS)}\n{_cut_mark(path)}"
    return text.strip()


def _ignored(root: Path, paths: Sequence[Path]) -> set[Path]:
    """Which of them git ignores; without git, or when it fails, none."""
    names = "\0".join(str(path) for path in paths)
    command = ["git", "-C", str(root), "-c", "core.fsmonitor=false"]
    command += ["check-ignore", "--no-index", "--stdin", "-z"]
    environment = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    try:
        answer = subprocess.run(  # noqa: S603 - our own arguments; check-ignore runs no program
            command,
            input=os.fsencode(names),
            capture_output=True,
            timeout=GIT_SECONDS,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return {Path(os.fsdecode(name)) for name in answer.stdout.split(b"\0") if name}
