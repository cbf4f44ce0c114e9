"""A comparison in at most 3 500 characters that are safe in every chat; what does not fit, in a
file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from channels.record import record
from ohmo.triage.compare import Compared, Group
from ohmo.triage.results import CiRun
from ohmo.triage.fingerprint import plain

MOST = 3_500  # characters
_RESERVE = 160  # of them for the last line
_HEADS = {"new": "New", "still": "Still failing", "flaky": "Flaky", "fixed": "Fixed"}
_SAFE = str.maketrans(
    {
        "@": "\uff20",
        "<": "\u2039",
        ">": "\u203a",
        "`": "'",
        "\n": " ",
        "\r": " ",
        "\t": " ",
        "|": "\u00a6",
    }
)
_LINK = re.compile(r"https?://[^\s()<>\[\]|\"'`\\]{3,400}")

Commits = Callable[[str, str], str]


@record
class Reported:
    """``rest``: the whole of it, empty when nothing was left out."""

    text: str
    rest: str


def report(compared: Compared, title: str, *, commits: Commits) -> Reported:
    """``commits(good, bad)`` says more of the commits between the two, as far as a repository
    knows."""
    writer = _Writer(compared, commits)
    head = f"**CI triage: {_counts(compared.groups)}**\n{code(title, 120)}{_newest(compared.heads)}"
    whole = [head, *writer.lines(long=True)]
    text = head
    lines = writer.lines(long=False)
    for number, line in enumerate(lines):
        if len(text) + 1 + len(line) > MOST - _RESERVE:
            left = sum(one.startswith("- ") for one in lines[number:])
            return Reported(f"{text}\n\n_And {left} more: see the file._", "\n".join(whole) + "\n")
        text += f"\n{line}"
    return Reported(text, "")


def code(text: str, most: int = 160) -> str:
    """Somebody else's words as a code span: nothing in them is markup, calls anybody or ends the
    span."""
    shown = " ".join(plain(text).translate(_SAFE).split())
    shown = shown if len(shown) <= most else f"{shown[: most - 1]}…"
    return f"`{shown}`" if shown else "`(nothing said)`"


def _counts(groups: Sequence[Group]) -> str:
    found = [
        f"{count} {status}"
        for status in _HEADS
        if (count := sum(group.status == status for group in groups))
    ]
    return ", ".join(found) or "all green"


def _newest(heads: Sequence[CiRun]) -> str:
    shown = [
        f"[{_word(run.stream)}{' ' + run.commit[:7] if _hex(run.commit) else ''}]({run.url})"
        for run in heads
        if _LINK.fullmatch(run.url)
    ]
    return f" · {', '.join(shown[:4])}" if shown else ""


class _Writer:
    def __init__(self, compared: Compared, commits: Commits) -> None:
        self._groups = compared.groups
        self._commits = commits
        self._links = {
            run.commit: link for run in compared.heads if (link := _commit_link(run.url))
        }
        self._any = next(iter(self._links.values()), "")

    def lines(self, *, long: bool) -> list[str]:
        found: list[str] = []
        for status, head in _HEADS.items():
            members = [group for group in self._groups if group.status == status]
            found += (
                [f"\n**{head}**", *(self._line(group, long=long) for group in members)]
                if members
                else []
            )
        return found

    def _line(self, group: Group, *, long: bool) -> str:
        parts = [self._where(group, 40 if long else 3)]
        if group.status == "fixed":
            parts += [f"by {self._commit(group.mended)}"] if group.mended else []
        elif group.bad:
            parts.append(self._begun(group))
        if group.status == "flaky" and group.passes:
            parts.append("passes now")
        said = "; ".join(part for part in parts if part)
        return f"- {code(group.message, 300 if long else 160)}{': ' if said else ''}{said}"

    def _where(self, group: Group, most: int) -> str:
        tests = list(dict.fromkeys(test for _, test, _ in group.places if test))
        jobs = dict.fromkeys((job, url) for job, _, url in group.places)
        shown = [code(test, 80) for test in tests[:most]]
        shown += [f"and {len(tests) - most} more tests"] if len(tests) > most else []
        links = [
            f"[{_word(job)}]({url})" if _LINK.fullmatch(url) else code(job, 60)
            for job, url in list(jobs)[:most]
            if job
        ]
        links += [f"{len(jobs) - most} more jobs"] if len(jobs) > most else []
        return " ".join(
            part for part in (", ".join(shown), f"in {', '.join(links)}" if links else "") if part
        )

    def _begun(self, group: Group) -> str:
        said = self._commits(group.good, group.bad)
        more = f" {code(said, 100)}" if said else ""
        return (
            f"first bad commit {self._commit(group.bad)}{more}"
            if group.good
            else f"bad since {self._commit(group.bad)}{more} or before"
        )

    def _commit(self, commit: str) -> str:
        short = code(commit[:7] if _hex(commit) else commit, 40)
        return f"[{short}]({self._any}{commit})" if self._any and _hex(commit) else short


def _commit_link(url: str) -> str:
    """Where GitHub and GitLab show commits, from where they show a run."""
    if not _LINK.fullmatch(url):
        return ""
    root, actions, _ = url.partition("/actions/")
    if actions:
        return f"{root}/commit/"
    root, dash, _ = url.partition("/-/")
    return f"{root}/-/commit/" if dash else ""


def _hex(commit: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{7,64}", commit) is not None


def _word(text: str) -> str:
    """For the words of a link: letters, digits and what is harmless between them."""
    return " ".join(re.sub(r"[^\w .,()/+#:=-]", " ", plain(text, 60)).split()) or "run"
