"""Commands that run in the background: started by Bash, read by BashOutput, stopped by KillShell,
ended with the daemon."""

from __future__ import annotations

from channels.record import record
from ohmo.processes.job import Job
from ohmo.tools.results import ToolError


@record
class Background:
    """A command in the background."""

    thread: str
    command: str
    job: Job


class BackgroundJobs:
    """By id; each thread sees its own. Ended jobs stay readable until room is needed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: dict[str, Background] = {}
        self._count = 0

    def check(self, thread: str) -> None:
        """Raises ToolError when the thread has too many running."""
        own = [name for name, each in self._jobs.items() if each.thread == thread]
        if sum(not self._jobs[name].job.ended.done() for name in own) >= self._most:
            raise ToolError(
                f"{self._most} commands run in the background already ({', '.join(own)}); stop one"
                " with KillShell"
            )

    def add(self, background: Background) -> str:
        ended = [name for name, each in self._jobs.items() if each.job.ended.done()]
        for name in ended[: max(0, len(ended) - 32)]:
            del self._jobs[name]
        self._count += 1
        name = f"bash_{self._count}"
        self._jobs[name] = background
        return name

    def get(self, name: str, thread: str) -> Background:
        """Raises ToolError when there is no such job in this thread."""
        found = self._jobs.get(name)
        if found is None or found.thread != thread:
            own = [each for each, job in self._jobs.items() if job.thread == thread]
            raise ToolError(
                f"no background command {name!r}; there is"
                f" {', '.join(own) if own else 'none (a restart ends them)'}"
            )
        return found

    async def close(self) -> None:
        """Ends all of them; call it when the daemon stops."""
        for each in self._jobs.values():
            each.job.stop()
        for each in self._jobs.values():
            await each.job.close()
