"""Which places are sensitive: the list that no tool may read or write in any mode (mission T19;
configuration extends it, nothing reduces it), and how close a path comes to one."""

from __future__ import annotations

from enum import IntEnum

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
