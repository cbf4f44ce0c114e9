"""Lines of pieces that nobody writes, with a command behind them: where bash runs it, the grammar finds it or gives the
line up. ``OHMO_TEST_LINES`` of them (4 000), from ``OHMO_TEST_SEED``."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ohmo.shell.parsing import Shell
from ohmo.shell.patterns import ANY, SOME, known
from tests.programs import run_process

LINES = int(os.environ.get("OHMO_TEST_LINES", "4000"))
SEED = int(os.environ.get("OHMO_TEST_SEED", "1"))
PIECES = (
    *("a", "'b'", '"c"', "\\d", "$'e'", "~", "=", "%", "+", "^", ":", ",", "{x}", "{", "}", "[y]"),
    *(
        "!",
        "#",
        "-",
        "$HOME",
        "${HOME}",
        "\\\\",
        "\\ ",
        '""',
        "''",
        "\\'",
        "*",
        "?",
        "$$",
        "1",
        ".",
    ),
    *(
        "$(echo s)",
        "`echo t`",
        '$"u"',
        "\\\n",
        " ",
        "  ",
        "\t",
        "\n",
        ";",
        "&",
        "|",
        "&&",
        "||",
        "(",
    ),
    *(")", "<", "> f", ">f", "<<E\n", "\nE\n", "<<'E'\n", "<<-E\n", "<<<", "$((", "))", "[[", "]]"),
    *(
        "[",
        "]",
        "case",
        "in",
        "esac",
        ";;",
        "if",
        "then",
        "fi",
        "do",
        "done",
        "for",
        "while",
        "f()",
    ),
    *(
        "'",
        '"',
        "`",
        "$(",
        "${",
        "${a#b}",
        "${a:-",
        "${#a}",
        "#c",
        "\\#",
        "\\;",
        '\\"',
        "2>&1",
        "&>f",
    ),
    *("|&", "coproc", "time", "select", "until", "=(", "+=", "a=", "a[0]=", "$[", "<(", ">(", "$'"),
    *(
        "\\n",
        "{a,b}",
        "echo",
        "cat",
        "<<\\E\n",
        '<<"E"\n',
        "<<E a\n",
        "E\n",
        "\n\\E\n",
        "<< 'E F'\n",
    ),
    *("\nE F\n", "if true\nthen ", "\nfi", "{ ", "\n}", "( ", "\n)", "while false\ndo ", "\ndone"),
    *(
        "x() {",
        "$(\n",
        "<\\ ",
        ">\\\n",
        "case x in x)",
        "\n;;\nesac",
        "function ",
        "_",
        "\r",
        "\v",
        "\f",
        "\xa0",
        "\u2028",
        "\x85",
        "\x1c",
    ),
)
BEHIND = ("marker q", "\\marker q", "'marker' q", "m'arke'r q", "$(marker q)")
ALREADY_FOUND = (
    "echo hi\n\\marker q",
    "echo \\\\\nmarker q",
    "echo hi # note \\\nmarker q",
    "echo 'b'\\ # ; marker q",
    "echo 1\\\n#c; marker q",
    "cat <<'E'\nfoo\\\nE\nmarker q\nE",
    "cat <<E a\n${#a}\nE# & $(marker q)",
    "echo x <\\  \nm'arke'r q",
    "echo a<<<\\  \nm'arke'r q",
    "a=\\\n\nmarker q",
    "echo x\v#c; marker q",
    "echo x\n[y]#c; marker q",
    "a= 2>&1 &>f$HOME \n\\marker q",
    "a=b; a=marker; $a q",
    "a=; : ${a:=marker}; $a q",
    "a=b; f() { a=marker; }; f; $a q",
    "f() { $TMPDIR q; }; TMPDIR=marker; f",
    "a=b; for i in 1 2; do $a q; for a in marker; do :; done; done",
    "a=b; for i in 1 2; do $a q; eval 'a=marker'; done",
    "set -- marker; a=b; for a; do $a q; done",
    f"a=b; for a in {' '.join(map(str, range(70)))} marker; do $a q; done",
    "a=b; printf -va marker; $a q",
    "a=b; read -aa <<<marker; $a q",
    "REPLY=b; read <<<marker; $REPLY q",
    "OPTARG=b; getopts m: a -m marker; $OPTARG q",
    "BASH_REMATCH=b; [[ marker =~ .* ]]; $BASH_REMATCH q",
    "a=b; declare -n r=a; r=marker; $a q",
    'a=b; declare "a=marker"; $a q',
    "a=b; command declare a=marker; $a q",
    "declare -l a=MARKER; $a q",
    "a=b; time a=marker; $a q",
    "a=b; trap 'a=marker' DEBUG; :; $a q",
    "a=b; (( b = 1 )); a[0]=marker; $a q",
    "IFS=x; a=markerxq; $a",
    "IFS=x; $(echo markerxq)",
    "a=marker,q; for IFS in ,; do $a; done",
    "a=; $a marker q",
    "a=$'echo\nmarker q'; eval \"$a\"",
    "$(date +marker) q",
    'echo "${a:-`marker q`}"',
    "echo \"${a:-'$(marker q)'}\"",
    "a=1; echo ${a#$(marker q)}",
    ": ${a-`marker q`}",
    ": ${a:+$(echo)}${b-<(marker q)}",
    r"echo `echo \`marker q\``",
    "time { marker q; }",
    "time if marker q; then :; fi",
    "a='b[$(marker q)]'; echo $((a))",
    "a='b[$'; c='(marker q)]'; d=$a$c; ((d))",
    "a='b[$(marker q)]'; [[ a -eq 0 ]]",
    "let 'b[$(marker q)]'",
    "test -v 'b[$(marker q)]'",
    "printf -v 'b[$(marker q)]' x",
    r"a=$'b[\x24(marker q)]'; ((a))",
    "a='$(marker q)'; echo ${a@P}",
    "PS4='$(marker q)'; set -x; :",
    "cat <<E\n\\\nE\nmarker q\nE",
    "cat <<E \\\n-u\nx\nE\nmarker q",
)


def made() -> list[str]:
    chance = random.Random(SEED)
    lines: list[str] = []
    for _ in range(LINES):
        count = chance.randint(2, 7)
        before = "".join(chance.choice(PIECES) + chance.choice(["", "", " "]) for _ in range(count))
        between = chance.choice(["; ", "\n", " && ", " || ", " | ", " & "])
        lines.append(f"echo {before}{between}{chance.choice(BEHIND)}")
    return lines


def hidden(line: str, folder: Path) -> bool:
    """The grammar is sure of the line and does not see the command."""
    script = Shell(Path("/root")).parse(line, folder)
    found = any(each.opaque or each.name == "marker" for each in script.commands)
    return not script.unclear and not found


def runs(line: str, folder: Path) -> bool:
    """Bash runs the command."""
    ran = folder / "ran"
    ran.unlink(missing_ok=True)
    text = f"exec 7>>{ran}\nmarker() {{ echo ran >&7; }}\n{line}"
    run_process("timeout", "3", "bash", "-c", text, cwd=folder)
    return ran.exists() and ran.stat().st_size > 0


@pytest.mark.timeout(1200)
def test_no_command_hides_behind_strange_words(tmp_path: Path) -> None:
    suspects = [line for line in made() if hidden(line, tmp_path)]
    assert len(suspects) > LINES / 200
    assert not [line for line in suspects if runs(line, tmp_path)]


@pytest.mark.parametrize("line", ALREADY_FOUND)
def test_what_hid_once_is_found_or_given_up(line: str, tmp_path: Path) -> None:
    assert runs(line, tmp_path)
    assert not hidden(line, tmp_path)


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("echo x > AGENT'S'\\.md", "AGENTS.md"),
        ('echo x > "AGENTS"\\.md', "AGENTS.md"),
        ('echo x > $"AGENTS".md', "AGENTS.md"),
        ("echo x > AGEN\\\nTS.md", "AGENTS.md"),
    ],
)
def test_a_word_that_the_grammar_cuts_is_given_up(line: str, file: str, tmp_path: Path) -> None:
    run_process("bash", "-c", line, cwd=tmp_path, code=0)
    assert (tmp_path / file).exists()
    script = Shell(Path("/root")).parse(line, tmp_path)
    assert script.unclear or tmp_path / file in script.writes


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a=push; a=pull; git $a q", ("git", "push", "q")),
        ("for a in pull push; do git $a q; done", ("git", "push", "q")),
        ("a='/x/.ss*/id*'; cat $a", ("cat", f"/x/.ss{SOME}/id{SOME}")),
        ("cat $(echo '/x/.ss*')", ("cat", f"/x/.ss{SOME}")),
        ("rm $(wc -c AGENTS.md)", ("rm", ANY)),
    ],
)
def test_what_a_variable_or_output_may_be_is_what_bash_makes_of_it(
    line: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    script = Shell(Path("/root")).parse(line, tmp_path)
    assert words in [each.words for each in script.commands]


def test_the_name_of_a_branch_is_neither_a_program_nor_known_as_a_file(tmp_path: Path) -> None:
    shell = Shell(Path("/root"))
    [_, run] = shell.parse("$(git branch --show-current) q", tmp_path).commands
    assert run.opaque
    [_, written] = shell.parse("echo x > $(git branch --show-current)", tmp_path).commands
    assert [each.target for each in written.redirects] == [ANY]
    [_, given] = shell.parse("git push origin $(git branch --show-current)", tmp_path).commands
    assert not given.opaque
    assert all(map(known, given.words))


@pytest.mark.parametrize(
    "line",
    [
        "for f in a b; do cp $f $f.bak; done; out=x.txt; cat $out > y",
        "d=$(date +%Y-%m-%d); mkdir -p log-$d; f() { echo $1; }; f x",
        "git commit -m 'x' \\\n  --no-verify \\\n  && make\\ all",
        "find . -name \\*.py -exec cat {} \\; | grep 'a\\|b'",
        "cat > x.txt <<'EOF'\nRUN a \\\n  && b\n\\documentclass{x}\nEOF\nls",
        "cat <<-EOF\n\tx\n\tEOF\nls \\\n -l",
        'echo "a\\"b" c\\ d; ls My\\ Files',
        "sed -e 's/a\\/b/c/' \\\n    file | awk '{print \\$1}'",
    ],
)
def test_what_people_write_is_still_read(line: str, tmp_path: Path) -> None:
    assert not Shell(Path("/root")).parse(line, tmp_path).unclear
