"""What a run without a person in front of it says, to whom, and when it keeps silent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from channels.contract import Address, Outbound
from channels.text import code_span
from ohmo.contracts.arrivals import Terms, Wake
from ohmo.contracts.cron import PREVIEW, Jobs, Report
from ohmo.contracts.messages import Json, ToolCall, ToolResult
from ohmo.cron.attached import attached
from ohmo.cron.wakes import SILENT

PATIENCE = 600.0  # seconds, of the command a report is made of
SUMMARY = 600  # characters the model may say above a report that is posted word for word
_TRIAGE = "Bash(ohmo triage "
Ended = tuple[ToolCall, ToolResult]
_AROUND = " \t\r\n*_`'\"#>-"  # what a model dresses a word with


class Reporter:
    """``resolve`` reads an address with its channel's grammar, ValueError: it cannot be understood
    now. ``owner``: where the owner is reached. ``workspace``: where jobs run."""

    def __init__(
        self,
        jobs: Jobs,
        resolve: Callable[[str], Address],
        owner: Callable[[], Address],
        workspace: Path,
    ) -> None:
        self._jobs = jobs
        self._resolve = resolve
        self._owner = owner
        self._workspace = workspace

    def first(self, wake: Wake) -> Mapping[str, Json] | None:
        """A run by the clock whose rules name one command of ``ohmo triage`` begins with it."""
        command = (
            _own_command(wake.terms.rules)
            if wake.terms is not None and wake.occurrence is not None
            else None
        )
        return {"command": command, "timeout": PATIENCE} if command is not None else None

    def stands(self, wake: Wake, calls: Sequence[Ended]) -> bool:
        return wake.terms is not None and triage_report(wake.terms.rules, calls) is not None

    async def __call__(
        self, wake: Wake, text: str, refused: Sequence[str], calls: Sequence[Ended] = ()
    ) -> tuple[Outbound | None, Report]:
        """``refused``: calls that nobody allowed in time; ``calls``: all that ended. The post,
        None: nobody is told; and what the history keeps."""
        terms = wake.terms
        assert terms is not None
        printed = triage_report(terms.rules, calls)
        news = text if printed is None else printed
        text = text if printed is None else _on_top(text, printed)
        seen, kept = fingerprint(news), text[:PREVIEW]
        silence = None if refused else await self._silence(wake, terms, news, seen)
        if silence is not None:
            return None, Report(silence, kept, seen)
        said, files = attached(text.strip(), self._workspace)
        if is_silent(said):
            said = _without_silence(said) or "Nothing else to report."
        if refused:
            said += "\n\n_Not allowed in time, so not done:_\n" + "\n".join(
                f"- {code_span(line)}" for line in refused
            )
        reason = f"not allowed in time: {'; '.join(refused)}"[:PREVIEW] if refused else ""
        place, note = self._place(terms)
        report = Report(reason or note, kept, seen)
        if place is None:
            return None, report
        return Outbound(place, f"{note}:\n\n{said}" if note else said, files), report

    async def _silence(self, wake: Wake, terms: Terms, text: str, seen: str) -> str | None:
        """Why nobody is told; None: somebody is."""
        if terms.when == "always":
            return None
        if is_silent(text):
            return (
                "silent: nothing is wrong" if terms.when == "wrong" else "silent: nothing changed"
            )
        if (
            terms.when == "changed"
            and wake.occurrence is not None
            and seen == await self._last(wake.occurrence.job)
        ):
            return "silent: nothing changed"
        return None

    async def _last(self, job: str) -> str | None:
        rows = await self._jobs.occurrences(job, limit=20)
        return next((row.digest for row in rows if row.state == "done" and row.digest), None)

    def _place(self, terms: Terms) -> tuple[Address | None, str]:
        """Where the report goes, None: nowhere; and what its reader has to be told about that, "":
        nothing."""
        if terms.place is not None or terms.to is None:
            return terms.place, ""
        try:
            return self._resolve(terms.to), ""
        except ValueError as error:
            return (
                self._owner(),
                f"The report of {terms.name} could not go where it belongs ({error})",
            )


def triage_report(rules: Sequence[str], calls: Sequence[Ended]) -> str | None:
    """What ``ohmo triage`` printed in this run, word for word, where a rule of the job names that
    very command; also at the end of a pipe. None: it is no such job, or the command brought
    nothing."""
    wanted = {rule[len("Bash(") : -1] for rule in rules if rule.startswith(_TRIAGE)}
    found: str | None = None
    for call, result in calls:
        command = str(call.arguments.get("command", "")) if call.name == "Bash" else ""
        if command.rpartition(" | ")[2].strip() in wanted and not result.error:
            found = result.text
    return found


def _own_command(rules: Sequence[str]) -> str | None:
    """The very command that ``triage_report`` looks for: what reads its source itself, or what is
    read by a pipe of the one other command that a rule names. None: the rules leave a choice, which
    is the model's."""
    exact = [
        rule[len("Bash(") : -1] for rule in rules if rule.startswith("Bash(") and "*" not in rule
    ]
    reading = [command for command in exact if f"Bash({command}".startswith(_TRIAGE)]
    others = [command for command in exact if command not in reading]
    if len(reading) != 1 or len(others) > 1:
        return None
    return f"{others[0]} 2>&1 | {reading[0]}" if others else reading[0]


def _on_top(text: str, printed: str) -> str:
    """The report, below what the model says about it when that is short and not the report
    again."""
    said = text.strip()
    if (
        not said
        or is_silent(printed)
        or is_silent(said)
        or len(said) > SUMMARY
        or fingerprint(said) == fingerprint(printed)
    ):
        return printed
    return f"{said}\n\n{printed}"


def is_silent(text: str) -> bool:
    """Whether an answer begins with the word for silence, however it is dressed."""
    return text.lstrip(_AROUND).upper().startswith(SILENT)


def _without_silence(text: str) -> str:
    """What an answer says behind the word for silence."""
    return text[text.upper().index(SILENT) + len(SILENT) :].strip(_AROUND)


def fingerprint(text: str) -> str:
    """Equal for answers that differ in spaces only."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()[:32]
