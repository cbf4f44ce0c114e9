"""A dockerd of its own, started by hand beside whatever else there is (no bridge, no firewall
rules), with one image made of this machine's own programs; ended by its number. With
OHMO_TEST_PODMAN=1 Podman's service in its place (Debian's podman, and runc)."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = (
    *(
        "bash",
        "cat",
        "chmod",
        "cp",
        "curl",
        "cut",
        "date",
        "df",
        "env",
        "find",
        "git",
        "grep",
        "head",
        "id",
    ),
    *("ionice", "ipcrm", "ln", "ls", "mkdir", "mv", "nice", "od", "prlimit", "ps", "python3"),
    *("readlink", "renice", "rm", "seq", "setsid", "sh", "sleep", "stat", "stty", "tail"),
    *("timeout", "touch", "tr", "true", "wc", "kill", "yes"),
)


def programs(made: tarfile.TarFile) -> None:
    """What these programs need, where it is here: a system as small as it can be."""
    wanted = [
        Path(found) for name in PROGRAMS if (found := shutil.which(name, path="/usr/bin:/bin"))
    ]
    wanted += [Path("/usr/bin/python3"), Path("/bin/bash"), Path("/bin/sh")]
    python = Path(os.path.realpath("/usr/bin/python3")).name
    tree = Path("/usr/lib") / python
    natives = [*tree.glob("lib-dynload/_ctypes.*"), *tree.glob("lib-dynload/*.so")]
    done: set[str] = set()

    def add(path: Path) -> None:
        """With each link on the way, as a link."""
        for step in [*reversed(path.parents), path]:
            if str(step) in done or step == Path("/"):
                continue
            if step.is_symlink():
                done.add(str(step))
                made.add(step, recursive=False)
                target = Path(os.path.normpath(step.parent / step.readlink()))
                add(target / path.relative_to(step))
                return
            done.add(str(step))
            made.add(step, recursive=False)

    for name in ("proc", "sys", "dev", "tmp", "etc", "usr", "root"):
        folder = tarfile.TarInfo(name)
        folder.type = tarfile.DIRTYPE
        folder.mode = 0o1777 if name == "tmp" else 0o755  # runc gives it to what is mounted there
        made.addfile(folder)
        done.add(f"/{name}")
    for path in wanted:
        add(path)
    for path in (*wanted, *natives):
        listed = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False)
        for library in re.findall(r"(/\S+) \(0x", listed.stdout):
            add(Path(library))
    kept = (path for path in tree.rglob("*") if "__pycache__" not in path.parts and path.is_file())
    for path in kept:
        if not {"test", "idlelib", "tkinter", "lib2to3", "ensurepip"} & set(path.parts):
            add(path)
    words = b"root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n"
    for name, text in (("etc/passwd", words), ("etc/shadow", b"root:the secret:1::::::\n")):
        file = tarfile.TarInfo(name)
        file.size, file.mode = len(text), 0o644 if name == "etc/passwd" else 0o640
        made.addfile(file, io.BytesIO(text))


def dockerd(top: Path, host: str) -> list[str]:
    words = ["dockerd", "--data-root", f"{top}/data", "--exec-root", f"{top}/run"]
    words += ["-p", f"{top}/pid", "-H", host, "--bridge=none", "--iptables=false"]
    words += ["--ip6tables=false", "--userland-proxy=false"]
    return [*words, "--default-ulimit", "nofile=1024:2048"]


def podman(top: Path, host: str) -> list[str]:
    words = ["podman", "--root", f"{top}/data", "--runroot", f"{top}/run", "--runtime", "runc"]
    words += ["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "none"]
    return [*words, "--network-config-dir", f"{top}/net", "system", "service", "--time=0", host]


@contextmanager
def running(top: Path) -> Generator[str]:
    """Its address, as in $DOCKER_HOST; the image is called ohmo-sandbox."""
    host = f"unix://{top}/docker.sock"
    words = podman(top, host) if os.environ.get("OHMO_TEST_PODMAN") else dockerd(top, host)
    with (top / "log").open("wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log, cwd=top, start_new_session=True)
    try:
        import docker
        from docker.errors import DockerException

        until = time.monotonic() + 40
        while True:
            try:
                client = docker.DockerClient(host, version="auto", timeout=60)
                break
            except DockerException:
                dead = server.poll() is not None or time.monotonic() > until
                assert not dead, (top / "log").read_text()[-2000:]
                time.sleep(0.2)
        file = top / "image.tar"
        with tarfile.open(file, "w") as made:
            programs(made)
        with file.open("rb") as data:
            client.api.import_image_from_data(data, "ohmo-sandbox", "latest")
        file.unlink()
        yield host
        client.close()
    finally:
        server.terminate()
        server.wait(timeout=30)
