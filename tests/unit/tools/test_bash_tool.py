"""Bash: bounded in time, output and memory, and nothing stays behind, whatever the command
tries."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from tool_calls import Call, judged

from ohmo.contracts.tool import CallContext
from ohmo.processes.job import Command, ProcessRunner
from ohmo.sandbox.walls import Standing as Walls
from ohmo.shell.parsing import Shell
from ohmo.tools.catalogue import load_tools
from ohmo.tools.interactive_commands import waits_for_keyboard
from ohmo.tools.workbench import Limits, Workbench

KEEPER = "ohmo.processes.keeper"
Alive = Callable[[str], list[str]]


@pytest.fixture
def alive(bench: Workbench) -> Alive:
    """Command lines that carry a marker, of what this test's tools started: it has their home. A
    neighbour who runs the same test counts nothing."""
    home = bench.environ["HOME"]

    def found(marker: str) -> list[str]:
        lines: list[str] = []
        for process in psutil.process_iter(["cmdline", "status"]):
            line = " ".join(process.info["cmdline"] or [])
            if marker in line and process.info["status"] != psutil.STATUS_ZOMBIE:
                with suppress(psutil.Error):
                    if process.environ().get("HOME") == home:
                        lines.append(line)
        return lines

    return found


def keepers() -> list[psutil.Process]:
    """Of the commands that this process started."""
    return [child for child in psutil.Process().children() if KEEPER in " ".join(words_of(child))]


def words_of(process: psutil.Process) -> list[str]:
    """Its command line; empty when it has ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def gone(processes: Iterable[psutil.Process]) -> bool:
    """Whether all of them have ended; whoever should bury one may not have come yet."""

    def lives(process: psutil.Process) -> bool:
        with suppress(psutil.NoSuchProcess):
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return False

    return not any(map(lives, processes))


async def until(condition: object, seconds: float = 10.0) -> None:
    """Waits for a condition with a bound."""
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def test_outputs_come_back_apart_with_the_exit_code(call: Call) -> None:
    result = await call("Bash", command="echo out; echo err >&2; exit 3")
    assert result.error
    assert result.text == "out\n[stderr]\nerr\n[exit code 3]"


async def test_a_signal_is_named(call: Call) -> None:
    assert "[ended by SIGSEGV]" in (await call("Bash", command="kill -SEGV $$")).text


async def test_it_runs_in_the_working_directory(call: Call, work: Path) -> None:
    assert (await call("Bash", command="pwd")).text.strip() == str(work)


async def test_the_child_sees_no_secret_of_the_daemon(call: Call) -> None:
    text = (await call("Bash", command="env; cat /proc/$PPID/environ | tr '\\0' '\\n'")).text
    assert "PATH=" in text
    assert "SLACK" not in text
    assert "xoxb" not in text


async def test_stdin_is_closed(call: Call) -> None:
    assert (await call("Bash", command="cat; head -n 1; echo end")).text == "end"


async def test_there_is_no_terminal_to_ask_at(call: Call) -> None:
    result = await call("Bash", command="head -c 1 < /dev/tty")
    assert result.error


async def test_a_blocked_read_of_a_terminal_ends_with_that_reason(call: Call) -> None:
    started = time.monotonic()
    result = await call("Bash", command="echo name?; head -n 1", terminal=True)
    assert "read the terminal for 5 s" in result.text
    assert "name?" in result.text
    assert time.monotonic() - started < 60


async def test_a_longer_timeout_is_offered_only_where_it_would_help(
    bench: Workbench, context: CallContext
) -> None:
    most = load_tools(replace(bench, limits=Limits(bash_timeout_most=0.3)))["Bash"]
    short, longest, late = (
        {"command": "sleep 9", "timeout": 0.2},
        {"command": "sleep 9"},
        {"command": "sleep 9", "timeout": 9},
    )
    offered: list[bool] = []
    for arguments, left, tool in (
        (short, 300, load_tools(bench)["Bash"]),
        (longest, 300, most),
        (late, 3.2, load_tools(bench)["Bash"]),
    ):
        output = await tool.run(
            tool.input.model_validate(arguments), replace(context, deadline=time.monotonic() + left)
        )
        assert "ended after its timeout of" in output.result.text
        offered.append("longer `timeout`" in output.result.text)
    assert offered == [True, False, False]
    tool = load_tools(bench)["Bash"]
    for command in ("exit 3", "kill -9 $$"):
        output = await tool.run(
            tool.input.model_validate({"command": command}),
            replace(context, deadline=time.monotonic() + 300),
        )
        assert "timeout" not in output.result.text


async def test_a_timeout_ends_everything(call: Call, alive: Alive) -> None:
    result = await call("Bash", command="sleep 98.761 & sleep 98.762", timeout=0.3)
    assert "timeout" in result.text
    assert alive("98.76") == []


async def test_a_process_that_ignores_term_is_killed(call: Call, alive: Alive) -> None:
    result = await call(
        "Bash", command="trap '' TERM; echo ready; while :; do sleep 97.31; done", timeout=0.3
    )
    assert "timeout" in result.text
    assert alive("97.31") == []


@pytest.mark.parametrize(
    "command",
    [
        "sleep 96.41 & echo done",
        "nohup sleep 96.42 >/dev/null 2>&1 & echo done",
        "setsid sleep 96.43 & echo done",
        "(setsid sleep 96.44 &) ; echo done",
        "(trap '' HUP TERM; setsid sh -c 'trap \"\" TERM; sleep 96.45; sleep 96.46' &) ; echo done",
        (
            "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:"
            ' os.execlp("sleep","sleep","96.47")\n os._exit(0)\ntime.sleep(.2)\'; echo done'
        ),
    ],
)
async def test_nothing_is_left_running(call: Call, command: str, alive: Alive) -> None:
    result = await call("Bash", command=command)
    assert "done" in result.text
    assert "run_in_background" in result.text
    # the other commands of this test may run beside it
    for mine in re.findall(r"96\.\d+", command):
        assert alive(mine) == []


async def test_killing_the_keeper_leaves_nothing_either(call: Call, alive: Alive) -> None:
    result = await call("Bash", command="setsid sleep 95.11 & kill -9 $PPID; sleep 95.12")
    assert result.error
    assert "keeper" in result.text
    assert alive("95.1") == []


async def test_cancelling_ends_the_processes_first(call: Call, alive: Alive) -> None:
    running = asyncio.create_task(call("Bash", command="sleep 94.21 & sleep 94.22"))
    await until(lambda: len(alive("94.2")) >= 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert alive("94.2") == []


async def test_cancelling_at_any_moment_leaves_nothing(call: Call, alive: Alive) -> None:
    for turn in range(12):
        running = asyncio.create_task(call("Bash", command="sleep 93.31"))
        for _ in range(turn * 3):
            await asyncio.sleep(0.002)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await until(lambda: alive("93.31") == [] and gone(keepers()))


async def test_everything_dies_with_a_killed_daemon(tmp_path: Path) -> None:
    script = f"""
import asyncio
from pathlib import Path
from typing import Any
from ohmo.sandbox.walls import Standing as Walls
from ohmo.shell.parsing import Shell
from ohmo.processes.job import Command, ProcessRunner
async def main():
    runner = ProcessRunner()
    await asyncio.gather(*(runner.run(Command(("bash", "-c", "setsid sleep 92.51 & (trap '' TERM; sleep 92.52) & sleep 92.53"), Path("/"), {{"PATH": "/usr/bin:/bin"}},
        Path("{tmp_path}/s"), None), print) for _ in range(3)))
asyncio.run(main())
"""
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, cwd=Path(__file__).parents[3]
    )
    family: list[psutil.Process] = []  # keepers, shells and their sleepers

    def grown() -> bool:
        family[:] = psutil.Process(daemon.pid).children(recursive=True)
        return sum(words_of(process)[:1] == ["sleep"] for process in family) >= 9

    await until(grown, 60)
    daemon.send_signal(signal.SIGKILL)
    await daemon.wait()
    await until(lambda: gone(family), 30)


async def test_long_output_keeps_both_ends_cut_at_lines_and_spills_the_whole(call: Call) -> None:
    result = await call("Bash", command="seq 1 100000")
    lines = result.text.splitlines()
    assert len(result.text.encode()) < 12 * 1024 + 300
    assert lines[0] == "1"
    assert lines[-1] == "100000"
    middle = [line for line in lines if not line.isdigit()]
    assert len(middle) == 1
    assert "588895 bytes" in middle[0]
    assert result.spill is not None
    assert str(result.spill) in middle[0]
    assert result.spill.read_text().splitlines() == [str(number) for number in range(1, 100001)]
    assert result.spill.stat().st_mode & 0o777 == 0o600


async def test_an_output_of_several_megabytes_is_kept_whole(call: Call) -> None:
    result = await call("Bash", command="seq -f %015.0f 1 1000000")
    assert result.spill is not None
    assert "whole output" in result.text
    assert result.spill.stat().st_size == 16_000_000


async def test_an_output_beyond_16_mib_says_what_its_file_lacks(call: Call) -> None:
    result = await call("Bash", command="seq -f %015.0f 1 2000000")
    assert (
        f"all but {32_000_000 - 16 * 1024 * 1024} bytes in the middle: {result.spill}"
        in result.text
    )


async def test_a_disk_that_takes_no_spill_file_loses_only_that(tmp_path: Path) -> None:
    order = Command(
        ("seq", "1", "100000"),
        tmp_path,
        {"PATH": "/usr/bin:/bin"},
        tmp_path / "gone" / "spill.txt",
        100,
    )
    ended = await ProcessRunner().run(order, lambda _: None)
    assert (ended.code, ended.output.out.total, ended.spill) == (0, 588_895, None)
    assert "No such file" in ended.problem


async def test_short_errors_survive_long_output(call: Call) -> None:
    result = await call("Bash", command="echo important >&2; seq 1 100000")
    assert "[stderr]\nimportant" in result.text


async def test_a_huge_output_costs_little_memory_and_keeps_both_ends_on_disk(
    bench: Workbench, tmp_path: Path
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    command = (
        "echo first; head -c 1000000000 /dev/zero; echo; grep VmHWM /proc/$PPID/status; echo last"
    )
    order = Command(
        ("bash", "-c", command), tmp_path, {"PATH": "/usr/bin:/bin"}, tmp_path / "spill.txt", 100
    )
    ended = await ProcessRunner().run(order, lambda _: None)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # of the keeper, which is another process
    peak = re.search(rb"VmHWM:\s+(\d+) kB\n", ended.output.out.tail)
    assert peak is not None
    assert int(peak[1]) * 1024 < 20_000_000
    assert ended.output.out.total == 1_000_000_000 + 12 + len(peak[0])
    assert (after - before) * 1024 < 20_000_000
    assert ended.spill is not None
    with ended.spill.open("rb") as file:
        assert file.read(6) == b"first\n"
        file.seek(-6, os.SEEK_END)
        assert file.read() == b"\nlast\n"
    assert ended.spill.stat().st_size < 16 * 1024 * 1024 + 200
    assert [path.name for path in tmp_path.glob("spill*")] == ["spill.txt"]


async def test_escape_sequences_and_broken_characters_are_cleaned(call: Call) -> None:
    result = await call(
        "Bash",
        command=(
            r"printf '\033[31mred\033[0m \033]0;title\007ok \xff\xfe"
            r" caf\xc3\xa9\n10%%\r50%%\r100%%\n\a\b'"
        ),
    )
    assert result.text.rstrip() == "red ok \ufffd\ufffd caf\u00e9\n100%"


async def test_progress_is_told_while_it_runs(bench: Workbench, context: CallContext) -> None:
    told: list[str] = []
    tool = load_tools(bench)["Bash"]
    arguments = tool.input.model_validate(
        {
            "command": (
                "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo step $i; sleep 0.2; done"
            )
        }
    )
    await tool.run(
        arguments, replace(context, progress=told.append, deadline=time.monotonic() + 300)
    )
    assert told
    assert all(text.startswith("step ") for text in told)


async def test_the_turns_deadline_bounds_the_command(
    bench: Workbench, context: CallContext
) -> None:
    tool = load_tools(bench)["Bash"]
    output = await tool.run(
        tool.input.model_validate({"command": "sleep 91.1"}),
        replace(context, deadline=time.monotonic() + 3.5),
    )
    assert "timeout" in output.result.text


async def test_a_missing_working_directory_is_said(
    call: Call, context: CallContext, work: Path
) -> None:
    result = await call("Bash", context=replace(context, cwd=work / "gone"), command="ls")
    assert result.error
    assert "working directory" in result.text


async def test_a_full_spill_folder_is_said_and_the_output_still_comes(
    call: Call, bench: Workbench
) -> None:
    bench.spill.parent.mkdir(exist_ok=True)
    bench.spill.write_text("a file where the folder should be")
    result = await call("Bash", command="echo hi")
    assert result.error
    assert "not run" in result.text


async def test_a_background_command_is_read_and_stopped(
    call: Call, work: Path, alive: Alive
) -> None:
    started = await call(
        "Bash",
        command="echo one; until [ -e go ]; do sleep 0.05; done; echo two; sleep 90.71",
        run_in_background=True,
    )
    name = started.text.split(" as ")[1].split(";")[0]
    seen = ""
    async with asyncio.timeout(20):
        while "one" not in seen:
            seen = (await call("BashOutput", bash_id=name)).text
    assert "is running" in seen
    (work / "go").touch()
    async with asyncio.timeout(20):
        while "two" not in seen:
            seen = (await call("BashOutput", bash_id=name)).text
    assert "one" not in seen
    ended = await call("KillShell", shell_id=name)
    assert "stopped" in ended.text
    assert alive("90.71") == []
    assert "has ended" in (await call("BashOutput", bash_id=name)).text


async def test_background_commands_belong_to_their_thread(
    call: Call, context: CallContext, bench: Workbench, alive: Alive
) -> None:
    started = await call("Bash", command="sleep 89.1", run_in_background=True)
    name = started.text.split(" as ")[1].split(";")[0]
    stranger = await call("BashOutput", context=replace(context, thread="other"), bash_id=name)
    assert stranger.error
    await bench.background.close()
    assert alive("sleep 89.1") == []


async def test_only_so_many_run_in_the_background(
    call: Call, bench: Workbench, alive: Alive
) -> None:
    for _ in range(8):
        assert not (await call("Bash", command="sleep 88.1", run_in_background=True)).error
    ninth = await call("Bash", command="sleep 88.1", run_in_background=True)
    assert ninth.error
    assert "KillShell" in ninth.text
    await bench.background.close()
    assert alive("sleep 88.1") == []


async def test_the_output_limit_is_configuration(bench: Workbench, context: CallContext) -> None:
    tool = load_tools(replace(bench, limits=Limits(bash_output=2048)))["Bash"]
    output = await tool.run(
        tool.input.model_validate({"command": "seq 1 5000"}),
        replace(context, deadline=time.monotonic() + 300),
    )
    assert len(output.result.text) < 2048 + 300


KEYBOARD = {
    "vim notes.txt": "Edit",
    "nano x": "Edit",
    "less a.py": "Read",
    "git rebase -i HEAD~2": "-i",
    "git add -p": "-p",
    "git commit": "-m",
    "git -C x commit --amend": "-m",
    "git tag -a v1": "-m",
    "npm init": "--yes",
    "npm create vite app": "--yes",
    "npx create-react-app x": "--yes",
    "pnpm create vite": "--yes",
    "yarn create vite": "--yes",
    "bun create x": "--yes",
    "pip uninstall x": "--yes",
    "pip3.11 uninstall x": "--yes",
    "python3 -m pip uninstall x": "--yes",
    "npm exec create-vite": "--yes",
    "env A=1 npm create vite": "--yes",
    "git rebase --interactive main": "-i",
    "more a.py": "Read",
    "emacs a.py": "Edit",
    "apt build-dep x": "-y",
    "apt install x": "-y",
    "sudo -n apt-get install x": "-y",
    "cd x && apt-get upgrade": "-y",
    "sudo ls": "-n",
    "ssh host": "command",
    "python3": "-c",
    "python3 -v": "-c",
    "node": "-e",
    "mysql -u root": "-e",
    "psql db": "-c",
    "sqlite3 a.db": "SQL",
    "docker run -it alpine sh": "-it",
    "docker exec -ti x sh": "-it",
    "kubectl exec -it pod -- sh": "-it",
    "crontab -e": "file",
    "systemctl edit x": "file",
    "top": "-b",
    "htop": "screen",
    "watch ls": "once",
    "passwd": "password",
    "su": "password",
    "bash -c 'vim x'": "Edit",
    "gh pr create": "--title",
    "conda create -n x": "--yes",
}
FINE = [
    "git commit -m x",
    "git commit -am x",
    "git commit --amend --no-edit",
    "git stash show -p",
    "git log -p",
    "npx --yes x",
    "npm init -y",
    "apt-get install -y x",
    "apt-get -y install x",
    "apt list",
    "pip uninstall -y x",
    "ssh host ls",
    "ssh -o BatchMode=yes -p 22 host uptime",
    "python3 x.py",
    "python3 -m pytest",
    "python3 --version",
    "echo 'print(1)' | python3",
    "python3 <<'EOF'\nprint(1)\nEOF",
    "psql -c 'select 1'",
    "sqlite3 a.db 'select 1'",
    "docker run alpine ls -it",
    "docker run -i alpine cat",
    "git log | less",
    "man ls | cat",
    "top -b -n 1",
    "sudo -n ls",
    "crontab -l",
    "vim --version",
    "less --help",
    "read x < file",
    "git rebase main",
    "GIT_SEQUENCE_EDITOR=: git rebase -i --autosquash main",
    "yes | apt install x",
    "python3 -m pip uninstall -y x",
    "python3 -m pip install x",
    "npm exec --yes create-vite",
    "v/bin/python3 -V",
    "node -v",
    "psql -V",
    "sqlite3 -version",
    "sudo -V",
    "npx -v",
]


@pytest.mark.parametrize(("command", "word"), KEYBOARD.items())
async def test_what_would_wait_for_a_keyboard_is_refused_with_the_way_out(
    call: Call, command: str, word: str
) -> None:
    result = await call("Bash", command=command)
    assert result.error
    assert result.text.startswith("not run")
    assert word in result.text


async def test_what_is_only_known_when_it_runs_is_shown_as_people_write_it(call: Call) -> None:
    assert "`sudo … *.py` would wait" in (await call("Bash", command="sudo $X *.py")).text


async def test_with_a_terminal_nothing_is_left_out_of_a_container_but_the_keyboard_stays_away(
    call: Call,
) -> None:
    assert "give terminal: true" in (await call("Bash", command="docker run -it alpine ls")).text
    assert (
        "would wait"
        not in (await call("Bash", command="docker run -it alpine ls", terminal=True)).text
    )
    assert "would wait" in (await call("Bash", command="vim a.txt", terminal=True)).text


@pytest.mark.parametrize("command", FINE)
def test_what_needs_no_keyboard_is_not_refused(bench: Workbench, work: Path, command: str) -> None:
    assert waits_for_keyboard(Shell(Path("/home/ada")).parse(command, work)) is None


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("ls", "none"),
        ("ls 2>/dev/null", "none"),
        ("cat < a", "none"),
        ("ls 2>&1", "none"),
        ("echo x >> a", "once"),
        ("ls > a", "once"),
        ("cat a 2> b | wc", "once"),
        ("touch a", "once"),
    ],
)
def test_what_a_redirection_writes_is_not_done_again_after_a_restart(
    bench: Workbench, command: str, effect: str
) -> None:
    tool = load_tools(bench)["Bash"]
    assert tool.footprint(tool.input(command=command), Path("/tmp")).effect == effect


def test_what_the_model_says_beside_the_words_is_kept_apart(bench: Workbench) -> None:
    class Asking:
        asks_network, tells_names, known = True, True, None

    tool = load_tools(replace(bench, walls=Asking()))["Bash"]  # pyright: ignore[reportArgumentType]
    given = {"command": "curl https://a.org/", "hosts": ["A.org:443", "B.org", "127.0.0.1:6379"]}
    found = tool.footprint(tool.input.model_validate(given), Path("/tmp"))
    assert found.names == ("a.org:443", "b.org", "127.0.0.1:6379")
    assert (found.said, found.apart) == (("b.org", "127.0.0.1:6379"), True)
    assert found.hosts == ("a.org", "b.org")
    Asking.tells_names = False
    found = tool.footprint(tool.input.model_validate(given), Path("/tmp"))
    assert (found.apart, found.note) == (False, "[with the network]")


@pytest.mark.parametrize(
    ("backend", "tells_names", "git", "names"),
    [("bubblewrap", True, True, True), ("landlock", False, False, False)],
)
async def test_a_wall_is_told_as_it_stands_there(
    bench: Workbench, context: CallContext, backend: Any, tells_names: bool, git: bool, names: bool
) -> None:
    class Standing:
        asks_network, known, network = True, None, "ask"

        async def standing(self) -> Walls:
            return Walls(backend)

        async def cage(self, *_: object, **__: object) -> None:
            """The words are what counts here."""

    walls: Any = Standing()
    walls.tells_names = tells_names
    tool = load_tools(replace(bench, walls=walls))["Bash"]
    given = tool.input.model_validate({"command": "echo Permission denied >&2; exit 1"})
    ready = replace(judged(tool, given, context), deadline=time.monotonic() + 300)
    said = (await tool.run(given, ready)).result.text
    assert "[it ran in a sandbox" in said
    assert (".git/config" in said, "`hosts` name" in said) == (git, names)
