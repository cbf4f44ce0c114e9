"""Settings of a project: no file and no call for which they loosen anything; what was allowed holds
whatever becomes of the file; bad ones are one line each."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ohmo.approvals.trusting import NothingToTrust, TrustDesk
from ohmo.contracts.messages import ToolCall
from ohmo.contracts.tool import (
    Allow,
    Ask,
    CallContext,
    Deny,
    Footprint,
    Mode,
    Opened,
    PolicySnapshot,
    Verdict,
)
from ohmo.permissions.gate import LayeredGate, digest_of
from ohmo.permissions.policies import Policies
from ohmo.permissions.policy import Host, paths_of
from ohmo.permissions.project_settings import FILE, ProjectSettings, read
from ohmo.shell.parsing import DEFAULT_PATH
from ohmo.shell.reading import reads_only
from ohmo.skills.shelf import Skills
from tests.store_model.store import MemoryStore
from tests.unit.permissions.permission_house import House

NOW = datetime(2026, 7, 1, tzinfo=UTC)
BASE = {"permissions": {"deny": ["Bash(git push:*)"]}}


class Walls:
    holds = True

    async def settled(self) -> None:
        pass

    async def standing(self) -> object:
        return None


class Scene:
    def __init__(self, house: House, tmp_path: Path) -> None:
        self.house = house
        self.project = house.work
        self.file = house.work / FILE
        self.file.parent.mkdir(exist_ok=True)
        self.kept = tmp_path / "kept"
        self.now = NOW
        self.store = MemoryStore(clock=lambda: self.now)
        self.walls = Walls()
        self.host = Host(house.home, house.home / ".ohmo", DEFAULT_PATH)
        self.begin()

    def begin(self) -> None:
        """A new life of the daemon."""
        self.settings = ProjectSettings(self.kept, self.store)
        skills = Skills((), self.store, lambda _: None, {})
        more = (self.settings.candidates,)
        self.desk = TrustDesk(self.store, skills, self.project, more, settled=self.settings.refresh)

    async def allows(self, says: Any) -> None:
        self.now += timedelta(seconds=1)
        self.file.write_text(says if isinstance(says, str) else yaml.safe_dump(says))
        await self.desk.allow("project", str(self.file), "ada")

    def policies(self, mode: Mode = "default", **rules: Any) -> Policies:
        given = {"allow": (), "ask": (), "deny": (), "read_outside": "ask", **rules}
        kept = {"workspace": self.project, "closed": (), "busy": "queue"}
        snapshot = PolicySnapshot(mode=mode, **given, **kept)
        return Policies(snapshot, self.host, self.walls, self.settings)

    async def decides(
        self, policies: Policies, tool: str, what: str, context: CallContext, *, yes: bool = False
    ) -> Allow | Ask | Deny:
        call, footprint = self.call(tool, what)
        digest = digest_of(call, context, paths_of(footprint, context.cwd), footprint)

        async def said(asked: str) -> Verdict | None:
            found = Verdict("allowed", "once", "once", "ada") if yes else None
            return found if asked == digest else None

        async def none() -> tuple[()]:
            return ()

        gate = LayeredGate(policies.judging, none)
        return await gate.judge(call, footprint, context, said)

    def call(self, tool: str, what: str) -> tuple[ToolCall, Footprint]:
        if tool == "Bash":
            script = self.house.shell.parse(what, self.project)
            effect = "none" if reads_only(script) else "once"
            footprint = Footprint(
                script.reads, script.writes, (), what, effect, network=what.startswith("curl")
            )
            return ToolCall("t", tool, {"command": what}, ""), footprint
        footprint = {
            "Read": Footprint(reads=(Path(what),), effect="none"),
            "Write": Footprint(writes=(Path(what),), effect="once"),
            "WebFetch": Footprint(hosts=(what,), effect="none"),
        }.get(tool, Footprint(effect="once"))
        return ToolCall("t", tool, {"what": what}, ""), footprint


@pytest.fixture
def scene(house: House, tmp_path: Path) -> Scene:
    return Scene(house, tmp_path)


RULES = [
    *("Bash", "Bash(git:*)", "Bash(touch x)", "Read", "Read(./src/**)", "Edit(./src/**)", "Write"),
    *("Write(/srv/**)", "WebFetch", "WebFetch(domain:example.org)", "mcp__notes", "MemoryWrite"),
    "Read(~/private/**)",
]
CALLS = [
    ("Bash", "git status"),
    ("Bash", "git push"),
    ("Bash", "touch x"),
    ("Bash", "curl https://example.org"),
    ("Bash", "cat /srv/a"),
    ("Bash", "ls"),
    ("Read", "src/b.py"),
    ("Read", "/usr/include/stdio.h"),
    ("Write", "src/b.py"),
    ("Write", "/srv/x"),
    ("WebFetch", "example.org"),
    ("MemoryWrite", "x"),
    ("mcp__notes__add", "x"),
]
some_rules = st.lists(st.sampled_from(RULES), max_size=3, unique=True)
optional = st.fixed_dictionaries(
    {},
    optional={
        "permissions": st.fixed_dictionaries(
            {},
            optional={
                "mode": st.sampled_from(["default", "plan"]),
                "preset": st.sampled_from(["safe", "balanced"]),
                "ask": some_rules,
                "deny": some_rules,
                "read_outside": st.just("ask"),
            },
        ),
        "sandbox": st.just({"network": "off"}),
    },
)
STRICT = {Allow: 0, Ask: 1, Deny: 2}


def narrower(less: Opened, more: Opened) -> bool:
    """What a cage is opened to, with a file and without."""
    return (
        set(less.reads) <= set(more.reads)
        and set(less.writes) <= set(more.writes)
        and less.network <= more.network
        and less.house <= more.house
        and less.offline >= more.offline
    )


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    says=optional,
    rules=st.fixed_dictionaries({"allow": some_rules, "ask": some_rules, "deny": some_rules}),
    read_outside=st.sampled_from(["ask", "allow"]),
    mode=st.sampled_from(["default", "plan", "full_auto"]),
    role=st.sampled_from(["guest", "user", "owner"]),
    walled=st.booleans(),
    yes=st.booleans(),
)
async def test_no_file_loosens_any_call(
    scene: Scene,
    says: Any,
    rules: dict[str, list[str]],
    read_outside: Any,
    mode: Any,
    role: Any,
    walled: bool,
    yes: bool,
) -> None:
    scene.walls.holds = walled
    written = {name: tuple(each) for name, each in rules.items()}
    policies = scene.policies(mode, read_outside=read_outside, **written)
    context = scene.house.context(mode, role)
    await scene.desk.revoke("project", str(scene.file))
    without = [await scene.decides(policies, *call, context, yes=yes) for call in CALLS]
    await scene.allows(says)
    within = [await scene.decides(policies, *call, context, yes=yes) for call in CALLS]
    for call, before, after in zip(CALLS, without, within, strict=True):
        assert STRICT[type(after)] >= STRICT[type(before)], (call, before, after)
        if isinstance(before, Allow) and isinstance(after, Allow):
            assert narrower(after.judged.opened, before.judged.opened), call
            for path in ("src/b.py", "a.py", "/srv/x"):
                named = str(scene.project / path)
                assert after.judged.forbidden(named) >= before.judged.forbidden(named)


@pytest.mark.parametrize(
    ("says", "call", "layer"),
    [
        (BASE, ("Bash", "git push"), "deny: Bash(git push:*) ("),
        ({"permissions": {"ask": ["WebFetch"]}}, ("WebFetch", "example.org"), "ask: WebFetch ("),
        ({"permissions": {"preset": "safe"}}, ("WebFetch", "example.org"), "ask: WebFetch ("),
        ({"permissions": {"preset": "balanced"}}, ("Bash", "touch x"), "mode: default ("),
        ({"permissions": {"mode": "plan"}}, ("Write", "src/b.py"), "mode: plan ("),
        ({"permissions": {"deny": ["Edit(./src/**)"]}}, ("Write", "src/b.py"), "deny: Edit("),
        ({"sandbox": {"network": "off"}}, ("WebFetch", "x.org"), "deny: WebFetch ("),
        ({"sandbox": {"network": "off"}}, ("Bash", "curl x.org"), "deny: sandbox.network: off ("),
    ],
)
async def test_what_it_is_stricter_in_names_the_file(
    scene: Scene, says: Any, call: tuple[str, str], layer: str
) -> None:
    policies, context = scene.policies("full_auto"), scene.house.context("full_auto")
    await scene.allows(says)
    decision = await scene.decides(policies, *call, context)
    assert not isinstance(decision, Allow)
    named = decision.source if isinstance(decision, Deny) else decision.layer
    assert named.startswith(layer)
    assert str(scene.file) in named
    below = scene.project / "src"
    elsewhere = scene.project.parent
    for cwd, holds in ((below, True), (elsewhere, False)):
        assert bool(scene.settings.over(cwd)) is holds


async def test_without_a_sandbox_no_network_is_asked_about(scene: Scene) -> None:
    await scene.allows({"sandbox": {"network": "off"}})
    policies, context = scene.policies("full_auto"), scene.house.context("full_auto")
    allowed = await scene.decides(policies, "Bash", "touch x", context)
    assert isinstance(allowed, Allow)
    assert allowed.judged.opened.offline
    scene.walls.holds = False
    asked = await scene.decides(policies, "Bash", "touch x", context)
    assert isinstance(asked, Ask)
    assert "no sandbox holds that" in asked.question.detail
    assert isinstance(await scene.decides(policies, "Bash", "ls", context), Allow)


async def test_what_was_allowed_holds_whatever_becomes_of_the_file(scene: Scene) -> None:
    async def refuses() -> bool:
        policies, context = scene.policies("full_auto"), scene.house.context("full_auto")
        return isinstance(await scene.decides(policies, "Bash", "git push", context), Deny)

    scene.file.write_text(yaml.safe_dump(BASE))
    await scene.settings.refresh()
    assert not await refuses()
    await scene.allows(BASE)
    assert await refuses()
    assert await scene.desk.waiting() == []
    scene.file.write_text(yaml.safe_dump(BASE) + "\n")  # one byte
    (waiting,) = await scene.desk.waiting()
    assert waiting.may == (
        "tightens: refuses Bash(git push:*); until then the version that was allowed before holds"
    )
    for spoil in (
        lambda: scene.file.write_text("permissions: ["),
        scene.file.unlink,
        lambda: os.mkfifo(scene.file),
    ):
        spoil()
        scene.begin()
        await scene.settings.refresh()
        assert await refuses()
    scene.file.unlink()
    await scene.allows({"permissions": {"ask": ["WebFetch"]}})
    assert not await refuses()
    await scene.allows(BASE)  # an earlier version, allowed again
    assert await refuses()
    assert len(list(scene.kept.iterdir())) == 1
    assert await scene.desk.revoke("project", str(scene.file)) == 1
    assert not await refuses()


async def test_where_nobody_knows_what_was_allowed_nothing_is_changed(scene: Scene) -> None:
    await scene.allows(BASE)
    shutil.rmtree(scene.kept)
    scene.begin()
    await scene.settings.refresh()  # the file itself is still what was allowed
    assert scene.settings.over(scene.project)[0].lost == ""
    shutil.rmtree(scene.kept)
    scene.file.write_text("{}")
    scene.begin()
    await scene.settings.refresh()
    policies, context = scene.policies("full_auto"), scene.house.context("full_auto")
    denied = await scene.decides(policies, "Bash", "touch x", context)
    assert isinstance(denied, Deny)
    assert "not known any more" in denied.reason
    policies = scene.policies("full_auto", allow=("Bash(touch x)",))
    assert isinstance(await scene.decides(policies, "Bash", "touch x", context), Deny)
    assert isinstance(await scene.decides(policies, "Bash", "ls", context), Allow)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("permissions: {allow: [Bash]}", ":1: permissions.allow: a project can only tighten"),
        ("permissions: {mode: full_auto}", ":1: permissions.mode: expected one of default, plan"),
        ("permissions: {preset: full}", ":1: permissions.preset: expected one of safe, balanced"),
        ("permissions: {read_outside: allow}", ":1: permissions.read_outside: expected one of ask"),
        ("sandbox: {network: on}", ":1: sandbox.network: expected one of off"),
        ("permissions: {deny: [bash]}", ":1: permissions.deny[0]: there is no tool 'bash'"),
        ("permissions: {deny: ['WebFetch(x)']}", "WebFetch takes domain:HOST"),
        ("model: gpt-5", ":1: model: unknown key"),
        ("permissions: [", "settings.yaml:"),
        ("- x", "settings.yaml:1: expected keys and values"),
        ("x" * 70_000, "settings.yaml: "),
    ],
)
async def test_bad_settings_are_one_line_and_cannot_be_allowed(
    scene: Scene, text: str, line: str
) -> None:
    scene.file.write_text(text)
    (found,) = await scene.desk.waiting()
    assert line in found.broken
    assert found.broken.startswith(FILE)
    assert "\n" not in found.broken
    with pytest.raises(NothingToTrust, match=r"settings\.yaml"):
        await scene.desk.allow("project", str(scene.file), "ada")
    await scene.settings.refresh()
    assert scene.settings.over(scene.project) == ()


def test_the_bytes_need_to_be_text() -> None:
    with pytest.raises(ValueError, match="not UTF-8 text at byte 0"):
        read(b"\xff", Path("/x"))


async def test_a_link_that_is_turned_elsewhere_keeps_its_settings(
    scene: Scene, tmp_path: Path
) -> None:
    one, other, link = tmp_path / "one", tmp_path / "other", tmp_path / "link"
    for folder in (one, other):
        (folder / ".ohmo").mkdir(parents=True)
        (folder / FILE).write_text("sandbox: {network: off}\n")
    link.symlink_to(one)
    await scene.desk.allow("project", f"{link}/{FILE}", "ada")
    assert scene.settings.over(link)
    assert not scene.settings.over(other)
    link.unlink()
    link.symlink_to(other)
    assert scene.settings.over(link / "below")
    assert scene.settings.over(one), "what it tightened stays tight"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o700, 0o755])
async def test_what_was_allowed_holds_without_its_file_whether_that_may_be_run_or_not(
    scene: Scene, mode: int
) -> None:
    """That is a part of the content, which the copy has too."""
    scene.file.write_text(yaml.safe_dump(BASE))
    scene.file.chmod(mode)
    await scene.allows(BASE)
    scene.file.unlink()
    scene.begin()
    await scene.settings.refresh()
    (held,) = scene.settings.over(scene.project)
    assert (held.lost, held.deny) == ("", ("Bash(git push:*)",))
