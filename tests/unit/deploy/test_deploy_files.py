"""What is in deploy/ and the Dockerfile: valid against the schemas, linted, and as careful as the
README says."""

from __future__ import annotations

import shutil
import sysconfig
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from ohmo.config.load import load
from tests.programs import run_process

ROOT = Path(__file__).parents[3]
KUBERNETES = ROOT / "deploy" / "kubernetes"


def tool(name: str) -> str:
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    assert found is not None, f"{name} comes with make test"
    return found


def yaml(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


def manifests() -> list[Path]:
    return sorted(path for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml")


@pytest.mark.parametrize("file", ["Dockerfile", "deploy/sandbox/Dockerfile"])
def test_a_dockerfile_has_nothing_to_complain_about(file: str) -> None:
    found = run_process(tool("hadolint"), str(ROOT / file))
    assert (found.returncode, found.stdout) == (0, "")


def test_the_image_runs_as_nobody_special_and_asks_itself_how_it_is() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    last = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM ")) :]
    assert "USER 10001:10001" in last
    assert any(
        line.startswith("HEALTHCHECK") and '["ohmo", "status", "--check", "live"]' in line
        for line in last
    )
    assert "STOPSIGNAL SIGTERM" in last
    assert not [
        line for line in last if line.startswith("RUN") and ("apt" in line or "pip" in line)
    ]


def test_what_the_image_is_built_from_reaches_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for name in ("ohmo", "channels", "pyproject.toml", "requirements.lock", "README.md", "LICENSE"):
        assert f"!{name}" in ignored


@pytest.mark.parametrize("path", manifests(), ids=lambda path: path.name)
def test_every_manifest_is_valid_for_kubernetes(path: Path) -> None:
    run_process(tool("kubernetes-validate"), "--strict", str(path), code=0)


def test_the_kustomization_names_every_manifest_but_the_secret() -> None:
    named = set(yaml(KUBERNETES / "kustomization.yaml")["resources"])
    assert named == {path.name for path in manifests()} - {"secret.example.yaml"}


@pytest.mark.needs("kubectl")
def test_kustomize_builds_what_validates(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    assert kubectl is not None
    built = run_process(kubectl, "kustomize", str(KUBERNETES), code=0)
    whole = tmp_path / "built.yaml"
    whole.write_text(built.stdout, encoding="utf-8")
    run_process(tool("kubernetes-validate"), "--strict", str(whole), code=0)
    parts: list[Any] = list(YAML(typ="safe", pure=True).load_all(built.stdout))
    assert {part["metadata"].get("namespace", part["metadata"]["name"]) for part in parts} == {
        "ohmo"
    }
    stateful = next(part for part in parts if part["kind"] == "StatefulSet")
    assert stateful["spec"]["template"]["spec"]["containers"][0]["image"] == "ohmo:0.1.0"


def test_the_pod_meets_the_restricted_standard_and_asks_for_what_the_readme_says() -> None:
    spec = yaml(KUBERNETES / "statefulset.yaml")["spec"]
    assert spec["replicas"] == 1
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"] == {
        "requests": {"cpu": "100m", "memory": "256Mi"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    }
    assert container["livenessProbe"]["exec"]["command"] == ["ohmo", "status", "--check", "live"]
    assert container["readinessProbe"]["exec"]["command"] == ["ohmo", "status", "--check", "ready"]
    assert pod["terminationGracePeriodSeconds"] >= 30
    assert (
        yaml(KUBERNETES / "namespace.yaml")["metadata"]["labels"][
            "pod-security.kubernetes.io/enforce"
        ]
        == "restricted"
    )


def test_nobody_calls_in_and_no_command_gets_the_machines_credentials_from_the_cloud() -> None:
    spec = yaml(KUBERNETES / "network.yaml")["spec"]
    assert (set(spec["policyTypes"]), spec["ingress"]) == ({"Ingress", "Egress"}, [])
    blocks = {
        one["ipBlock"]["cidr"]: one["ipBlock"]["except"]
        for one in spec["egress"][0]["to"]
        if "ipBlock" in one
    }
    addresses = "169.254.169.254 169.254.170.2 169.254.170.23 168.63.129.16 100.100.100.200".split()
    for address in addresses:
        assert any(ip_address(address) in ip_network(closed) for closed in blocks["0.0.0.0/0"]), (
            address
        )
    assert all(
        ip_network(closed).subnet_of(ip_network(cidr))
        for cidr, found in blocks.items()
        for closed in found
    )  # type: ignore[arg-type]


def test_a_file_with_tokens_is_not_committed_by_accident() -> None:
    assert {".env", "*.env"} <= set((ROOT / ".gitignore").read_text(encoding="utf-8").splitlines())


def test_the_configuration_in_the_cluster_loads(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        yaml(KUBERNETES / "configuration.yaml")["data"]["config.yaml"], encoding="utf-8"
    )
    found = load(file, environ={"HOME": str(tmp_path), "OHMO_HOME": str(tmp_path / ".ohmo")})
    assert [channel.name for channel in found.channels if channel.enabled] == ["web"]


def test_the_secret_in_the_checkout_is_empty() -> None:
    assert set(yaml(KUBERNETES / "secret.example.yaml")["stringData"].values()) == {""}


def test_compose_opens_only_this_machine_and_keeps_the_home() -> None:
    service = yaml(ROOT / "deploy" / "compose.yaml")["services"]["ohmo"]
    assert [port for port in service["ports"] if not port.startswith("127.0.0.1:")] == []
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["restart"] == "unless-stopped"
    targets = {volume.partition(":")[2] for volume in service["volumes"]}
    assert {"/home/ohmo/.ohmo", "/home/ohmo/ohmo-workspace"} == targets
    assert (
        ROOT / "deploy" / service["build"]["context"] / service["build"]["dockerfile"]
    ).is_file()
