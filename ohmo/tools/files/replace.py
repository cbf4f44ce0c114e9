"""Puts a file in the place of another in one step: whole or not at all, also when the power
fails."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from channels.durable import replacing
from ohmo.tools.answers import Trouble
from ohmo.tools.files.opening import Opening


def replace_file(
    opening: Opening, path: Path, data: bytes, known: os.stat_result | None
) -> os.stat_result:
    """Writes beside ``path``, syncs, renames, all from the folder that was opened as judged;
    missing folders are made. ``known``: the file as it was opened, whose mode and, where allowed,
    owner are kept; None: there is none. How the new one looks. Raises Trouble, OSError."""
    if not path.name:
        raise Trouble(f"{path} is a folder")
    with opening.folder(path.parent, make=True) as folder:
        if opening.hides(f"{opening.still(folder, path.parent)}/{path.name}"):
            raise Trouble(f"{path} is what no tool may write; a person does it by hand")
        if known is not None and not os.access(path.name, os.W_OK, dir_fd=folder):
            raise PermissionError(13, "the file is read-only", str(path))
        with replacing(Path(path.name), 0o666, folder) as file:
            file.write(data)
            file.flush()
            if known is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(known.st_mode))
                with suppress(PermissionError):
                    os.fchown(file.fileno(), known.st_uid, known.st_gid)
            opening.still(folder, path.parent)
            return os.fstat(file.fileno())
