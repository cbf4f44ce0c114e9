"""How much of the memory our control group may use is used: cgroups(7), versions 1 and 2, as
systemd's MemoryMax and containers set them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_UNLIMITED = 1 << 60  # version 1 writes a number near 2**63 where nobody set a limit
_FILES = (  # the limit, what is used, and the name of what the kernel can drop of it at once
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def memory_share(
    process: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> float | None:
    """0.0 to 1.0, of the tightest of our groups; None: nobody set a limit, or there are no groups
    here."""
    shares = [share for folder in _groups(process, mount) if (share := _share(folder)) is not None]
    return max(shares, default=None)


def _groups(process: Path, mount: Path) -> Iterator[Path]:
    """From our own up to the top one. In a container the top one is our own, whatever its name
    outside is."""
    try:
        lines = process.read_text(encoding="ascii").splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        top = mount / "memory" if kinds else mount
        folder = top / path.lstrip("/")
        while folder != top:
            yield folder
            folder = folder.parent
        yield top


def _share(folder: Path) -> float | None:
    for limit, used, droppable in _FILES:
        try:
            most = (folder / limit).read_text(encoding="ascii").strip()
            if most == "max" or not 0 < int(most) < _UNLIMITED:
                return None
            rows = dict(
                row.split()
                for row in (folder / "memory.stat").read_text(encoding="ascii").splitlines()
            )
            return (
                int((folder / used).read_text(encoding="ascii")) - int(rows.get(droppable, 0))
            ) / int(most)
        except (OSError, ValueError):
            continue
    return None
