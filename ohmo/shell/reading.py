"""Programs that only read: a table of their options and of what they open. Whatever is not in it
asks. Sources: the programs' manual pages (GNU coreutils, findutils, grep, ripgrep, util-linux)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.shell.git_repository import QUIET
from ohmo.shell.git_sed_awk_jq import awk_only_prints, git_reading, jq_only_reads, sed_only_prints
from ohmo.shell.handed import WHEN, find_reading
from ohmo.shell.options import Given, Options, given, options_of, rows_of
from ohmo.shell.patterns import known, word_set
from ohmo.shell.script import Handed, Reading, Script, Simple

Operands = Literal["files", "names", "file", "text", "none", "pattern", "sed", "awk", "jq"]
"""``files``: their content is read, ``file``: of one, ``names``: they are looked at, ``text``: they
are no paths, ``pattern``: the first is none; the others: the first is a script."""

# program | operands | options. A program after which "." stands takes the folder it is in for none.
_TABLE = """
cat        | files   | -AbeEnstTuv --number --number-nonblank --show-all --squeeze-blank
tac        | files   | -br -s:
head       | files   | -qvz -n: -c: --lines: --bytes: --quiet --verbose -#
tail       | files   | -qvz -n: -c: --lines: --bytes: --quiet --verbose -#
wc         | files   | -clmwL --lines --words --bytes --chars --max-line-length
nl         | files   | -p -b: -n: -w: -s: -v: -i:
cut        | files   | -snz -d: -f: -c: -b: --delimiter: --fields: --characters: --complement
           |         |   --output-delimiter: --only-delimited
sort       | files   | -bdfghinMrVcCmsuz -k: -t: --key: --field-separator: --reverse --unique
           |         |   --numeric-sort --human-numeric-sort --version-sort --ignore-case --stable
uniq       | file    | -cdDiuz -f: -s: -w: --count --repeated --unique --ignore-case --skip-fields:
tr         | text    | -cCdst --delete --squeeze-repeats --complement --truncate-set1
paste      | files   | -sz -d: --delimiters: --serial
join       | files   | -iz -t: -1: -2: -j: -o: -a: -v: -e: --header --nocheck-order
comm       | files   | -123iz --nocheck-order --total --output-delimiter:
fold       | files   | -bs -w: --width: --spaces
fmt        | files   | -cstu -w: -p: --width:
expand     | files   | -i -t: --tabs:
unexpand   | files   | -a -t: --all
column     | files   | -texJ -s: -o: -c: -N: -R: -H: --table --separator: --output-separator:
rev        | files   |
od         | files   | -abcdfilosxv -A: -t: -j: -N: -w?
hexdump    | files   | -bcCdosxv -n: -s: -e:
base64     | file    | -di -w: --decode --wrap: --ignore-garbage
base32     | file    | -di -w: --decode --wrap:
strings    | files   | -afw -n: -t: -e: --bytes: --radix: --encoding: -#
md5sum     | files   | -btz --tag
sha1sum    | files   | -btz --tag
sha256sum  | files   | -btz --tag
sha512sum  | files   | -btz --tag
b2sum      | files   | -btz -l: --tag
shasum     | files   | -bt -a: --algorithm:
cksum      | files   | -a:
cmp        | files   | -bls -n: -i: --print-bytes --verbose --quiet --silent --bytes:
diff       | files   | -abBcdeEinNpqrstTuwyZ -U: -C: -W: --unified? --context? --brief --color?
           |         |   --side-by-side --width: --suppress-common-lines --ignore-all-space
           |         |   --ignore-space-change --ignore-blank-lines --ignore-case --label: --text
           |         |   --report-identical-files --strip-trailing-cr --minimal --new-file
iconv      | files   | -cs -f: -t: --from-code: --to-code:
grep       | pattern | -abcEFGhHiIlLnoPqrRsTUvwxyzZ -e: -m: -A: -B: -C: -# --regexp:
           |         |   --recursive --include: --exclude: --exclude-dir: --color? --colour? --count
           |         |   --ignore-case --no-ignore-case --line-number --files-with-matches
           |         |   --files-without-match --only-matching --word-regexp --line-regexp
           |         |   --invert-match --extended-regexp --fixed-strings --basic-regexp
           |         |   --perl-regexp --no-messages --quiet --silent --max-count: --text --null
           |         |   --after-context: --before-context: --context: --with-filename
           |         |   --no-filename --byte-offset --binary-files: --label: --initial-tab
rg .       | pattern | -acFhHiIlnNoPpqsSuUvwx0. -e: -g: -t: -T: -A: -B: -C: -m: -M: -d: -j: -r:
           |         |   -E: --regexp: --glob: --iglob: --type: --type-not: --type-list
           |         |   --after-context: --before-context: --context: --max-count: --max-columns:
           |         |   --max-depth: --files --files-with-matches --files-without-match --count
           |         |   --count-matches --hidden --no-ignore --no-ignore-vcs --no-config --json
           |         |   --ignore-case --smart-case --case-sensitive --fixed-strings --stats
           |         |   --word-regexp --line-regexp --invert-match --only-matching --multiline
           |         |   --multiline-dotall --pcre2 --line-number --no-line-number --column
           |         |   --with-filename --no-filename --heading --no-heading --color: --colors:
           |         |   --sort: --sortr: --trim --vimgrep --passthru --replace: --quiet --text
           |         |   --no-messages --pretty --null --max-filesize: --unrestricted --crlf
ls .       | names   | -aAbBcCdfFgGhiIklmnNopqQrRsStTuUvwxXZ1 -I: -w: -T: --all --almost-all
           |         |   --color? --human-readable --recursive --reverse --size --inode --sort:
           |         |   --time: --time-style: --full-time --group-directories-first --directory
           |         |   --classify? --numeric-uid-gid --no-group --si --ignore: --hide: --format:
stat       | names   | -ftx -c: --format: --printf: --terse --file-system
file       | names   | -bi0N --brief --mime --mime-type --mime-encoding --no-pad -F:
du .       | names   | -0abchkmsSx -d: -B: -t: --all --total --human-readable --max-depth: --si
           |         |   --summarize --apparent-size --exclude: --threshold: --one-file-system
           |         |   --time?
df         | names   | -ahHiklPT -t: -x: -B: --all --human-readable --inodes --print-type --total
           |         |   --local --type: --output?
tree .     | names   | -aACdDfFghinNpqQrsStuUvxJX -L: -I: -P: --charset: --dirsfirst --du
           |         |   --filelimit:
           |         |   --gitignore --ignore-case --matchdirs --noreport --prune --sort: --timefmt:
basename   | text    | -az -s: --multiple --suffix: --zero
dirname    | text    | -z --zero
realpath   | names   | -eLmPqsz --relative-to: --relative-base: --canonicalize-existing
readlink   | names   | -efmnqsvz --canonicalize --no-newline
pwd        | none    | -LP
whoami     | none    |
id         | none    | -agGnruz --user --group --groups --name --real
groups     | none    |
uname      | none    | -aimnoprsv --all
arch       | none    |
nproc      | none    | --all --ignore:
hostname   | none    | -s --short
uptime     | none    | -ps --pretty --since
free       | none    | -bghklmtvw --human --mega --giga --total --si
lscpu      | none    | -aeJpy --json --extended?
lsblk      | none    | -abdfilmnprt -o: --output: --json --all --fs --paths
lsmod      | none    |
who        | none    | -abHmqu
w          | none    | -hsu
users      | none    |
vmstat     | none    | -adsw
locale     | none    | -a --all-locales
getconf    | text    | -a
pgrep      | text    | -acflnovx -u: -d: --full --list-name --list-full --count --exact --oldest
sleep      | text    |
expr       | text    |
numfmt     | text    | -d: --from: --to: --field: --delimiter: --format: --suffix: --padding:
shuf       | files   | -z -n: --head-count: --zero-terminated
seq        | text    | -w -s: -f: --separator: --equal-width --format:
true       | text    |
false      | text    |
:          | text    |
type       | text    | -afpPt
which      | text    | -a --all
cd         | names   |
sed        | sed     | -nErsuz -e: --expression: --quiet --silent --regexp-extended --null-data
           |         |   --separate --unbuffered
awk        | awk     | -F: --field-separator:
gawk       | awk     | -F: --field-separator:
mawk       | awk     | -F:
jq         | jq      | -acCejMnrsRS --ascii-output --compact-output --color-output --exit-status
           |         |   --join-output --monochrome-output --null-input --raw-output --raw-input
           |         |   --slurp --sort-keys --tab --indent:
"""
# Programs that change what they name and nothing else, when no option names a folder, too.
_CHANGING = word_set("cp mv rm rmdir mkdir touch ln chmod chown tee truncate install")
_TARGET_OPTION = re.compile(r"-.*[t=].*", re.DOTALL)
# Without a row.
_APART = word_set("[ command date echo find git nice printf ps test timeout xargs xxd")
# What the word tells is all that they do with it, whatever it is.
_TELLING = word_set("echo printf basename dirname true")
_DEAF = word_set("[ basename dirname echo false printf pwd test true")
BUILTINS = word_set("echo printf test [ pwd true false : type command cd")  # bash needs no file
_VERSIONED = word_set(
    "python python3 node ruby perl php gcc g++ cc clang make cmake bash tar docker"
)
_ANY_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_FORMAT = re.compile(  # no %n and no *, which take names and sums
    r"(?:[^%\\]|%%|%[-+ 0#]*\d*(?:\.\d+)?[sdiuxXofeEgGcbq]|\\(?:[abefnrtv\\\"']|0?[0-7]{1,3}))+"
)
_TESTS = word_set(
    """-b -c -d -e -f -G -h -L -N -O -p -r -s -S -w -x -n -z -a -o -eq -ne -lt -le -gt -ge -nt -ot
        -ef"""
)
_DATE = re.compile(
    rf"\+.*|-u|-R|-I\w*|--utc|--rfc-email|--(?:iso-8601|rfc-3339)=\w+|--date={WHEN.pattern}",
    re.DOTALL,
)
_COLUMN = (
    "pid|ppid|pgid|user|uid|comm|args|cmd|command|%cpu|%mem|pcpu|pmem|etimes?|time|rss|vsz"
    "|stat|state|tty|nlwp|start|lstart"
)
_PS = re.compile(
    rf"aux?w?w?f?|axu?w?w?f?|-[eAfFlwxHT]+|--forest|--no-headers|--sort=[-+]?(?:{_COLUMN})"
)
_PS_VALUE = {
    "-o": re.compile(rf"(?:{_COLUMN})(?:,(?:{_COLUMN}))*"),
    "-eo": re.compile(rf"(?:{_COLUMN})(?:,(?:{_COLUMN}))*"),
    "-p": re.compile(r"[0-9,]+"),
    "-C": re.compile(r"[A-Za-z0-9_.-]+"),
    "-u": re.compile(r"[a-z_][a-z0-9_-]*"),
}


@record
class _Row:
    """One program of the table."""

    operands: Operands
    options: Options
    here: bool  # without a path it takes the folder it is in


@cache
def _rows() -> dict[str, _Row]:
    """Made at the first look: a start that waits for nobody's command does not pay for it."""
    rows: dict[str, _Row] = {}
    for name, (operands, options) in rows_of(_TABLE).items():
        kind: Operands = operands  # pyright: ignore[reportAssignmentType]
        rows[name.removesuffix(" .")] = _Row(kind, options_of(options), name.endswith(" ."))
    return rows


def only_reads(name: str) -> bool:
    """Whether the program stands in the table for reading: with other options it does what no rule
    meant."""
    return name != "git" and (name in _APART or name in _rows())


def reads_only(script: Script) -> bool:
    """Whether it changes nothing and runs nothing but programs that only read."""
    return bool(script.plain) and all(reading(each) for each in script.plain)


def touched(script: Script) -> tuple[Path, ...] | None:
    """Every path that the words of a plain line name to programs that touch nothing else; None:
    what it touches is only known when it runs."""
    paths: list[Path] = []
    for each in script.plain:
        read = reading(each)
        words = each.words[1:]
        if read is not None and read.repository is None:
            words = read.paths
        elif each.words[0] not in _CHANGING or any(map(_TARGET_OPTION.fullmatch, words)):
            return None
        paths += [Path(cwd) / word for cwd in each.cwds for word in words]
    return tuple(paths) if script.plain else None


def environment_of(script: Script) -> Mapping[str, str]:
    """What a command is given beside the usual: git that only reads runs no program of anybody's
    settings."""
    return QUIET if only_git_that_reads(script.plain) else {}


def only_git_that_reads(plain: Sequence[Simple]) -> bool:
    """Whether git looks at a repository in a plain line and does nothing else in it. ``git config``
    alone shows the person's own settings, too."""
    gits = [reading(each) for each in plain if each.words[0] == "git"]
    return None not in gits and any(each and each.repository is not None for each in gits)


def reading(command: Simple) -> Reading | None:
    """What the command opens when it changes nothing and runs nothing else; None when that is not
    known. ``command``: of a plain line."""
    words = command.words
    name = words[0] if words else ""
    if len(words) == 2 and words[1] == "--version" and (name in _VERSIONED or name in _rows()):
        return Reading("names")
    if words[1:] == ("--help",) and name in _rows():
        return Reading("names")
    handed = command.handed if command.handed is not None and command.handed.at else None
    row = _rows().get(name)
    options = given(row.options, words, getopt=name != "tree") if row is not None else None
    if name in _APART:
        opened = _reading_apart(name, command)
    elif row is None or options is None:
        return None
    else:
        opened = _by_row(row, options, command)
    if opened is None or handed is None:
        return opened
    if name in _TELLING and 0 not in handed.at:
        return opened  # whatever the words are
    # Where a name stands that nobody knows, no program and no value of an option may stand.
    operands = {*options.operands} if options is not None else handed.at
    fits = options is not None or name in ("[", "test")
    if not (fits and opened.paths and handed.at <= operands and all(map(known, words))):
        return None
    if len(opened.paths) > len(handed.at):  # nothing is told of what the line itself names
        handed = replace(handed, files=False, only=())
    return replace(opened, kind="trees", handed=handed)


def takes_no_input(command: Simple) -> bool:
    """Whether a command that only reads is known to leave its input alone."""
    row = _rows().get(command.words[0])
    by_name = row is not None and row.operands in ("files", "names", "pattern", "sed")
    handed = command.handed is not None and command.handed.at and "-" not in command.words
    return command.words[0] in _DEAF or bool(by_name and handed and known("".join(command.words)))


def _by_row(row: _Row, options: Given, command: Simple) -> Reading | None:
    words = command.words
    operands = list(options.operands)
    kind = row.operands
    if kind in ("text", "none"):
        return Reading("names") if kind == "text" or not operands else None
    if kind in ("pattern", "sed", "awk", "jq"):
        scripts: list[str] = []
        if kind in ("pattern", "sed"):
            scripts = options.values("-e", "--regexp", "--expression")
        if not (scripts or options.has("--files", "--type-list")):
            if not operands or operands[0] in command.found:
                return None
            scripts = [words[operands.pop(0)]]
        if kind in _SCRIPTS and not all(map(_SCRIPTS[kind], scripts)):
            return None
    if kind == "file" and operands not in ([], [len(words) - 1]):
        return None  # what stands behind the first is written, also when it looks like an option
    paths = [words[at] for at in operands if words[at] != "-"]
    deep = words[0] == "rg" or options.has("-r", "-R", "--recursive")
    arguments = words[1:] if words[0] == "strings" else paths
    if any(word.startswith("@") for word in arguments):
        return None  # a file of options (binutils)
    if words[0] == "tree" and not all(map(_TREE.fullmatch, words[1:])):
        return None
    if words[0] == "iconv" and not all(_CHARSET.fullmatch(value) for _, value in options.options):
        return None
    if not paths and (row.here or (kind == "pattern" and deep)):
        paths = ["."]
    paths += [words[at] for at in options.late]
    if kind == "names":
        return Reading("names", tuple(paths))
    if options.has({"grep": "-R", "diff": "-r"}.get(words[0], "")):
        return Reading("trees", tuple(paths), handed=Handed())  # by links, too
    return Reading("trees" if kind == "pattern" and deep else "files", tuple(paths))


def _reading_apart(name: str, command: Simple) -> Reading | None:
    """Of a program whose options no row can say."""
    first, *rest = command.words[1:] or ("",)
    harmless = False
    match name:
        case "git":
            return git_reading(command)
        case "nice" | "timeout" | "xargs":  # what they run stands behind them
            harmless = command.runs != ()
        case "find":
            return find_reading(command)
        case "[" | "test":
            return _test(command)
        case "xxd":  # its second file is written
            harmless = len(command.words) == 2 and first[:1] not in "-+"
            return Reading("files", (first,)) if harmless else None
        case "command":
            harmless = first in ("-v", "-V") and all(map(_ANY_NAME.fullmatch, rest))
        case "date":  # ``date 10101010`` sets the clock
            harmless = _all_known(command.words[1:], _DATE, {"-d": WHEN, "--date": WHEN})
        case "ps":  # not ``ps e``, which shows the environment
            harmless = _all_known(command.words[1:], _PS, _PS_VALUE)
        case "printf":
            plain = len(command.words) > 1 and 1 not in command.found
            harmless = plain and not first.startswith("-") and _FORMAT.fullmatch(first) is not None
        case _:  # echo
            harmless = True
    return Reading("names") if harmless else None


# A value is a word of its own.
_TREE = re.compile(r"[^-].*|--.*|-[^-LIP]*(?:[LIP]|L\d+)?", re.DOTALL)
_CHARSET = re.compile(r"(?:[\w.:-]+(?://\w*)?)?")  # with another slash it is a file
_SCRIPTS: dict[str, Callable[[str], bool]] = {
    "sed": sed_only_prints,
    "awk": awk_only_prints,
    "jq": jq_only_reads,
}


def _test(command: Simple) -> Reading | None:
    words = command.words[1:]
    if command.words[0] == "[":
        if words[-1:] != ("]",):
            return None
        words = words[:-1]
    if any(word.startswith("-") and word not in _TESTS for word in words):
        return None
    return Reading("names", tuple(word for word in words if word and word not in _TESTS))


def _all_known(
    words: Sequence[str], flags: re.Pattern[str], values: Mapping[str, re.Pattern[str]]
) -> bool:
    """Whether each word is a flag, or an option of ``values`` with such a value behind it."""
    rest = iter(words)
    for word in rest:
        value = values.get(word)
        if value is not None and not value.fullmatch(next(rest, "=")):  # none takes "="
            return False
        if value is None and not flags.fullmatch(word):
            return False
    return True
