"""What a rule with a wildcard lets through: options and words that are known to do no more than the
rule says. What is not listed asks (the programs' own manuals: git(1), npm-run(1), make(1), ...)."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from ohmo.shell.options import Options, given, options_of, rows_of
from ohmo.shell.patterns import word_set
from ohmo.shell.plain import read_plain
from ohmo.shell.plain_words import NotPlain
from ohmo.shell.reading import only_reads, reading
from ohmo.shell.script import Simple
from ohmo.shell.wrappers import SHELLS, WRAPPERS

_NPM = """-DEswr -w: --silent --if-present --workspaces --workspace: --no-audit --no-fund --offline
    --prefer-offline --frozen-lockfile --save-dev --save-exact --save --production --omit:
    --include: --json --depth: --all --recursive --filter: --ignore-scripts --verbose --no-save
    --legacy-peer-deps"""
_CARGO = """-qvr -p: -j: -F: --release --workspace --all --all-features --no-default-features
    --features: --package: --bin: --lib --bins --test: --tests --example: --examples --benches
    --all-targets --quiet --verbose --locked --offline --frozen --keep-going --no-fail-fast --no-run
    --doc --check --no-deps --message-format: --profile: --jobs: --exclude:"""
_GO = """--v --race --cover --short --failfast --json --a --n --u --m --count: --run: --skip:
    --bench: --benchmem --benchtime: --timeout: --tags: --parallel: --cpu: --shuffle: --trimpath"""
_PYTEST = """-qvxslh -k: -m: -n: -r: --quiet --verbose --exitfirst --lf --ff --last-failed --tb:
    --failed-first --maxfail: --durations: --collect-only --co --no-header --no-summary --stepwise
    --color: --cov? --no-cov --markers --fixtures --strict-markers --disable-warnings --timeout:"""
_LOOK = "-aAqlnf -n: -o: --all --tail: --since: --no-pager --output: --format: --filter: --no-trunc"
_GH = """-L: -R: -b: -s: -l: --limit: --repo: --branch: --status: --state: --workflow: --label:
    --json: --log --log-failed --exit-status --comments --job: --author: --event:"""
# words that a rule has to name | options that it admits beside them
_TABLE = f"""
git add          | -AunNv --all --update --verbose --dry-run --intent-to-add --ignore-errors
git commit       | -avqsm: --all --message: --amend --no-edit --allow-empty --signoff --quiet
                 |   --verbose --dry-run --author: --date: --only
git push         | -uvqn --set-upstream --tags --follow-tags --quiet --verbose --dry-run --porcelain
                 |   --progress --no-progress
git pull         | -vqr --rebase? --no-rebase --ff-only --ff --no-ff --autostash --tags --prune
                 |   --all --depth: --quiet --verbose --no-edit
git fetch        | -aptvqj: --all --prune --tags --no-tags --quiet --verbose --depth: --dry-run
                 |   --progress --unshallow --deepen:
git checkout     | -qtb: --quiet --track? --detach --no-track
git switch       | -qdtc: --quiet --create: --detach --track? --no-track
git restore      | -qSWs: --staged --worktree --source: --quiet
git reset        | -q --soft --mixed --quiet
git merge        | -qm: --no-ff --ff --ff-only --no-edit --abort --continue --squash --stat --quiet
git rebase       | -q --abort --continue --skip --onto: --autostash --no-autostash --quiet
git stash        | -ukqm: --include-untracked --keep-index --message: --quiet --index
git tag          | -am: --annotate --message:
git branch       | -qu: --set-upstream-to: --track? --no-track
git cherry-pick  | -xn --no-commit --abort --continue --skip -m:
git revert       | -n --no-edit --no-commit --abort --continue --skip -m:
git clone        | -qvb: --quiet --verbose --depth: --branch: --single-branch --no-tags --progress
git rm           | -rqn --cached --quiet --dry-run
git mv           | -kvn --verbose --dry-run
git init         | -qb: --quiet --initial-branch:
npm test         | {_NPM}
npm run          | {_NPM}
npm ci           | {_NPM}
npm install      | {_NPM}
npm ls           | {_NPM}
npm outdated     | {_NPM}
npm audit        | {_NPM}
pnpm test        | {_NPM}
pnpm run         | {_NPM}
pnpm install     | {_NPM}
yarn test        | {_NPM}
yarn run         | {_NPM}
yarn install     | {_NPM}
bun test         | {_NPM}
bun install      | {_NPM}
make             | -knsBiqrw -j? -l? --keep-going --dry-run --just-print --silent --always-make
                 |   --ignore-errors --question --no-print-directory --jobs? --trace
go build         | {_GO}
go test          | {_GO}
go vet           | {_GO}
go fmt           | {_GO}
go list          | {_GO}
go mod           | {_GO}
go run           |
go version       |
cargo build      | {_CARGO}
cargo test       | {_CARGO}
cargo check      | {_CARGO}
cargo clippy     | {_CARGO}
cargo run        | {_CARGO}
cargo fmt        | {_CARGO}
cargo doc        | {_CARGO}
cargo bench      | {_CARGO}
cargo tree       | {_CARGO}
pytest           | {_PYTEST}
python -m pytest | {_PYTEST}
python3 -m pytest | {_PYTEST}
ssh              | -46qTvC
ruff check       | -qv --fix --no-fix --diff --select: --ignore: --quiet --statistics
                 |   --output-format:
ruff format      | -qv --check --diff --quiet --line-length:
mypy             | -pv --strict --pretty --no-error-summary --ignore-missing-imports
tsc              | -bp: --noEmit --pretty --strict --watch --build
docker ps        | {_LOOK}
docker logs      | {_LOOK}
docker images    | {_LOOK}
docker inspect   | {_LOOK}
kubectl get      | {_LOOK} -w --namespace: --selector: --wide
kubectl logs     | {_LOOK} -c: --namespace: --container: --previous
systemctl status | {_LOOK}
journalctl       | {_LOOK} -u: -p: -b? -r --unit: --reverse --until: --priority: --lines: --boot?
gh run           | {_GH}
gh pr            | {_GH}
gh issue         | {_GH}
gh workflow      | {_GH}
glab ci          | -P: -R: -b: -F: --per-page: --repo: --branch: --status: --output: --ref:
glab mr          | -P: -R: -F: --per-page: --repo: --state: --output:
ohmo triage      | --json --limit:
ohmo sessions list | --json --limit:
ohmo sessions show | --json --limit:
ohmo approvals list | --json
ohmo inbox list  | --json --limit: --state:
ohmo cron list   | --json
ohmo cron history | --json --limit:
"""
_COMPILERS = word_set("gcc g++ cc c++ clang clang++")
_COMPILING = re.compile(
    r"-[cSEg]|-g[0-3]|-O[0-3sg]?|-W[a-z][\w=-]*|-std=[\w+]+|-[IL](?!.*\.\.)\w[\w./-]*"
    r"|-D\w+(=[\w.]*)?|-U\w+"
    r"|-l\w+|-o|-pthread|-fPIC|-fpic|-shared|-static|-pedantic|-M[MD]?"
)
# Their first word says what runs (tar's may hold options without a dash).
_INTERPRETERS = word_set(
    """python pypy node nodejs tsx ts-node ruby perl php lua deno bun tclsh osascript Rscript julia
        java npx pnpx bunx uvx tar bsdtar gtar"""
)
_VERSION = re.compile(r"[\d.-]+$")
# Verbs behind which the next words are a program, whosever verbs they are.
_STARTERS = word_set("run exec x dlx eval tool shell")
# Verbs that run, or set up, what the next words say; no rule with a wildcard covers those.
_RUNNERS = _STARTERS | word_set(
    """config alias api create bisect submodule filter-branch difftool mergetool
        debug cp apply ssh init start attach compose plugin extension completion edit
        replace patch proxy link daemon remote explore publish set-env edit-env add-on foreach"""
)
# What git is given first here may be a folder, whose hooks and settings then count.
_FROM_REMOTES = (("git", "push"), ("git", "pull"), ("git", "fetch"))
_REMOTES = ("origin", "upstream")
_OPERAND = re.compile(r"(?!.*::)(?!(?i:file):)[\w./][\w./:@%+=,~^-]*")
_NODE = re.compile(r"[\w./][\w./:@%+=,~^-]*(?:\[[\w./:, -]+\])?")  # a test and its parameters
_VARIABLE = re.compile(r"\w+[:+?!]*=(?!=)")
_TARGET = re.compile(r"[\w./][\w./%+-]*")
_OUTSIDE = re.compile(r"/|~|(?:.*/)?\.\.(?:/|$)")

_STAR = "\ua66e"  # a letter that stands in no rule
_MOST = 500  # words of a command that a rule with several wildcards is tried on

Inside = Callable[[str], bool]
"""Whether a path, as the command names it, lies in the workspace."""


@cache
def _rows() -> dict[tuple[str, ...], Options]:
    return {tuple(name.split()): options_of(row[0]) for name, row in rows_of(_TABLE).items()}


def covers(pattern: str | None, command: Simple, inside: Inside) -> bool:
    """Whether the rule ``Bash(pattern)`` covers a command of a plain line. ``:*`` at the end and a
    word ``*`` stand for more words, ``*`` in a word for letters of it; None is everything."""
    if pattern is None:
        return True
    if command.handed is not None and command.handed.at:
        return False  # whatever they are called
    pattern_words = _words(pattern)
    if pattern_words.count("*") > 1 and len(command.words) > _MOST:
        return False
    free = _free_words(pattern_words, command.words) if pattern_words else None
    if free is None:
        return False
    # The words that wildcards stand for are to be known to do no more than the rest says.
    if not free or reading(command) is not None:
        return True
    words = command.words
    name = words[0]
    if name in WRAPPERS or name in SHELLS or only_reads(name) or 0 in free:
        return False
    matched = [words[at] for at in free]
    for word in matched:
        path = word.rpartition("=")[2]
        if _OUTSIDE.match(path) and not inside(path):
            return False
    if name in _COMPILERS:
        return all(_COMPILING.fullmatch(word) or _OPERAND.fullmatch(word) for word in matched)
    row = next((words[:size] for size in (3, 2, 1) if words[:size] in _rows()), None)
    if row is not None:
        return _by_row(row, words, free)
    listed = any(each[0] == name for each in _rows())
    begins = 1 in free or words[1] in _RUNNERS or words[1].startswith("-")
    starts = _VERSION.sub("", name) in _INTERPRETERS or words[1].partition(":")[0] in _STARTERS
    if begins and (listed or starts):
        return False
    return all(_OPERAND.fullmatch(word) and not _VARIABLE.match(word) for word in matched)


def family(command: Simple) -> str | None:
    """The rule for all of its kind (``git push:*``); None when the command itself would not be
    covered, or its kind is not known."""
    row = next((command.words[:size] for size in (3, 2) if command.words[:size] in _rows()), None)
    pattern = f"{' '.join(row)}:*" if row is not None else None
    return pattern if pattern and covers(pattern, command, lambda _: False) else None


@lru_cache(maxsize=4096)
def _words(pattern: str) -> tuple[str, ...]:
    """The words of a rule, ``*`` for more of them; () for a rule that is not plain, which covers
    exactly its own text and is compared with the whole command."""
    text = pattern.removesuffix(":*") + " *" if pattern.endswith(":*") else pattern
    if "?" in text:
        return ()
    try:
        commands = read_plain(text.replace("*", _STAR), "", "/")
    except NotPlain:
        return ()
    if len(commands) != 1 or commands[0].redirects:
        return ()
    return tuple(word.replace(_STAR, "*") for word in commands[0].words)


def _free_words(wanted: Sequence[str], words: Sequence[str]) -> tuple[int, ...] | None:
    """Positions of the words that wildcards stand for; None when the rule is about something
    else."""
    if not wanted:
        return None if words else ()
    if wanted[0] == "*":
        for taken in range(len(words) + 1):
            rest = _free_words(wanted[1:], words[taken:])
            if rest is not None:
                return (*range(taken), *(at + taken for at in rest))
        return None
    if not words:
        return None
    exact = wanted[0] == words[0]
    if not exact:
        form = fnmatch.translate(re.sub(r"[?\[]", r"[\g<0>]", wanted[0]))
        if "*" not in wanted[0] or not re.fullmatch(form, words[0]):
            return None
    rest = _free_words(wanted[1:], words[1:])
    if rest is None:
        return None
    own = () if exact or wanted[0].startswith("-") else (0,)
    return (*own, *(at + 1 for at in rest))


def _by_row(row: tuple[str, ...], words: tuple[str, ...], free: tuple[int, ...]) -> bool:
    options = _rows()[row]
    start = max(len(row), free[0])
    before = words[start - 1]
    if start > len(row) and options.kinds.get(before) == ":":  # the rule ends with `-m`
        start += 1
    tail = list(words[start:])
    if row[0] == "go":  # -run is one option
        tail = [f"-{word}" if re.match(r"-\w", word) else word for word in tail]
    parsed = given(options, tail, 0, getopt=False)
    if parsed is None:
        return False
    if any(tail[at] not in _REMOTES for at in parsed.operands[:1]) and row in _FROM_REMOTES:
        return False
    if row[1:] == ("run",) and "env" in tail:
        return False  # npm-run-script(1): without such a script it prints the environment
    if row == ("go", "run") and any("@" in word for word in tail):
        return False  # from elsewhere
    form = _OPERAND
    if row[0] == "make":
        form = _TARGET
    elif row[-1] == "pytest":
        form = _NODE
    return all(form.fullmatch(tail[at]) for at in parsed.operands)
