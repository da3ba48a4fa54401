"""The examples of deploying: whole, hardened, and of files that are there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from support.promql import ROOT
from vllm_advisor.config import load_config

DEPLOY = ROOT / "deploy"


def objects() -> list[dict[str, Any]]:
    """Return every Kubernetes object."""
    paths = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return [one for path in paths for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def test_compose_mounts_what_is_there() -> None:
    """Every file and folder that a service mounts is in the repository, and every service is hardened."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))

    assert set(compose["services"]) == {"vllm-advisor", "prometheus", "alertmanager", "grafana"}
    for service in compose["services"].values():
        assert service["read_only"]
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert source in compose["volumes"] or (DEPLOY / source).exists()


def test_the_prometheus_of_compose_is_right(tmp_path: Path) -> None:
    """``promtool check config`` takes it, with the rules where they lie."""
    text = (DEPLOY / "prometheus.yml").read_text(encoding="utf-8")
    config_path = tmp_path / "prometheus.yml"
    config_path.write_text(text.replace("/etc/prometheus/rules", str(ROOT / "rules")), encoding="utf-8")
    done = subprocess.run(
        ["promtool", "check", "config", config_path], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    rule_files = list((ROOT / "rules").glob("vllm-*.yml"))
    assert f"{len(rule_files)} rule files found" in done.stdout


def test_advisors_configurations_are_right(tmp_path: Path) -> None:
    """Both examples are configurations that the daemon starts with."""
    config_map = next(one for one in objects() if one["kind"] == "ConfigMap")
    in_cluster = tmp_path / "advisor.yml"
    in_cluster.write_text(config_map["data"]["advisor.yml"], encoding="utf-8")

    assert load_config(in_cluster).deployments[0].name == "chat"
    assert load_config(DEPLOY / "advisor.yml").deployments[0].name == "chat"


def test_kubernetes_objects_belong_together() -> None:
    """Each kind once, dashboards with the sidecar's label, all of one name."""
    kinds = [one["kind"] for one in objects() if one["kind"] != "ConfigMap"]
    dashboards = [one for one in objects() if "grafana_dashboard" in one["metadata"]["labels"]]

    assert sorted(kinds) == [
        *("Deployment", "NetworkPolicy", "PersistentVolumeClaim"),
        *("PrometheusRule", "Service", "ServiceMonitor"),
    ]
    assert {one["metadata"]["labels"]["grafana_dashboard"] for one in dashboards} == {"1"}
    assert len(dashboards) == 2
    for one in objects():
        assert one["metadata"]["labels"]["app.kubernetes.io/name"] == "vllm-advisor"


def test_the_pod_is_of_the_restricted_profile() -> None:
    """Non-root, read-only root, no capabilities, and the doors that the daemon has."""
    pod = next(one for one in objects() if one["kind"] == "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
    assert container["readinessProbe"]["httpGet"]["path"] == "/-/ready"


def test_the_image_is_pinned_and_runs_as_nobody() -> None:
    """Dependencies by their hashes, a numeric user, and no shell in between."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")

    assert "--require-hashes" in text
    assert re.search(r"^USER 65532:65532$", text, re.MULTILINE)
    assert re.search(r"^ENTRYPOINT \[", text, re.MULTILINE)
    assert "HEALTHCHECK" in text
