"""The plain language: the part of bash that is read here exactly as bash reads it, and the only
part that may run unasked.

A line is simple commands between ``|``, ``&&``, ``||``, ``;`` and newlines. A command is words and
redirections. A word is made of

* letters, digits and ``_ . / : , @ % + = ^ -``; ``#``, ``!`` and ``~`` where bash takes them for
  themselves; a letter of another script counts as a letter;
* ``'...'``, and ``"..."`` without a backquote, with no ``$`` but of ``$HOME`` and what a loop sets;
* ``*`` and ``?``, which become the names on the disk now; ``~`` or ``~/`` at the beginning;
  ``$HOME`` at the beginning, as a whole word or before ``/``; what a loop sets.

``cd FOLDER`` with ``&&`` or an end behind it may stand first, ``LC_ALL=C`` and a few like it before
a command. ``if``, ``then``, ``elif``, ``else``, ``fi`` and ``!`` change nothing of what can run:
every command between them counts. ``for NAME in WORDS; do ...; done`` is what is in it, once with
each word. Everything else (bash(1), "SHELL GRAMMAR", "QUOTING", "EXPANSION", "REDIRECTION") is not
plain: a person is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from ohmo.shell.handed import Told, commands_of, names_told
from ohmo.shell.patterns import ANY, TooWide, names_of, real, word_set
from ohmo.shell.reading import reading, takes_no_input
from ohmo.shell.script import Handed, Redirect, Simple

_LONGEST = 10_000  # characters; nobody reads a longer line at a glance, nor do we
_MOST_NAMES = 5_000  # that the wildcards of one line become
_LEAST_NAMES = 50  # that a wildcard counts for: it looks at far more than it becomes
_MOST_COMMANDS = 300  # and rounds of loops: each is judged
_MOST_LETTERS = 30_000  # that the loops of a line come to: each round is read again
_MOST_INSIDE = 10  # loops inside each other
# Controls but tab and newline; letters nobody sees (Hangul fillers); halves of characters; the
# range that marks wildcards elsewhere.
_STRANGE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u115f\u1160\u3164\uffa0\ud800-\uf8ff]")
_BLANK = re.compile(r"[ \t]+|(?<=[ \t\n;|&])\\\n|(?<![^ \t\n;|&])#[^\n\\]*(?=\n|$)")
_OPERATOR = re.compile(r"\|\||&&|[|;](?!&)|\n")
_REDIRECT = re.compile(r"(?:(?<![^ \t\n;|&])[012])?(>>|>&|>|<(?![<>&(]))|(&>>?)")
_DESCRIPTOR = re.compile(r"[12](?=[ \t\n;|&]|$)")
_BARE = r"[A-Za-z0-9_./:,@%+=^-]"
_SIMPLE_WORDS = re.compile(rf"(?:{_BARE}++[ \t]++)+")
# ``@{1}`` is git's, ``{}`` find's: without a comma and dots it is no brace expansion
_LETTERS = re.compile(rf"(?:@\{{[A-Za-z0-9]+\}}|\{{\}}|{_BARE})+")
_ESCAPED = re.compile(r"\\([ -~])")  # bash(1), "Escape Character"
# what some language of a house may take for a letter of the name is left out
_VALUE = r"\$(?:[A-Za-z_]\w*+(?![^\x00-\x7f])|\{[A-Za-z_]\w*\})"
_QUOTED = re.compile(rf"""'([^']*)'|"((?:[^"$`\\]|\\[^\n]|{_VALUE})*)\"""", re.ASCII)
# bash(1), "Double Quotes": before every other character a backslash is one
_IN_QUOTES = re.compile(rf"""\\([$`"\\])|({_VALUE})""", re.ASCII)
_LOOPED = re.compile(_VALUE, re.ASCII)
_TOLD = re.compile(rf'(?:"{_VALUE}"|{_VALUE})(?=[ \t\n;|&<>]|$)', re.ASCII)
_UNQUOTED = re.compile(rf"{_BARE}+")  # bash(1), "Word Splitting": it stays one word
_HOME = re.compile(r"\$HOME(?=[/ \t\n;|]|$)")
_UNSPLIT = re.compile(r"/[A-Za-z0-9_./-]*")
_END = re.compile(r"[ \t\n;|&]|$")
_WORD_END = " \t\n;|&<>"
_PROGRAM = re.compile(r"[A-Za-z0-9_./+:-]+|\[")
# bash(1), "RESERVED WORDS": where a command begins, and nothing else is there
_BRANCH = re.compile(r"(?:if|then|elif|else|!)(?=[ \t])|(?:if|then|elif|else)(?=\n)")
_BEHIND = {"if": "then", "elif": "then", "then": "elif else fi", "else": "fi"}
_CLOSED = re.compile(r"(?:fi|done)(?=[ \t\n;|&<>]|$)")
_DO = re.compile(r"do(?=[ \t\n])")
# Names in small letters are nobody's settings.
_FOR = re.compile(r"for[ \t]+([a-z][a-z0-9]{0,9})[ \t]+in(?=[ \t])")
# Reads a line, or what stands before a null byte.
_WHILE = re.compile(
    r"while[ \t]+(IFS=[ \t]+)?read[ \t]+(-r[ \t]+)?(-d[ \t]+(?:''|\"\")[ \t]+)?([a-z][a-z0-9]{0,9})"
    r"(?=[ \t]*[;\n])"
)
_AROUND = re.compile(  # changes how a program writes, and nothing of what it opens or runs
    r"(?:(?:LC_ALL|LANG)=(?:C|C\.UTF-8|en_US\.UTF-8)|(?:GIT_)?PAGER=cat|NO_COLOR=1|COLUMNS=\d{1,4}"
    r"|TZ=UTC)[ \t]+"
)
# bash(1), "RESERVED WORDS", and builtins that change what comes after them
_NO_PROGRAM = word_set(
    """if then elif else fi time for in until while do done case esac coproc select function
        . source alias unalias enable exec eval trap set shopt export declare typeset local
        readonly unset read mapfile readarray let getopts hash bind complete compopt builtin pushd
        popd dirs return break continue shift wait exit logout suspend"""
)


class NotPlain(Exception):
    """The line does not lie in the plain language; the text names what does not."""


def read_plain(text: str, home: str, cwd: str) -> tuple[Simple, ...]:
    """The commands of a line in their order, each with exactly the words that bash would give it.
    ``cwd`` absolute. Looks at the disk for wildcards. Raises NotPlain."""
    return _Reader(text, home, cwd).commands()


class _Reader:
    def __init__(self, text: str, home: str, cwd: str) -> None:
        self._text = text
        self._home = home
        self._cwds = (cwd,)
        self._at: int = 0
        self._left = _MOST_NAMES
        self._listed: list[str] = []
        self._goes_on_after_failure = False
        self._nested = False
        self._branches: list[str] = []  # of each ``if`` that is open the last word
        self._over: list[str] = []  # the folders in which the words of loops are looked for
        self._rounds = 0
        self._letters = _MOST_LETTERS  # that loops may still come to
        self._values: dict[str, tuple[str, bool]] = {}  # of loops; whether a wildcard gave it
        self._used: set[bool] = set()  # such values in the word that is read
        self._told: dict[str, Told] = {}  # what loops over the output of others read
        self._handed: Handed | None = None  # how such a name came into the word that is read
        self._mixed = False  # a command writes its errors where it writes its output

    def commands(self) -> tuple[Simple, ...]:
        if len(self._text) > _LONGEST:
            _no(f"more than {_LONGEST} characters")
        if (strange := _STRANGE.search(self._text)) is not None:
            _no(f"the character {strange[0]!a}")
        commands: list[Simple] = []
        self._list(commands, inside=False)
        if not commands:
            _no("no command")
        if self._nested and re.search("[|<]", self._text):  # which may lead to all that is inside
            commands = [replace(each, stdin="pipe") for each in commands]
        if self._nested or self._goes_on_after_failure:
            if len(self._cwds) > 1 and any(each.listed for each in commands):
                _no("wildcards in a folder that is only known when it runs")
            return tuple(dict.fromkeys(commands) if self._nested else commands)
        return tuple(replace(each, cwds=each.cwds[-1:]) for each in commands)

    def _list(self, commands: list[Simple], *, inside: bool) -> None:
        """Up to the end, ``inside`` a loop up to its ``done``."""
        self._skip(lines=True)
        piped = False
        fed: tuple[Simple, ...] | None = ()  # the commands before it in its pipeline
        while self._at < len(self._text):
            began = self._at
            while (branch := _BRANCH.match(self._text, self._at)) is not None:
                self._nested, self._at = True, branch.end()
                self._branch(branch[0])
                self._skip(lines=True)
            loop, closed, told = (
                form.match(self._text, self._at) for form in (_FOR, _CLOSED, _WHILE)
            )
            if closed is not None:
                if self._at > began or (closed[0] == "done" and (not inside or self._branches)):
                    _no(repr(closed[0]))
                self._at = closed.end()
                if closed[0] == "done":
                    return
                self._branch("fi")
            if loop is not None:
                self._loop(loop, commands)
            known = told is not None and self._while(told, commands, fed)
            apart = bool(loop or closed or told)
            command = self._command(piped=piped, behind=apart)
            if known and any(each.kind == "read" for each in command.redirects):
                _no("a loop that reads something else than it is told")
            operator = ""  # between two commands; none at the end of the text
            match = _OPERATOR.match(self._text, self._at)
            if match is not None:
                operator = match[0]
                self._at = match.end()
                self._skip(lines=True)
                if operator in ("|", "&&", "||") and self._at == len(self._text):
                    _no(f"nothing behind {operator}")
                self._goes_on_after_failure |= operator in (";", "\n", "||")
            if command.words[0] == "cd":
                self._enter(command, operator, first=not commands)
            if not apart:
                runs = commands_of(command, fed)
                if runs and all(reading(each) is not None for each in runs):
                    command = replace(command, runs=runs)
                self._check(command, piped=piped)
            if not apart or command.redirects:
                commands += [command, *command.runs]
            linked = operator == "|" and not (apart or self._mixed or fed is None or len(fed) > 5)
            fed = (*(fed or ()), command) if linked else None if operator == "|" else ()
            if len(commands) > _MOST_COMMANDS:
                _no(f"more than {_MOST_COMMANDS} commands")
            piped = operator == "|"
        if inside or self._branches:
            _no("no end of it")

    def _check(self, command: Simple, *, piped: bool) -> None:
        """What is handed names that nobody knows only reads; and in a loop over such names, which
        reads them from its input, nothing else reads of that: it would begin in their middle."""
        if command.handed is not None and reading(command) is None:
            _no(f"{command.words[0]} with what is only known when it runs")
        fed = piped or any(each.kind == "read" for each in command.redirects)
        if self._told and not fed and not takes_no_input(command):
            _no(f"{command.words[0]}, which may read the input of the loop")

    def _branch(self, word: str) -> None:
        if word in ("if", "!"):
            self._branches += [word] if word == "if" else []
        elif not self._branches or word not in _BEHIND[self._branches[-1]].split():
            _no(repr(word))
        else:
            self._branches[-1:] = [word] if word != "fi" else []

    def _loop(self, head: re.Match[str], commands: list[Simple]) -> None:
        """What is in it once with each word, up to its ``done``."""
        self._nested, self._at = True, head.end()
        words: list[tuple[str, bool]] = []
        self._listed = [*self._over]
        while True:
            self._skip(lines=False)
            if self._at == len(self._text) or _OPERATOR.match(self._text, self._at):
                break
            names = self._word()
            wild = isinstance(names, list) or True in self._used
            words += ((name, wild) for name in ([names] if isinstance(names, str) else names))
        if not words or self._text[self._at : self._at + 1] not in (";", "\n"):
            _no("a loop over nothing")
        if head[1] in self._values:
            _no("a loop in one of the same name")
        self._over = self._listed
        for body in self._rounds_of(len(words)):
            self._values[head[1]] = words[body]
            self._list(commands, inside=True)
        self._values.pop(head[1], None)

    def _while(
        self, head: re.Match[str], commands: list[Simple], fed: tuple[Simple, ...] | None
    ) -> bool:
        """What is in it once, with all names that it may be told in the place of its own; whether
        they are known to be nothing else."""
        self._nested, self._at = True, head.end()
        blank, whole, null, name = head.groups()
        plainly = not null or (blank and whole)
        told = names_told(fed, null=bool(null)) if plainly else None
        if name in self._values or name in self._told:
            _no("a loop in one of the same name")
        self._skip(lines=False)
        for _ in self._rounds_of(1):
            self._told[name] = told or ((ANY,), Handed())
            self._list(commands, inside=True)
        self._told.pop(name, None)
        return told is not None

    def _rounds_of(self, count: int) -> Iterator[int]:
        """Stands behind ``do`` as often."""
        self._at += 1
        self._skip(lines=True)
        body = _DO.match(self._text, self._at)
        if body is None:
            _no("a loop without do")
        if len(self._values) + len(self._told) == _MOST_INSIDE:
            _no("a loop too deep in others")
        around, self._branches = self._branches, []
        for at in range(count):
            self._at = body.end()
            self._rounds += 1
            if self._rounds > _MOST_COMMANDS:
                _no(f"more than {_MOST_COMMANDS} rounds of loops")
            yield at
            self._spend(self._at - body.end())
        self._branches = around

    def _spend(self, letters: int) -> None:
        self._letters -= letters
        if self._letters < 0:
            _no(f"loops of more than {_MOST_LETTERS} characters")

    def _enter(self, command: Simple, operator: str, *, first: bool) -> None:
        """A ``cd``."""
        if not first or operator not in ("&&", ";", "\n", "") or command.redirects:
            _no("a cd that is not the beginning (cd FOLDER && ...)")
        # bash goes back through ``..`` by names and every other program by the disk; both have to
        # agree.
        folder = command.words[1] if len(command.words) == 2 else ""
        if command.found or folder[:1] in ("-", ""):
            _no("a cd without one plain folder")
        goal = folder if folder.startswith("/") else f"{command.cwds[0]}/{folder}"
        if real(os.path.normpath(goal)) != real(goal):
            _no("a cd through a link and back")
        self._cwds = (*self._cwds, real(goal))

    def _skip(self, *, lines: bool) -> None:
        """Blanks and comments, and with ``lines`` what ends lines."""
        while self._at < len(self._text):
            blank = _BLANK.match(self._text, self._at)
            if blank is not None:
                self._at = blank.end()
            elif lines and self._text[self._at] == "\n":
                self._at += 1
            else:
                return

    def _command(self, *, piped: bool, behind: bool) -> Simple:
        """``behind`` what was closed stand redirections only, as those of ``true``."""
        words: list[str] = ["true"] if behind else []
        while not behind and (around := _AROUND.match(self._text, self._at)) is not None:
            self._at = around.end()
        self._listed = [*self._over]
        self._mixed = False
        globbed: set[int] = set()
        handed: Handed | None = None
        redirects: list[Redirect] = []
        while True:
            self._skip(lines=False)
            if (simple := _SIMPLE_WORDS.match(self._text, self._at)) is not None:
                words += simple[0].split()
                self._at = simple.end()
            elif self._at == len(self._text) or _OPERATOR.match(self._text, self._at):
                break
            elif (redirect := _REDIRECT.match(self._text, self._at)) is not None:
                self._at = redirect.end()
                sign = redirect[1] or redirect[2]
                self._mixed |= "&" in sign
                if sign == ">&":
                    descriptor = _DESCRIPTOR.match(self._text, self._at)
                    if descriptor is None:
                        _no(">& to something else than 1 or 2")
                    self._at = descriptor.end()
                    continue
                self._skip(lines=False)
                target = self._word()
                if isinstance(target, list) or not target or self._handed:
                    _no(f"{sign} to what is only known when it runs")
                redirects.append(Redirect("read" if sign == "<" else "write", target))
            else:
                names = self._word()
                if self._handed is not None:
                    handed = self._with(handed, len(words), names)
                    globbed |= handed.at
                if isinstance(names, list):
                    globbed.update(range(len(words), len(words) + len(names)))
                    words += names
                else:
                    if not words and (self._used or self._handed):
                        _no("a program that a loop names")
                    if True in self._used:
                        globbed.add(len(words))
                    words.append(names)
        if not words or (behind and len(words) > 1):
            _no("a place without a command")
        if 0 in globbed or not _PROGRAM.fullmatch(words[0]) or words[0] in _NO_PROGRAM:
            _no(f"{words[0][:80]!r} where a program stands")
        return Simple(
            tuple(words),
            self._cwds,
            redirects=tuple(redirects),
            stdin="pipe" if piped else "",
            found=frozenset(globbed),
            listed=tuple(self._listed),
            handed=handed,
        )

    def _with(self, before: Handed | None, at: int, names: str | list[str]) -> Handed:
        """Of a command the names that are only known when it runs, with those of one more word."""
        told = self._handed or Handed()
        before = before or replace(told, at=frozenset())
        more = range(at, at + (1 if isinstance(names, str) else len(names)))
        return Handed(
            at=before.at | {*more},
            bare=before.bare or told.bare,
            split=before.split or told.split,
            files=before.files and told.files,
            only=told.only if told.only == before.only else (),
        )

    def _word(self) -> str | list[str]:
        """One word; of one with wildcards the names that they match now, or it alone: the folder in
        which bash looks for names is read."""
        start = self._at
        parts: list[str] = []
        wild = False
        self._used, self._handed = set(), None
        told = _TOLD.match(self._text, start)
        if told is not None and (name := told[0].strip('"${}')) in self._told:
            self._at = told.end()
            roots, self._handed = self._told[name]
            return [*roots]
        while self._at < len(self._text) and self._text[self._at] not in _WORD_END:
            part, is_wild = self._part(first=self._at == start)
            wild |= is_wild
            parts.append(part if is_wild else re.sub(r"[*?\\]", r"\\\g<0>", part))
        raw = self._text[start : self._at]
        if not raw or (raw.isdecimal() and self._text[self._at : self._at + 1] in ("<", ">")):
            _no(repr(self._text[start : start + 20]))
        pattern = "".join(parts)
        plain = re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)
        if self._handed is not None and wild:
            _no("wildcards beside what is only known when it runs")
        if not wild:
            return plain
        # bash(1), "Pathname Expansion"; a word that nothing matches stays as it is.
        folder, slash, _ = re.split(r"(?<!\\)[*?]", pattern, maxsplit=1)[0].rpartition("/")
        self._listed.append(folder or slash or ".")
        try:
            names = names_of(pattern, self._cwds[-1], self._left)
        except TooWide as why:
            _no(str(why))
        self._left -= max(_LEAST_NAMES, len(names))
        return names or [plain]

    def _part(self, *, first: bool) -> tuple[str, bool]:
        """A piece of a word, and whether it is a wildcard."""
        text = self._text
        at = self._at
        if (piece := _LETTERS.match(text, at)) is not None:
            self._at = piece.end()
            return piece[0], False
        if (escaped := _ESCAPED.match(text, at)) is not None:
            self._at = escaped.end()
            return escaped[1], False
        if (quoted := _QUOTED.match(text, at)) is not None:
            self._at = quoted.end()
            single, double = quoted.groups()
            if single is not None:
                return single, False
            return _IN_QUOTES.sub(
                lambda part: part[1] or self._value(part[2].strip("${}")), double
            ), False
        self._at += 1
        char = text[at]
        if char in "*?":
            return char, True
        if char == "~" and not first:
            if text[at - 1] in "=:":
                _no("~ behind = or :")  # ``a=~/x`` would be expanded as if it were an assignment
            return "~", False  # ``HEAD~1`` is itself
        if char == "~":
            if text[at + 1 : at + 2] != "/" and not _END.match(text, at + 1):
                _no("~ before a name")
            return self._of_home(), False
        if char == "!" or (char == "#" and not first):
            return char, False
        if not char.isascii() and char.isalnum():
            return char, False
        if char in "[]" and first and _END.match(text, self._at):  # a word of its own: test(1)
            return char, False
        return self._variable(at, first=first), False

    def _variable(self, at: int, *, first: bool) -> str:
        """Outside of quotes, where it stays one word."""
        looped = _LOOPED.match(self._text, at)
        if looped is not None and looped[0].strip("${}") in (*self._values, *self._told):
            self._at = looped.end()
            value = self._value(looped[0].strip("${}"))
            if not _UNQUOTED.fullmatch(value) and value != ANY:
                _no(f"{looped[0]} without quotes")
            return value
        variable = _HOME.match(self._text, at) if first else None
        if variable is None:
            _no(repr(self._text[at]))
        self._at = variable.end()
        return self._of_home()

    def _value(self, name: str) -> str:
        if name == "HOME":
            return self._of_home()
        if name in self._told:
            self._handed = Handed()
            return ANY
        if name not in self._values:
            _no(f"${name}")
        value, found = self._values[name]
        self._spend(len(value))  # one in the words of the next loop grows with every loop
        self._used.add(found)
        return value

    def _of_home(self) -> str:
        if not _UNSPLIT.fullmatch(self._home):
            _no("a home that bash would split")
        return self._home


def _no(what: str) -> NoReturn:
    raise NotPlain(what)
