"""Runs inside the box: takes commands as lines of JSON, runs each with bash, tells what came of it
as a line of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MOST = 1 << 20  # bytes of output, of the trace, of any file
SHELL = ["/bin/bash", "--norc", "--noprofile", "-c", "--"]  # as ohmo.tools.bash runs it


def run(job: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        aside = Path(folder)
        env = dict(job["env"])
        if "log" in job:
            env["OHMO_ARGV"] = str(aside / "argv")
        tracer = [*job["tracer"], "-o", str(aside / "trace")] if job["tracer"] else []
        with (aside / "out").open("wb") as out:
            child = subprocess.Popen(
                [*tracer, *SHELL, os.fsencode(job["command"])],
                cwd=job["cwd"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = child.wait(job["seconds"])
            except subprocess.TimeoutExpired:
                code = -1
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # whatever is left of it
            child.wait()
        texts = {name: _text(aside / name) for name in ("out", "trace", "argv")}
    return {"id": job["id"], "code": code, **texts}


def _text(path: Path) -> str:
    return path.read_bytes().decode("latin-1") if path.exists() else ""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))
    one_at_a_time = threading.Lock()

    def work(line: str) -> None:
        job = json.loads(line)
        try:
            done = json.dumps(run(job)) + "\n"
        except (
            ValueError
        ) as error:  # a null byte, or text that is no UTF-8: it can never be started
            done = (
                json.dumps(
                    {"id": job["id"], "code": -2, "out": str(error), "trace": "", "argv": ""}
                )
                + "\n"
            )
        with one_at_a_time:
            sys.stdout.write(done)
            sys.stdout.flush()

    with ThreadPoolExecutor(int(sys.argv[1])) as pool:
        for line in sys.stdin:
            pool.submit(work, line)


if __name__ == "__main__":
    main()
