"""Programs with a language of their own: what git would do (only read, or run a program of the
caller's choice; git(1)), and the small part of sed's, awk's and jq's languages that only prints."""

from __future__ import annotations

import re

from ohmo.shell.git_repository import runs_nothing
from ohmo.shell.options import given, options_of, rows_of
from ohmo.shell.patterns import word_set
from ohmo.shell.script import Reading, Simple

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
    --no-abbrev-commit --walk-reflogs --regexp-ignore-case --boundary
    --ancestry-path --count --not"""
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
diff-tree     | {_CHANGES} -rtmcv --no-commit-id --root
shortlog      | -sneh --summary --numbered --email --since: --until: --no-merges --all
blame         | -wslectpfnM? -C? -L: --porcelain --line-porcelain --date: --since: --root --abbrev?
annotate      | -wsl -L:
rev-parse     | -q --abbrev-ref? --short? --show-toplevel --git-dir --verify --is-inside-work-tree
              |   --symbolic-full-name --show-prefix --show-cdup --is-bare-repository --all
              |   --git-common-dir --is-inside-git-dir
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
              |   --column? --abbrev? --no-abbrev
tag           | -il -n? --list --contains? --no-contains? --merged? --no-merged? --points-at:
              |   --sort: --format: --column?
remote        | -v --verbose
stash         | {_CHANGES} --oneline -#
worktree      | -v --porcelain --verbose
version       | --build-options
"""
_FIRST = {
    "remote": (("get-url",),),
    "stash": (("list",), ("show",)),
    "worktree": (("list",),),
    "reflog": (("show",),),
}
_BARE = ("remote", "reflog")  # verbs that show something also without a word behind them
_SIGNATURE = re.compile(r"%[-+ ]*G|signature")
_LISTS = ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_CONFIG_KEY = re.compile(r"(?:user|core|init|branch|remote|push|pull)\.[\w./-]+")
_CONFIG_FORMS = (("--get",), ("get",), ("--get-all",), ())
_WHERE = ("--global", "--local", "--system")
# Who makes a repository, or settings, with these alone names no program.
_MAKING = {
    "init": options_of("-q --quiet --bare -b: --initial-branch: --object-format: --shared?"),
    "clone": options_of(
        """-qvnlsc: -b: -o: -j: --quiet --verbose --progress --no-checkout --local --shared
        --no-hardlinks --no-local --sparse --bare --mirror --dissociate --depth: --branch:
        --single-branch --no-single-branch --tags --no-tags --origin: --jobs: --filter: --config:
        --shallow-since: --shallow-exclude: --reference: --recurse-submodules?
        --shallow-submodules"""
    ),
    "config": options_of(
        """-lz --list --get --get-all --get-regexp --get-urlmatch --show-origin --show-scope
        --name-only --null --global --local --system --worktree --add --replace-all --unset
        --unset-all --type: --bool --int --path --default: --includes --no-includes --fixed-value
        --all --value:"""
    ),
}
_WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env")
_SHOWS = ("-l", "--list", "--get", "--get-all", "--get-regexp", "--get-urlmatch")


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
    row = rows_of(_VERBS).get(verb)
    rest = words[at + 1 :]
    parsed = given(options_of(row[0]), rest, 0, getopt=False) if row is not None else None
    if parsed is None:
        return None
    shows = True  # verbs that can also change something
    if verb in ("branch", "tag"):
        lists = (*_LISTS, "-l") if verb == "tag" else _LISTS
        shows = not parsed.operands or parsed.has(*lists)
    elif verb in _FIRST:
        bare = verb in _BARE and not parsed.operands
        shows = bare or rest[:1] in _FIRST[verb]
    operands = [rest[each] for each in parsed.operands]
    magic = any(
        each.startswith(":") and not each.startswith((":!", ":^", ":(exclude)"))
        for each in operands
    )
    runs_gpg = any(_SIGNATURE.search(value) for _, value in parsed.options)
    if not shows or magic or runs_gpg:
        return None
    if verb == "grep" and not parsed.has("-e"):
        operands = operands[1:]
    paths: list[str] = []
    for operand in operands:  # a revision, a path, or both: ``HEAD:a/b``
        _, colon, path = operand.partition(":")
        if colon and path and not operand.startswith(":"):
            paths += [operand, path]
        else:
            paths.append(operand.lstrip(":!^") or ".")
    below = [path if path[:1] == "/" or folder == "." else f"{folder}/{path}" for path in paths]
    if verb == "diff":  # of two folders outside of the repository it shows the files below
        return Reading("trees", tuple(below), repository=folder)
    return Reading("trees" if verb == "grep" else "names", (folder, *below), repository=folder)


def reads_setting(words: tuple[str, ...]) -> bool:
    """``git config`` with these words shows one setting that is no secret."""
    rest = words[1:] if words[:1] and words[0] in _WHERE else words
    return rest[:-1] in _CONFIG_FORMS and rest != () and _CONFIG_KEY.fullmatch(rest[-1]) is not None


def git_runs(words: tuple[str, ...]) -> str:
    """A setting or an option that is not known to name no program that git would run; "" where all
    are known. ``words`` without ``git`` itself."""
    verb, rest = _verb(words)
    own = words if verb == "clone" else words[: len(words) - len(rest)]
    for word, value in zip(own, (*own[1:], ""), strict=False):
        attached = re.match(r"(?:--config-env=|--config=|-c)([\w.-]+)", word)
        setting = attached[1] if attached is not None else ""
        if word in ("-c", "--config-env", "--config"):
            setting = value.partition("=")[0]
        if setting and not runs_nothing(setting):
            return setting
    if any(word.startswith("ext::") or "=ext::" in word for word in words):
        return "ext::"
    if verb not in _MAKING:
        return ""
    parsed = given(_MAKING[verb], rest, 0, getopt=False)
    if parsed is None:
        return f"an option of git {verb}"
    if verb != "config":
        return ""
    operands = [rest[at] for at in parsed.operands]
    action = operands.pop(0) if operands[:1] in (["set"], ["unset"], ["get"], ["list"]) else ""
    unset = action == "unset" or parsed.has("--unset", "--unset-all")
    shows = action in ("get", "list") or parsed.has(*_SHOWS) or (len(operands) < 2 and not unset)
    return "" if shows or runs_nothing(operands[0] if operands else "") else " ".join(operands[:1])


def _verb(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The verb behind git's own options, and what stands behind it."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _WITH_VALUE else 1
    return (words[at], words[at + 1 :]) if at < len(words) else ("", ())


def _sed_text(delimiter: str) -> str:
    """Up to a delimiter. GNU ends it at the first one, BSD not inside brackets, so brackets hold
    none; a bracket that begins with ``]`` is left out."""
    plain = rf"[^\\\n\[{re.escape(delimiter)}]"
    first = rf"(?:\[:[a-z]+:\]|[^\]\[^\\\n{re.escape(delimiter)}])"
    bracket = rf"\[\^?{first}(?:\[:[a-z]+:\]|\\t|[^\]\[\\\n{re.escape(delimiter)}])*\]"
    return rf"(?:{plain}|\\[^\nce]|{bracket})*"


_SED_PLACE = rf"(?:\d+|\$|/{_sed_text('/')}/)"
_SED_PLACES = rf"{_SED_PLACE}(?:,(?:{_SED_PLACE}|\+\d+))?\s*+(?:!\s*+)?"
_SED_CHANGES = "|".join(
    rf"s{mark}{_sed_text(mark[-1])}{mark}{_sed_text(mark[-1])}{mark}[gpiI0-9]*"
    for mark in ("/", r"\|", "#", ",")
)
_SED_COMMAND = rf"(?:{_SED_PLACES})?(?:[pdqnNGhHx=]|{_SED_CHANGES})"
_SED = re.compile(rf"\s*+{_SED_COMMAND}[ \t]*+(?:[;\n]\s*+{_SED_COMMAND}[ \t]*+)*+;?\s*+")

# Names of nobody's settings, also with what stands in brackets behind them.
_AWK_NAME = r"(?:[acikmnstx]|sum|count|total|max|min|seen|cnt|lines|words|len)\b"
_AWK_TEXT = r"\"(?:[^\"\\\n]|\\[nt\"])*\""
_AWK_FIELD = r"(?:\$(?:\d+|NF)|\$\(NF-\d+\)|NR|NF|FNR|FILENAME)"
_AWK_SUM = rf"{_AWK_NAME}(?:\[(?:{_AWK_FIELD}|{_AWK_NAME}|{_AWK_TEXT})\])?"
_AWK_VALUE = (
    rf"(?:{_AWK_FIELD}|\d+|{_AWK_TEXT}|length\(\$\d+\)"
    r"|length(?!\s*+/))"  # to mawk a slash behind it begins a pattern
)
_AWK_EITHER = rf"(?:{_AWK_VALUE}|{_AWK_SUM})"
_AWK_TEST = (
    rf"(?:{_AWK_VALUE}\s*+(?:==|!=|>=|<=|>|<|%|\+)\s*+{_AWK_EITHER}(?:\s*+==\s*+\d+)?"
    rf"|(?:{_AWK_VALUE}\s*+!?~\s*+|!?)/[\w .,:@=^$*+-]*/|!?{_AWK_VALUE}|!?{_AWK_SUM}(?:\+\+)?)"
)
_AWK_STATEMENT = (
    rf"(?:print(?:\s++{_AWK_EITHER}"
    rf"(?:(?:\s*+,\s*+|\s++|\s*+[-+*/]\s*+|(?>(?=\")|(?<=\"))){_AWK_EITHER})*)?"
    rf"|printf\s++{_AWK_TEXT}(?:\s*+,\s*+{_AWK_EITHER})*"
    rf"|{_AWK_SUM}\s*+\+=\s*+{_AWK_VALUE}|{_AWK_SUM}\+\+|O?FS\s*+=\s*+{_AWK_TEXT}|next|exit)"
)
_AWK_STATEMENTS = (
    rf"(?:for\s*+\({_AWK_NAME}\s++in\s++{_AWK_NAME}\)\s*+)?{_AWK_STATEMENT}"
    rf"\s*+(?:;\s*+{_AWK_STATEMENT}\s*+)*;?"
)
_AWK_RULE = (
    rf"(?:(?:BEGIN|END|{_AWK_TEST}(?:\s*+(?:&&|\|\||,)\s*+{_AWK_TEST})*)?\s*+"
    rf"\{{\s*+{_AWK_STATEMENTS}\s*+\}}"
    rf"|{_AWK_TEST}(?:\s*+(?:&&|\|\||,)\s*+{_AWK_TEST})*)"
)
_AWK = re.compile(rf"\s*+{_AWK_RULE}(?:(?:[ \t]*+\n|\s*+;|(?<=\}}))\s*+{_AWK_RULE})*\s*+")
AWK_SETS = re.compile(rf"{_AWK_NAME}=[\w.,:-]*")

_JQ_PATH = r"(?:\.[A-Za-z_]\w*)+"  # what a string may hold of the input
_JQ_TEXT = rf"\"(?:[^\"\\]|\\[\"\\/nt]|\\\((?:{_JQ_PATH}|\.)\))*\""
_JQ_TOKEN = re.compile(_JQ_TEXT + r"|\s+|\.\.|\.?[A-Za-z_]\w*|\d+|[.,:;|()\[\]{}?=!<>+*/%-]|@\w+")
_JQ_OPENED = {")": "(", "]": "[", "}": "{", "end": "if"}
_JQ_WORDS = word_set(
    """add all and any arrays ascii_downcase ascii_upcase booleans contains def del elif else empty
        end endswith false first flatten floor from_entries fromjson group_by has if in
        index indices inside isvalid iterables join keys keys_unsorted last length limit map
        map_values max max_by min min_by not nth null nulls numbers objects or paths range recurse
        reverse round scalars select sort sort_by split sqrt startswith strings sub gsub test
        then to_entries toarray tojson tonumber tostring transpose true type unique unique_by values
        walk with_entries @csv @tsv @text @json @base64 @base64d"""
)


def sed_only_prints(script: str) -> bool:
    """Prints, deletes, moves on and substitutes; runs, reads and writes nothing (``e r R w W``)."""
    return _SED.fullmatch(script) is not None


def awk_only_prints(program: str) -> bool:
    """``print`` of fields under conditions, and sums; no ``>``, ``|``, ``getline``, ``system``."""
    return len(program) <= 500 and _AWK.fullmatch(program) is not None


def jq_only_reads(filter_: str) -> bool:
    """Field names, and words of jq that neither load a module nor look at the environment."""
    at = 0
    before = ""
    inside: list[str] = []
    while at < len(filter_):
        token = _JQ_TOKEN.match(filter_, at)
        if token is None:
            return False
        word = token[0]
        at = token.end()
        if word in ("(", "[", "{", "if"):  # jq 1.7 takes ``{a: if . then 1, env else 2 end}``
            inside.append(word)
        elif word in _JQ_OPENED:
            if not inside or inside.pop() != _JQ_OPENED[word]:
                return False
        elif (word[0].isalpha() or word[0] in "_@") and word not in _JQ_WORDS:
            # {name: .value}, {name, other}: not what stands behind a colon
            key = inside[-1:] == ["{"] and before in "{," and re.match(r"\s*[:,}]", filter_[at:])
            if not key:
                return False
        before = word if word.strip() else before
    return True
