"""The one gate before every call, with the arguments it would run with: policy, then what a person
already answered. It never waits for anybody."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from channels.contract import Choice
from ohmo.contracts.messages import Layer, ToolCall
from ohmo.contracts.outbox import Grant
from ohmo.contracts.tool import (
    Allow,
    Ask,
    CallContext,
    Decision,
    Deny,
    Footprint,
    Judged,
    Opened,
    Question,
    Verdict,
)
from ohmo.permissions.boundaries import all_edits
from ohmo.permissions.policy import Paths, Policy, paths_of
from ohmo.permissions.rules import Ruling
from ohmo.permissions.sensitive_paths import names_descriptor
from ohmo.permissions.wording import about, argument, detail_of, offered, title_of, why_asked
from ohmo.shell.hosts import is_local

Grants = Callable[[], Awaitable[Sequence[Grant]]]
Judging = Callable[[CallContext], Sequence[Policy]]
"""The policies that have a say in a call, the present one first; each time anew."""
Answered = Callable[[str], Awaitable[Verdict | None]]

_NETWORK = "it gets the network, and no rule names what needs it"
_ELSEWHERE = re.compile(r"[/~]|\.\.")
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
_ONCE = Choice("once", "Allow once", "good")
_DENY = Choice("deny", "Deny", "danger")
_CHANGED = Deny(
    "approval",
    "what it would touch or run changed while the person was asked (a link leads elsewhere, it"
    " works in another folder, or the project has another command or hook), so it was not run; ask"
    " for it again if it is still wanted",
    Layer.CHANGED,
)
_EDITS = Choice("workspace", "Allow all edits in this workspace")
_REMEMBERED = (Choice("session", "Allow for this session"), Choice("always", "Always allow"))


def digest_of(
    call: ToolCall,
    context: CallContext,
    paths: Paths | None = None,
    footprint: Footprint | None = None,
) -> str:
    """What an approval is bound to: tool, final arguments, working directory, person, the files
    that its paths lead to, the hosts that it is to reach, and a command that the arguments do not
    say, with what is told of it."""
    body: list[object] = [call.name, dict(call.arguments), str(context.cwd), context.person]
    if paths is not None and (paths.reads or paths.writes):
        body += [paths.reads, paths.writes]
    if footprint is not None and footprint.command not in (None, call.arguments.get("command")):
        body += [footprint.command, footprint.note]
    if footprint is not None and footprint.names:
        body.append(sorted(footprint.names))
    text = json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class LayeredGate:
    """The strictest policy decides. ``judging`` and ``grants`` are asked at every judgement: a
    grant given a moment ago counts at once, and so does a policy that is stricter."""

    def __init__(self, judging: Judging, grants: Grants) -> None:
        self._judging = judging
        self._grants = grants

    async def judge(
        self, call: ToolCall, footprint: Footprint, context: CallContext, answered: Answered
    ) -> Decision:
        """What a person said about this very call goes before what is allowed meanwhile, also by
        the grant that the same answer left behind."""
        paths = paths_of(footprint, context.cwd)
        ruling = await self._rule(call, footprint, paths, context)
        if ruling.verdict == "deny":
            return Deny(ruling.source, ruling.reason)
        if ruling.verdict == "allow" and footprint.asks:
            ruling = Ruling("ask", "sandbox", "", footprint.asks, remember=False)
        elif ruling.verdict == "allow" and footprint.network:
            opened = await self._opened(footprint, context, person=False)
            if not opened.network:
                ruling = await self._unnamed(footprint, context)
        if context.asks and ruling.verdict == "allow":
            ruling = Ruling("ask", "hook", context.asks, context.asks, remember=False)
        digest = digest_of(call, context, paths, footprint)
        verdict = await answered(digest)
        question = footprint.question
        if verdict is not None:
            decision = _decided(verdict, question)
        elif question is not None:
            question = replace(question, digest=digest, tool=call.name, arguments=call.arguments)
            decision = Ask("question", question)
        elif ruling.verdict == "allow":
            decision = Allow(ruling.source)
        else:
            decision = self._permission(call, footprint, paths, context, digest, ruling)
        if not isinstance(decision, Allow):
            return decision
        policies = self._judging(context)
        kinds: list[Literal["read", "write"]] = []
        if paths.reads:
            kinds.append("read")
        if paths.writes:
            kinds.append("write")

        def forbidden(path: str) -> bool:
            return any(policy.forbids(call.name, kinds, path) for policy in policies)

        reads = tuple(map(Path, paths.reads))
        writes = tuple(map(Path, paths.writes))
        asked = bool(footprint.asks)
        person = verdict is not None and verdict.scope != "rule"
        opened = await self._opened(footprint, context, person=person)
        judged = Judged(reads, writes, forbidden, footprint.command, asked, opened)
        return replace(decision, judged=judged)

    async def _opened(self, footprint: Footprint, context: CallContext, *, person: bool) -> Opened:
        """What every policy opens the cage of a command to."""
        command = footprint.command
        if command is None:
            return Opened()
        grants = await self._grants()
        policies = self._judging(context)

        def shared() -> Opened:
            each = [policy.opened(footprint, context, grants, person=person) for policy in policies]
            first = each[0]
            parts = [one.names for one in each if one.names]
            return Opened(
                tuple(path for path in first.reads if all(path in one.reads for one in each)),
                tuple(path for path in first.writes if all(path in one.writes for one in each)),
                network=(person and footprint.network) or all(one.network for one in each),
                names=tuple(
                    name for name in (parts or [()])[0] if all(name in one for one in parts)
                ),
                barred=tuple({name for one in each for name in one.barred}),
                house=all(one.house for one in each),
                offline=any(one.offline for one in each),
                foreign=bool(context.taint) and not person,
            )

        if not _ELSEWHERE.search(command):  # it names nothing that would be looked through
            return shared()
        return await asyncio.to_thread(shared)

    async def _unnamed(self, footprint: Footprint, context: CallContext) -> Ruling:
        """One name more can be remembered, as a rule about it."""
        grants = await self._grants()
        hosts = self._judging(context)[0].unnamed(footprint.names, context, grants)
        if len(hosts) != 1 or is_local(hosts[0]) or not footprint.apart:
            return Ruling("ask", "sandbox", "network", _NETWORK, remember=False)
        rule, why = f"WebFetch(domain:{hosts[0]})", f"it wants to reach {hosts[0]}; {_NETWORK}"
        return Ruling("ask", "sandbox", "network", why, suggests=rule)

    async def _rule(
        self, call: ToolCall, footprint: Footprint, paths: Paths, context: CallContext
    ) -> Ruling:
        """Commands, whose folders and repositories may be looked through, are judged beside the
        event loop."""
        if footprint.command is None:
            for path in (*footprint.reads, *footprint.writes):
                named = str(context.cwd / path)
                # What the daemon has open is no file that a tool could mean by its name.
                if names_descriptor(named):
                    reason = f"{named} is an open descriptor of this process; name the file itself"
                    return Ruling("deny", "sensitive", named, reason, remember=False)
        grants = await self._grants()
        policies = self._judging(context)

        def strictest() -> Ruling:
            rulings = [policy.rule(call, footprint, context, grants, paths) for policy in policies]
            return replace(
                max(rulings, key=lambda each: (_STRICTNESS[each.verdict], not each.remember)),
                remember=all(ruling.remember for ruling in rulings),
            )

        return strictest() if footprint.command is None else await asyncio.to_thread(strictest)

    def _permission(
        self,
        call: ToolCall,
        footprint: Footprint,
        paths: Paths,
        context: CallContext,
        digest: str,
        ruling: Ruling,
    ) -> Ask:
        named = (*footprint.reads, *footprint.writes)
        # Each file that the call would reach through a link; of a command no path is resolved.
        pairs = zip(named, (*paths.reads, *paths.writes), strict=False)
        linked = [real for path, real in pairs if os.path.normpath(context.cwd / path) != real]
        notes = [footprint.note, *(argument("leads to", path) for path in dict.fromkeys(linked))]
        note = "\n".join(filter(None, notes))
        detail = detail_of(call, context, ruling)
        question = Question(
            "permission",
            title_of(call),
            f"{note}\n\n{detail}" if note else detail,  # what the arguments mean stands first
            (_ONCE, _DENY),
            digest,
            tool=call.name,
            arguments=call.arguments,
            about=about(call),
            why=why_asked(ruling),
            layer=ruling.layer,
        )
        if not ruling.remember:
            return Ask(ruling.source, question)
        rule = self._judging(context)[0].remembered(call, footprint, context, ruling)
        wider = all_edits(paths.writes, context.cwd)
        longer = (*_REMEMBERED, _EDITS) if wider else _REMEMBERED
        question = replace(
            question,
            detail=f"{question.detail}\n\n{offered(rule, wider)}",
            choices=(_ONCE, *longer, _DENY),
            rule=rule,
            wider=wider,
        )
        return Ask(ruling.source, question)


def _decided(verdict: Verdict, question: Question | None) -> Allow | Deny:
    """What becomes of a call that a person was asked about. ``question``: the tool's own, None:
    whether the call may run."""
    permission = question is None or question.kind == "permission"
    if verdict.state == "changed":
        return _CHANGED
    if verdict.state == "denied" and permission:
        # A word is the reason here, never an answer.
        reason = f": {verdict.word}" if verdict.word and verdict.word != "deny" else ""
        return Deny(
            "approval",
            f"the person said no{reason}. Do not try the same by another way; ask what they want"
            " instead",
            Layer.PERSON,
        )
    if question is None:
        if verdict.state == "allowed":
            named = f" {verdict.word}" if verdict.scope == "rule" and verdict.word else ""
            return Allow(f"approval: {verdict.scope}{named}")
        return Deny(
            "approval",
            "nobody allowed it in time; it was not run. Go on without it, or ask again when the"
            " person is there",
            Layer.LAPSED,
        )
    if verdict.state == "expired":
        return Deny(
            "question",
            "nobody answered in time; go on without the answer, or say what you would have needed",
            Layer.LAPSED,
        )
    if verdict.state == "denied" and not verdict.word:
        return Deny("question", "the person did not want to answer", Layer.PERSON)
    return Allow("question", verdict.word)
