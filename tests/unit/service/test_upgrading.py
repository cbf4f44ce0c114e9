"""An upgrade proves itself or is taken back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from ohmo.config.home import Home
from ohmo.service.health_gate import CONNECTED_WITHIN, Connection, CrashLoop
from ohmo.service.protocol import Log, ServiceFailed, Standing
from ohmo.service.upgrading import Parts, Upgrade, UpgradeFailed
from ohmo.service.versions import BUILT_FOR, Versions


def version_in(environment: Path) -> str:
    return (environment / "lib" / "ohmo" / "version").read_text()


class Service:
    """Runs whatever version is in force; ``wants`` says whether it likes it."""

    name = "a service"

    def __init__(self, versions: Versions, wants: Callable[[str], bool]) -> None:
        self._versions = versions
        self._wants = wants
        self.running = "old"

    def installed(self) -> bool:
        return True

    def install(self) -> list[str]:
        return []

    def uninstall(self) -> list[str]:
        return []

    def start(self) -> None:
        version = version_in(self._versions.in_force())
        if not self._wants(version):
            raise ServiceFailed(f"it does not start: {version} is broken")
        self.running = version

    def stop(self) -> None:
        self.running = ""

    def restart(self) -> None:
        self.stop()
        self.start()

    def reload(self) -> None: ...

    def standing(self) -> Standing:
        return Standing("running" if self.running else "stopped")

    def log(self, lines: int, follow: bool) -> Log:
        return Log()


class Scene:
    """An installation of the old version, and a store with one message in it."""

    def __init__(self, folder: Path, *, wants: Callable[[str], bool] = lambda _: True) -> None:
        self.versions = Versions(folder / "environment")
        self.prefix = self.versions.base  # what runs the upgrade
        self.home = Home(folder / "home")
        (self.prefix / "lib" / "ohmo").mkdir(parents=True)
        (self.prefix / "lib" / "ohmo" / "version").write_text("old")
        self.home.root.mkdir()
        self.sql(
            "CREATE TABLE meta (name TEXT, value TEXT)",
            "INSERT INTO meta VALUES ('schema', '1')",
            "CREATE TABLE said (text TEXT)",
            "INSERT INTO said VALUES ('before')",
        )
        self.service = Service(self.versions, wants)
        self.said: list[str] = []
        self.time = 0.0
        self.channels: Callable[[], Mapping[str, Connection]] = lambda: {
            "web": Connection("connected")
        }

    def sql(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.home.database)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def words(self) -> list[str]:
        with closing(sqlite3.connect(self.home.database)) as connection:
            return [row[0] for row in connection.execute("SELECT text FROM said")]

    def install_new(self, environment: Path, _: int = -1) -> None:
        """As pip does: the old file is replaced, not written into."""
        (environment / "lib" / "ohmo" / "version").unlink()
        (environment / "lib" / "ohmo" / "version").write_text("new")
        (environment / "lib" / "ohmo" / "added").write_text("new")

    def upgrade(
        self,
        install: Callable[[Path, int], None] | None = None,
        healthy: Callable[[Path], str] = lambda _: "",
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        parts = Parts(
            self.versions,
            self.prefix,
            self.home,
            install or self.install_new,
            healthy,
            self.service,
            self.said.append,
            self.channels,
            lambda: self.time,
            self.pass_time,
            reached,
        )
        Upgrade(parts).run()

    def pass_time(self, seconds: float) -> None:
        self.time += seconds

    def is_as_before(self) -> None:
        assert version_in(self.versions.base) == "old"
        assert not (self.versions.base / "lib" / "ohmo" / "added").exists()
        assert self.versions.in_force() == self.prefix
        assert self.service.running == "old"
        assert not self.versions.trial.exists()


def test_a_new_version_that_runs_stays(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.upgrade()
    assert scene.service.running == "new"
    assert (scene.home.root / "backups" / "before-upgrade" / "ohmo.db").exists()
    assert not scene.versions.trial.exists()
    assert version_in(scene.versions.base) == "old"


def test_what_else_was_installed_is_there_in_the_new_version_too(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (scene.prefix / "bin").mkdir()
    (scene.prefix / "bin" / "python").symlink_to("/usr/bin/python3")
    (scene.prefix / "lib" / "a_plugin.py").write_text("")
    (scene.prefix / "notes.txt").write_text("an environment in a folder of somebody's own things")
    scene.upgrade()
    new = scene.versions.in_force()
    assert (new / "lib" / "a_plugin.py").samefile(scene.prefix / "lib" / "a_plugin.py")
    assert (new / "bin" / "python").readlink() == Path("/usr/bin/python3")
    assert not (new / "notes.txt").exists()


def test_the_next_upgrade_goes_back_to_the_last_one_and_not_to_the_first(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for _ in range(2):
        scene.upgrade()
        scene.prefix = scene.versions.in_force()
    scene.service = Service(scene.versions, lambda version: version != "newest")
    scene.service.running = "new"

    def newest(environment: Path, _: int) -> None:
        (environment / "lib" / "ohmo" / "version").unlink()
        (environment / "lib" / "ohmo" / "version").write_text("newest")

    with pytest.raises(UpgradeFailed, match="newest is broken"):
        scene.upgrade(newest)
    assert (scene.versions.in_force(), scene.service.running) == (scene.prefix, "new")
    built = [path for path in scene.versions.folder.iterdir() if path.is_dir()]
    assert len({path.resolve() for path in built}) == 2  # the failed one goes with the next upgrade


def test_what_was_installed_by_hand_since_is_what_runs(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.upgrade()
    (scene.versions.in_force() / BUILT_FOR).write_text("0.0.1")
    assert scene.versions.in_force() == scene.versions.base


def test_a_version_that_does_not_start_gives_way_to_the_old_one(tmp_path: Path) -> None:
    scene = Scene(tmp_path, wants=lambda version: version == "old")
    with pytest.raises(UpgradeFailed, match="new is broken"):
        scene.upgrade()
    scene.is_as_before()


def test_the_old_version_does_not_come_back_in_safe_mode_for_the_new_ones_deaths(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    starts = CrashLoop(scene.home.root / "run" / "starts.json")
    (scene.home.root / "run").mkdir()

    def dying(version: str) -> bool:
        if version == "new":
            for _ in range(5):
                starts.begin()
        return version == "old"

    scene.service = Service(scene.versions, dying)
    with pytest.raises(UpgradeFailed):
        scene.upgrade()
    assert starts.begin() is False


def test_an_installation_that_fails_half_way_is_taken_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    def half(environment: Path, _: int) -> None:
        scene.install_new(environment)
        raise UpgradeFailed("no space left")

    with pytest.raises(UpgradeFailed, match="no space left"):
        scene.upgrade(half)
    scene.is_as_before()


@pytest.mark.parametrize(
    "error", [TimeoutError("pip took longer than 1800 s"), KeyboardInterrupt()]
)
def test_an_installer_that_never_ends_and_a_person_who_gives_up_are_taken_back_too(
    tmp_path: Path, error: BaseException
) -> None:
    scene = Scene(tmp_path)

    def endless(environment: Path, _: int) -> None:
        scene.install_new(environment)
        raise error

    with pytest.raises(UpgradeFailed, match=r"pip took longer|interrupted"):
        scene.upgrade(endless)
    scene.is_as_before()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("when", ["install", "trial"])
def test_what_goes_wrong_before_anything_is_on_trial_leaves_the_old_version_running(
    tmp_path: Path, error: BaseException, when: str
) -> None:
    scene = Scene(tmp_path)

    def full(step: str) -> None:
        if step == when:
            raise error

    with pytest.raises(UpgradeFailed, match=r"nothing was changed: (.*No space left|interrupted)"):
        scene.upgrade(reached=full)
    scene.is_as_before()


def test_a_second_upgrade_waits_for_nobody_and_breaks_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    def meanwhile(environment: Path, _: int) -> None:
        with pytest.raises(UpgradeFailed, match="another upgrade is under way"):
            scene.upgrade()
        scene.install_new(environment)

    scene.upgrade(meanwhile)
    assert scene.service.running == "new"


def test_what_arrived_while_the_new_version_ran_is_kept_when_the_old_one_can_read_it(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)

    def channels() -> Mapping[str, Connection]:
        if scene.service.running == "old":
            return {"web": Connection("connected")}
        scene.sql("INSERT INTO said VALUES ('meanwhile')")
        return {"web": Connection("failed", "KeyError in the new version")}

    scene.channels = channels
    with pytest.raises(UpgradeFailed, match="web was connected before"):
        scene.upgrade()
    scene.is_as_before()
    assert scene.words() == ["before", "meanwhile"]


def test_a_store_the_old_version_cannot_read_is_put_aside_and_the_copy_returns(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)

    def migrating(version: str) -> bool:
        if version == "new":
            scene.sql("UPDATE meta SET value = '2'", "DELETE FROM said")
        return version == "old"

    scene.service = Service(scene.versions, migrating)
    with pytest.raises(UpgradeFailed):
        scene.upgrade()
    scene.is_as_before()
    assert scene.words() == ["before"]
    assert [file.name for file in (scene.home.root / "quarantine").glob("failed-upgrade-*/*")] == [
        "ohmo.db"
    ]
    assert any("quarantine" in line for line in scene.said)


def test_an_upgrade_is_good_only_when_the_channels_are_connected_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    def channels() -> Mapping[str, Connection]:
        if scene.service.running == "":
            raise ServiceFailed("not running")
        late = scene.service.running == "old" or scene.time >= 30.0
        return {
            "slack": Connection("connected" if late else "reconnecting"),
            "matrix": Connection("auth_failed", "the token is refused"),
        }

    scene.channels = channels
    scene.upgrade()
    assert (scene.service.running, scene.time) == ("new", 30.0)
    assert "matrix is not connected, as before: the token is refused" in scene.said


@pytest.mark.parametrize(
    ("after", "waited"),
    [
        (Connection("reconnecting", "the platform cannot be reached"), CONNECTED_WITHIN),
        (Connection("failed", "KeyError in the new version"), 0.0),
        (None, 0.0),
    ],
)
def test_a_version_whose_channel_does_not_come_back_gives_way_to_the_old_one(
    tmp_path: Path, after: Connection | None, waited: float
) -> None:
    scene = Scene(tmp_path)

    def channels() -> Mapping[str, Connection]:
        web = {"web": Connection("connected")}
        if scene.service.running == "old":
            return web | {"slack": Connection("connected")}
        return web if after is None else web | {"slack": after}

    scene.channels = channels
    with pytest.raises(UpgradeFailed, match="slack was connected before and is not now"):
        scene.upgrade()
    scene.is_as_before()
    assert scene.time == pytest.approx(waited, abs=1.0)
