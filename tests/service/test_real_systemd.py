"""`ohmo service` under a systemd that really runs: user unit and system unit, killed, hung,
broken."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.parts import skip_without
from tests.service.booted import Booted, booted, missing

pytestmark = [pytest.mark.needs("systemd"), pytest.mark.timeout(400)]


LEAVES = """
import shutil
from ohmo.service.rollback import Attempt
from ohmo.service.versions import BUILT_FOR, installed
import ohmo
versions, home = installed(), "/var/lib/ohmo/.ohmo"
versions.own()
new = versions.folder / "new"
shutil.copytree(versions.base / "bin", new / "bin", symlinks=True)
shutil.copy(versions.base / "pyvenv.cfg", new)
(new / BUILT_FOR).write_text(ohmo.__version__)
Attempt(new.name, "", home, home + "/kept", home + "/aside", []).write(versions.trial)
versions.switch(new)
"""  # an upgrade that was killed: what is in force does not even know ohmo


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Generator[Booted]:
    if why := missing():
        skip_without("systemd", why)
    with booted(tmp_path_factory.mktemp("machine")) as found:
        if found is None:
            skip_without("systemd", "systemd does not boot in a container here")
        yield found


def seen(machine: Booted, user: str) -> dict[str, Any]:
    line = "ohmo-pat service status --json" if user else "ohmo-root service status --system --json"
    return json.loads(machine.run(line, user=user, code=None))


def until(machine: Booted, user: str, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + 90
    while not done(found := seen(machine, user)):
        assert time.monotonic() < deadline, found
        time.sleep(0.3)
    return found


def test_a_user_unit_from_install_to_uninstall(machine: Booted) -> None:
    run = lambda line, **more: machine.run(f"ohmo-pat {line}", user="pat", **more)  # noqa: E731
    assert "created" in run("service install")
    assert "unchanged" in run("service install")
    run("service status", code=1)
    run("service start")
    assert "service: running" in run("service status")
    first = seen(machine, "pat")
    assert first["manager"] == "systemd, user unit"
    machine.run(f"kill -9 {first['pid']}")
    second = until(machine, "pat", lambda found: found["ready"] and found["pid"] != first["pid"])
    assert second["restarts"] == 1
    assert "ohmo is ready at" in run("service logs -n 100")
    run("service restart")
    assert seen(machine, "pat")["ready"]
    run("service stop")
    assert "stopped" in run("service status", code=1)
    machine.run("printf 'chanels: {}\\n' > ~/.ohmo/config.yaml; rm -rf ~/.ohmo/backups", user="pat")
    assert "config.yaml:1: chanels: unknown key" in run("service start", code=1)
    assert "exit code 78" in run("service status", code=1)
    assert "removed" in run("service uninstall")
    assert "nothing to do" in run("service uninstall")


def test_a_system_unit_that_hangs_is_restarted_with_its_stack_in_the_journal(
    machine: Booted,
) -> None:
    run = lambda line, **more: machine.run(f"ohmo-root service {line}", **more)  # noqa: E731
    assert "created the user ohmo" in run("install --system")
    run("start --system")
    first = seen(machine, "")
    assert first["ready"]
    assert machine.run(f"stat -c %U /proc/{first['pid']}").strip() == "ohmo"
    exposed = machine.run("systemd-analyze security ohmo --no-pager").strip().splitlines()[-1]
    assert float(exposed.partition("ohmo.service: ")[2].split()[0]) <= 2.0
    machine.run(
        "mkdir -p /etc/ohmo; umask 77; echo 'OHMO_FAILPOINTS=model.chunk=delay:300s' >"
        " /etc/ohmo/env"
    )
    run("restart --system")
    second = seen(machine, "")
    machine.run("su -s /bin/sh ohmo -c 'cd; ohmo-root -p hello > /dev/null 2>&1 &'")
    began = time.monotonic()
    machine.run("rm /etc/ohmo/env")
    third = until(
        machine, "", lambda found: found["ready"] and found["pid"] not in (None, second["pid"])
    )
    assert time.monotonic() - began < 60  # faults.md, row 65
    assert third["restarts"] >= 1
    log = run("logs --system -n 400")
    assert "Fatal Python error: Aborted" in log
    assert "ambient.py" in log
    run("stop --system")
    run("uninstall --system")
    assert "not installed" in run("status --system", code=1)


def test_a_tool_works_inside_the_hardened_unit(machine: Booted, tmp_path: Path) -> None:
    machine.run("ohmo-root service install --system && ohmo-root service start --system")
    said = machine.run(
        "su -s /bin/sh ohmo -c \"cd; ohmo-root -p 'Bash: id -un; git --version; ls /home; touch"
        " /etc/x' --allow Bash\""
    )
    assert "ohmo" in said.split()
    assert "git version" in said
    assert "/etc/x" in said
    assert "Read-only" in said or "denied" in said
    machine.run("ohmo-root service uninstall --system")


def test_a_cage_holds_inside_the_hardened_unit(machine: Booted) -> None:
    """RestrictNamespaces=yes leaves no bubblewrap. What holds was tried by commands of the daemon,
    in its unit."""
    machine.run("ohmo-root service install --system && ohmo-root service start --system")
    try:
        line = "su -s /bin/sh ohmo -c 'cd; ohmo-root status --json'"
        end = time.monotonic() + 60
        while not (told := json.loads(machine.run(line, code=None))).get("sandbox"):
            assert time.monotonic() < end, told
            time.sleep(0.3)
        assert told["sandbox"] == "landlock", told
    finally:
        machine.run("ohmo-root service uninstall --system")


def test_a_tool_of_the_user_unit_works_in_a_cage(machine: Booted) -> None:
    machine.run("rm -f ~/.ohmo/config.yaml", user="pat")  # another test left a broken one
    machine.run("ohmo-pat service install && ohmo-pat service start", user="pat")
    try:
        said = machine.run("ohmo-pat -p 'Bash: id -un; touch ~/x' --allow Bash", user="pat")
        assert "pat" in said.split()
        told = json.loads(machine.run("ohmo-pat status --json", user="pat", code=None))
        assert told["sandbox"] in ("bubblewrap", "landlock"), told
        machine.run("test ! -e ~/x", user="pat")
    finally:
        machine.run("ohmo-pat service stop && ohmo-pat service uninstall", user="pat")


def test_a_system_installation_whose_upgrade_was_interrupted_is_the_old_one_at_the_next_start(
    machine: Booted,
) -> None:
    machine.run(
        "ohmo-root service install --system && ohmo-root service start --system && ohmo-root"
        " service stop --system"
    )
    machine.run(f"/opt/ohmo/bin/python -P -c {shlex.quote(LEAVES)}")
    assert machine.run("ls /opt/ohmo/versions").split() == ["current", "lock", "new", "trial.json"]
    machine.run("systemctl start ohmo")
    assert seen(machine, "")["ready"]
    assert "the version of before is back" in machine.run("journalctl -u ohmo -n 100 --no-pager")
    assert machine.run("ls /opt/ohmo/versions").split() == ["lock", "new"]
    machine.run("ohmo-root service uninstall --system")
