"""Names that are only known when a line runs: programs that only read may be handed them, where all
that they may be is open to reading, whatever they are called, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.permissions.attack_scenes import Scene, plain, write

FREE = r"""
find clean -exec cat {} +
find clean -exec cat {} \;
find clean -exec grep -n x {} + | head
find clean -type f | xargs cat
find clean -type f -name '*.py' | sort | head -3 | xargs wc -l
rg -l x clean | xargs sed -n '1,5p'
cd clean && rg -l x | xargs cat
cd clean && ls | xargs wc -l
cd clean && ls *.py | xargs head -3
find venv -name '*.py' | xargs cat
find keys -name a.py | xargs cat
find venv -type f -exec cat {} +
find keys -name '*.txt' -exec cat {} +
find clean -print0 | xargs -0 cat
find clean -print0 | while IFS= read -r -d '' f; do cat "$f"; done
find clean | while read f; do echo "== $f"; cat "$f"; done
find clean -type f | while read -r f; do if [ -f "$f" ]; then head -3 "$f" | grep x; fi; done
cat notes.txt | xargs echo
cat notes.txt | xargs -n1 basename
cd opts && ls | xargs echo
while read -r line; do echo "- $line"; done < notes.txt
find opts -type f | xargs wc -l
timeout 10 grep -rn x clean
timeout 5 find clean -name a.py
nice ls
grep -R x clean
diff -r clean/sub clean
find clean \( -name '*.py' -o -name x \) -print
find clean -exec grep -l x {} \; | head
find hard -name a.py -exec cat {} +
find clean -type f | xargs grep -l x | xargs wc -l
find clean -exec echo "== {}" \;
find venv -type f -exec grep x {} +
"""
ASKED = r"""
find clean -type f -exec grep -R x {} venv \;
find clean -type f -exec diff {} venv \;
find clean -name '*.py' -exec grep -r x {} keys \;
find clean -type f | while read -r f; do grep -R x "$f" venv; done
find clean -type f | xargs -I{} diff {} venv
find clean -name zzz | xargs grep -lL x | xargs cat
find clean -name zzz | xargs grep -l --files-without-match x | xargs cat
find clean -type f | xargs --max-lines 1 cat
find . -exec cat {} +
find keys -exec cat {} +
find keys -name x.py -exec cat {} +
find keys -name '*.py' -exec cat {} +
find keys -type f -exec cat {} +
find sp | xargs cat
find sp -type f | while read f; do cat "$f"; done
find sp -print0 | while IFS= read -r -d '' f; do cat $f; done
find hard -exec cat {} +
find hard -type f | xargs cat
cd opts && ls | xargs sort
cd opts && rg -l x | xargs sort
cd opts && rg --files | xargs cat
cd opts && grep -rl x | xargs sort
find out -exec cat {} +
find out | xargs cat
find out | while read f; do cat "$f"; done
grep -R x out
diff -r out clean
find venv | xargs cat
find dirs -name '*.py' -exec grep -r x {} +
find cat -exec {} \;
find ls -exec {} \;
find ls | xargs -I{} {}
find ls | xargs -I X X a
find clean -exec rm {} \;
find clean -exec sort -o {} {} \;
find clean -exec uniq {} +
find clean | xargs uniq
find clean | xargs -n 2 uniq
find clean | xargs sed -i s/x/y/
find clean | xargs sed -f
find clean | xargs awk -f
find clean | xargs sort -o
find clean | xargs grep
find clean | xargs grep -f
find clean | xargs grep -e
find clean | xargs head -n
find clean | xargs rg --pre
find clean | xargs iconv -f
find clean | xargs sh -c
find clean | xargs sh
find clean | xargs env cat
find clean | xargs -a notes.txt cat
find clean | xargs --arg-file=notes.txt cat
find clean | xargs --process-slot-var=PATH cat
find clean | xargs -P 0 cat
find clean | xargs -P 1000 cat
find clean | xargs -i cat {}
find clean | xargs -p cat
find clean | xargs -o cat
find clean | xargs -E x cat
find clean | parallel cat
find clean -execdir cat {} \;
find clean -ok cat {} \;
find clean -okdir cat {} \;
find clean -fprintf x %p
find clean -exec cat {} + -delete
find clean -printf '%f' | xargs cat
find clean -printf '/etc/passwd' | xargs cat
find clean -ls | xargs cat
find clean 2>&1 | xargs cat
find clean 2>/dev/stdout | xargs cat
find clean &>/dev/stdout | xargs cat
find clean | xargs cat < notes.txt
find clean | sort notes.txt | xargs cat
find clean | sort < notes.txt | xargs cat
find clean | sed 's/a/b/' | xargs cat
find clean | head -c 5 | xargs cat
find clean | tail -c 5 | xargs cat
find clean | cut -c2- | xargs cat
find clean | grep -o x | xargs cat
find clean | grep -A1 x | xargs cat
find clean | grep -n x | xargs cat
find clean | uniq -c | xargs cat
find clean | xargs grep -L q | xargs cat
find clean | xargs grep x | xargs cat
find clean | xargs echo | xargs cat
find clean -print0 | head -1 | xargs -0 cat
find clean -print0 | xargs cat
find clean | xargs -0 cat
cat notes.txt | xargs cat
echo ../.netrc | xargs cat
printf '../.netrc' | xargs cat
xargs cat < notes.txt
xargs cat
ls .. | xargs cat
ls -a clean | xargs cat
ls -l clean | xargs cat
rg x clean | xargs cat
rg -l --json x clean | xargs cat
rg -c x clean | xargs cat
grep -rlc x clean | xargs cat
git ls-files | xargs cat
git diff --name-only | xargs cat
find clean | while read f; do cat; done
find clean | while read f; do head -c 3; cat "$f"; done
find clean | while read f; do head -c 3 -; done
find clean | while read f; do cat - "$f"; done
find clean | while read f; do cat "$f"; done < notes.txt
find clean | while read f; do xargs cat; done
find clean | while read f; do rm "$f"; done
find clean | while read f; do for f in ../.netrc; do ls; done; cat "$f"; done
find clean | while read f; do for g in "$f"; do grep -r x "$g"; done; done
find clean | while read f; do "$f"; done
find clean | while read f; do cat "$f/../../x"; done
find clean | while read f; do cat "$f"*; done
find clean | while read f; do cat < "$f"; done
find clean | while read f; do echo x > "$f"; done
find clean | while read -r -d '' f; do cat "$f"; done
find clean | while read -r -d'' f; do cat "$f"; done
find clean | while IFS=/ read -r f; do cat "$f"; done
find clean | while read -r f g; do cat "$g"; done
find clean | while read PATH; do ls; done
cat notes.txt | while read f; do cat "$f"; done
while read f; do cat "$f"; done < notes.txt
cat notes.txt | while read f; do echo $f; done
cat notes.txt | while read f; do [ -v "$f" ]; done
cat notes.txt | while read f; do printf "$f"; done
cat notes.txt | xargs printf
cat notes.txt | xargs -I{} printf {}
find clean -exec printf {} \;
find clean -exec sh -c 'cat "$1"' _ {} \;
find clean -exec git diff {} +
find clean | xargs git show
find clean -exec find {} -delete \;
find clean -exec xargs cat \;
find clean -exec test -v {} \;
timeout 5 sh -c ls
find clean | xargs grep -l x 'x /etc/hosts' | xargs cat
cd opts && ls | xargs test -f
cd opts && ls | xargs tr
find clean | xargs tr
find clean | xargs seq
timeout 5 rm x
timeout 5 ./evil
timeout --foo 5 ls
timeout -k 5 ls
nice -n 5 rm x
timeout 5 cd clean
find -L clean -exec cat {} +
find -files0-from notes.txt -exec cat {} +
find clean -follow -exec cat {} +
find clean/../.. -exec cat {} +
find ~ -name x.py -exec cat {} +
find / -name x.py | xargs cat
find link/ -exec cat {} +
find innocent.txt -exec cat {} +
find clean innocent.txt -type f -exec cat {} +
find up -exec cat {} +
find venv -type f -o -exec cat {} +
find clean -exec cat {} \; -exec ./evil \;
find clean -exec ./cat {} +
find clean -exec /bin/cat {} +
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Folders of ordinary names; with a secret (``keys``), a name that comes apart into a secret's
    (``sp``), names like options, links that lead out, a secret's hard link, a folder called like a
    file."""
    scene = plain(tmp_path)
    work, secret = scene.work, scene.home / ".netrc"
    names = """clean/a.py clean/b.py clean/sub/c.py cat/x ls keys/.npmrc keys/a.py opts/-o opts/a
        venv/m.py dirs/x.py/secret dirs/y.py hard/a.py"""
    for name in (*names.split(), f"sp/x {secret}"):
        write(work / name, "x\n")
    for link, goal in (
        ("keys/x.py", ".npmrc"),
        ("out/h", "/etc/hosts"),
        ("venv/python", "/bin/ls"),
    ):
        (work / link).parent.mkdir(exist_ok=True)
        (work / link).symlink_to(goal)
    (work / "hard" / "k.txt").hardlink_to(secret)
    return scene


def _lines(text: str) -> list[str]:
    return text.strip("\n").split("\n")


@pytest.mark.parametrize("command", _lines(FREE))
def test_what_reads_names_that_are_open_runs_unasked(scene: Scene, command: str) -> None:
    ruling = scene.house.bash(command)
    assert ruling.verdict == "allow", ruling
    assert scene.house.bash(command, "plan").verdict == "allow"


@pytest.mark.parametrize("command", _lines(ASKED))
def test_names_that_nobody_knows_go_to_nothing_else(scene: Scene, command: str) -> None:
    assert scene.house.bash(command).verdict != "allow"
    assert scene.house.bash(command, "plan").verdict != "allow"


def test_where_links_lead_is_asked_about_like_any_place(scene: Scene) -> None:
    for command in ("grep -R x venv", "find venv | xargs cat", "diff -r venv clean"):
        asked = scene.house.bash(command)
        assert asked.suggests.startswith("Read("), command
        assert scene.house.bash(command, allow=["Read(/**)"]).verdict == "allow", command
        assert scene.house.bash(command, "full_auto").verdict == "allow", command
        denied = scene.house.bash(command, "full_auto", deny=["Read(/usr/bin/**)", "Read(/bin/**)"])
        assert denied.verdict == "deny", command


def test_what_is_denied_below_is_seen(scene: Scene) -> None:
    for command in ("find clean -exec cat {} +", "find clean | xargs cat", "grep -R x clean"):
        assert scene.house.bash(command, deny=["Read(clean/sub/**)"]).verdict == "ask", command
        assert scene.house.bash(command, deny=["Bash(cat:*)", "Bash(grep:*)"]).verdict == "deny"


def test_no_rule_with_words_covers_names_that_nobody_knows(scene: Scene) -> None:
    for rule in ("Bash(rm:*)", "Bash(rm clean)", "Bash(rm *)", "Bash(xargs:*)", "Bash(find:*)"):
        for command in ("find clean -exec rm {} +", "find clean | xargs rm", "ls | xargs rm"):
            assert scene.house.bash(command, allow=[rule, "Bash(ls)"]).verdict == "ask", command
