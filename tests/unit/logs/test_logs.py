"""The log hides secrets, survives a full disk and never waits."""

from __future__ import annotations

import gzip
import json
import logging
import re
import threading
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import structlog

from ohmo.logs.redaction import BLOT, REDACTED, Redactor
from ohmo.logs.writing import GRAVE, RotatingFile, Writer, logging_to

SHAPES = [
    "sk-ant-api03-AbCdEfGh12345678",
    "sk-proj-AbCdEfGh12345678abcd",
    "xoxb-1234567890-abcdefghij",
    "xapp-1-A0123-4567-abcdef",
    "https://hooks.slack.com/services/T000/B000/XXXXXXXX",
    "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0",
    "syt_b2htbw_AbCdEfGhIjKlMnOp_1a2b3c",
    "MTA5ODc2NTQzMjEwOTg3NjU0.GabcDE.abcdefghijklmnopqrstuvwxyz0123456789AB",
    "ghp_abcdefghijklmnopqrst0123456789abcdef",
    "github_pat_11ABCDEFG0abcdefghijklmnop",
    "glpat-abcdefghij0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
    "ya29.a0AfH6SMBabcdefghijklmnop",
    "hf_abcdefghijklmnopqrstuvwx",
    "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "pypi-AgEIcHlwaS5vcmcabcdef",
    "gsk_abcdefghijklmnopqrstuvwx",
    "SG.abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz",
    "sk_live_abcdefghijklmnop1234",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA==\n-----END OPENSSH PRIVATE KEY-----",
]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("secret", SHAPES, ids=[shape[:12] for shape in SHAPES])
def test_a_token_is_blotted_out_by_its_shape(secret: str) -> None:
    assert Redactor().text(f"before {secret} after") == f"before {BLOT} after"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {BLOT}"),
        ("postgresql://ohmo:secret@host/db", f"postgresql://ohmo:{BLOT}@host/db"),
        ("GET /login?code=abcdef&token=abcdef&x=1", f"GET /login?code={BLOT}&token={BLOT}&x=1"),
        (
            "https://api.telegram.org/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0/getMe",
            f"https://api.telegram.org/bot{BLOT}/getMe",
        ),
    ],
)
def test_a_secret_is_known_by_what_stands_before_it(text: str, clean: str) -> None:
    assert Redactor().text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:7717/login and http://[::1]:80",
        "turn 01jabc.3 of thread 0000",
        "task-force-risk-management",
        "2026-11-21T02:09:46",
        "took 12:30 min",
        "sha 4f2a9c",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert Redactor().text(text) == text


def test_resolved_secrets_are_blotted_out_wherever_they_stand() -> None:
    known = {"correct horse"}
    redactor = Redactor(lambda: known)
    assert redactor.value({"a": ["the correct horse"], "correct horse": 1}) == {
        "a": [f"the {BLOT}"],
        BLOT: 1,
    }
    known.add("battery staple")
    assert redactor.text("battery staple") == BLOT
    assert redactor.value({"bot_token": "x", "tokens": 5, "api_key": ""}) == {
        "bot_token": BLOT,
        "tokens": 5,
        "api_key": "",
    }


def test_characters_that_reorder_or_command_are_replaced() -> None:
    assert (
        Redactor().text("a\u202eb\0c\x1b[2Jd\ud800e\u2028f\tg\nh")
        == "a\ufffdb\ufffdc\ufffd[2Jd\ufffde\ufffdf\tg\nh"
    )


def test_one_event_is_one_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "ohmo.jsonl"
    with logging_to(path, secrets=lambda: {"hunter22"}):
        log = structlog.get_logger()
        log.info(
            "turn.started",
            turn="t1",
            thread="x",
            path=tmp_path,
            nested={"a": [1, {"b": "hunter22"}]},
        )
        log.debug("hidden")
        try:
            raise ValueError("hunter22")
        except ValueError:
            log.exception("turn.failed")
        logging.getLogger("sdk").warning("retry %s", 3)
        ours = logging.getLogger().handlers[-1]  # pytest's own handlers would raise
        ours.handle(
            logging.LogRecord("sdk", logging.WARNING, __file__, 1, "odd %d", ("format",), None)
        )
    found = lines(path)
    assert [line["event"] for line in found] == ["turn.started", "turn.failed", "retry 3", "odd %d"]
    assert found[0]["nested"] == {"a": [1, {"b": BLOT}]}
    assert found[0]["path"] == str(tmp_path)
    assert found[1]["level"] == "error"
    assert f"ValueError: {BLOT}" in found[1]["exception"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_people_read_short_lines(tmp_path: Path) -> None:
    screen = StringIO()
    with logging_to(tmp_path / "x", human=screen):
        structlog.get_logger().info("turn.started", turn="t1", channel="")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ info    turn\.started turn=t1\n", screen.getvalue()
    )


def test_whoever_wants_to_know_only_of_trouble_hears_nothing_else(tmp_path: Path) -> None:
    heard = StringIO()
    with logging_to(tmp_path / "ohmo.jsonl", human=heard, grave=GRAVE):
        structlog.get_logger().info("ready")
        structlog.get_logger().warning("channel_down", channel="slack", error="nobody answers")
        logging.getLogger("sdk").error("no route")
    assert [line.split()[1:3] for line in heard.getvalue().splitlines()] == [
        ["warning", "channel_down"],
        ["error", "no"],
    ]
    assert len(lines(tmp_path / "ohmo.jsonl")) == 3


def test_a_terminal_that_goes_away_does_not_end_the_log(tmp_path: Path) -> None:
    screen = StringIO()
    screen.close()
    with logging_to(tmp_path / "x", human=screen):
        structlog.get_logger().info("one")
        structlog.get_logger().info("two")
    assert [line["event"] for line in lines(tmp_path / "x")] == ["one", "two"]


def test_a_full_file_is_turned_over_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.jsonl"
    with logging_to(path, max_bytes=300, keep=2):
        for number in range(30):
            structlog.get_logger().info("event", number=number)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "ohmo.jsonl",
        "ohmo.jsonl.1",
        "ohmo.jsonl.2.gz",
    ]
    older = (tmp_path / "ohmo.jsonl.1").read_text().splitlines()
    assert len("\n".join(older)) <= 300
    assert lines(path)[-1]["number"] == 29
    assert json.loads(older[-1])["number"] == lines(path)[0]["number"] - 1
    oldest = gzip.decompress((tmp_path / "ohmo.jsonl.2.gz").read_bytes()).decode().splitlines()
    assert json.loads(oldest[-1])["number"] == json.loads(older[0])["number"] - 1


def test_a_file_that_cannot_be_turned_over_goes_on_to_twice_its_size(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.jsonl"
    # as a folder that became read-only, also for root
    (tmp_path / "ohmo.jsonl.1" / "in the way").mkdir(parents=True)
    file = RotatingFile(path, 100, 1)
    for _ in range(20):
        file.write(b"123456789\n")
    with pytest.raises(OSError, match="irectory"):
        file.write(b"123456789\n")
    assert path.stat().st_size == 200
    (tmp_path / "ohmo.jsonl.1" / "in the way").rmdir()
    (tmp_path / "ohmo.jsonl.1").rmdir()
    file.write(b"later\n")
    assert path.read_bytes() == b"later\n"
    assert (tmp_path / "ohmo.jsonl.1").stat().st_size == 200
    file.close()


def test_a_kill_while_a_file_is_compressed_loses_no_line_of_it(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.jsonl"
    (tmp_path / "ohmo.jsonl.2").write_bytes(b"whole\n")
    (tmp_path / "ohmo.jsonl.2.gz").write_bytes(gzip.compress(b"whole\n")[:12])  # so far it had come
    file = RotatingFile(path, 10, 5)
    for _ in range(3):
        file.write(b"123456789\n")
    file.close()
    kept = {
        one.name: one.read_bytes()
        for one in tmp_path.iterdir()
        if "jsonl.3" in one.name or "jsonl.4" in one.name
    }
    assert kept == {"ohmo.jsonl.4": b"whole\n"}


def test_a_new_day_begins_a_new_file(tmp_path: Path) -> None:
    day = int(time.time() // 86_400)
    path, today = tmp_path / "ohmo.jsonl", [day]
    file = RotatingFile(path, 10**6, 5, lambda: today[0])
    file.write(b"monday\n")
    today[0] += 1
    file.write(b"tuesday\n")
    assert path.read_bytes() == b"tuesday\n"
    assert (tmp_path / "ohmo.jsonl.1").read_bytes() == b"monday\n"
    file.close()


def test_a_torn_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.jsonl"
    path.write_text('{"torn": ', encoding="utf-8")
    with logging_to(path):
        structlog.get_logger().info("whole")
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[1])["event"] == "whole"


class DiskOfItsOwnMind(RotatingFile):
    """Full while ``full``."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"), 1, 1)
        self.full = True
        self.tried = threading.Semaphore(0)
        self.kept: list[dict[str, Any]] = []

    def write(self, line: bytes) -> None:
        try:
            if self.full:
                raise OSError(28, "No space left on device")
            self.kept.append(json.loads(line))
        finally:
            self.tried.release()


def test_a_full_disk_is_survived_and_the_loss_is_said() -> None:
    disk = DiskOfItsOwnMind()
    writer = Writer(disk, Redactor(), None)
    for event in ("one", "two"):
        writer.put({"event": event})
        assert disk.tried.acquire(timeout=30)
    disk.full = False
    writer.put({"event": "three"})
    writer.close(30)
    assert [(line["event"], line.get("lines")) for line in disk.kept] == [
        ("log.lost", 2),
        ("three", None),
    ]
    assert writer.lost == 0


def test_a_stuck_disk_never_makes_the_caller_wait() -> None:
    stuck, busy = threading.Event(), threading.Event()

    class Stuck(DiskOfItsOwnMind):
        def write(self, line: bytes) -> None:
            busy.set()
            stuck.wait(60)
            self.kept.append(json.loads(line))

    disk = Stuck()
    writer = Writer(disk, Redactor(), None, depth=2)
    writer.put({"event": "first"})
    assert busy.wait(30)
    for number in range(10):
        writer.put({"event": str(number)})
    assert writer.lost == 8
    stuck.set()
    writer.close(30)
    assert [line["event"] for line in disk.kept] == ["first", "log.lost", "0", "1"]


def test_what_cannot_be_described_is_named_by_its_type(tmp_path: Path) -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError

    with logging_to(tmp_path / "x"):
        structlog.get_logger().info("odd", value=Odd())
    assert lines(tmp_path / "x")[0]["value"] == "<Odd>"


def test_words_lose_known_values_and_shapes_and_nothing_else() -> None:
    words = Redactor(lambda: {"correct horse battery", "tea"}).words
    assert (
        words("tea, correct horse battery, ?key=value, a\tb\u200d")
        == f"tea, {REDACTED}, ?key=value, a\tb\u200d"
    )
    assert [words(f"a {secret} b") for secret in SHAPES] == [f"a {REDACTED} b"] * len(SHAPES)


def test_a_text_made_to_be_slow_is_read_once() -> None:
    """Each began a search to the end at every one of its words; then this would take many minutes."""
    for text in (
        "eyJabcdefgh-" * 50_000,
        "-----BEGIN " * 50_000,
        "://a:" * 75_000,
        "SG." * 125_000,
    ):
        assert Redactor().words(text) == text
