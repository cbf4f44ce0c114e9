"""Which places are sensitive: the list that no tool may read or write in any mode (mission T19;
configuration extends it, nothing reduces it), and the agent's own home, closed but for two
pages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

from ohmo.shell.patterns import folded

ANYWHERE: tuple[
    str, ...
] = (  # below any folder: whoever's home it is, also /mnt/c/Users/* under WSL
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
    # agents and their keys
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    # browsers
    ".mozilla",
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


# What ohmo itself names to the model: long outputs and pages of the web; the files people sent.
PAGES = ("spill", "media")


class Touch(IntEnum):
    """How close a path comes to a sensitive place; larger is worse."""

    CLEAR = 0
    PAGE = 1  # of the agent's home: tools may read it, and none may write it
    MAYBE = 2  # depends on what is only known when the command runs
    ABOVE = 3  # a folder that holds sensitive places
    INSIDE = 4


class AgentHome:
    """``root``: $OHMO_HOME. It need not exist yet."""

    def __init__(self, root: Path) -> None:
        self.roots = tuple(dict.fromkeys((os.path.normpath(root), os.path.realpath(root))))
        self._closed = tuple(folded(root) for root in self.roots)
        self._shown = tuple(f"{root}/{page}" for root in self.roots for page in PAGES)

    def named(self, path: str) -> Touch:
        """By the letters of an absolute path: closed in every spelling, shown in its own only."""
        if not _lies_in(folded(path), self._closed):
            return Touch.CLEAR
        return Touch.PAGE if _lies_in(path, self._shown) else Touch.INSIDE

    def closed(self) -> Iterator[str]:
        """What lies in the home directly and is no page."""
        return (path for path in _below(self.roots[-1]) if self.named(path) is Touch.INSIDE)

    def doors(self) -> dict[tuple[int, int], Touch]:
        """The home and what lies in it directly, by device and inode; empty while there is none: so
        it is known under another name, a bind mount or letters that the disk takes for the same."""
        found: dict[tuple[int, int], Touch] = {}
        for path in (self.roots[-1], *_below(self.roots[-1])):
            there = _status(path)
            if there is not None:
                found[there.st_dev, there.st_ino] = self.named(path)
        return found


def _lies_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _below(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries]
    except OSError:
        return []
