"""Programs that run another one, and the names that they hand to it: ``find -exec``, ``xargs``,
``timeout`` and ``nice``. Which names those are is only known when the line runs; what is known of
them is below which folders they lie, and how they come (find(1), xargs(1), grep(1))."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache

from channels.record import record
from ohmo.shell.options import Given, Options, given, options_of
from ohmo.shell.patterns import ANY, OPTION_LIKE, SOME, word_set
from ohmo.shell.script import Handed, Reading, Simple

Told = tuple[tuple[str, ...], Handed]
"""Files and folders, and how the names come that are one of these or lie below one."""

EVEN = re.compile(r"[\w.+@=,:%^~#(){}&;$!-]+")  # a name that stays one word wherever it is read
WHEN = re.compile(r"[\w @:.,/+-]*")  # TZ="..." would name a file
_FLAGS = word_set(
    """-print -print0 -prune -empty -not ! ( ) -a -and -o -or , -true -false -readable -writable
        -executable -mount -xdev -depth -daystart -noleaf -ls -quit -nouser -nogroup"""
)
_VALUES = word_set(
    """-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size
        -mtime -atime -ctime -mmin -amin -cmin -newermt -maxdepth -mindepth -perm -user -group -uid
        -gid -newer -links -inum -lname -printf"""
)
_ENDS = {"-print": "\n", "-print0": "\0", "-ls": "", "-printf": ""}
_BRANCHES = word_set("-o -or , (")  # a test before one of these does not hold for all behind it
_FORM = re.compile(r"[A-Za-z0-9_.*-]+")  # means the same to everybody
_XARGS = options_of(
    """-0rtx -n: -L: -P: -I: -d: --null --no-run-if-empty --verbose --max-args: --max-procs:
    --delimiter:"""
)
_FEW = re.compile(r"[1-9]\d?")  # processes at a time
_AROUND = {
    "timeout": options_of("-vk: -s: --preserve-status --foreground --kill-after: --signal:"),
    "nice": options_of("-n:"),
}
_SECONDS = re.compile(r"\d+(?:\.\d+)?[smhd]?")
# With these a program tells names of files and nothing else.
_LISTING = {
    "grep": options_of(
        """-lLrRiwxEFGPIsnHvZ -e: -m: --files-with-matches --files-without-match --recursive
        --include: --exclude: --exclude-dir: --ignore-case --null"""
    ),
    "rg": options_of(
        """-lFiPsSuUvwx0. -e: -g: -t: -T: -d: --files --files-with-matches --files-without-match
        --glob: --iglob: --type: --type-not: --hidden --no-ignore --no-ignore-vcs --ignore-case
        --null --smart-case --fixed-strings --word-regexp --sort: --max-depth:"""
    ),
    "ls": options_of("-1AdrStU"),
}
_LISTS = ("-l", "-L", "--files", "--files-with-matches", "--files-without-match")
# With these it hands on some of its lines, as they are.
_FILTERS = {
    "sort": options_of("-bfghMnrRuVz -k: -t: --unique --reverse --version-sort"),
    "uniq": options_of("-diuz"),
    "head": options_of("-qz -n: --lines: -#"),
    "tail": options_of("-qz -n: --lines: -#"),
    "shuf": options_of("-z -n:"),
    "cat": options_of(""),
    "grep": options_of("-EFGPivwx -e: -m: --invert-match --ignore-case"),
    "rg": options_of("-FPivwx -e: -m: --invert-match --ignore-case"),
}


@record
class _Search:
    """What a ``find`` does. ``paths``: that it looks at. ``runs``: from where to where the words of
    each command stand, and whether it is handed many names at a time. ``told``: the names; ``end``:
    what stands behind each, "" when it prints something else."""

    paths: tuple[str, ...]
    runs: tuple[tuple[tuple[int, int], bool], ...]
    told: Told
    end: str


def find_reading(command: Simple) -> Reading | None:
    """What a ``find`` looks at; None when it is not known to do no more than that, and to run what
    it is known to run."""
    search = _searched(command.words)
    if search is None or (search.runs and not command.runs):
        return None
    return Reading("names", search.paths)


def commands_of(command: Simple, fed: Sequence[Simple] | None) -> tuple[Simple, ...]:
    """The commands that a plain one runs; () when it runs none, or nobody knows which. ``fed``: the
    commands before it in its pipeline, from the first; None: something else."""
    words = command.words
    if words[0] == "find":
        search = _searched(words)
        if search is None:
            return ()
        return tuple(_run(command, range(*at), search.told, many=many) for at, many in search.runs)
    if words[0] == "xargs":
        return _by_xargs(command, fed)
    around = _AROUND.get(words[0])
    at = _behind(around, words)[0] if around is not None else len(words)
    if words[0] == "timeout":
        at += 1 if at < len(words) and _SECONDS.fullmatch(words[at]) else len(words)
    return (_run(command, range(at, len(words)), ((), Handed())),) if at < len(words) else ()


def _run(
    command: Simple,
    at: range,
    told: Told,
    *,
    place: str = "{}",
    more: bool = False,
    many: bool = False,
) -> Simple:
    """The words at these positions, with the names in each ``place``, and with ``more`` behind
    them. ``many``: more than one at a time."""
    roots, how = told
    roots = (*roots, *roots) if many else roots
    words: list[str] = []
    positions: set[int] = set()
    found: set[int] = set()
    for each in (*at, *((-1,) if more else ())):
        word = command.words[each] if each >= 0 else place
        begin = len(words)
        if word == place:
            words += roots
        else:
            words.append(word.replace(place, ANY))
        if place in word:
            positions.update(range(begin, len(words)))
        elif each in command.found:
            found.add(begin)
    return Simple(
        tuple(words),
        command.cwds,
        stdin=command.stdin,
        found=frozenset(found | positions),
        handed=replace(how, at=frozenset(positions)),
    )


def _by_xargs(command: Simple, fed: Sequence[Simple] | None) -> tuple[Simple, ...]:
    at, options = _behind(_XARGS, command.words)
    if options is None or any(each.kind == "read" for each in command.redirects):
        return ()
    null = options.has("-0", "--null")
    ends = options.values("-d", "--delimiter")
    places = options.values("-I")
    counts = options.values("-n", "-L", "--max-args")
    numbers = (*counts, *options.values("-P", "--max-procs"))
    if (null and ends) or (places and counts) or ends not in ([], ["\\n"]) or len(places) > 1:
        return ()
    if not all(map(_FEW.fullmatch, numbers)) or not all(places):
        return ()
    told = names_told(fed, null=null) or ((ANY,), Handed())
    if at == len(command.words):  # it is ``echo`` then
        command = replace(command, words=(*command.words, "echo"))
    words = range(at, len(command.words))
    if places:
        return (_run(command, words, told, place=places[0]),)
    runs = (_run(command, words, told, place=SOME, more=True, many=counts[-1:] != ["1"]),)
    if options.has("-r", "--no-run-if-empty"):
        return runs
    return (_run(command, words, ((), Handed()), place=SOME), *runs)


def _behind(options: Options, words: Sequence[str]) -> tuple[int, Given | None]:
    """The position of the first word that is neither one of these options nor its value, and these;
    the number of words when there is an unknown one."""
    for at in range(1, len(words) + 1):
        parsed = given(options, words[:at])
        if parsed is not None and words[at : at + 1] != () and not words[at].startswith("-"):
            return at, parsed if not parsed.operands else None
    parsed = given(options, words)
    return len(words), parsed if parsed is not None and not parsed.operands else None


def names_told(fed: Sequence[Simple] | None, *, null: bool) -> Told | None:
    """What the commands of a pipeline tell, when that is nothing but names, each with a line break
    behind it, or with ``null`` a null byte."""
    redirects = [redirect for each in fed or () for redirect in each.redirects]
    if not fed or any(each.kind == "read" or each.target != "/dev/null" for each in redirects):
        return None
    told = _first_told(fed[0], null=null)
    if told is None or not all(_keeps(each, null=null) for each in fed[1:]):
        return None
    roots, how = told
    if any(OPTION_LIKE.match(root) or not (null or EVEN.fullmatch(root)) for root in roots):
        return None
    return roots, replace(how, split=not null)


def _first_told(command: Simple, *, null: bool) -> Told | None:
    name, words = command.words[0], command.words
    if name == "find":
        search = _searched(words)
        end = "\0" if null else "\n"
        return search.told if search is not None and search.end == end else None
    options = given(_LISTING[name], words) if name in _LISTING else None
    if options is None or options.has("-0", "-Z", "--null") is not null:
        return None
    operands = [words[at] for at in options.operands]
    if name == "ls":  # of a folder the names in it, as if they stood here
        return None if null else ((*operands, "."), Handed(bare=True))
    if not options.has(*_LISTS):
        return None
    if not options.has("-e", "--files"):
        operands = operands[1:]
    if operands or not (name == "rg" or options.has("-r", "-R", "--recursive")):
        return (tuple(operands), Handed()) if operands and "-" not in operands else None
    return (".",), Handed(bare=True)


def _keeps(command: Simple, *, null: bool) -> bool:
    """Whether it tells lines that it is fed, whole, and nothing else."""
    name, words = command.words[0], command.words
    if name == "xargs" and command.runs:
        inner = command.runs[-1]
        options = given(_LISTING["grep"], inner.words) if inner.words[0] == "grep" else None
        # Without a name ``grep -L`` tells ``(standard input)``.
        if options is None or null or options.has("-r", "-R", "--recursive", "-Z", "--null", "-L"):
            return False
        named = inner.handed.at if inner.handed is not None else frozenset[int]()
        own = {*options.operands[0 if options.has("-e") else 1 :]} - named  # names of the line's
        others = options.has("--files-without-match")
        return not own and not others and options.has("-l", "--files-with-matches")
    options = given(_FILTERS[name], words) if name in _FILTERS else None
    if options is None or options.has("-z") is not null:
        return False
    patterns = 1 if name in ("grep", "rg") and not options.has("-e") else 0
    return len(options.operands) == patterns


@lru_cache(maxsize=256)
def _searched(words: tuple[str, ...]) -> _Search | None:
    at = 1
    while at < len(words) and not words[at].startswith(("-", "(", "!")):
        at += 1
    paths = words[1:at] or (".",)
    looked: list[str] = [*paths]
    runs: list[tuple[tuple[int, int], bool]] = []
    ends: set[str] = set()
    tests: list[tuple[str, str]] = []  # that hold for whatever is told
    seen = ""
    branches = False
    while at < len(words):
        before, seen, at = seen, words[at], at + 1
        branches |= seen in _BRANCHES
        if seen == "-exec":
            end = _end_of_run(words, at)
            if end == len(words):
                return None
            runs.append(((at, end), words[end] == "+"))
            at = end + 1
        elif seen in _VALUES:
            value = words[at] if at < len(words) else None
            if value is None or (seen == "-newermt" and not WHEN.fullmatch(value)):
                return None
            looked += [value] if seen == "-newer" else []
            if not (runs or ends) and before not in ("!", "-not"):
                tests.append((seen, value))
            at += 1
        elif seen not in _FLAGS:
            return None
        if seen in _ENDS:
            ends.add(_ENDS[seen])
    if runs and any(map(OPTION_LIKE.match, paths)):
        return None
    told = paths, _filtered(paths, tests if not branches else [])
    end = ends.pop() if len(ends) == 1 and not runs else "" if ends or runs else "\n"
    return _Search(tuple(looked), tuple(runs), told, end)


def _end_of_run(words: Sequence[str], at: int) -> int:
    """Where ``;`` stands, or ``+`` behind ``{}``; the number of words when there is none, or no
    command before it."""
    begin = at
    while at < len(words) and words[at] != ";":
        if words[at] == "+" and words[at - 1] == "{}":
            alone = sum("{}" in word for word in words[begin:at]) == 1
            return at if alone and at - begin > 1 else len(words)
        at += 1
    return at if at > begin else len(words)


def _filtered(paths: Sequence[str], tests: Sequence[tuple[str, str]]) -> Handed:
    """What is told of these folders, by the tests of a ``find`` that all hold."""
    files = ("-type", "f") in tests
    only = tuple(form for test, form in tests if test == "-name" and _FORM.fullmatch(form))
    names = (path.rstrip("/").rpartition("/")[2] or path for path in paths)
    if not files and any(all(fnmatchcase(name, form) for form in only) for name in names):
        only = ()  # the folder itself is told, with all below it
    return Handed(files=files, only=only)
