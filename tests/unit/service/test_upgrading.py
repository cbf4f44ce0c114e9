"""An upgrade proves itself or is taken back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from ohmo.config.home import Home
from ohmo.service.contract import Log, ServiceFailed, Standing
from ohmo.service.starts import Starts
from ohmo.service.trial import CONNECTED_WITHIN, Connection
from ohmo.service.upgrading import Parts, Upgrade, UpgradeFailed


class Service:
    """Runs whatever version lies in ``site``; ``wants`` says whether it likes it."""

    name = "a service"

    def __init__(self, site: Path, wants: Callable[[str], bool]) -> None:
        self._site = site
        self._wants = wants
        self.running = "old"

    def installed(self) -> bool:
        return True

    def install(self) -> list[str]:
        return []

    def uninstall(self) -> list[str]:
        return []

    def start(self) -> None:
        version = (self._site / "ohmo" / "version").read_text()
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
        self.site = folder / "site-packages"
        self.home = Home(folder / "home")
        (self.site / "ohmo").mkdir(parents=True)
        (self.site / "ohmo" / "version").write_text("old")
        self.home.root.mkdir()
        self.sql(
            "CREATE TABLE meta (name TEXT, value TEXT)",
            "INSERT INTO meta VALUES ('schema', '1')",
            "CREATE TABLE said (text TEXT)",
            "INSERT INTO said VALUES ('before')",
        )
        self.service = Service(self.site, wants)
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

    def install_new(self, _: int = -1) -> None:
        """As pip does: the old file is replaced, not written into."""
        (self.site / "ohmo" / "version").unlink()
        (self.site / "ohmo" / "version").write_text("new")
        (self.site / "ohmo" / "added").write_text("new")

    def upgrade(
        self,
        install: Callable[[int], None] | None = None,
        healthy: Callable[[], str] = lambda: "",
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        parts = Parts(
            self.site,
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
        assert (self.site / "ohmo" / "version").read_text() == "old"
        assert not (self.site / "ohmo" / "added").exists()
        assert self.service.running == "old"
        assert [path.name for path in self.site.parent.iterdir() if "upgrade" in path.name] == []


def test_a_new_version_that_runs_stays(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.upgrade()
    assert scene.service.running == "new"
    assert (scene.home.root / "backups" / "before-upgrade" / "ohmo.db").exists()
    assert [path.name for path in tmp_path.iterdir() if "upgrade" in path.name] == []


def test_a_version_that_does_not_start_gives_way_to_the_old_one(tmp_path: Path) -> None:
    scene = Scene(tmp_path, wants=lambda version: version == "old")
    with pytest.raises(UpgradeFailed, match="new is broken"):
        scene.upgrade()
    scene.is_as_before()


def test_the_old_version_does_not_come_back_in_safe_mode_for_the_new_ones_deaths(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    starts = Starts(scene.home.root / "run" / "starts.json")
    (scene.home.root / "run").mkdir()

    def dying(version: str) -> bool:
        if version == "new":
            for _ in range(5):
                starts.begin()
        return version == "old"

    scene.service = Service(scene.site, dying)
    with pytest.raises(UpgradeFailed):
        scene.upgrade()
    assert starts.begin() is False


def test_an_installation_that_fails_half_way_is_taken_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    def half(_: int) -> None:
        scene.install_new()
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

    def endless(_: int) -> None:
        scene.install_new()
        raise error

    with pytest.raises(UpgradeFailed, match=r"pip took longer|interrupted"):
        scene.upgrade(endless)
    scene.is_as_before()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_goes_wrong_before_anything_was_replaced_leaves_the_old_version_running(
    tmp_path: Path, error: BaseException
) -> None:
    scene = Scene(tmp_path)

    def full(step: str) -> None:
        if step == "installing":
            raise error

    with pytest.raises(UpgradeFailed, match=r"nothing was changed: (.*No space left|interrupted)"):
        scene.upgrade(reached=full)
    scene.is_as_before()


def test_a_second_upgrade_waits_for_nobody_and_breaks_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    def meanwhile(_: int) -> None:
        with pytest.raises(UpgradeFailed, match="another upgrade is under way"):
            scene.upgrade()
        scene.install_new()

    scene.upgrade(meanwhile)
    assert scene.service.running == "new"


def test_what_arrived_while_the_new_version_ran_is_kept_when_the_old_one_can_read_it(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    answers = iter(["", "channels are down"])

    def healthy() -> str:
        found = next(answers)
        if found:
            scene.sql("INSERT INTO said VALUES ('meanwhile')")
        return found

    with pytest.raises(UpgradeFailed, match="channels are down"):
        scene.upgrade(healthy=healthy)
    scene.is_as_before()
    assert scene.words() == ["before", "meanwhile"]


def test_a_store_the_old_version_cannot_read_is_put_aside_and_the_copy_returns(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, wants=lambda version: version == "old")

    def migrating(_: int) -> None:
        scene.install_new()
        scene.sql("UPDATE meta SET value = '2'", "DELETE FROM said")

    with pytest.raises(UpgradeFailed):
        scene.upgrade(migrating)
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
