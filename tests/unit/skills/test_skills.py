"""Skills: what of a folder is read, which of two counts, who has to trust what; bad ones are one
line each and nothing else suffers."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ohmo.approvals.trusting import NothingToTrust, TrustDesk
from ohmo.content import MOST_BYTES, Unfit, content_of
from ohmo.skills.folder import BadSkill, read_skill
from ohmo.skills.shelf import BUNDLED, HEAD, Place, Skills, in_lines
from tests.store_model.store import MemoryStore

NOW = datetime(2026, 7, 1, tzinfo=UTC)


def skill(place: Path, name: str, text: str | None = None, **files: bytes) -> Path:
    folder = place / name
    folder.mkdir(parents=True)
    written = (
        text
        if text is not None
        else f"---\nname: {name}\ndescription: For {name}.\n---\nDo {name}.\n"
    )
    (folder / "SKILL.md").write_text(written)
    for file, data in files.items():
        (folder / file).write_bytes(data)
    return folder


class Rig:
    def __init__(self, root: Path) -> None:
        self.home, self.named, self.project = root / "home", root / "named", root / "project"
        self.project.mkdir()
        self.store = MemoryStore(clock=lambda: NOW)
        self.now = 0.0
        places = (
            Place("user", self.home, owned=True),
            Place("user", self.named, owned=False),
            Place("bundled", BUNDLED, owned=True),
        )
        self.skills = Skills(
            places,
            self.store,
            lambda _: self.project,
            {"PATH": "/usr/bin:/bin"},
            monotonic=lambda: self.now,
        )
        self.desk = TrustDesk(self.store, self.skills, self.project)

    async def states(self) -> dict[str, str]:
        self.now += 10
        shelf = await self.skills.look(self.project)
        return {
            f"{one.source}:{one.path.name}": one.state
            for one in shelf.entries
            if one.source != "bundled"
        }

    async def names(self) -> set[str]:
        self.now += 10
        bundled = {"ci-report", "commit-and-pr", "careful-review"}
        return set((await self.skills.look(self.project)).ready) - bundled


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_those_that_come_with_ohmo_are_ready_and_short(rig: Rig) -> None:
    shelf = await rig.skills.look(rig.project)
    assert sorted(shelf.ready) == ["careful-review", "ci-report", "commit-and-pr"]
    told = in_lines(shelf.ready)
    assert told.startswith(HEAD)
    assert len(told) < 800
    assert all(len(each.body) < 2_000 for each in shelf.ready.values())


async def test_what_a_project_brings_counts_once_it_is_trusted_and_a_changed_byte_asks_again(
    rig: Rig,
) -> None:
    folder = skill(rig.project / ".claude" / "skills", "deploy", data=b"1")
    assert await rig.states() == {"project:deploy": "untrusted"}
    assert await rig.names() == set()
    (waiting, project) = await rig.desk.waiting()
    assert (waiting.kind, waiting.name, project.kind) == ("skill", "deploy", "project")
    await rig.desk.allow("skill", "deploy", "ada")
    assert await rig.names() == {"deploy"}
    assert await rig.desk.waiting() == []
    (folder / "data").write_bytes(b"2")  # as long as before, and no part of the manifest
    assert await rig.states() == {"project:deploy": "untrusted"}
    (folder / "data").write_bytes(b"1")
    assert await rig.names() == {"deploy"}
    assert await rig.desk.revoke("skill", "deploy") == 1
    assert await rig.names() == set()


async def test_a_whole_project_can_be_trusted_and_a_new_skill_in_it_asks_again(rig: Rig) -> None:
    skill(rig.project / ".ohmo" / "skills", "one")
    await rig.desk.allow("project", str(rig.project), "ada")
    assert await rig.names() == {"one"}
    skill(rig.project / ".claude" / "skills", "two")
    assert await rig.names() == set()
    await rig.desk.allow("project", str(rig.project), "ada")
    assert await rig.names() == {"one", "two"}


async def test_only_what_was_shown_is_allowed(rig: Rig) -> None:
    skill(rig.project / ".ohmo" / "skills", "one")
    with pytest.raises(NothingToTrust, match="not the content that was shown"):
        await rig.desk.allow("skill", "one", "ada", digest="0" * 12)
    with pytest.raises(NothingToTrust, match="nothing waits; ohmo trust list"):
        await rig.desk.allow("skill", "two", "ada")
    skill(rig.named, "one", "---\nname: one\n---\nanother\n")
    with pytest.raises(NothingToTrust, match="there are several, name one by --digest"):
        await rig.desk.allow("skill", "one", "ada")
    assert await rig.names() == set()


async def test_the_project_goes_before_the_user_and_nobody_untrusted_hides_another(
    rig: Rig,
) -> None:
    skill(rig.home, "deploy")
    other = skill(rig.project / ".ohmo" / "skills", "deploy", "---\nname: deploy\n---\nOther.\n")
    again = skill(rig.project / ".claude" / "skills", "again", "---\nname: deploy\n---\nThird.\n")
    assert (await rig.skills.look(rig.project)).ready["deploy"].body == "Do deploy."
    await rig.desk.allow("project", str(rig.project), "ada")
    rig.now += 10
    shelf = await rig.skills.look(rig.project)
    assert shelf.ready["deploy"].body == "Other."
    shadowed = [one for one in shelf.entries if one.state == "shadowed"]
    assert [one.path for one in shadowed] == [again, rig.home / "deploy"]
    assert {one.why for one in shadowed} == {f"{other} goes before it"}
    entry, content = await rig.skills.take(rig.project, "deploy")
    assert (entry.path, content.digest) == (other, shelf.ready["deploy"].digest)


async def test_what_comes_later_is_told_beside_the_list_of_the_beginning(rig: Rig) -> None:
    first = await rig.skills.told(rig.project, 1_500)
    assert rig.skills.later(rig.project) == ""
    skill(rig.home, "late")
    assert await rig.names() == {"late"}
    assert rig.skills.later(rig.project).endswith("\n- late: For late.")
    assert "late" not in first


def _ten_megabytes(folder: Path) -> None:
    (folder / "big").write_bytes(b"x" * (10 << 20))


def _leads_out(folder: Path) -> None:
    (folder / "notes").symlink_to("/etc/hostname")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


BAD = {
    "a: [b": "SKILL.md:3: its front matter is no YAML; quote text with colons",
    "version: !!bool foo": "its front matter is no YAML",
    'version: !!int ""': "its front matter is no YAML",
    "- a": "must be keys and values",
    "name: '../x'": "its name '../x' is not letters",
    'name: "a\\u202eb/"': "is not letters",
    f"name: {'x' * 65}": "at most 64 of them",
}


@pytest.mark.parametrize("head", BAD)
async def test_a_broken_head_is_one_line(rig: Rig, head: str) -> None:
    skill(rig.home, "bad", f"---\n{head}\n---\ntext\n")
    skill(rig.home, "good")
    assert await rig.names() == {"good"}
    (bad,) = [one for one in (await rig.skills.look(rig.project)).entries if one.state == "broken"]
    assert BAD[head] in bad.why
    assert "\n" not in bad.why
    with pytest.raises(BadSkill, match="bad: "):
        await rig.skills.take(rig.project, "bad")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_ten_megabytes, "it is larger than 8 MiB"),
        (_leads_out, "notes: a link that leads out of the folder"),
        (_pipe, "pipe: neither a file nor a folder of files"),
        (lambda folder: (folder / "SKILL.md").write_bytes(b"\xff\xfe"), "SKILL.md is not UTF-8"),
        (lambda folder: (folder / "SKILL.md").write_text("---\nname: x\n"), "has no end"),
        (lambda folder: (folder / "SKILL.md").write_bytes(b"x" * 300_000), "larger than 256 KiB"),
        (lambda folder: (folder / "SKILL.md").unlink(), "there is no SKILL.md"),
        (lambda folder: (folder / "SKILL.md").write_text(" \n"), "is empty"),
    ],
)
async def test_a_broken_folder_is_one_line_and_the_others_stay(rig: Rig, spoil, why: str) -> None:  # type: ignore[no-untyped-def]
    spoil(skill(rig.home, "bad"))
    skill(rig.home, "good")
    (rig.home / "link").symlink_to(rig.home / "good")
    assert await rig.names() == {"good"}
    lines = {one.name: one.why for one in (await rig.skills.look(rig.project)).entries if one.why}
    assert why in lines["bad"]
    assert "it is a link" in lines["link"]


def test_without_front_matter_the_folder_names_it_and_its_first_paragraph_describes_it(
    tmp_path: Path,
) -> None:
    long = "word " * 100
    read, _ = read_skill(skill(tmp_path, "plain", f"# Title\n\n{long}\n\nMore.\n"))
    assert (read.name, read.description) == ("plain", long[:200])


def test_a_published_head_is_read_whole(tmp_path: Path) -> None:
    read, _ = read_skill(
        skill(
            tmp_path,
            "x",
            "---\nname: pdf-tools\ndescription: >\n  Fills\n  forms.\nlicense: MIT\nallowed-tools: Bash(git add *) Read\n"
            "metadata:\n  openclaw: {requires: {bins: [sh], anyBins: [no-such, also-none], env: [NO_KEY]}}\n"
            "requires: [ohmo>=99.1, no-program]\n---\nBody\n",
        )
    )
    assert (read.name, read.description, read.body) == ("pdf-tools", "Fills forms.", "Body")
    assert read.tools == ("Bash(git add *)", "Read")
    assert read.needs.missing({"PATH": "/usr/bin:/bin"}) == (
        "it needs the program no-program, one of the programs no-such, also-none, the variable NO_KEY,"
        " ohmo 99.1 or newer (this is 0.1.0)"
    )


@pytest.mark.parametrize(
    "head",
    [
        f'allowed-tools: "a{" " * 8_000}b)"',
        f"a: {'[' * 8_000}",
        "a: " + '["]",' * 3_000,
        f"a: b: {' ' * 8_000}x",
    ],
)
def test_a_head_is_read_or_refused_at_once(tmp_path: Path, head: str) -> None:
    """Anybody may have written it, and nobody trusts it yet."""
    folder = skill(tmp_path, "x", f"---\n{head}\n---\nBody\n")
    began = time.monotonic()
    with suppress(BadSkill):
        read_skill(folder)
    assert time.monotonic() - began < 2


async def test_a_skill_that_a_plugin_names_itself_is_one(rig: Rig, tmp_path: Path) -> None:
    whole = skill(tmp_path, "whole", **{"notes.md": b"x"})
    places = (Place("plugin", whole, owned=True),)
    skills = Skills(places, rig.store, lambda _: rig.project, {"PATH": "/usr/bin:/bin"})
    assert set((await skills.look(rig.project)).ready) == {"whole"}
    entry, content = await skills.take(rig.project, "whole")
    assert (entry.source, set(content.files)) == ("plugin", {"SKILL.md", "notes.md"})


def test_words_with_a_colon_that_nobody_quoted_are_words(tmp_path: Path) -> None:
    """As the guide for clients of the Agent Skills specification wants it."""
    head = 'description: Use when: somebody says "tea": or \\ alone 🍵 \nlicense: MIT\nversion: 1.0'
    read, _ = read_skill(skill(tmp_path, "x", f"---\nname: tea\n{head}\n---\nBody\n"))
    assert read.description == 'Use when: somebody says "tea": or \\ alone 🍵'
    assert (read.name, read.version) == ("tea", "1.0")


async def test_what_lacks_something_is_not_offered(rig: Rig) -> None:
    skill(rig.home, "needy", "---\nname: needy\nrequires: {env: [NO_KEY]}\n---\nx\n")
    assert await rig.names() == set()
    assert (await rig.states())["user:needy"] == "broken"


def test_every_byte_name_and_bit_is_part_of_the_digest(tmp_path: Path) -> None:
    folder = skill(tmp_path, "x", a=b"1", b=b"2")
    seen = {content_of(folder).digest}

    def another() -> None:
        digest = content_of(folder).digest
        assert digest not in seen
        seen.add(digest)

    (folder / "a").write_bytes(b"3")
    another()
    (folder / "a").rename(folder / "c")
    another()
    (folder / "c").chmod(0o755)
    another()
    (folder / ".hidden").write_bytes(b"")
    another()
    (folder / "sub").mkdir()
    (folder / "b").rename(folder / "sub" / "b")
    another()
    (folder / "inner").symlink_to("sub/b")
    another()
    (folder / "sub" / "b").write_bytes(b"4")
    another()
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)  # the link becomes what it led to
    assert content_of(copy).digest == content_of(folder).digest


def test_a_bound_holds_for_all_files_together(tmp_path: Path) -> None:
    half = b"x" * (MOST_BYTES // 2)
    folder = skill(tmp_path, "x", a=half, b=half)
    with pytest.raises(Unfit, match="larger than"):
        content_of(folder)


def test_what_is_no_file_is_not_left_open(tmp_path: Path) -> None:
    folder = skill(tmp_path, "x")
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("sub")
    os.mkfifo(folder / "zz")
    before = list(Path("/proc/self/fd").iterdir())
    for _ in range(20):
        with pytest.raises(Unfit, match="neither a file nor"):
            content_of(folder)
    assert len(list(Path("/proc/self/fd").iterdir())) <= len(before)
