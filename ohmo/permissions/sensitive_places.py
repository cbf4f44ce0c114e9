"""Which places are sensitive: the list that no tool may read or write in any mode (mission T19;
configuration extends it, nothing reduces it); the agent's own home, closed but for what
is kept for the conversation that asks; and sensitive files behind another name, which no path
tells: a hard link (link(2)) is the file, a bound folder (mount(2)) the folder."""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import copy
from enum import IntEnum
from functools import cached_property
from pathlib import Path

from ohmo.contracts.tool import CallContext
from ohmo.shell.patterns import folded

# Below any folder: whoever's home it is, also /mnt/c/Users/* under WSL.
ANYWHERE: tuple[str, ...] = (
    # SSH, GPG, password stores, age
    ".ssh",
    ".gnupg",
    ".password-store",
    ".age",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "ssh_host_*_key",
    # clouds
    ".aws",
    ".azure",
    ".boto",
    ".oci",
    ".config/gcloud",
    "application_default_credentials.json",
    ".config/doctl",
    ".config/hcloud",
    ".config/scw",
    ".config/fly",
    ".fly",
    ".config/netlify",
    ".config/stripe",
    ".config/configstore/firebase-tools.json",
    ".local/share/com.vercel.cli/auth.json",
    ".wrangler/config",
    ".pulumi/credentials.json",
    ".databrickscfg",
    ".snowsql/config",
    ".kaggle/kaggle.json",
    ".huggingface/token",
    ".cache/huggingface/token",
    ".config/sops/age/keys.txt",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".vault-token",
    # containers and clusters
    ".docker/config.json",
    ".dockercfg",
    ".config/containers/auth.json",
    ".kube",
    # registries, forges, the network
    ".npmrc",
    ".pypirc",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".composer/auth.json",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".s3cfg",
    ".config/rclone",
    ".htpasswd",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".subversion/auth",
    ".msmtprc",
    ".mbsyncrc",
    ".fetchmailrc",
    # agents and their keys
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".qwen/oauth_creds.json",
    ".claude.json",
    ".openclaw",
    ".config/github-copilot",
    ".config/goose/secrets.yaml",
    ".config/io.datasette.llm/keys.json",
    ".local/share/opencode/auth.json",
    # browsers, mail, messengers
    ".mozilla",
    ".thunderbird",
    ".config/Signal",
    ".config/Slack",
    ".config/discord",
    ".local/share/TelegramDesktop",
    ".config/google-chrome*",
    ".config/chromium",
    ".config/microsoft-edge*",
    ".config/BraveSoftware",
    ".config/vivaldi",
    ".config/opera",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
    "Library/Application Support/BraveSoftware",
    "Library/Cookies",
    "Library/Safari",
    "AppData/Local/Google/Chrome",
    "AppData/Local/Microsoft/Edge",
    "AppData/Roaming/Mozilla",
    "AppData/*/Microsoft/Credentials",
    "AppData/*/Microsoft/Protect",
    "snap/firefox",
    "snap/chromium",
    # keyrings and wallets
    ".local/share/keyrings",
    ".local/share/kwalletd",
    "Library/Keychains",
    ".config/keepassxc",
    "*.kdbx",
    ".config/Bitwarden*",
    ".config/op",
    ".bitcoin",
    ".electrum",
    ".ethereum",
    ".config/solana/id.json",
)
ABSOLUTE: tuple[str, ...] = (
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers*",
    "/etc/ssl/private",
    "/etc/kubernetes",
    "/etc/krb5.keytab",
    "/run/secrets",
    "/var/run/secrets",
    "/var/lib/kubelet",
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/proc/kcore",
    "/proc/*/environ",
    "/proc/*/mem",
    "/proc/*/fd",
    "/proc/*/map_files",
    "/proc/*/root",
    "/proc/*/cwd",
    "/proc/*/task/*/environ",
    "/proc/*/task/*/mem",
    "/proc/*/task/*/fd",
    "/proc/*/task/*/root",
    "/proc/*/task/*/cwd",
    "/dev/mem",
    "/dev/kmem",
    "/dev/sd*",
    "/dev/vd*",
    "/dev/xvd*",
    "/dev/hd*",
    "/dev/nvme*",
    "/dev/dm-*",
    "/dev/mapper",
    "/dev/loop*",
    "/dev/disk",
)


# Where what ohmo itself names to a model lies: long outputs and pages of the web; the files people
# sent. Each conversation has a folder of its own there (``pages_of``).
KEPT = ("spill", "media")


def pages_of(context: CallContext) -> tuple[str, ...]:
    """Below $OHMO_HOME: what the turns of this conversation may read."""
    names = (context.thread, context.media)
    return tuple(f"{kept}/{name}" for kept, name in zip(KEPT, names, strict=True) if name)


class Touch(IntEnum):
    """How close a path comes to a sensitive place; larger is worse."""

    CLEAR = 0
    PAGE = 1  # of the agent's home: tools may read it, and none may write it
    MAYBE = 2  # depends on what is only known when the command runs
    ABOVE = 3  # a folder that holds sensitive places
    INSIDE = 4


# Names looked at below one place, those next to its top first: a browser keeps far more.
_MOST_BELOW = 4_000


class AgentHome:
    """``root``: $OHMO_HOME. It need not exist yet. Nothing of it is shown but to ``seen_by``."""

    def __init__(self, root: Path) -> None:
        self.roots = tuple(dict.fromkeys((os.path.normpath(root), os.path.realpath(root))))
        self._closed = tuple(folded(root) for root in self.roots)
        self._kept = tuple(f"{root}/{kept}" for root in self.roots for kept in KEPT)
        self.pages: tuple[str, ...] = ()

    def seen_by(self, context: CallContext) -> AgentHome:
        """The same home for a turn, which may read what is kept for its own conversation."""
        seen = copy(self)
        seen.pages = tuple(f"{root}/{page}" for root in self.roots for page in pages_of(context))
        return seen

    def kept(self, path: str) -> bool:
        """Whether it lies, or lay, where some conversation has a folder."""
        return _lies_in(path, self._kept)

    def mentioned(self, text: str) -> re.Match[str] | None:
        """The home in a text that is ``folded``, but where it speaks of what is shown."""
        shown = "".join(f"(?!{re.escape(folded(page))}(?![\\w.-]))" for page in self.pages)
        homes = "|".join(map(re.escape, self._closed))
        return re.search(f"{shown}(?:{homes})(?![\\w.-])", text)

    def named(self, path: str) -> Touch:
        """By the letters of an absolute path: closed in every spelling, shown in its own only."""
        if not _lies_in(folded(path), self._closed):
            return Touch.CLEAR
        return Touch.PAGE if _lies_in(path, self.pages) else Touch.INSIDE

    def closed(self) -> Iterator[str]:
        """What lies in the home directly."""
        return iter(_names_in(self.roots[-1]))

    def doors(self) -> dict[tuple[int, int], Touch]:
        """The home and what lies in it directly, by device and inode; empty while there is none: so
        it is known under another name, a bind mount or letters that the disk takes for the same."""
        doors: dict[tuple[int, int], Touch] = {}
        for path in (self.roots[-1], *_names_in(self.roots[-1])):
            status = _status(path)
            if status is not None:
                doors[status.st_dev, status.st_ino] = self.named(path)
        return doors


def _lies_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _status(path: str | Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _names_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries]
    except OSError:
        return []


class FileAliases:
    """For one judgement or one call: what it finds on the disk it keeps. ``places``: existing
    sensitive files and folders (``SensitivePaths.existing``), asked for when the first file with
    two names comes. ``own``: known by its folders too, wherever they are bound.

    Bounded: a file with one name costs nothing; the first with more costs a look at each place and
    at most ``_MOST_BELOW`` names below it. What lies deeper in a larger place is not known by its
    inode."""

    def __init__(self, places: Iterable[str], own: AgentHome | None = None) -> None:
        self._places = places
        self._own = own
        self._folders: dict[str, Touch] = {}

    def sensitive(self, status: os.stat_result) -> bool:
        """Whether this is one of the sensitive files, by device and inode. Folders never are."""
        if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
            return False
        return (status.st_dev, status.st_ino) in self._inodes

    def at(self, path: str) -> Touch:
        """``path`` absolute and resolved: what it leads to beside what its letters tell. There need
        be nothing yet."""
        status = _status(path)
        if status is not None and self.sensitive(status):
            return Touch.INSIDE
        if self._own is None or self._own.named(path) is not Touch.CLEAR:
            return Touch.CLEAR
        door = self._door(status)
        if door is not None:
            return door
        folder = Path(path).parent
        if str(folder) not in self._folders:
            doors = (self._door(_status(each)) for each in (folder, *folder.parents))
            leads = (door for door in doors if door is not None)
            self._folders[str(folder)] = next(leads, Touch.CLEAR)
        return self._folders[str(folder)]

    def _door(self, status: os.stat_result | None) -> Touch | None:
        """What of the agent's home has this inode."""
        return self._doors.get((status.st_dev, status.st_ino)) if status is not None else None

    @cached_property
    def _doors(self) -> dict[tuple[int, int], Touch]:
        return self._own.doors() if self._own is not None else {}

    @cached_property
    def _inodes(self) -> frozenset[tuple[int, int]]:
        """Device and inode of each file at or below a place. Links to files count, those to folders
        not."""
        inodes: set[tuple[int, int]] = set()
        for place in self._places:
            folders = deque[str]()
            with suppress(OSError):
                status = os.stat(place)  # noqa: PTH116
                if stat.S_ISREG(status.st_mode):
                    inodes.add((status.st_dev, status.st_ino))
                elif stat.S_ISDIR(status.st_mode):
                    folders.append(place)
            left = _MOST_BELOW
            while folders and left > 0:
                try:
                    with os.scandir(folders.popleft()) as opened:
                        entries = list(itertools.islice(opened, left))
                except OSError:
                    continue
                left -= len(entries)
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                        continue
                    with suppress(OSError):
                        status = entry.stat()
                        if stat.S_ISREG(status.st_mode):
                            inodes.add((status.st_dev, status.st_ino))
        return frozenset(inodes)
