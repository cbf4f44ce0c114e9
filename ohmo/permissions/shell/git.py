"""What git would do: only read, or run a program of the caller's choice; and what the repository
that it finds lets it run: nothing, when its settings are all known.

Sources: git(1), git-config(1), gitrepository-layout(5), gitmodules(5). The person's own settings
are left out when git reads unasked (``QUIET``), those of the repository may come from anybody."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from channels.record import record
from ohmo.permissions.fs_cache import real
from ohmo.permissions.shell.options import Given, Options, given, options_of
from ohmo.permissions.shell.script import Reading, Simple

_CHANGES = """-pszwbRaMCqcU? -S: -G:
    --patch --no-patch --stat? --shortstat --numstat --name-only --name-status --summary --raw
    --abbrev? --unified? --ignore-all-space --ignore-space-change --ignore-blank-lines --color?
    --no-color --word-diff? --minimal --patience --histogram --find-renames? --no-renames
    --diff-filter: --relative? --check --full-index --text --exit-code --quiet --compact-summary
    --dirstat? --pickaxe-regex --pickaxe-all --cached --staged --merge-base --no-ext-diff
    --no-textconv --function-context --no-prefix"""
_HISTORY = f"""{_CHANGES} -giEFPhtm -n: -# -L: --oneline --graph --all --decorate?
    --no-decorate --branches? --tags? --remotes? --max-count: --skip: --since: --after: --until:
    --before: --author: --committer: --grep: --all-match --invert-grep --merges --no-merges
    --first-parent --reverse --follow --date: --pretty? --format: --left-right --cherry-pick
    --topo-order --date-order --no-walk --source --simplify-by-decoration --abbrev-commit
    --no-abbrev-commit --walk-reflogs --regexp-ignore-case --boundary --ancestry-path --count"""
# verb | options; operands are revisions and paths of the repository
_VERBS = f"""
status        | -sbzuv -u? --short --branch --porcelain? --long --untracked-files? --ignored?
              |   --show-stash --no-renames --ahead-behind --no-ahead-behind
log           | {_HISTORY}
show          | {_HISTORY}
whatchanged   | {_HISTORY}
reflog        | {_HISTORY}
rev-list      | {_HISTORY} --objects
diff          | {_CHANGES}
shortlog      | -sneh --summary --numbered --email --since: --until: --no-merges --all
blame         | -wslectpfnM? -C? -L: --porcelain --line-porcelain --date: --since: --root --abbrev?
annotate      | -wsl -L:
rev-parse     | -q --abbrev-ref? --short? --show-toplevel --git-dir --verify --is-inside-work-tree
              |   --symbolic-full-name --show-prefix --show-cdup --is-bare-repository --all
ls-files      | -cdmosukztv --cached --deleted --modified --others --stage --unmerged --ignored
              |   --exclude-standard --directory --full-name --error-unmatch --eol
ls-tree       | -drtlz --name-only --name-status --long --full-name --full-tree --abbrev?
cat-file      | -petsv
describe      | --tags --all --always --long --abbrev? --match: --exclude: --exact-match
              |   --first-parent
name-rev      | --name-only --tags --all --always
merge-base    | -a --all --is-ancestor --fork-point --octopus
cherry        | -v --abbrev?
count-objects | -vH --verbose --human-readable
show-ref      | -dhqs --head --heads --tags --verify --hash? --abbrev? --dereference --quiet
for-each-ref  | --count: --sort: --format: --points-at: --merged? --no-merged? --contains?
check-ignore  | -vqn --verbose --quiet --no-index --non-matching
grep          | -acEeFGhHiIlLnopPqvwWz -e: -A: -B: -C: -m: -# --count --files-with-matches
              |   --files-without-match --ignore-case --line-number --word-regexp --break --heading
              |   --extended-regexp --fixed-strings --perl-regexp --basic-regexp --name-only
              |   --only-matching --invert-match --cached --max-depth: --show-function --all-match
              |   --function-context --text --quiet --color? --no-color --column --max-count:
branch        | -alrvqi --all --list --remotes --show-current --contains? --no-contains? --merged?
              |   --no-merged? --sort: --format: --points-at: --verbose --color? --no-color
              |   --column?
tag           | -il -n? --list --contains? --no-contains? --merged? --no-merged? --points-at:
              |   --sort: --format: --column?
remote        | -v --verbose
stash         | {_CHANGES} --oneline -#
worktree      | -v --porcelain --verbose
version       | --build-options
"""
_FIRST = {
    "remote": ("get-url",),
    "stash": ("list", "show"),
    "worktree": ("list",),
    "reflog": ("show",),
}
_BARE = ("remote", "reflog")  # verbs that show something also without a word behind them
_SIGNATURE = re.compile(r"%[-+ ]*G|signature")
_LISTS = ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_CONFIG_KEY = re.compile(r"(?:user|core|init|branch|remote|push|pull)\.[\w./-]+")
_CONFIG_FORMS = (("--get",), ("get",), ("--get-all",), ())
_WHERE = ("--global", "--local", "--system")
# Settings whose value git runs, or that let somebody else say what runs.
_PROGRAMS = re.compile(
    r"alias\..*|core\.(pager|sshcommand|editor|fsmonitor|hookspath|gitproxy|askpass|worktree"
    r"|alternaterefscommand|attributesfile)|pager\..*|sequence\.editor|gpg\..*program"
    r"|diff\.external|diff\..*\.(command|textconv)|(diff|merge)tool\..*|merge\..*\.driver"
    r"|filter\..*|credential\..*helper|interactive\.difffilter|init\.templatedir|url\..*"
    r"|protocol\..*allow|remote\..*\.(vcs|uploadpack|receivepack)|include(if\..*)?\.path"
    r"|uploadpack\..*|sendemail\..*|browser\..*|man\..*|trailer\..*\.(command|cmd)"
    r"|submodule\..*\.update",
    re.IGNORECASE,
)


@cache
def _options() -> Mapping[str, Options]:
    verbs: dict[str, str] = {}
    verb = ""
    for line in re.split(r"\n(?=[a-z-]* +\|)", _VERBS.strip()):
        first, _, options = line.partition("|")
        verb = first.strip() or verb
        verbs[verb] = f"{verbs.get(verb, '')} {options}"
    return {each: options_of(options) for each, options in verbs.items()}


def git_reading(command: Simple) -> Reading | None:
    """What git looks at when it changes nothing, runs nothing else and asks nobody; None when that
    is not known."""
    words = command.words
    at = 1
    folder = "."
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-C" and at + 1 < len(words) and folder == ".":
            folder = words[at + 1]
            at += 1
        elif words[at] not in ("--no-pager", "-P", "--no-optional-locks"):
            return Reading("names") if words[at:] == ("--version",) else None
        at += 1
    verb = words[at] if at < len(words) else ""
    if verb == "config":
        return Reading("names", (folder,)) if reads_setting(words[at + 1 :]) else None
    options = _options().get(verb)
    rest = words[at + 1 :]
    parsed = given(options, rest, 0, getopt=False) if options is not None else None
    if parsed is None or not _shows(verb, rest, parsed):
        return None
    operands = [rest[each] for each in parsed.operands]
    if any(each.startswith(":") and not each.startswith((":!", ":^")) for each in operands):
        return None
    if any(_SIGNATURE.search(value) for _, value in parsed.options):
        return None  # runs gpg
    if verb == "grep" and not parsed.has("-e"):
        operands = operands[1:]
    paths = [path for each in operands for path in _paths(each)]
    below = [path if path[:1] == "/" or folder == "." else f"{folder}/{path}" for path in paths]
    if verb == "diff":  # of two folders outside of the repository it shows the files below
        return Reading("trees", tuple(below), repository=folder)
    return Reading("trees" if verb == "grep" else "names", (folder, *below), repository=folder)


def _shows(verb: str, words: tuple[str, ...], parsed: Given) -> bool:
    """Whether a verb that can also change something only shows it. ``words``: behind the verb."""
    if verb in ("branch", "tag"):
        return not parsed.operands or parsed.has(*_LISTS) or (verb == "tag" and parsed.has("-l"))
    if verb in _FIRST:
        return words[:1] in [(first,) for first in _FIRST[verb]] or (
            verb in _BARE and not parsed.operands
        )
    return True


def _paths(operand: str) -> tuple[str, ...]:
    """A revision, a path, or both: ``HEAD:a/b``."""
    _, colon, path = operand.partition(":")
    if colon and path and not operand.startswith(":"):
        return (operand, path)
    return (operand.lstrip(":!^") or ".",)


def reads_setting(words: tuple[str, ...]) -> bool:
    """``git config`` with these words shows one setting that is no secret."""
    rest = words[1:] if words[:1] and words[0] in _WHERE else words
    return rest[:-1] in _CONFIG_FORMS and rest != () and _CONFIG_KEY.fullmatch(rest[-1]) is not None


def git_runs(words: tuple[str, ...]) -> str:
    """The setting by which git runs a program of the caller's choice; "" for none. ``words``
    without ``git`` itself."""
    for at, word in enumerate(words):
        value = words[at + 1] if at + 1 < len(words) else ""
        if word in ("-c", "--config-env", "--config") and _PROGRAMS.fullmatch(
            value.partition("=")[0]
        ):
            return value.partition("=")[0]
        setting = re.match(r"(?:--config-env=|--config=|-c)([\w.-]+)", word)
        if setting is not None and _PROGRAMS.fullmatch(setting[1]):
            return setting[1]
        if word.startswith("ext::") or "=ext::" in word:
            return "ext::"
    if "config" in words:
        after = [word for word in words[words.index("config") + 1 :] if not word.startswith("-")]
        after = [word for word in after if word not in ("set", "get", "unset")]
        if len(after) > 1 and _PROGRAMS.fullmatch(after[0]):
            return after[0]
    return ""


_MOST = 256 * 1024  # bytes of settings
_MOST_NAMES = 10_000  # of files of git's own beside the objects
_LONGEST = 4096  # characters of a file that names a folder
_HEAD = re.compile(r"ref: refs/[^\s]+|[0-9a-f]{40}|[0-9a-f]{64}")
_SECTION = re.compile(r'\[\s*([A-Za-z0-9-]+)(?:\s+"((?:[^"\\\n]|\\["\\])*)")?\s*\]')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*([^\\\n]*))?")
_HARMLESS = re.compile(  # settings that name no program, no other file, and no other place to look
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    r"|symlinks|autocrlf|eol|safecrlf|quotepath|abbrev|compression|sharedrepository|untrackedcache"
    r"|preloadindex|longpaths|checkstat|trustctime|bigfilethreshold|multipackindex|commitgraph)"
    r"|extensions\.(objectformat|refstorage)|init\.defaultbranch"
    r"|remote\..*\.(url|pushurl|fetch|push|tagopt|prune|gh-resolved)"
    r"|branch\..*|user\.(name|email)|submodule\.active|submodule\..*\.(url|active|branch|path)"
    r"|pull\.(rebase|ff)|push\.(default|autosetupremote|followtags)|fetch\.(prune|parallel)"
    r"|merge\.(conflictstyle|ff|renamelimit)|rebase\.(autostash|autosquash)|rerere\.enabled"
    r"|diff\.(algorithm|renames|renamelimit|colormoved|mnemonicprefix|context|noprefix)"
    r"|log\.(date|decorate|abbrevcommit|follow)"
    r"|status\.(branch|short|relativepaths|showstash|showuntrackedfiles|aheadbehind)|color\.\w+"
    r"|column\.\w+|advice\.\w+"
    r"|gc\.\w+|maintenance\.\w+|pack\.\w+|index\.\w+|feature\.\w+|lfs\.repositoryformatversion"
)
QUIET = {  # the environment of git that reads unasked (git(1), git-config(1))
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_PAGER": "cat",
    # As `git -c` would say it; unlike GIT_CONFIG_COUNT it reaches git in submodules, too.
    "GIT_CONFIG_PARAMETERS": " ".join(
        f"'{setting}'"
        for setting in (
            "core.fsmonitor=false",
            "core.hooksPath=/dev/null",
            "diff.autoRefreshIndex=false",  # else `git diff` writes the index
            "diff.ignoreSubmodules=all",
            "log.showSignature=false",
            "safe.bareRepository=explicit",
            "safe.directory=*",
        )
    ),
}


@record
class Repository:
    """A repository that git would find."""

    #: What git reads, absolute: the one that holds the repository, and where it is kept.
    folders: tuple[str, ...]
    #: A setting (or what else) that is not known to run nothing; "" when there is none.
    unknown: str


def repository_at(folder: str) -> Repository | None:
    """The repository that git finds from ``folder`` (absolute, resolved); None when there is
    none."""
    for top in (folder, *map(str, Path(folder).parents)):
        if os.path.lexists(f"{top}/.git"):
            return _repository(top)
        if all(os.path.lexists(f"{top}/{name}") for name in ("HEAD", "objects", "refs")):
            return Repository((top,), "a repository without a .git folder")
    return None


def _repository(top: str) -> Repository:
    own = _git_folder(f"{top}/.git")
    if own is None:
        return Repository((top,), ".git")
    if not os.path.lexists(f"{own}/commondir"):
        return Repository((top, own), _unknown(top, own, own))
    shared = _line(f"{own}/commondir")
    if shared is None:
        return Repository((top, own), "commondir")
    common = real(os.path.join(own, shared))  # noqa: PTH118 - text
    return Repository((top, own, common), _unknown(top, own, common))


def _unknown(top: str, own: str, common: str) -> str:
    if not _whole(own, common):
        return ".git"  # git passes over it, and takes one further above
    for name, known in ((f"{common}/config", _HARMLESS), (f"{top}/.gitmodules", _MODULES)):
        found = _first_unknown(name, known)
        if found:
            return found
    if os.path.lexists(f"{common}/objects/info/alternates"):
        return "objects/info/alternates"
    return _elsewhere(own) or (_elsewhere(common) if common != own else "")


def _whole(own: str, common: str) -> bool:
    """gitrepository-layout(5), and what git itself asks of a folder before it takes it."""
    head = _line(f"{own}/HEAD")
    folders = (f"{common}/objects", f"{common}/refs")
    entered = all(os.access(f"{each}/.", os.X_OK) for each in folders)
    return entered and head is not None and _HEAD.fullmatch(head) is not None


def _elsewhere(own: str) -> str:
    """The first file of git's own that may be somebody else's, by a link: git tells what it finds
    in one. Objects are checked by their names, so theirs may have a second one (a clone on the same
    disk); hooks are not run."""
    left = _MOST_NAMES
    objects = f"{own}/objects"
    queue = [own]
    while queue:
        folder = queue.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return f"more than {_MOST_NAMES} files"
                    if folder == own and entry.name in ("hooks", "lfs", "modules"):
                        continue
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        if folder != objects or entry.name in ("info", "pack"):
                            queue.append(entry.path)
                        continue
                    second = status.st_nlink > 1 and not folder.startswith(objects)
                    if second or not stat.S_ISREG(status.st_mode):
                        return entry.path
        except OSError as error:
            return error.strerror or str(error)
    return ""


_MODULES = re.compile(r"submodule\..*\.(path|url|branch|shallow|fetchrecursesubmodules)")


def _git_folder(path: str) -> str | None:
    """``.git`` itself, or where the file of that name leads (worktrees, submodules)."""
    if os.path.isdir(path):  # noqa: PTH112 - text
        return path
    line = _line(path)
    if line is None or not line.startswith("gitdir: "):
        return None
    return real(os.path.join(os.path.dirname(path), line[8:]))  # noqa: PTH118, PTH120 - text


def _line(path: str) -> str | None:
    """What a file of git's own says, as git takes it; None where git might take something else: a
    part of it, other bytes, or what stands before a null."""
    try:
        with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123 - text
            text = file.read(_LONGEST + 1)
    except (OSError, UnicodeDecodeError):
        return None
    return text.rstrip("\r\n") if len(text) <= _LONGEST and "\0" not in text else None


def _first_unknown(path: str, known: re.Pattern[str]) -> str:
    """The first setting of a file that ``known`` does not name; "" when all are."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:  # noqa: PTH123
            text = file.read(_MOST + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    if len(text) > _MOST:
        return f"{path}: more than {_MOST} bytes"
    section = ""
    for line in text.split("\n"):
        rest = line.strip(" \t\r\ufeff")
        if (head := _SECTION.match(rest)) is not None:
            section = head[1] if head[2] is None else f"{head[1]}.{head[2]}"
            rest = rest[head.end() :].strip()
        if not rest or rest[0] in "#;":
            continue
        setting = _SETTING.fullmatch(rest)
        name = f"{section}.{setting[1]}".lower() if setting is not None else rest
        if setting is None or not known.fullmatch(name):
            return name
    return ""
