"""Allow rules of forty kinds, with what goes beyond each: options and operands that no such rule
means."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """``rule``: of the configuration. ``tails``: what people write after it. ``beyond``: words by
    which the program would start another one, write elsewhere or load what the caller chose;
    ``hostile``: such tails, for the generator."""

    rule: str
    tails: tuple[str, ...]
    hostile: tuple[str, ...]
    beyond: str

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.rule.removeprefix("Bash(").rstrip(")").removesuffix(":*").split())

    def goes_beyond(self, argv: tuple[str, ...]) -> bool:
        """Whether these words begin with the rule's and hold one that no such rule means."""
        size = len(self.words)
        return argv[:size] == self.words and any(
            re.fullmatch(self.beyond, word, re.DOTALL) for word in argv[size:]
        )


def _kind(rule: str, tails: str, hostile: str, beyond: str) -> Kind:
    return Kind(rule, tuple(tails.split(" | ")), tuple(hostile.split(" | ")), beyond)


_GIT = r"--(upload-p|receive-p|exec|ext-d|open-f|outp|templ|conf|no-ind|textc).*|-[Ou]\S*|ext::.*|-c|--help|-\S*x"
_GIT_READS = r"--(ext-d|open-f|ou|no-i|textc|he|show-sig).*|ext::.*|-O\S*|-o\S*"
KINDS = (
    _kind(
        "Bash(git log:*)",
        "--oneline | -3 --stat | -p -1",
        "--output=x | --ext-diff -p | --outp=x | --textconv -p",
        _GIT_READS,
    ),
    _kind(
        "Bash(git diff:*)",
        "--stat | HEAD~1 | -- a.py",
        "--ext-diff | --output=x | --no-index a.py b.py | --ou=x",
        _GIT_READS,
    ),
    _kind(
        "Bash(git show:*)",
        "HEAD | --stat",
        "--ext-diff | --textconv HEAD:a.py | --output=x",
        _GIT_READS,
    ),
    _kind(
        "Bash(git grep:*)",
        "x | -n x | -l y",
        "-O./evil x | -nO./evil x | --open=./evil x",
        r"-[a-zA-Z]*O\S*|--open.*|--no-i.*|--textc.*",
    ),
    _kind(
        "Bash(git blame:*)",
        "a.py | -L 1,2 a.py",
        "--contents ../.netrc a.py",
        r"--cont.*|--ignore-revs-f.*|-S\S*",
    ),
    _kind(
        "Bash(git fetch:*)",
        "origin | --all",
        "--upload-pack=./evil . | --upl=./evil | ext::./evil",
        _GIT,
    ),
    _kind(
        "Bash(git push:*)",
        "origin main",
        "--receive-pack=./evil . | --exec=./evil | ext::./evil x",
        r"--(rec|ex).*|ext::.*",
    ),
    _kind(
        "Bash(git pull:*)", "--rebase", "--upload-pack=./evil . | ext::./evil", r"--upl.*|ext::.*"
    ),
    _kind(
        "Bash(git commit:*)",
        "-m x | --amend",
        "-F ../.netrc -m x | --template=../.netrc",
        r"--templ.*|-F\S*|--file.*|-t\S*",
    ),
    _kind(
        "Bash(git clone:*)",
        "https://example.com/x.git",
        "-c core.fsmonitor=x y | -u./evil y | --config=a=b y",
        r"-\S*[cu]\S*|--(conf|upl|templ).*",
    ),
    _kind("Bash(git rebase:*)", "main", "-x ./evil main | --exec=./evil main", r"-\w*x\S*|--ex.*"),
    _kind(
        "Bash(make:*)",
        "test | -j4 | all",
        "SHELL=./evil | -f evil.mk | --eval=x | -C src | -I. | CC=./evil | -sf evil.mk",
        r"\w+[:+?]?=.*|-(?!j)\w*[fCIEo]\S*|--(f|m|ev|di|inc|ol|wh|as).*",
    ),
    _kind(
        "Bash(make test:*)",
        "-j2 | -k",
        "SHELL=./evil | -f evil.mk | PYTHON=./evil | --eval=x",
        r"\w+[:+?]?=.*|-(?!j)\w*[fCIEo]\S*|--(f|m|ev|di|inc|ol|wh|as).*",
    ),
    _kind(
        "Bash(npm test:*)",
        "-- x | --silent",
        "--script-shell=./evil | --prefix=src | --node-options=x | --scr=./evil",
        r"--(scr|pref|node-o|userc|globalc|w|sh|cal|comp).*|-C\S*|-w\S*",
    ),
    _kind(
        "Bash(npm run build:*)",
        "--silent",
        "--script-shell ./evil | --prefix src",
        r"--(scr|pref|node-o|userc|globalc).*|-C\S*",
    ),
    _kind(
        "Bash(npm install:*)",
        "--silent",
        "./evil --script-shell=./evil | --prefix=..",
        r"--(scr|pref|node-o|userc|globalc).*|-C\S*",
    ),
    _kind(
        "Bash(pnpm test:*)",
        "--silent",
        "--script-shell=./evil | --dir=src | -C src",
        r"--(scr|dir|pref|node-o).*|-C\S*",
    ),
    _kind(
        "Bash(yarn test:*)",
        "--silent",
        "--script-shell=./evil | --cwd=src",
        r"--(scr|cwd|use-yarnrc|node-o).*",
    ),
    _kind(
        "Bash(go test:*)",
        "./... | -v ./src",
        "-exec ./evil | -toolexec=./evil | -vet=x -exec=./evil | --exec ./evil | -o x",
        r"--?(exec|toolexec|overlay|modfile|vettool|o|C|ldflags|gcflags|asmflags|gccgoflags|compiler|\w*profile|outputdir|trace)(=.*)?",
    ),
    _kind(
        "Bash(go build:*)",
        "./... | -v",
        "-toolexec ./evil . | -o x | -overlay=x | -ldflags=-extld=./evil",
        r"--?(toolexec|overlay|modfile|o|C|ldflags|gcflags|asmflags|gccgoflags|compiler|pkgdir)(=.*)?",
    ),
    _kind(
        "Bash(go vet:*)",
        "./...",
        "-vettool=./evil . | -toolexec=./evil",
        r"--?(toolexec|overlay|modfile|vettool|C)(=.*)?",
    ),
    _kind(
        "Bash(cargo build:*)",
        "--release | -v",
        "--config build.rustc='./evil' | -Zx | --manifest-path=x | --target-dir=..",
        r"--(conf|manif|target-d|out-d|artifact).*|-[ZC]\S*",
    ),
    _kind(
        "Bash(cargo test:*)",
        "--lib | -q",
        "--config=target.x.runner='./evil' | -Z x",
        r"--(conf|manif|target-d).*|-[ZC]\S*",
    ),
    _kind(
        "Bash(pytest:*)",
        "-q | tests | -x",
        "-p evil | --rootdir=.. | -c evil.ini | -o addopts=x | --junitxml=x | -pevil |"
        " --pastebin=all",
        r"-[pco]\S*|--(rootd|conf|pya|over|baset|junit|past|log-f|debug|pdbcls|import|cov|result|ini|pyt|inif).*",
    ),
    _kind(
        "Bash(ruff check:*)",
        "src",
        "--config evil.toml | -o x | --output-file=x",
        r"--(conf|outp|cache|stdin).*|-o\S*",
    ),
    _kind(
        "Bash(mypy:*)",
        "src",
        "--config-file=evil.ini | --python-executable ./evil | --junit-xml=x",
        r"--(conf|python-e|junit|cache|.*-report|custom|package-root|install).*|@.*",
    ),
    _kind("Bash(ssh build uptime:*)", "-p", "; x | $(x)", r";.*"),
    _kind(
        "Bash(gcc:*)",
        "-c a.c | -Wall a.c",
        "-wrapper ./evil a.c | -B. a.c | @evil.args | -fplugin=./evil.so a.c | -specs=evil a.c",
        r"-wrapper.*|-B.*|@.*|-fplugin.*|-?-specs.*|-Wl,.*|-Xlinker|-save-temps.*|-M[DF]\S*|-fdump.*|-print.*=.*|-include|-I\S*",
    ),
    _kind("Bash(docker ps:*)", "-a", "--config=. | -H evil", r"--(conf|host|cont).*|-H\S*"),
    _kind(
        "Bash(sort:*)",
        "a.py | -u a.py | -n b.py",
        "-o x a.py | --compress-program=./evil a.py | -ox a.py | --comp=./evil -S1 a.py | -T ."
        " a.py",
        r"-\w*[oT]\S*|--(o|comp|co|t|files|random-s).*",
    ),
    _kind(
        "Bash(sed -n:*)",
        "1p a.py | 1,3p b.py",
        "'1e touch x' a.py | 'w x' a.py | -i p a.py | -f evil.sed a.py",
        r"-\w*[if]\S*|--(in|fi).*|.*\b[we]\b.*",
    ),
    _kind(
        "Bash(rg:*)",
        "x | -n x src | --files",
        "--pre=./evil x | --pre ./evil x | --hostname-bin=./evil x | -z x",
        r"--(pre|hostname-b|search-z)(=.*)?|-\w*z\w*",
    ),
    _kind("Bash(grep:*)", "x a.py | -rn x src", "-f ../.netrc a.py | -R x .", r"-f\S*|--fi.*"),
    _kind(
        "Bash(find:*)",
        ". -name a.py | src -type f",
        ". -exec ./evil x + | . -delete | . -fprint x | . -okdir ./evil",
        r"-(exec|execdir|ok|okdir|delete|fprint.*|fls)",
    ),
    _kind(
        "Bash(tar:*)",
        "tf a.tar",
        "tf a.tar --to-command=./evil | tf a.tar -I ./evil | cf x a.py"
        " --checkpoint-action=exec=./evil",
        r"--(to-c|checkpoint-a|use-c|us|rsh|info-s|new-vol|abs|xf).*|-\w*[IFP]\S*",
    ),
    _kind(
        "Bash(jq:*)",
        ". package.json | -r .name package.json",
        "-f evil.jq package.json | -L. 'include \"evil\"; x' package.json",
        r"-\w*[fL]\S*|--(from|lib|run).*",
    ),
    _kind(
        "Bash(awk:*)",
        "1 a.py",
        "-f evil.awk a.py | 'BEGIN{system(\"touch x\")}' | '{print > \"x\"}' a.py",
        r"-[fEilW]\S*|--(fi|ex|in|lo|dump|prof).*|.*system.*|.*>.*",
    ),
    _kind("Bash(uniq:*)", "a.py | -c a.py", "a.py x", r"x"),
    _kind(
        "Bash(curl:*)",
        "https://example.com",
        "-o x https://example.com | -K evil.cfg | file:///etc/passwd | -T a.py https://example.com",
        r"-\w*[oOKTcDEF]\S*|--(out|conf|upl|remote|dump|cookie-j|trace|stderr|data.*|form.*|cert|key|unix-s|abs|proxy|pre|netrc).*|file:.*",
    ),
    _kind("Bash(ls:*)", "-la | src", "x", r"(?!)"),
)
assert len(KINDS) == 40
# Programs that the rules name and that a test cannot let run: a stub of this name ends well and
# does nothing.
STUBS = "make npm pnpm yarn go cargo pytest ruff mypy ssh gcc docker curl".split()
_OUTSIDE = frozenset(("fetch", "push", "pull", "commit", "clone", "rebase"))


def runs_here(argv: tuple[str, ...]) -> bool:
    """Whether the words may run in the box: what a rule lets git write is no finding."""
    return not (argv[:1] == ("git",) and bool(_OUTSIDE & set(argv[1:2]))) and argv[:1] != ("tar",)
