"""Commands without a daemon: the house of the command's own process answers, and nothing in it
moves."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.programs import environ, ohmo, run_process


def test_listings_and_jobs_work_without_a_daemon_and_let_nothing_run(home: Path) -> None:
    (home / "config.yaml").write_text("profiles: {default: {provider: offline}}\n")
    ohmo(home, "-p", "run Write file_path=a.txt content=x", code=3)
    for listing in (
        "inbox list",
        "inbox list --state dead",
        "outbox list",
        "sessions list",
        "approvals list",
        "pairing list",
        "usage",
        "cron list",
    ):
        found = ohmo(home, *listing.split(), "--json")
        assert (found.returncode, found.stderr) == (0, "")
        assert isinstance(json.loads(found.stdout), list)
    made = ohmo(home, "cron", "add", "--every", "1s", "--prompt", "Bash: date", "--name", "tick")
    assert made.stdout.startswith("tick: next run ")
    assert ohmo(home, "cron", "history", "tick").stdout == "it has not been due yet\n"
    exported = [json.loads(line) for line in ohmo(home, "cron", "export").stdout.splitlines()]
    assert [(line["type"], line["name"], line["every"]) for line in exported] == [
        ("job", "tick", "1s")
    ]
    started = ohmo(home, "cron", "run", "tick", code=1)
    assert "start it with: ohmo run" in started.stderr
    assert ohmo(home, "inbox", "list", "--state", "dead").stdout == "nothing is dead\n"
    assert ohmo(home, "outbox", "list", "--state", "dead").stdout == "nothing is dead\n"
    assert ohmo(home, "inbox", "audit").stdout.endswith("nothing is lost\n")


@pytest.mark.cold_start
def test_an_answer_that_no_model_gave_says_so_beside_it(home: Path) -> None:
    (home / "config.yaml").write_text("profiles: {default: {provider: offline}}\n")
    said = ohmo(home, "-p", "two and two?", code=0)
    assert said.stdout
    assert "no model answered this" in said.stderr
    assert "no model answered" not in said.stdout


@pytest.mark.cold_start
def test_a_listing_that_found_the_store_damaged_says_so_beside_it(home: Path) -> None:
    (home / "config.yaml").write_text("profiles: {default: {provider: offline}}\n")
    ohmo(home, "-p", "two and two?")
    (home / "ohmo.db").write_bytes(b"ruin")
    said = ohmo(home, "inbox", "list")
    assert (said.returncode, said.stdout) == (0, "nothing has arrived yet\n")
    assert said.stderr.startswith("ohmo: warning: ")
    assert "damaged (" in said.stderr
    assert "look into the quarantine" in said.stderr
    # once: the notice to the owner stands in the store
    assert ohmo(home, "inbox", "list").stderr == ""


def test_one_ruined_row_hides_no_other_in_any_list(home: Path) -> None:
    (home / "config.yaml").write_text("profiles: {default: {provider: offline}}\n")
    for word in ("ruined", "legible"):
        ohmo(home, "-p", word, code=0)
    with closing(sqlite3.connect(home / "ohmo.db")) as store, store:
        assert (
            store.execute("UPDATE inbox SET body = '{}' WHERE body LIKE '%ruined%'").rowcount == 1
        )
        store.execute("UPDATE steps SET body = '{' WHERE body LIKE '%ruined%'")
    for listing in ("inbox list", "sessions list", "usage --by thread"):
        found = ohmo(home, *listing.split(), "--json")
        assert (found.returncode, found.stderr) == (0, ""), listing
        assert len(json.loads(found.stdout)) == 2, listing
        assert "legible" in found.stdout
        assert "cannot be read any more" in found.stdout
    found = [
        one
        for one in json.loads(ohmo(home, "inbox", "list", "--json").stdout)
        if "cannot be read" in one["arrival"]["prompt"]
    ]
    assert (
        "cannot be read any more"
        in ohmo(home, "inbox", "why", f"{found[0]['thread']}/{found[0]['seq']}").stdout
    )


def test_a_home_that_was_never_used_is_not_made_by_a_listing(tmp_path: Path) -> None:
    said = ohmo(tmp_path / "new", "sessions", "list")
    assert (said.returncode, said.stderr.startswith("ohmo: not running")) == (1, True)
    assert not (tmp_path / "new").exists()


def test_a_command_that_is_interrupted_while_its_house_starts_ends(home: Path) -> None:
    script = """
import signal
from ohmo.cli.home_config import load_config, process_environment
from ohmo.daemon.startup import one_shot
found, environ = load_config(), process_environment()
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    with one_shot(found, environ, still=True, tell=print):
        signal.pause()
except KeyboardInterrupt:
    print("left")
"""
    done = run_process(sys.executable, "-c", script, env=environ(home))
    assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr
