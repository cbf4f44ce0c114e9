"""A conversation at the keyboard: with the house of the command's own process, and attached to one
that runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from answering_house import AnsweringHouse, keyboard
from small_house import PERMISSION

from tests.programs import OHMO, environ, ohmo
from tests.terminal import terminal

BOUND = 60.0


@pytest.fixture
def offline(home: Path) -> Path:
    (home / "config.yaml").write_text(
        "profiles: {default: {provider: offline}}\ncontrol: {listen: null}\nworkspace:"
        f" {home.parent / 'work'}\n"
    )
    return home


def test_who_waits_for_a_model_that_cannot_be_reached_is_told_so_once(home: Path) -> None:
    (home / "config.yaml").write_text(
        "profiles: {default: {provider: openai, base_url: 'http://127.0.0.1:9', models:"
        f" [m]}}}}\ncontrol: {{listen: null}}\nworkspace: {home.parent / 'work'}\n"
    )
    asking = subprocess.Popen(
        [*OHMO, "-p", "hi"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ(home),
    )
    try:
        assert asking.stderr is not None
        line = asking.stderr.readline()
    finally:
        asking.send_signal(signal.SIGINT)
        out, rest = asking.communicate(timeout=BOUND)
    assert line.startswith("ohmo: openai (127.0.0.1): cannot be reached")
    assert line.endswith("; Ctrl-C leaves\n")
    assert "Trying again" not in rest
    assert (out, asking.returncode) == ("", 130)


@pytest.mark.parametrize(
    ("arguments", "locale"),
    [
        (("-p", "-"), "C.UTF-8"),
        (("chat",), "C.UTF-8"),
        (("chat",), "en_US.UTF-8"),
        (("-p", "\udcff"), "C.UTF-8"),
    ],
)
def test_what_is_no_text_is_refused_with_one_line(
    offline: Path, arguments: tuple[str, ...], locale: str
) -> None:
    errors = "strict" if locale == "en_US.UTF-8" else "surrogateescape"
    said = subprocess.run(
        [*OHMO, *arguments],
        input=b"\xff\xfe\n",
        capture_output=True,
        timeout=BOUND,
        check=False,
        env=environ(offline) | {"LANG": locale, "PYTHONIOENCODING": f"utf-8:{errors}"},
    )
    assert said.returncode == 1
    lines = [
        line for line in said.stderr.decode().splitlines() if "no model is connected" not in line
    ]
    assert lines == [
        (
            "ohmo: what was said is not UTF-8 text; put it into a file of the workspace, and say its"
            " name"
        )
    ]


@pytest.mark.person("say", "allow", "deny", "model", "go on", on="terminal")
def test_lines_of_a_pipe_are_said_one_after_the_other_and_questions_are_answered_by_the_next_line(
    offline: Path,
) -> None:
    said = ohmo(
        offline,
        "chat",
        stdin=(
            "/model\nrun Write file_path=a.txt content=x\ny\nrun Write file_path=b.txt"
            " content=x\nn\n/exit\nnever said\n"
        ),
        code=0,
    )
    assert "- `offline` (default) ← here" in said.stdout
    assert (offline.parent / "work" / "a.txt").read_text() == "x"
    assert not (offline.parent / "work" / "b.txt").exists()
    assert "· Write a.txt" in said.stdout
    assert "never said" not in said.stdout
    listed = json.loads(ohmo(offline, "sessions", "list", "--json").stdout)
    assert len(listed) == 1
    told = [
        json.loads(line)
        for line in ohmo(
            offline, "logs", "--thread", listed[0]["thread"], "--json"
        ).stdout.splitlines()
    ]
    assert {"tool_ended", "turn_ended"} <= {line["event"] for line in told}
    assert all({"turn", "thread", "channel", "event"} <= set(line) for line in told)
    assert "no line of thread nobody" in ohmo(offline, "logs", "--thread", "nobody").stderr
    again = ohmo(offline, "chat", "--continue", stdin="run Read file_path=a.txt\n")
    assert "1\tx" in again.stdout
    assert len(json.loads(ohmo(offline, "sessions", "list", "--json").stdout)) == 1


def test_a_question_that_nobody_answers_is_refused(offline: Path) -> None:
    ohmo(offline, "chat", stdin="run Write file_path=a.txt content=x\n", code=0)
    assert not (offline.parent / "work" / "a.txt").exists()


@pytest.mark.cold_start
def test_going_on_with_nothing_says_so(offline: Path) -> None:
    said = ohmo(offline, "chat", "--continue")
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert "--continue: there is no earlier conversation" in said.stderr
    assert "there is no such session" in ohmo(offline, "chat", "--resume", "no/such").stderr


def test_without_a_terminal_the_bare_command_explains_itself(offline: Path) -> None:
    assert "Usage: ohmo" in ohmo(offline).stdout


async def test_an_answer_comes_from_the_daemon_that_runs(home: Path) -> None:
    house = AnsweringHouse(question=PERMISSION)
    async with keyboard(house, home) as at:
        said = await at("chat", stdin="clean up\nyes\n")
        assert (said.code, said.out.splitlines()[-1]) == (0, "It is four.")
        assert [verdict for _, verdict, _, _ in house.verdicts] == ["allowed"]


@pytest.mark.parametrize("no", ["/deny use red paint", "no, use red paint", "N use red paint"])
async def test_why_not_is_said_in_words(home: Path, no: str) -> None:
    house = AnsweringHouse(question=PERMISSION)
    async with keyboard(house, home) as at:
        await at("chat", stdin=f"clean up\n{no}\n")
    assert [(verdict, word) for _, verdict, _, word in house.verdicts] == [
        ("denied", "use red paint")
    ]


async def test_why_there_is_no_answer_is_said(home: Path) -> None:
    async with keyboard(AnsweringHouse(fails="the model is gone"), home) as at:
        assert (await at("chat", stdin="hello\n")).err.splitlines()[
            -1
        ] == "ohmo: failed: the model is gone"


@pytest.mark.person("allow", "stop", on="terminal")
def test_at_a_terminal_a_slip_decides_nothing_and_ctrl_c_stops_the_turn_only(offline: Path) -> None:
    with terminal([sys.executable, "-m", "ohmo"], environ(offline)) as at:
        at.until("> ")
        at.types("run Write file_path=a.txt content=x\n")
        at.until("[N]o: ")
        at.types("1\n")
        at.until("nothing was decided")
        at.types("y\n")
        at.until("Write says")
        at.types('run Bash command="sleep 300" timeout=400000\n')
        at.until("· Bash sleep 300")
        at.types("\x03")
        at.until("Stopped.")
        at.types("/exit\n")
        assert at.ended() == 0
