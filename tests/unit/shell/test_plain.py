"""The plain language, form by form: what each becomes, and why the others are not plain. That bash
reads it alike is held in tests/differential."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ohmo.shell import plain, plain_words
from ohmo.shell.patterns import ANY
from ohmo.shell.plain import read_plain
from ohmo.shell.plain_words import NotPlain
from ohmo.shell.script import Redirect

WORDS: dict[str, list[tuple[str, ...]]] = {
    "ls": [("ls",)],
    "  ls -la\t": [("ls", "-la")],
    "ls # it lists\npwd # c": [("ls",), ("pwd",)],
    "# first\n\n  ls": [("ls",)],
    "ls;pwd;": [("ls",), ("pwd",)],
    "ls | wc -l": [("ls",), ("wc", "-l")],
    "ls |\n wc": [("ls",), ("wc",)],
    "ls && pwd || date\nid": [("ls",), ("pwd",), ("date",), ("id",)],
    "echo 'a b' \"c d\" 'e'f\"g\"": [("echo", "a b", "c d", "efg")],
    "echo '$x `y` \\z *' \"it's\" ''": [("echo", "$x `y` \\z *", "it's", "")],
    "echo 'two\nlines'": [("echo", "two\nlines")],
    "echo a#b a!b !": [("echo", "a#b", "a!b", "!")],
    "git log HEAD~1 @{u} x^ a:b": [("git", "log", "HEAD~1", "@{u}", "x^", "a:b")],
    "echo ~ ~/x $HOME $HOME/y": [("echo", "/home/ada", "/home/ada/x", "/home/ada", "/home/ada/y")],
    "echo thư mục 日本": [("echo", "thư", "mục", "日本")],
    "[ -f a.py ]": [("[", "-f", "a.py", "]")],
    "ls 2>&1 >/dev/null 2>/dev/null >&2 &>/dev/null": [("ls",)],
    "cat <a.py": [("cat",)],
    "ls *.py": [("ls", "a.py", "b.py")],
    "ls ./?.py src/*": [("ls", "./a.py", "./b.py", "src/c.py")],
    "ls *.none '*'.py": [("ls", "*.none", "*.py")],
    "ls */": [("ls", "link/", "src/")],
    "ls .h*": [("ls", ".hidden")],
    "cd src": [("cd", "src")],
    "cd /usr && ls": [("cd", "/usr"), ("ls",)],
    "cd src && ls *": [("cd", "src"), ("ls", "c.py")],
    "cd src && ls; pwd": [("cd", "src"), ("ls",), ("pwd",)],
    "cd src; ls": [("cd", "src"), ("ls",)],
    "LC_ALL=C TZ=UTC ls": [("ls",)],
    'echo "$HOME" "${HOME}x" "a\\b"': [("echo", "/home/ada", "/home/adax", "a\\b")],
    'echo "\\"\\$x\\`\\\\"': [("echo", '"$x`\\')],
    "! ls": [("ls",)],
    "if ls; then pwd; elif id; then date; else ! wc; fi 2>/dev/null": [
        *[("ls",), ("pwd",), ("id",), ("date",), ("wc",), ("true",)]
    ],
    "if ls\nthen if id; then pwd; fi; fi | cat": [("ls",), ("id",), ("pwd",), ("cat",)],
    'for f in a \'b c\'; do echo "$f" "{${f}}"; done': [
        *[("echo", "a", "{a}"), ("echo", "b c", "{b c}")]
    ],
    "for f in *.py\ndo\n wc $f x${f}y # c\ndone": [
        *[("wc", "a.py", "xa.pyy"), ("wc", "b.py", "xb.pyy")]
    ],
    "for d in x y; do for f in 1 2; do echo $d/$f; done; done": [
        *[("echo", "x/1"), ("echo", "x/2"), ("echo", "y/1"), ("echo", "y/2")]
    ],
    "echo \\$x '' \\' \\*\\ \\;": [("echo", "$x", "", "'", "* ;")],
    "ls \\\n -l \\\n  src": [("ls", "-l", "src")],
    "ls \\( -a {} x{}y": [("ls", "(", "-a", "{}", "x{}y")],
    "find src -exec wc {} x \\;": [
        ("find", "src", "-exec", "wc", "{}", "x", ";"),
        ("wc", "src", "x"),
    ],
    "find src -name c.py -exec wc {} +": [
        *[("find", "src", "-name", "c.py", "-exec", "wc", "{}", "+"), ("wc", "src", "src")]
    ],
    "ls | xargs -n 1 wc": [("ls",), ("xargs", "-n", "1", "wc"), ("wc",), ("wc", ".")],
    "ls | xargs -rI X wc X": [("ls",), ("xargs", "-rI", "X", "wc", "X"), ("wc", ".")],
    "ls | xargs -n 1 rm": [("ls",), ("xargs", "-n", "1", "rm")],
    "timeout -k 1 5 wc a.py": [("timeout", "-k", "1", "5", "wc", "a.py"), ("wc", "a.py")],
    'find src | while read f; do echo "== $f"; wc $f "$f"; done | cat': [
        *[("find", "src"), ("echo", f"== {ANY}"), ("wc", "src", "src"), ("cat",)]
    ],
    "while read f; do pwd; done <a.py": [("pwd",), ("true",)],
    'ls; echo "x $?"': [("ls",), ("echo", f"x {ANY}")],
    "if ls; then for f in a; do if id; then wc <$f; fi; done; fi": [("ls",), ("id",), ("wc",)],
}
NOT_PLAIN = {
    "": "no command",
    "# only a remark": "no command",
    ";": "without a command",
    "ls ;; pwd": "without a command",
    "ls &&": "nothing behind &&",
    "| ls": "without a command",
    "ls &": "&",
    "ls & rm x": "&",
    "ls |& wc": "&",
    "ls &&& x": "&",
    "echo $x": "$",
    "echo $HOMEX": "$",
    "echo a$HOME": "$",
    'echo "$x"': "$x",
    'echo "$(x)"': '"',
    'echo "a\\\nb"': '"',
    "echo $(x)": "$",
    "echo `x`": "`",
    "echo $'a'": "$",
    'echo $"a"': "$",
    "echo a\\\nb": "\\",
    "ls # \\\nrm x": "#",
    "ls;\\\n& rm x": "\\",
    "echo 'open": "'",
    "echo {a,b}": "{",
    "echo [ab]": "[",
    "echo a]": "]",
    "(ls)": "(",
    "ls() { x; }": "(",
    "cat <(ls)": "<",
    "cat << E\nx\nE": "<",
    "cat <<< x": "<",
    "cat <> x": "<",
    "cat <& 0": "<",
    "ls >| x": "'",
    "ls >": "'",
    "ls > *.py": "only known when it runs",
    "ls > ''": "only known when it runs",
    "ls >&3": "something else than 1 or 2",
    "ls >&2x": "something else than 1 or 2",
    "ls >#x": "#",
    "echo 12>x": "12",
    "echo ~root": "~ before a name",
    "echo ~+": "~ before a name",
    "echo a=~/x": "~ behind = or :",
    "echo a:~/x": "~ behind = or :",
    "a=1": "where a program stands",
    "a=1 ls": "where a program stands",
    ">x a=1 ls": "where a program stands",
    "if ls": "no end",
    "if ls; fi": "'fi'",
    "if ls; then fi": "'fi'",
    "then ls": "'then'",
    "fi": "'fi'",
    "done": "'done'",
    "while ls; do id; done": "where a program stands",
    "for f in a; do ls": "no end",
    "for f in a; do if ls; done": "'done'",
    "for f in ; do ls; done": "over nothing",
    "for f in a | cat": "over nothing",
    "for f in a; ls": "without do",
    "for f in 'a b'; do ls $f; done": "without quotes",
    "for f in ls; do $f x; done": "a loop names",
    'for f in ls; do "$f"; done': "a loop names",
    "for f in a; do ls > $f*; done": "only known when it runs",
    "for f in a; do ls; done; ls $f": "$",
    'for f in a; do ls; done; ls "$f"': "$f",
    "for f in a; do for f in b; do ls; done; ls $f; done": "the same name",
    "for f in a; do ls; done x": "without a command",
    "while read f; do pwd": "no end",
    "while read f; ls": "without do",
    "time ls": "'time' where a program",
    "cat $?": "cat with what is only known",
    "ls > $?": "only known when it runs",
    "for i in $?; do echo $i; done": "a loop over what",
    'echo "$HOSTNAME"': "$HOSTNAME",
    "ls | while read f; do rm $f; done": "rm with what is only known",
    "ls | while read f; do cat ../$f; done": "$f without quotes",
    'ls | while read f; do cat "$f"*; done': "wildcards beside what",
    'ls | while read f; do cat "$f" "x$f"; done': "cat with what is only known",
    'ls | while read f; do "./$f"; done': "a loop names",
    'ls | while read f; do ls < "$f"; done': "only known when it runs",
    'ls | while read f; do for g in "$f"; do ls "$g"; done; done': "a loop over what",
    "ls | while read f; do for f in a; do ls; done; done": "the same name",
    "ls | while read f; do while read f; do pwd; done; done": "the same name",
    "ls | while read f; do cat; done": "the input of the loop",
    "ls | while read f; do pwd; done < a.py": "something else than it is told",
    "cat a.py | while read f; do echo $f; done": "$f without quotes",
    "ls src a.py | while read f; do wc $f; done": "$f without quotes",
    "ls | while read f g; do ls; done": "'while' where a program",
    "while read PATH; do ls; done": "'while' where a program",
    "for f in a; do ls $fé; done": "$",
    "for PATH in .; do ls; done": "where a program stands",
    f"for a in {'x ' * 30}; do for b in {'y ' * 30}; do ls; done; done": "more than 300 rounds",
    "ls;" * 301: "more than 300 commands",
    f"for f in {'x ' * 200}; do ls; id; done": "more than 300 commands",
    f"for f in {'x ' * 200}; do ls {'a ' * 200}; done": "more than 30000 characters",
    f'for f in {"x" * 400}; do echo "{"$f" * 400}"; done': "more than 30000 characters",
    "".join(f"for {name} in a; do " for name in "abcdefghijk") + "ls" + "; done" * 11: "too deep",
    "export PATH=.": "where a program stands",
    "a*": "where a program stands",
    "'l s'": "where a program stands",
    "ls; cd src": "not the beginning",
    "cd src | ls": "not the beginning",
    "cd src > x && ls": "not the beginning",
    "cd && ls": "without one plain folder",
    "cd - && ls": "without one plain folder",
    "cd -P src && ls": "without one plain folder",
    "cd a b && ls": "without one plain folder",
    "cd s* && ls": "without one plain folder",
    "cd link/.. && ls": "through a link and back",
    "cd src && ls *; ls": "only known when it runs",
    "ls -*": "a wildcard that becomes",
    "ls /proc/*": "changes by itself",
    "ls .*": "more than can be looked at",
    "ls src//*": "more than can be looked at",
    "ls\r": "\\r",
    "ls \x00": "\\x00",
    "ls \x1b[0m": "\\x1b",
    "ls \x85x": "\\x85",
    "ls \u3164": "\\u3164",
    "ls \ud800": "\\ud800",
    "ls \ue000": "\\ue000",
    "ls \u00a0x": "\\xa0",
    "ls \u2028": "\\u2028",
    "ls " + "x" * 10_000: "more than 10000 characters",
}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name in ("a.py", "b.py", "src/c.py", ".hidden", "-dash"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("/usr/share")
    return str(tmp_path)


def read(text: str, folder: str, home: str = "/home/ada") -> list[tuple[str, ...]]:
    """What wildcards became stands in the order of the disk, here and in bash's own."""
    found = [each.words for each in read_plain(text, home, folder)]
    return [
        (words[0], *sorted(words[1:]))
        if "*" in text.split("'", maxsplit=1)[0] or "?" in text
        else words
        for words in found
    ]


@pytest.mark.parametrize("text", WORDS)
def test_a_plain_line_is_read_word_by_word(text: str, folder: str) -> None:
    assert read(text, folder) == WORDS[text]


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_what_is_not_plain_says_what_is_not(text: str, folder: str) -> None:
    with pytest.raises(NotPlain) as refused:
        read(text, folder)
    assert NOT_PLAIN[text] in str(refused.value)


def test_redirections_are_kept_with_their_command(folder: str) -> None:
    [first, second] = read_plain("sort < in.txt 2>err.txt | tee >> out.txt", "/h", folder)
    assert first.redirects == (Redirect("read", "in.txt"), Redirect("write", "err.txt"))
    assert second.redirects == (Redirect("write", "out.txt"),)
    assert (first.stdin, second.stdin) == ("", "pipe")


def test_a_folder_is_where_the_rest_runs_and_the_old_one_where_it_may(folder: str) -> None:
    sure = read_plain("cd src && ls && pwd", "/h", folder)
    assert [each.cwds for each in sure[1:]] == [(f"{folder}/src",), (f"{folder}/src",)]
    unsure = read_plain("cd /usr && ls; pwd", "/h", folder)
    assert [each.cwds for each in unsure[1:]] == [(folder, "/usr"), (folder, "/usr")]


def test_a_home_that_bash_would_split_is_not_written_out(folder: str) -> None:
    for text in ("ls ~", "ls $HOME"):
        with pytest.raises(NotPlain, match="home"):
            read(text, folder, home="/home/ada lovelace")


def test_many_names_are_not_looked_at(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_words, "_MOST_NAMES", 1)
    with pytest.raises(NotPlain, match="more than can be looked at"):
        read("ls *.py", folder)


def test_many_wildcards_are_not_looked_up(folder: str) -> None:
    for text in ("ls *.none; " * 200, f"for x in {'1 ' * 200}; do ls *.none; done"):
        with pytest.raises(NotPlain, match="more than can be looked at"):
            read(text, folder)


def test_these_forms_reach_every_line_of_the_reader(folder: str) -> None:
    """A form that is added without one here is seen."""
    files = [plain.__file__, plain_words.__file__]
    reached: set[tuple[str, int]] = set()

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def trace(frame: FrameType, _event: str, _: Any) -> Any:
        return local if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for text in (*WORDS, *NOT_PLAIN):
            for home in ("/home/ada", "/a b"):
                try:
                    read_plain(text, home, folder)
                except NotPlain:
                    continue
    finally:
        sys.settrace(before)
    inside = {
        (code.co_filename, line)
        for name in (*vars(plain._Reader).values(), *vars(plain_words.Words).values())
        if (code := getattr(name, "__code__", None)) is not None
        for _, _, line in code.co_lines()
        if line is not None and line != code.co_firstlineno
    }
    missed = sorted(inside - reached)
    assert [Path(file).read_text().splitlines()[line - 1] for file, line in missed] == []


def test_what_a_wildcard_gave_to_a_loop_is_known_as_such(folder: str) -> None:
    [first, *_] = read_plain("for f in src/*; do grep $f 'x'; done < a.py", "/h", folder)
    assert (first.words, first.found) == (("grep", "src/c.py", "x"), frozenset({1}))
    assert (first.listed, first.stdin) == (("src",), "pipe")


def test_a_folder_that_a_branch_may_not_reach_is_not_the_only_one(folder: str) -> None:
    for text in ("! cd /usr && ls", "if cd /usr; then ls; fi", "cd /usr\nls"):
        assert read_plain(text, "/h", folder)[-1].cwds == (folder, "/usr"), text
    for text in ("ls | cd src", "for f in a b; do cd src; done", "! cd src && ls *"):
        with pytest.raises(NotPlain):
            read_plain(text, "/h", folder)
