"""Random lines are judged; what is allowed runs under strace, and is held against what was
judged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ohmo.contracts.tool import Footprint
from tests.differential.box import Box, Job
from tests.differential.compare import beyond
from tests.differential.generator import Generator
from tests.differential.judged import Judged, judged
from tests.differential.rules import KINDS, STUBS, Kind, runs_here
from tests.differential.splitting import split_otherwise
from tests.unit.permissions.attack_scenes import Scene, plain, write

_BATCH = 1000


@dataclass
class Report:
    """``plain``: lines that were split as bash splits them; ``free``: that ran unasked without a
    rule, ``handed``: of these such in which programs are handed paths that nobody knew; ``ruled``:
    only with one. ``findings``: one line each."""

    strings: int = 0
    plain: int = 0
    free: int = 0
    handed: int = 0
    ruled: int = 0
    findings: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return (
            f"{self.strings} strings: {self.plain} split, {self.free} run unasked"
            f" ({self.handed} hand paths on), {self.ruled} by a rule, {len(self.findings)} findings"
        )


@dataclass(frozen=True)
class Allowed:
    line: str
    rule: Kind | None
    judged: Judged


@dataclass
class _Batch:
    plain: list[tuple[str, Judged]] = field(default_factory=list[tuple[str, Judged]])
    allowed: list[Allowed] = field(default_factory=list[Allowed])

    def take(self, line: str, scene: Scene, draw: random.Random) -> None:
        """Split as bash does it: every line of the plain language, whatever it would run."""
        words = judged(line, scene)
        if scene.house.shell.parse(line, scene.work).plain:
            self.plain.append((line, words))
        house = scene.house  # what its cage would be opened to is found for every line
        house.policy().opened(Footprint(command=line), house.context(), (), person=True)
        if scene.house.bash(line).verdict == "allow":
            self.allowed.append(Allowed(line, None, words))
            return
        fitting = [kind for kind in KINDS if " ".join(kind.words) in line]
        kind = draw.choice(fitting or KINDS)
        if scene.house.bash(line, allow=[kind.rule]).verdict == "allow":
            self.allowed.append(Allowed(line, kind, words))


def house_with_stubs(root: Path) -> Scene:
    """The house of the attack list; what the rules name and a test cannot let run is a stub before
    the system's programs."""
    scene = plain(root)
    # nobody sees from a name below a folder that a file has another elsewhere
    (scene.work / "hard.txt").unlink()
    _names_of_all_kinds(scene)
    for name in STUBS:
        write(root / "stubs" / name, "#!/bin/sh\nexit 0\n", 0o755)
    return Scene(scene.root, scene.home, scene.work, f"{root}/stubs:{scene.path}")


def _names_of_all_kinds(scene: Scene) -> None:
    """Folders whose names are told to other programs: ordinary ones, some that come apart at blanks
    and quotes, some like options, and links."""
    for name in (
        "nest/one.py",
        "nest/two/three.py",
        "nest/two/-n",
        "nest/two/four.txt",
        "nest/x=1",
    ):
        write(scene.work / name, "x = 1\ny\n")
    (scene.work / "nest" / "again.py").symlink_to("two/three.py")
    secret = scene.home / ".netrc"
    for name in ("a b.py", "it's.py", "a\nb.py", f"x {secret}", f"y\n{secret}", "-o", "{}", "*"):
        write(scene.work / f"odd/{name}", "x = 1\n")
    for name in ("-o", "-ox", "--pre=evil", "-exec", "-f", "@x", "+x", "a=b"):
        write(scene.work / "flags" / name, "x = 1\n")
    write(scene.work / "cut" / "a" / str(secret)[1:], "x = 1\n")  # its end is another path
    (scene.work / "leads").mkdir()
    (scene.work / "leads" / "x.py").symlink_to(secret)
    (scene.work / "leads" / "deeper").symlink_to(scene.home)


def hunt(root: Path, strings: int, seed: int, workers: int = 2) -> Iterator[Report]:
    """Reports so far, after each batch. The same seed judges the same lines."""
    scene, report, draw = house_with_stubs(root), Report(), random.Random(seed)
    generator = Generator(seed, scene)
    with Box(scene.root, workers) as box, Box(scene.root, workers, sealed=True) as sealed:
        while report.strings < strings:
            lines = [generator.line() for _ in range(min(_BATCH, strings - report.strings))]
            batch = _Batch()
            for line in dict.fromkeys(lines):
                try:
                    batch.take(line, scene, draw)
                except Exception as error:
                    report.findings.append(f"{line!r}: the judge fell over: {error!r}")
            report.strings += len(lines)
            report.plain += len(batch.plain)
            report.free += sum(one.rule is None for one in batch.allowed)
            report.handed += sum(one.rule is None and one.judged.hands_on for one in batch.allowed)
            report.ruled += sum(one.rule is not None for one in batch.allowed)
            report.findings += split_otherwise(sealed, batch.plain, scene)
            report.findings += _run(box, batch.allowed, scene)
            yield report


def _run(box: Box, allowed: list[Allowed], scene: Scene) -> list[str]:
    """Findings, each with the line that is to blame and its rule."""
    found = [
        f"{one.line!r} {one.rule.rule}: {list(argv)} goes beyond the rule"
        for one in allowed
        for argv in one.judged.argv
        if one.rule is not None and one.rule.goes_beyond(argv)
    ]
    running = [one for one in allowed if all(runs_here(argv) for argv in one.judged.argv)]
    told = box.run(Job(one.line, scene.work, scene.env(one.line)) for one in running)
    for one, ran in zip(running, told, strict=True):
        rule = one.rule.rule if one.rule is not None else "unasked"
        found += [f"{one.line!r} {rule}: {what}" for what in beyond(ran, one.judged, scene)]
    return found
