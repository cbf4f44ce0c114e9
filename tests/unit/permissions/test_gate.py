"""The gate's order: policy, then what a person already said about exactly this call."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from permission_house import House, judged_by

from channels.contract import Choice
from ohmo.contracts.messages import Layer, ToolCall
from ohmo.contracts.outbox import Grant
from ohmo.contracts.tool import Allow, Ask, Deny, Footprint, Judged, Question, Verdict
from ohmo.permissions.gate import LayeredGate, digest_of
from ohmo.shell import git_repository
from ohmo.tools.catalogue import load_tools
from ohmo.tools.workbench import Workbench


async def no_grants() -> Sequence[Grant]:
    return ()


class Said:
    """What a person said, by digest; each is used once."""

    def __init__(self, **verdicts: Verdict) -> None:
        self.verdicts = verdicts
        self.asked: list[str] = []

    async def __call__(self, digest: str) -> Verdict | None:
        self.asked.append(digest)
        return self.verdicts.pop(digest, None)


def bash(command: str) -> tuple[ToolCall, Footprint]:
    return ToolCall("t.1", "Bash", {"command": command}, ""), Footprint(command=command)


async def test_a_change_is_asked_about_with_four_choices(house: House) -> None:
    gate = LayeredGate(judged_by(house.policy()), no_grants)
    call, footprint = bash("touch x")
    decision = await gate.judge(call, footprint, house.context(), Said())
    assert isinstance(decision, Ask)
    assert [
        choice.value for choice in decision.question.choices
    ] == "once session always deny".split()
    assert all(
        len(choice.value) <= 40 and choice.value.isascii() for choice in decision.question.choices
    )
    assert decision.question.digest == digest_of(call, house.context())
    assert "touch x" in decision.question.title
    assert "mode: default" in decision.layer


async def test_what_cannot_be_remembered_offers_no_remembering(house: House) -> None:
    gate = LayeredGate(judged_by(house.policy(ask=["Bash(touch:*)"])), no_grants)
    decision = await gate.judge(*bash("touch x"), house.context(), Said())
    assert isinstance(decision, Ask)
    assert [choice.value for choice in decision.question.choices] == ["once", "deny"]


async def test_an_answer_lets_exactly_this_call_through_once(house: House) -> None:
    gate = LayeredGate(judged_by(house.policy()), no_grants)
    call, footprint = bash("touch x")
    said = Said(**{digest_of(call, house.context()): Verdict("allowed", "once", "once", "ada")})
    assert isinstance(await gate.judge(*bash("touch y"), house.context(), said), Ask)
    assert isinstance(
        await gate.judge(call, footprint, replace(house.context(), person="bob"), said), Ask
    )
    assert isinstance(await gate.judge(call, footprint, house.context(), said), Allow)
    assert isinstance(await gate.judge(call, footprint, house.context(), said), Ask)


async def test_a_refusal_and_a_deadline_are_reasons_for_the_model(house: House) -> None:
    gate = LayeredGate(judged_by(house.policy()), no_grants)
    call, footprint = bash("touch x")
    digest = digest_of(call, house.context())
    denied = await gate.judge(
        call, footprint, house.context(), Said(**{digest: Verdict("denied", word="use y instead")})
    )
    assert isinstance(denied, Deny)
    assert (denied.layer, "use y instead" in denied.reason) == (Layer.PERSON, True)
    expired = await gate.judge(
        call, footprint, house.context(), Said(**{digest: Verdict("expired")})
    )
    assert isinstance(expired, Deny)
    assert (expired.layer, "in time" in expired.reason) == (Layer.LAPSED, True)


async def test_an_answer_does_not_open_what_is_sensitive_or_denied(house: House) -> None:
    gate = LayeredGate(judged_by(house.policy(deny=["Bash(touch:*)"])), no_grants)
    for command in ("cat ~/.ssh/id_rsa", "touch x"):
        call, footprint = bash(command)
        said = Said(**{digest_of(call, house.context()): Verdict("allowed")})
        assert isinstance(await gate.judge(call, footprint, house.context(), said), Deny)
        assert said.asked == []


async def test_a_question_waits_for_a_person_and_brings_the_word_back(house: House) -> None:
    gate = LayeredGate(judged_by(house.policy()), no_grants)
    question = Question("question", "Which?", "", (Choice("1", "red"), Choice("2", "blue")), "")
    call, footprint = (
        ToolCall("t.1", "AskUser", {"question": "Which?"}, ""),
        Footprint(effect="house", question=question),
    )
    asked = await gate.judge(call, footprint, house.context(), Said())
    assert isinstance(asked, Ask)
    assert asked.question.digest == digest_of(call, house.context())
    answered = await gate.judge(
        call,
        footprint,
        house.context(),
        Said(**{asked.question.digest: Verdict("allowed", word="2")}),
    )
    assert answered == Allow("question", "2")


async def test_a_hook_that_wants_a_person_is_heard_although_the_rules_allow_it(
    house: House,
) -> None:
    gate = LayeredGate(judged_by(house.policy()), no_grants)
    allowed = await gate.judge(*bash("ls"), house.context(), Said())
    assert isinstance(allowed, Allow)
    context = replace(house.context(), asks="careful: look first")
    asked = await gate.judge(*bash("ls"), context, Said())
    assert isinstance(asked, Ask)
    assert "careful: look first" in asked.question.detail
    assert not asked.question.rule  # no grant would help next time
    yes = Said(**{asked.question.digest: Verdict("allowed")})
    assert isinstance(await gate.judge(*bash("ls"), context, yes), Allow)


async def test_the_digest_depends_on_everything_that_matters_and_on_no_order(house: House) -> None:
    call = ToolCall("t.1", "Write", {"file_path": "a", "content": "b"}, "x")
    context = house.context()
    same = ToolCall("t.9", "Write", {"content": "b", "file_path": "a"}, "y")
    assert digest_of(call, context) == digest_of(same, context)
    others = [
        digest_of(replace(call, name="Edit"), context),
        digest_of(replace(call, arguments={"file_path": "a", "content": "c"}), context),
        digest_of(call, replace(context, person="bob")),
        digest_of(call, replace(context, cwd=house.home)),
    ]
    assert len({digest_of(call, context), *others}) == 5


async def test_a_long_command_is_shown_whole(house: House) -> None:
    command = "touch start\n" + "touch x\n" * 1000 + "touch the-end"
    decision = await LayeredGate(judged_by(house.policy()), no_grants).judge(
        *bash(command), house.context(), Said()
    )
    assert isinstance(decision, Ask)
    assert command in decision.question.detail
    assert decision.question.title == "Bash: touch start… (+1001 lines)"


async def test_what_is_allowed_names_the_resolved_paths_and_what_the_rules_forbid(
    house: House,
) -> None:
    """A tool opens these and nothing else, and asks of all that it comes upon."""
    gate = LayeredGate(
        judged_by(house.policy(deny=["Read(./private/**)", "Write(./src/**)"])), no_grants
    )
    (house.work / "notes").symlink_to("src")
    call, footprint = (
        ToolCall("t.1", "Read", {}, ""),
        Footprint(reads=(house.work / "notes" / "b.py",), effect="none"),
    )
    allowed = await gate.judge(call, footprint, house.context(), Said())
    assert isinstance(allowed, Allow)
    assert (allowed.judged.reads, allowed.judged.writes) == ((house.work / "src" / "b.py",), ())
    asked = ("private/diary.txt", "private", "src/b.py", "a.py")
    assert [allowed.judged.forbidden(str(house.work / path)) for path in asked] == [
        True,
        True,
        False,
        False,
    ]


async def test_every_policy_that_has_a_say_forbids(house: House) -> None:
    present, earlier = (house.policy(deny=[f"Read(./{name})"]) for name in ("notes.txt", "a.py"))
    gate = LayeredGate(judged_by(present, earlier), no_grants)
    allowed = await gate.judge(
        ToolCall("t.1", "Grep", {}, ""),
        Footprint(reads=(house.work,), effect="none"),
        house.context(),
        Said(),
    )
    assert isinstance(allowed, Allow)
    assert [
        allowed.judged.forbidden(str(house.work / path))
        for path in ("a.py", "notes.txt", "src/b.py")
    ] == [True, True, False]


async def test_an_answer_is_bound_to_the_file_that_a_link_leads_to(house: House) -> None:
    gate, link = LayeredGate(judged_by(house.policy()), no_grants), house.work / "here"
    call, footprint = ToolCall("t.1", "Write", {"file_path": "here"}, ""), Footprint(writes=(link,))
    link.symlink_to("a.py")
    asked = await gate.judge(call, footprint, house.context(), Said())
    assert isinstance(asked, Ask)
    assert asked.question.detail.startswith(f"leads to: `{house.work}/a.py`\n")
    link.unlink()
    link.symlink_to("notes.txt")
    said = Said(**{asked.question.digest: Verdict("allowed")})
    assert isinstance(await gate.judge(call, footprint, house.context(), said), Ask)
    link.unlink()
    link.symlink_to("a.py")
    assert isinstance(await gate.judge(call, footprint, house.context(), said), Allow)


@pytest.mark.parametrize(
    "path",
    "/dev/fd/3 /dev/./fd/0 //dev/fd/9 /dev/stdin /proc/self/fd/3 /proc/1/task/2/fd/3".split(),
)
async def test_an_open_descriptor_is_no_file_for_a_tool(house: House, path: str) -> None:
    gate = LayeredGate(judged_by(house.policy(allow=["Read", "Edit"])), no_grants)
    for footprint in (
        Footprint(reads=(Path(path),), effect="none"),
        Footprint(writes=(Path(path),)),
    ):
        refused = await gate.judge(
            ToolCall("t.1", "Read", {}, ""), footprint, house.context("full_auto"), Said()
        )
        assert isinstance(refused, Deny)
        assert "open descriptor" in refused.reason


async def test_an_approval_is_bound_to_a_command_that_no_argument_says(house: House) -> None:
    """As of ProjectTests, which finds it in the project; and to what was told of it."""
    gate = LayeredGate(judged_by(house.policy()), no_grants)
    call = ToolCall("t.1", "ProjectTests", {}, "")
    shown = Footprint(command="make test", note="runs: make test")
    asked = await gate.judge(call, shown, house.context(), Said())
    assert isinstance(asked, Ask)
    digest = asked.question.digest
    for other in (
        replace(shown, command=".venv/bin/pytest"),
        replace(shown, note="runs: make test, and a hook"),
    ):
        said = Said(**{digest: Verdict("allowed")})
        assert isinstance(await gate.judge(call, other, house.context(), said), Ask)
    allowed = await gate.judge(call, shown, house.context(), Said(**{digest: Verdict("allowed")}))
    assert allowed == Allow("approval: once", judged=Judged(command="make test"))
    # One of Bash that was asked by an earlier version is answered by the same digest.
    order, footprint = bash("touch x")
    noted = replace(footprint, note="whatever")
    assert digest_of(order, house.context(), None, noted) == digest_of(order, house.context())


async def test_a_repository_is_looked_through_beside_the_event_loop(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have ten thousand branches."""
    looked: list[threading.Thread] = []
    strange = git_repository._strange  # pyright: ignore[reportPrivateUsage]

    def looking(own: str, common: str) -> str:
        looked.append(threading.current_thread())
        return strange(own, common)

    monkeypatch.setattr(git_repository, "_strange", looking)
    bench = Workbench(house.home / "spill", house.sensitive, environ={"PATH": house.shell.path})
    tools = load_tools(bench)
    gate = LayeredGate(judged_by(house.policy()), no_grants)
    for name, arguments in (
        ("GitStatus", {}),
        ("Bash", {"command": "git log"}),
        ("Bash", {"command": "git grep needle"}),
        ("GitCommit", {"message": "x"}),
    ):
        call = ToolCall("t.1", name, arguments, "")
        footprint = tools[name].footprint(tools[name].parse(arguments), house.work)
        assert not isinstance(await gate.judge(call, footprint, house.context(), Said()), Deny)
    assert looked
    assert threading.main_thread() not in looked
