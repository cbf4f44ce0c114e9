"""The plain language: the part of bash that is read here exactly as bash reads it, and the only
part that may run unasked.

A line is simple commands between ``|``, ``&&``, ``||``, ``;`` and newlines. A command is words and
redirections. A word is made of

* letters, digits and ``_ . / : , @ % + = ^ -``; ``#``, ``!``, ``~`` and ``{}`` where bash takes
  them for themselves; a letter of another script counts as a letter; any one behind a backslash;
* ``'...'``, and ``"..."`` without a backquote, with no ``$`` but of ``$HOME`` and what a loop sets;
* ``*`` and ``?``, which become the names on the disk now; ``~`` or ``~/`` at the beginning;
  ``$HOME`` at the beginning, as a whole word or before ``/``; what a loop sets.

``cd FOLDER`` with ``&&`` or an end behind it may stand first, ``LC_ALL=C`` and a few like it before
a command. ``if``, ``then``, ``elif``, ``else``, ``fi`` and ``!`` change nothing of what can run:
every command between them counts. ``for NAME in WORDS; do ...; done`` is what is in it, once with
each word. ``while read NAME; do ...; done`` behind a pipe is what is in it, and ``find -exec``,
``xargs`` and their like are what they run, with a folder in the place of each name that is only
known then (``handed.py``). Everything else (bash(1), "SHELL GRAMMAR", "QUOTING", "EXPANSION",
"REDIRECTION") is not plain: a person is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from ohmo.shell.handed import commands_of, names_told
from ohmo.shell.patterns import ANY, real, word_set
from ohmo.shell.plain_words import BARE, Words, no
from ohmo.shell.reading import reading, takes_no_input
from ohmo.shell.script import Handed, Redirect, Simple

_LONGEST = 10_000  # characters; nobody reads a longer line at a glance, nor do we
_MOST_COMMANDS = 300  # and rounds of loops: each is judged
_MOST_INSIDE = 10  # loops inside each other
# Controls but tab and newline; letters nobody sees (Hangul fillers); halves of characters; the
# range that marks wildcards elsewhere.
_STRANGE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u115f\u1160\u3164\uffa0\ud800-\uf8ff]")
_OPERATOR = re.compile(r"\|\||&&|[|;](?!&)|\n")
_REDIRECT = re.compile(r"(?:(?<![^ \t\n;|&])[012])?(>>|>&|>|<(?![<>&(]))|(&>>?)")
_DESCRIPTOR = re.compile(r"[12](?=[ \t\n;|&]|$)")
_SIMPLE_WORDS = re.compile(rf"(?:{BARE}++[ \t]++)+")
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


def read_plain(text: str, home: str, cwd: str) -> tuple[Simple, ...]:
    """The commands of a line in their order, each with exactly the words that bash would give it.
    ``cwd`` absolute. Looks at the disk for wildcards. Raises NotPlain."""
    return _Reader(text, home, cwd).commands()


class _Reader(Words):
    def __init__(self, text: str, home: str, cwd: str) -> None:
        super().__init__(text, home, cwd)
        self._goes_on_after_failure = False
        self._nested = False
        self._branches: list[str] = []  # of each ``if`` that is open the last word
        self._over: list[str] = []  # the folders in which the words of loops are looked for
        self._rounds = 0
        self._mixed = False  # a command writes its errors where it writes its output

    def commands(self) -> tuple[Simple, ...]:
        if len(self.text) > _LONGEST:
            no(f"more than {_LONGEST} characters")
        if (strange := _STRANGE.search(self.text)) is not None:
            no(f"the character {strange[0]!a}")
        commands: list[Simple] = []
        self._list(commands, inside=False)
        if not commands:
            no("no command")
        if self._nested and re.search("[|<]", self.text):  # which may lead to all that is inside
            commands = [replace(each, stdin="pipe") for each in commands]
        if self._nested or self._goes_on_after_failure:
            if len(self.cwds) > 1 and any(each.listed for each in commands):
                no("wildcards in a folder that is only known when it runs")
            return tuple(dict.fromkeys(commands) if self._nested else commands)
        return tuple(replace(each, cwds=each.cwds[-1:]) for each in commands)

    def _list(self, commands: list[Simple], *, inside: bool) -> None:
        """Up to the end, ``inside`` a loop up to its ``done``."""
        self.skip(lines=True)
        piped = False
        fed: tuple[Simple, ...] | None = ()  # the commands before it in its pipeline
        while self.at < len(self.text):
            kind = self._keyword(commands, fed, inside=inside)
            if kind == "done":
                return
            command = self._command(piped=piped, behind=kind != "")
            if kind == "told" and any(each.kind == "read" for each in command.redirects):
                no("a loop that reads something else than it is told")
            operator = ""  # between two commands; none at the end of the text
            match = _OPERATOR.match(self.text, self.at)
            if match is not None:
                operator = match[0]
                self.at = match.end()
                self.skip(lines=True)
                if operator in ("|", "&&", "||") and self.at == len(self.text):
                    no(f"nothing behind {operator}")
                self._goes_on_after_failure |= operator in (";", "\n", "||")
            if command.words[0] == "cd":
                self._enter(command, operator, first=not commands)
            if not kind:
                runs = commands_of(command, fed)
                if runs and all(reading(each) is not None for each in runs):
                    command = replace(command, runs=runs)
                self._check(command, piped=piped)
            if not kind or command.redirects:
                commands += [command, *command.runs]
            linked = operator == "|" and not (kind or self._mixed or fed is None or len(fed) > 5)
            fed = (*(fed or ()), command) if linked else None if operator == "|" else ()
            if len(commands) > _MOST_COMMANDS:
                no(f"more than {_MOST_COMMANDS} commands")
            piped = operator == "|"
        if inside or self._branches:
            no("no end of it")

    def _keyword(
        self, commands: list[Simple], fed: tuple[Simple, ...] | None, *, inside: bool
    ) -> Literal["", "loop", "told", "fi", "done"]:
        """What begins or ends here beside a simple command."""
        began = self.at
        while (branch := _BRANCH.match(self.text, self.at)) is not None:
            self._nested, self.at = True, branch.end()
            self._branch(branch[0])
            self.skip(lines=True)
        closed = _CLOSED.match(self.text, self.at)
        if closed is not None:
            done = closed[0] == "done"
            if self.at > began or (done and (not inside or self._branches)):
                no(repr(closed[0]))
            self.at = closed.end()
            if not done:
                self._branch("fi")
            return "done" if done else "fi"
        if (loop := _FOR.match(self.text, self.at)) is not None:
            self._loop(loop, commands)
            return "loop"
        if (loop := _WHILE.match(self.text, self.at)) is not None:
            return "told" if self._while(loop, commands, fed) else "loop"
        return ""

    def _check(self, command: Simple, *, piped: bool) -> None:
        """What is handed names that nobody knows only reads; and in a loop over such names, which
        reads them from its input, nothing else reads of that: it would begin in their middle."""
        if command.handed is not None and reading(command) is None:
            no(f"{command.words[0]} with what is only known when it runs")
        fed = piped or any(each.kind == "read" for each in command.redirects)
        if self.told and not fed and not takes_no_input(command):
            no(f"{command.words[0]}, which may read the input of the loop")

    def _branch(self, word: str) -> None:
        if word in ("if", "!"):
            self._branches += [word] if word == "if" else []
        elif not self._branches or word not in _BEHIND[self._branches[-1]].split():
            no(repr(word))
        else:
            self._branches[-1:] = [word] if word != "fi" else []

    def _loop(self, head: re.Match[str], commands: list[Simple]) -> None:
        """What is in it once with each word, up to its ``done``."""
        self._nested, self.at = True, head.end()
        words: list[tuple[str, bool]] = []
        self.listed = [*self._over]
        while True:
            self.skip(lines=False)
            if self.at == len(self.text) or _OPERATOR.match(self.text, self.at):
                break
            names = self.word()
            if self.handed is not None:
                no("a loop over what is only known when it runs")
            wild = isinstance(names, list) or True in self.used
            words += ((name, wild) for name in ([names] if isinstance(names, str) else names))
        if not words or self.text[self.at : self.at + 1] not in (";", "\n"):
            no("a loop over nothing")
        if head[1] in self.values or head[1] in self.told:
            no("a loop in one of the same name")
        self._over = self.listed
        for body in self._rounds_of(len(words)):
            self.values[head[1]] = words[body]
            self._list(commands, inside=True)
        self.values.pop(head[1], None)

    def _while(
        self, head: re.Match[str], commands: list[Simple], fed: tuple[Simple, ...] | None
    ) -> bool:
        """What is in it once, with all names that it may be told in the place of its own; whether
        they are known to be nothing else."""
        self._nested, self.at = True, head.end()
        blank, whole, null, name = head.groups()
        plainly = not null or (blank and whole)
        if fed and fed[0].words[0] == "ls" and len(fed[0].words) > 2:
            plainly = False  # it tells empty lines between folders, of which ``$NAME`` is no word
        told = names_told(fed, null=bool(null)) if plainly else None
        if name in self.values or name in self.told:
            no("a loop in one of the same name")
        self.skip(lines=False)
        for _ in self._rounds_of(1):
            self.told[name] = told or ((ANY,), Handed())
            self._list(commands, inside=True)
        self.told.pop(name, None)
        return told is not None

    def _rounds_of(self, count: int) -> Iterator[int]:
        """Stands behind ``do`` as often."""
        self.at += 1
        self.skip(lines=True)
        body = _DO.match(self.text, self.at)
        if body is None:
            no("a loop without do")
        if len(self.values) + len(self.told) == _MOST_INSIDE:
            no("a loop too deep in others")
        around, self._branches = self._branches, []
        for at in range(count):
            self.at = body.end()
            self._rounds += 1
            if self._rounds > _MOST_COMMANDS:
                no(f"more than {_MOST_COMMANDS} rounds of loops")
            yield at
            self.spend(self.at - body.end())
        self._branches = around

    def _enter(self, command: Simple, operator: str, *, first: bool) -> None:
        """A ``cd``."""
        if not first or operator not in ("&&", ";", "\n", "") or command.redirects:
            no("a cd that is not the beginning (cd FOLDER && ...)")
        # bash goes back through ``..`` by names and every other program by the disk; both have to
        # agree.
        folder = command.words[1] if len(command.words) == 2 else ""
        if command.found or folder[:1] in ("-", ""):
            no("a cd without one plain folder")
        goal = folder if folder.startswith("/") else f"{command.cwds[0]}/{folder}"
        if real(os.path.normpath(goal)) != real(goal):
            no("a cd through a link and back")
        self.cwds = (*self.cwds, real(goal))

    def _command(self, *, piped: bool, behind: bool) -> Simple:
        """``behind`` what was closed stand redirections only, as those of ``true``."""
        words: list[str] = ["true"] if behind else []
        while not behind and (around := _AROUND.match(self.text, self.at)) is not None:
            self.at = around.end()
        self.listed = [*self._over]
        self._mixed = False
        globbed: set[int] = set()
        handed: Handed | None = None
        redirects: list[Redirect] = []
        while True:
            self.skip(lines=False)
            if (simple := _SIMPLE_WORDS.match(self.text, self.at)) is not None:
                words += simple[0].split()
                self.at = simple.end()
            elif self.at == len(self.text) or _OPERATOR.match(self.text, self.at):
                break
            elif (redirect := _REDIRECT.match(self.text, self.at)) is not None:
                redirects += self._redirect(redirect)
            else:
                names = self.word()
                if self.handed is not None:
                    handed = self._with(handed, len(words), names)
                    globbed |= handed.at
                if isinstance(names, list):
                    globbed.update(range(len(words), len(words) + len(names)))
                    words += names
                else:
                    if not words and (self.used or self.handed):
                        no("a program that a loop names")
                    if True in self.used:
                        globbed.add(len(words))
                    words.append(names)
        if not words or (behind and len(words) > 1):
            no("a place without a command")
        if 0 in globbed or not _PROGRAM.fullmatch(words[0]) or words[0] in _NO_PROGRAM:
            no(f"{words[0][:80]!r} where a program stands")
        return Simple(
            tuple(words),
            self.cwds,
            redirects=tuple(redirects),
            stdin="pipe" if piped else "",
            found=frozenset(globbed),
            listed=tuple(self.listed),
            handed=handed,
        )

    def _redirect(self, sign: re.Match[str]) -> list[Redirect]:
        self.at = sign.end()
        kind = sign[1] or sign[2]
        self._mixed |= "&" in kind
        if kind == ">&":
            descriptor = _DESCRIPTOR.match(self.text, self.at)
            if descriptor is None:
                no(">& to something else than 1 or 2")
            self.at = descriptor.end()
            return []
        self.skip(lines=False)
        target = self.word()
        if isinstance(target, list) or not target or self.handed:
            no(f"{kind} to what is only known when it runs")
        return [Redirect("read" if kind == "<" else "write", target)]

    def _with(self, before: Handed | None, at: int, names: str | list[str]) -> Handed:
        """Of a command the names that are only known when it runs, with those of one more word."""
        told = self.handed or Handed()
        before = before or replace(told, at=frozenset())
        more = range(at, at + (1 if isinstance(names, str) else len(names)))
        return Handed(
            at=before.at | {*more},
            bare=before.bare or told.bare,
            split=before.split or told.split,
            files=before.files and told.files,
            only=told.only if told.only == before.only else (),
        )
