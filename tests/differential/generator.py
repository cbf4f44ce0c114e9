"""Random command lines: made by a grammar of words, operators, quotes, expansions and options, or
by changing a line of the attack list or of the everyday commands."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from tests.differential.rules import KINDS
from tests.unit.permissions.attack_forms import everyday, kinds
from tests.unit.permissions.attack_scenes import Scene

# Program: options, operands. What writes or runs stands among them, more rarely than what reads.
_FILES = (
    "a.py b.py src/b.py notes.txt README.md package.json ./a.py src . *.py *.txt src/* ? a?py"
    " 'a.py' \"b.py\""
)
_READING: dict[str, tuple[str, str]] = {
    "ls": ("-l -a -la -1 -R -d -h -t --all --color=never -L --hyperlink", _FILES),
    "cat": ("-n -A -b -s --number", _FILES),
    "head": ("-1 -n 2 -c 5 -n2 --lines=3 -q", _FILES),
    "tail": ("-1 -n 2 -c 5 -n+2 -q -1 -n 2 -c 5 -n+2 -q -1 -f", _FILES),
    "wc": ("-l -c -w -lw --lines --files0-from=a.py", _FILES),
    "sort": (
        "-u -n -r -rn -k1 -k 2 -t, --unique -o -ox -T --compress-program=./evil --co=./evil",
        _FILES,
    ),
    "uniq": ("-c -d -u -f 1 -w3", "a.py b.py - x"),
    "cut": ("-d, -f1 -c1-3 -d : -f 1,2 --fields=1", _FILES),
    "tr": ("-d -s -c", "a b 'a-z' 'A-Z' '\\n' x"),
    "grep": (
        (
            "-n -r -rn -i -v -c -l -E -o -A1 -B 2 --include=*.py -q -f -R -e --exclude-dir=x -P"
            " --color"
        ),
        f"x y '^x' 'a|b' {_FILES}",
    ),
    "rg": (
        (
            "-n -l -i -c -w -tpy -g '*.py' --files --hidden -F -A1 -z -L --pre=./evil --pre -f"
            " --no-ignore"
        ),
        f"x 'y z' {_FILES}",
    ),
    "find": (
        (
            "-name -type f -maxdepth 1 -print -print0 -not ! -o -exec -delete -fprint -size +1"
            " -newer -L -path"
        ),
        f"*.py '*.py' {_FILES} {{}} + ;",
    ),
    "sed": (
        "-n -E -e -i -f -r -s --quiet -z",
        f"1p 1,2p '1,$p' 's/x/y/' 's/x/y/g' '$p' 'w x' 1e '/x/p' p '1d;p' {_FILES}",
    ),
    "awk": (
        "-F, -F : -v x=1 -f",
        (
            "1 '{print}' '{print $1}' '/x/' 'NR>1' '{print > \"x\"}' '{c[$1]++}' '!seen[$0]++'"
            " '{printf \"%s\",$1}' '{printf \"%s\"}>x' 'END{for(k in\tc)print\tk,c[k]}'"
            " 'BEGIN{FS=\",\"}{print}' '{s+=$1}END{print s}' '{print s>x}' '{a[1]>\"x\"}'"
            f" 'BEGIN{{system(\"x\")}}' {_FILES}"
        ),
    ),
    "jq": (
        "-r -c -n -s -f -e -L --arg a b --tab -R",
        ". .name '.a' 'keys' 'env' '$ENV' 'input' package.json a.py",
    ),
    "git": ("-C . --no-pager -c x.y=z -p", ""),
    "git status": ("-s --short -sb --porcelain", "a.py src --"),
    "git log": (
        "--oneline -1 -p --stat --all -3 --graph --format=%h --output=x --ext-diff",
        "HEAD a.py -- main",
    ),
    "git diff": (
        "--stat --cached --name-only -U1 --no-index --output=x --textconv --word-diff",
        "HEAD HEAD~1 a.py -- src",
    ),
    "git show": ("--stat -s --name-only --textconv", "HEAD HEAD:a.py HEAD~1"),
    "git branch": ("-a -v -vv -r --list -d -D -m --show-current", "main x"),
    "git grep": ("-n -l -O -i --no-index", "x y -- a.py"),
    "git blame": ("-L 1,2 --contents -s", "a.py b.py"),
    "git ls-files": ("-m -o --exclude-standard -c", "src a.py"),
    "git rev-parse": ("--short --abbrev-ref --show-toplevel", "HEAD main"),
    "git tag": ("-l --list -d -n", "x v1"),
    "diff": ("-u -r -q -b --brief -y", _FILES),
    "cmp": ("-s -l", _FILES),
    "stat": ("-c %s -f -L --format=%n", _FILES),
    "file": ("-b -i -m -f -C", _FILES),
    "du": ("-s -h -sh -a --max-depth=1 -X --files0-from=a.py", _FILES),
    "date": ("-u +%Y -s -d now -r a.py -Iseconds", "+%H '+%d %m' 010100002001"),
    "echo": ("-n -e", "a 'b c' \"d e\" $HOME ~ * # -- x"),
    "printf": ("-v --", "'%s\\n' %d%n x 'a b' 1 %s"),
    "test": ("-f -d -e -v -n -z ! -eq", "a.py x 1 = 'a[0]'"),
    "[": ("-f -d -e ] -v", "a.py ] x ]"),
    "basename": ("-a -s .py", _FILES),
    "dirname": ("-z", _FILES),
    "realpath": ("-m -e", _FILES),
    "md5sum": ("-c --tag", _FILES),
    "sha256sum": ("-b", _FILES),
    "xxd": ("-l 4 -p -r -c 8", "a.py b.py x"),
    "od": ("-c -An -tx1", _FILES),
    "nl": ("-ba", _FILES),
    "tac": ("-s x", _FILES),
    "rev": ("", _FILES),
    "paste": ("-d, -s", _FILES),
    "comm": ("-12 -3", _FILES),
    "column": ("-t -s,", _FILES),
    "seq": ("-s, -w", "1 3 2"),
    "expr": ("-- --version", "1 + 2 a : 'a.*' length x"),
    "numfmt": ("--to=iec --from=si -d, --field=1 --debug -z", "1000 2K x"),
    "shuf": ("-n 2 -z -e -i 1-3 -o -ox --output=x --random-source=../.netrc", _FILES),
    "pwd": ("-P -L", ""),
    "whoami": ("", ""),
    "id": ("-u -un", ""),
    "uname": ("-a -r", ""),
    "which": ("-a", "ls git x"),
    "type": ("-t -a", "ls cd x"),
    "command": ("-v -V -p", "ls git touch"),
    "true": ("", ""),
    "ps": ("aux -ef -e auxe", ""),
    "df": ("-h", "."),
    "free": ("-m", ""),
    "sleep": ("", "0"),
    "tree": ("-L 1 -a -o x", "src"),
}
_NAMES = tuple(_READING)
_JOINS = (" | ", "|", " && ", "&&", " || ", "||", "; ", ";", "\n", "\n\n", " ;\n", " |\n", " &&\n")
_BAD_JOINS = (" & ", " |& ", ";; ", " ! ", "\r\n", " ;& ", " ( ", " ) ", " { ")
_REDIRECTIONS = (
    ">/dev/null",
    "2>/dev/null",
    "2>&1",
    "> /dev/null 2>&1",
    "&>/dev/null",
    "< a.py",
    "<notes.txt",
    ">&2",
)
_BAD_REDIRECTIONS = (
    "> x",
    ">>x",
    "2>x",
    "&> x",
    "<> x",
    "< ../.netrc",
    "{fd}>x",
    ">| x",
    "3<a.py",
    "<<< x",
    "<<EOF",
    ">&x",
    "1<>x",
)
_TOKENS = r"""' " \ $ ` ~ # ! * ? [ ] { } ( ) < > | & ; = , : % @ ^ + - / . 0 1 $( ) $(( )) ${ } $' $" <( >( [[ ]] ~+ ~- ~1 ~root
    $? "$?" {} x{} {},{} \; \( \) \! {}..{} $HOME ${HOME} $x $@ $? {a,b} {1..3} --output=x -o x ../.netrc link/id_rsa innocent.txt ./evil `evil` ;evil -- '' "" \\ """
_CHARACTERS = (
    "\t\n\r\x0b\x0c\x85\xa0\u2028\u3000\u200b\ufeff\x00\x01\x7f\u00e9\u00fc\u65e5\U000e0041 "
)
_NESTING = (
    "for f in a.py b.py; do @; done",
    "for f in *.py; do @; done",
    "for f in 'a.py' src/*\ndo @; done | cat",
    "for d in src deep; do for f in 1 x; do @; done; done",
    "if [ -f a.py ]; then @; fi",
    "if ! @; then @; else @; fi",
    "if @; then @; elif @; then @; fi 2>/dev/null",
    "! @",
    "LC_ALL=C @",
    "TZ=UTC NO_COLOR=1 @",
    "cd src; @",
    "@ || true",
    "timeout 5 @",
    "nice -n 1 @; echo $?",
)
_VALUES = (
    *("$f", '"$f"', "${f}", '"${f}"', '"$d/$f"', "$d/$f", '"== $f"', "$f.py", "x$f", '"$HOME/x"'),
    *(
        '"a\\nb"',
        '"a\\"b"',
        '"\\$f"',
        '"{$f}"',
        '"\\\\$f"',
        "./$f",
        '"$f}"',
        '"$f[0]"',
        "$fx",
        '"$?"',
        "$?",
    ),
)
_NOISE = (
    *("; do ", "; done", "done", "; fi", "then ", "if ", "! ", "for f in a.py; do ", "$f", '"$f"'),
    *_TOKENS.split(),
    *_CHARACTERS,
    "  ",
    "' '",
    "$(touch x)",
    "`touch x`",
    ";touch x",
    "a[$(touch x)]",
    "\\\n",
    "\\ ",
)


# What hands names to other programs: where from, by which tests, through what, to whom.
_TREES = "src src nest nest nest nest ./nest src nest/two odd flags leads cut deep . nest/two ./nest a.py nest/again.py"
_TESTS = (
    *(
        "",
        "",
        "-name '*.py'",
        "-type f",
        "-type f -name '*.py'",
        "-not -name '*.txt'",
        "-maxdepth 1",
    ),
    *("-name '*' -type f", "-type f -o -name x", "! -type f", "\\( -name '*.py' \\)", "-name x.py"),
)
_TELLERS = (
    *("find % @", "find % @", "find % @ -print0", "find @", "find % % @ -print", "find % -ls"),
    *("rg -l x %", "rg -l x", "rg --files %", "rg --files -0 %", "rg -l --json x %", "rg -c x %"),
    *("grep -rl x %", "grep -rlZ x %", "grep -rL q %", "grep -rc x %", "grep -l x nest/*"),
    *(
        "ls",
        "ls %",
        "ls -1 nest/*",
        "ls -a %",
        "ls -l %",
        "cat notes.txt",
        "echo ../.netrc",
        "seq 2",
    ),
    *("git ls-files", "find % @ 2>&1", "find % @ 2>/dev/null", "find % @ -exec grep -l x {} \\;"),
)
_BETWEEN = (
    *(
        "",
        "",
        "",
        "",
        "| sort",
        "| head -3",
        "| grep -v x",
        "| tail -n +2",
        "| sort -z",
        "| head -c 9",
    ),
    *("| sed 's/a/b/'", "| cut -c3-", "| uniq -c", "| xargs grep -l x", "| xargs -0 grep -l x"),
    *("| grep -o x", "| rev", "| sort notes.txt", "| cat a.py -", "| tr a b", "| xargs grep -L q"),
)
_XARGS = (
    *(
        "xargs",
        "xargs",
        "xargs -0",
        "xargs -r",
        "xargs -n1",
        "xargs -n 2",
        "xargs -0 -n1",
        "xargs -P2",
    ),
    *("xargs -I{} @ {}", "xargs -I % @ %", "xargs -d '\\n'", "xargs -L1", "xargs -0r", "xargs -t"),
    *("xargs -a notes.txt", "xargs -i @ {}", "xargs -p", "xargs -x -n 1", "xargs -I X @ aXb X"),
)
_HANDED = (
    *(
        "cat",
        "wc -l",
        "head -2",
        "grep -n x",
        "grep -l x",
        "sort",
        "uniq",
        "echo",
        "basename",
        "ls -d",
    ),
    *(
        "grep",
        "grep -e",
        "sed -n 1p",
        "awk 1",
        "stat -c %n",
        "file",
        "md5sum",
        "tail -n",
        "du -a",
        "rg x",
    ),
    *(
        "sort -o",
        "sed -i p",
        "touch",
        "sh -c",
        "env cat",
        "./evil",
        "rm",
        "diff a.py",
        "cut -c1",
        "tac",
    ),
    *(
        "rg x --files",
        "dirname",
        "printf '%s\\n'",
        "tr a",
        "jq .",
        "ls",
        "grep -r x",
        "test -f",
        "od -c",
    ),
)
_READS = (
    *(
        "while read -r f; do @; done",
        "while read f; do @; done",
        "while IFS= read -r f\ndo @; done | cat",
    ),
    *("while IFS= read -r -d '' f; do @; done", "while read -r -d '' f; do @; done"),
    *("while read -r f; do head -c 3; @; done", "while read -r f; do @; done < notes.txt"),
    *('while read -r f; do if [ -f "$f" ]; then @; fi; done', "while read -r f g; do @; done"),
)


class Generator:
    """``seed`` gives the same lines again. ``scene`` fills the folders of the attack list."""

    def __init__(self, seed: int, scene: Scene) -> None:
        self._random = random.Random(seed)
        attacks = [form for kind in kinds() for form in kind.filled(scene.home, scene.work)]
        reading, writing = everyday()
        self._corpora: tuple[Sequence[str], ...] = (attacks, reading, reading, writing)
        self._ruled = [
            f"{' '.join(kind.words)} {tail}"
            for kind in KINDS
            for tail in (*kind.tails, *kind.tails, *kind.hostile)
        ]

    def line(self) -> str:
        """One command line."""
        draw = self._random.random()
        if draw < 0.18:
            return self._handing() if draw < 0.14 else self._noisy(self._handing())
        if draw < 0.40:
            return self._clean()
        if draw < 0.60:
            return self._noisy(self._clean())
        if draw < 0.75:
            return (
                self._random.choice(self._ruled)
                if self._random.random() < 0.4
                else self._noisy(self._random.choice(self._ruled))
            )
        return self._noisy(self._random.choice(self._random.choice(self._corpora)))

    def _clean(self) -> str:
        count = self._random.choice((1, 1, 1, 2, 2, 3, 4))
        line = self._simple()
        if self._random.random() < 0.08:
            line = (
                f"cd {self._random.choice(('src', '.', 'deep', '..', 'link', 'none', '~', '-'))} &&"
                f" {line}"
            )
        for _ in range(count - 1):
            joins = _JOINS if self._random.random() < 0.95 else _BAD_JOINS
            line += self._random.choice(joins) + self._simple()
        return self._nested(line) if self._random.random() < 0.12 else line

    def _nested(self, line: str) -> str:
        pieces = self._random.choice(_NESTING).split("@")
        inside = [line, *(self._simple() for _ in pieces[2:])]
        if pieces[0].startswith("for"):
            inside[0] += f" {self._random.choice(_VALUES)}"
        return "".join(text for pair in zip(pieces, (*inside, ""), strict=True) for text in pair)

    def _handing(self) -> str:
        """One program tells names, another is run with them."""
        choice = self._random.choice
        run = choice(_HANDED)
        if self._random.random() < 0.3:
            end = choice(("{} +", "{} \\;", "{} ';'", "\\;", "x{} \\;", "{} {} +", "{} x \\;"))
            line = f"find % @ -exec {run} {end}"
        else:
            line = f"{choice(_TELLERS)} {choice(_BETWEEN)} | "
            if self._random.random() < 0.3:
                value = choice((*_VALUES, *['"$f"'] * len(_VALUES)))
                line += choice(_READS).replace("@", f"{run} {value}")
            else:
                form = choice(_XARGS)
                line += form.replace("@", run) if "@" in form else f"{form} {run}"
        while "% " in line or line.endswith("%"):
            line = re.sub(r"%(?= |$)", choice(_TREES.split()), line, count=1)
        line = line.replace(" @", f" {choice(_TESTS)}")
        return (
            f"cd {choice(('nest', 'flags', 'src', 'odd'))} && {line}"
            if choice("abcd") == "a"
            else line
        )

    def _simple(self) -> str:
        if self._random.random() < 0.08:
            return self._random.choice(self._ruled)
        name = self._random.choice(_NAMES)
        options, operands = (text.split(" ") for text in _READING[name])
        words = [self._quoted(name)]
        words += [
            word
            for _ in range(self._random.choice((0, 0, 1, 1, 2, 3)))
            if (word := self._random.choice(options))
        ]
        words += [
            word
            for _ in range(self._random.choice((0, 1, 1, 2)))
            if (word := self._random.choice(operands))
        ]
        if self._random.random() < 0.05:
            self._random.shuffle(words)
        if self._random.random() < 0.12:
            choice = _REDIRECTIONS if self._random.random() < 0.8 else _BAD_REDIRECTIONS
            words.insert(self._random.randint(0, len(words)), self._random.choice(choice))
        if self._random.random() < 0.03:
            words.append("# " + self._random.choice(("comment", "it's", "a; touch x", "\\")))
        if self._random.random() < 0.06:
            words.insert(self._random.randint(1, len(words)), self._random.choice(_VALUES))
        return self._random.choice((" ", " ", " ", "  ", "\t")).join(words)

    def _quoted(self, word: str) -> str:
        """Now and then quoted, whole or in part; bash takes it for the same word."""
        if " " in word or self._random.random() > 0.04:
            return word
        at = self._random.randint(0, len(word))
        mark = self._random.choice("'\"")
        return f"{word[:at]}{mark}{word[at:]}{mark}"

    def _noisy(self, line: str) -> str:
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            line = self._changed(line)
        return line

    def _changed(self, line: str) -> str:
        at, end = sorted((self._random.randint(0, len(line)), self._random.randint(0, len(line))))
        match self._random.randint(0, 6):
            case 0 | 1 | 2:
                return line[:at] + self._random.choice(_NOISE) + line[at:]
            case 3:
                return line[:at] + line[at + 1 :]
            case 4:
                words = line.split(" ")
                words.insert(
                    self._random.randint(0, len(words)),
                    self._random.choice((*_NOISE, *_BAD_REDIRECTIONS)),
                )
                return " ".join(words)
            case 5:
                other = self._clean()
                return line[:at] + other[self._random.randint(0, len(other)) :]
            case _:
                return line[:at] + line[end:] if end - at < 8 else line[:end] + line[at:]
