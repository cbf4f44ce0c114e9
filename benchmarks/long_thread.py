"""A conversation of 10 000 turns in a window of 32 768 tokens: ``python -m benchmarks.long_thread``.
The real house with its store on disk and a scripted model behind a real endpoint, whose summaries
keep nothing of what matters. Printed: how often it was made shorter, what of 200 facts is where in
the end, whether a goal or a refusal was ever missing in a request, whether the log gives the same
bytes, and what late turns cost beside early ones. Ends with 1 when a figure of ``docs/context.md`` is
not held.

``--interrupted N``: before it N turns that break off anywhere, every request looked at; ``--turns 0``:
nothing else."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import structlog

from channels.record import record
from ohmo.contracts.messages import Compaction
from ohmo.discovery import load, scan
from ohmo.providers.build import manifests, model
from ohmo.providers.models import Endpoint
from ohmo.tools.archive_search import ArchiveSearch, ArchiveSearchInput
from ohmo_testing.channels import FakePlatform
from ohmo_testing.house import House, ManualClock, ScriptedProvider, World, house
from tests.makers import call_context
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer, serving

WINDOW = 32_768
LOOK = 250  # turns between looks for what must never be missing
NAMES = ("Lan", "Bảo", "Huế", "Đức", "Ngọc", "Mai", "Quân", "Trinh", "Sơn", "Vy")
PLACES = (
    "Hải Phòng",
    "Đà Lạt",
    "Cần Thơ",
    "Leeds",
    "Porto",
    "Kyoto",
    "Lima",
    "Oslo",
    "成都",
    "西安",
)
GOALS = (
    "Our goal is a warehouse in Oslo by May.",
    "The goal for spring: two new drivers.",
    "Mục tiêu của quý này là giảm trả hàng.",
    "我们的目标是年底开第三家店。",
    "The objective of the audit is a clean ledger.",
)


@record
class Fact:
    """``words`` as somebody says them, ``query`` as it is asked for later, ``core`` what has to be
    in the answer."""

    kind: str
    words: str
    query: str
    core: str


def facts() -> Iterator[Fact]:
    for n in range(50):
        name = f"{NAMES[n % 10]} {n}"
        place = PLACES[n * 7 % 10]
        yield (
            Fact(
                "name",
                f"The contact in {place} {n} is called {name}.",
                f"contact {place} {n}",
                name,
            ),
            Fact(
                "name",
                f"Người phụ trách ở {place} {n} tên là {name}.",
                f"nguoi phu trach {place} {n}",
                name,
            ),
            Fact("name", f"{place}{n}号仓库的负责人叫{name}。", f"{place} {n} 仓库负责人", name),
        )[n % 3]
    for n in range(50):
        number = str(48_000 + n * 37)
        yield (
            Fact(
                "number",
                f"Gate {n} of the depot opens with {number}.",
                f"gate {n} depot opens",
                number,
            ),
            Fact("number", f"Mã cổng số {n} của kho là {number}.", f"ma cong so {n} kho", number),
            Fact("number", f"第{n}号门的密码是 {number}。", f"第 {n} 号门密码", number),
        )[n % 3]
    for n in range(40):
        core = f"R{n}"
        yield (
            Fact(
                "refusal",
                f"Never send the report {core} to the press.",
                f"report {core} press",
                core,
            ),
            Fact(
                "refusal",
                f"Đừng gọi cho khách {core} vào buổi tối.",
                f"khach {core} buoi toi",
                core,
            ),
            Fact("refusal", f"不要删除 {core} 的备份。", f"{core} 备份", core),
        )[n % 3]
    for n in range(60):
        core = f"T{n}"
        yield (
            Fact(
                "task",
                f"Still open: task {core}, paint the fence behind hall {n}.",
                f"task {core} fence",
                core,
            ),
            Fact(
                "task", f"Còn lại việc {core}: sơn hàng rào nhà {n}.", f"viec {core} hang rao", core
            ),
            Fact("task", f"待办 {core}：粉刷{n}号楼的栅栏。", f"待办 {core} 栅栏", core),
        )[n % 3]


@dataclass(slots=True)
class Talk:
    """What the model server saw."""

    sizes: list[int] = field(default_factory=list)  # bytes of each request
    kept: list[tuple[int, int]] = field(default_factory=list)  # bytes of a prefix, of how many
    before: bytes = b""
    last: bytes = b""

    def answer(self, asked: Asked) -> Turn:
        raw = asked.raw
        same = next(
            (at for at, (a, b) in enumerate(zip(self.before, raw, strict=False)) if a != b), 0
        )
        self.kept.append((same, max(1, len(self.before) - 2)))
        self.sizes.append(len(raw))
        self.before = raw if len(self.sizes) <= 80 else b""
        self.last = raw
        messages = asked.body["messages"]
        if messages[-1]["role"] != "tool" and "look" in asked.said:
            return Turn(calls=(Call("Read", {"file_path": "notes.txt"}),))
        return Turn(text="Noted, and nothing else to say about it for now. " * 2)


async def main(turns: int, seed: int) -> int:
    chance = random.Random(seed)
    planted = list(facts())
    chance.shuffle(planted)
    when = dict(
        zip(sorted(chance.sample(range(30, turns - turns // 20), 200)), planted, strict=True)
    )
    free = sorted(set(range(5, turns // 2)) - when.keys())
    goals = dict(zip(sorted(chance.sample(free, 5)), GOALS, strict=True))
    talk = Talk()
    times: list[float] = []
    missing = 0
    with tempfile.TemporaryDirectory() as folder:
        async with serving(ModelServer(default=talk.answer)) as server:
            server.keep = False
            server.summary = lambda _: Turn(text="Facts:\n- they talked about this and that")
            endpoint = Endpoint("openai", ("local-1",), server.url, "k", window=WINDOW)
            brain = await model([endpoint], manifests(scan), load, {})
            clock = ManualClock()
            world = World(
                Path(folder) / "home",
                FakePlatform(clock=clock),
                ScriptedProvider(),
                clock,
                brain=brain,
            )
            world.work.mkdir(parents=True, exist_ok=True)
            (world.work / "notes.txt").write_text("a line of notes that says little\n" * 40)
            async with house(world) as built:
                for number in range(turns):
                    words = f"{number} what else is there to say about the day"
                    if number % 5 == 2:
                        words = f"{number} look into the notes"
                    if number in when:
                        words = f"{when[number].words} ({number})"
                    elif number in goals:
                        words = goals[number]
                    start = time.process_time()
                    await world.platform.says(words)
                    await _answered(world, number + 1)
                    times.append(time.process_time() - start)
                    if number % LOOK == LOOK - 1:
                        before = [
                            fact.words
                            for at, fact in when.items()
                            if at <= number and fact.kind == "refusal"
                        ]
                        before += [goal for at, goal in goals.items() if at <= number]
                        last = talk.last.decode()
                        missing += sum(words not in last for words in before)
                    if number and number % 1_000 == 0:
                        print(
                            f"  {number} turns, {len(server.summaries)} summaries", file=sys.stderr
                        )
                fine = await _report(built, planted, talk, times, len(server.summaries), missing)
            await brain.aclose()
    return 0 if fine else 1


async def _answered(world: World, count: int) -> None:
    chat = world.platform.chats["dm:ada"]
    await world.platform.until(
        lambda _: len(chat) >= 2 * count and chat[-1].by_bot and "Noted" in chat[-1].text, 60.0
    )


async def _report(
    built: House, planted: list[Fact], talk: Talk, times: list[float], summaries: int, missing: int
) -> bool:
    (info,) = [one for one in await built.store.threads() if one.address.channel == "fake"]
    log = await built.store.steps(info.thread, 0)
    steps = [step for _, step in log if isinstance(step, Compaction)]
    kinds = Counter(
        "summary" if step.summary else "lines" if not step.carry else "cut" for step in steps
    )
    last = talk.last.decode()
    archived = max((max(step.keeps_from, step.clears_before) for step in steps), default=0)
    tool = cast("ArchiveSearch", built.agent.toolbox.tools()["ArchiveSearch"])
    context = call_context(Path("/"), thread=info.thread, archived=archived)
    places: Counter[tuple[str, str]] = Counter()
    looks: list[float] = []
    for fact in planted:
        start = time.perf_counter()
        hits = (await tool.run(ArchiveSearchInput(query=fact.query), context)).result.text
        looks.append(time.perf_counter() - start)
        where = "lost"
        if fact.words in last:
            where = "sent"
        elif any(fact.core in line and fact.words[:12] in line for line in hits.splitlines()):
            where = "top 5"
        places[fact.kind, where] += 1
        if where == "lost":
            print(f"  lost: {fact.words} <- {fact.query}\n{hits}", file=sys.stderr)
    goals = sum(goal in last for goal in GOALS)
    found = await built.replaying(info)
    early, late = (statistics.median(times[at - 8 : at + 8]) for at in (20, 500))
    same = sum(min(one, two) for one, two in talk.kept[1:27])
    whole = sum(two for _, two in talk.kept[1:27])
    turns = len(times)
    print(f"turns {turns}, steps {len(log)}, made shorter {len(steps)} times: {dict(kinds)}")
    print(f"a summary every {turns / max(1, summaries):.0f} turns ({summaries} asked for)")
    print(f"facts: {dict(sorted(places.items()))}; goals sent: {goals} of {len(GOALS)}")
    print(f"goals and refusals missing in one of {turns // LOOK} requests on the way: {missing}")
    print(
        f"a search of all below number {archived}: median {statistics.median(looks) * 1e3:.0f} ms, most {max(looks) * 1e3:.0f} ms"
    )
    print(
        f"replay: {found.same} of {found.calls} requests the same, difference: {found.difference}"
    )
    print(
        f"CPU, the model's server in it: turn 20: {early * 1e3:.1f} ms, turn 500: {late * 1e3:.1f}"
        f" ms, ratio {late / early:.2f}; the last 100: {statistics.median(times[-100:]) * 1e3:.1f} ms"
    )
    print(
        f"byte prefix kept over 20 turns: {100 * same / whole:.2f} %; largest request {max(talk.sizes)} bytes"
    )
    refused = places["refusal", "sent"]
    lost = sum(count for (_, where), count in places.items() if where == "lost")
    return (
        not lost
        and refused == 40
        and goals == len(GOALS)
        and found.difference is None
        and turns >= 15 * summaries
        and not missing
        and same >= 0.99 * whole
        and late <= 1.3 * early
    )


def interrupted(turns: int) -> int:
    """100 turns each of conversations that break off anywhere."""
    sys.path.insert(0, "tests/unit/sessions")
    talks: Any = __import__("long_talks")
    judge: Any = __import__("interrupted")

    async def one(seed: int) -> int:
        talking = talks.Talking(seed)
        wrong = 0
        for _ in range(100):
            await talking.turn()
            wrong += bool(judge.faults(talks.asked(talking.transcript.visible())))
        wrong += talking.again().visible() != talking.transcript.visible()
        steps = [step for _, step in talking.log if isinstance(step, Compaction)]
        wrong += sum(step.tokens[1] >= step.tokens[0] for step in steps)
        await talking.compacting.aclose()
        return wrong

    wrong = sum(asyncio.run(one(seed)) for seed in range(turns // 100))
    print(
        f"interrupted turns {turns // 100 * 100}: {wrong} requests that no service would take, other"
        " bytes after a restart, or steps that made nothing shorter"
    )
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--interrupted", type=int, default=0)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    code = interrupted(given.interrupted) if given.interrupted else 0
    if given.turns:
        code += asyncio.run(main(given.turns, given.seed))
    sys.exit(bool(code))
