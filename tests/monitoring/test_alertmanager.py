"""The Alertmanager example: what amtool says of it, whom it tells, and what it keeps quiet about."""

from __future__ import annotations

import subprocess

import pytest

from support.monitoring_stack import Stack, fetch, wait_for
from support.promql import ROOT

CONFIG = ROOT / "rules/alertmanager.yml"


def test_amtool_checks_the_example() -> None:
    """``amtool check-config`` finds nothing to say."""
    done = subprocess.run(["amtool", "check-config", CONFIG], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("severity", "receiver"),
    [("critical", "pager"), ("warning", "chat"), ("info", "digest"), ("other", "chat")],
)
def test_routes_go_by_severity(severity: str, receiver: str) -> None:
    """Only what is critical wakes a person; what has no severity is not lost."""
    command = ["amtool", "config", "routes", "test", f"--config.file={CONFIG}", f"severity={severity}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert receiver == done.stdout.strip()


def test_a_full_pool_silences_the_cap_of_its_own_deployment_only(stack: Stack) -> None:
    """Where memory binds nobody is told that the cap does, and other deployments are told as before."""
    fetch(
        f"{stack.alertmanager.url}/api/v2/alerts",
        [
            {"labels": {"alertname": name, "deployment": deployment, "severity": "warning"}}
            for name, deployment in (
                ("VllmAdvisorMemoryBinds", "full"),
                ("VllmAdvisorCapBindsPoolIdle", "full"),
                ("VllmAdvisorCapBindsPoolIdle", "roomy"),
            )
        ],
    )
    wait_for(lambda: stack.webhook.received("VllmAdvisorCapBindsPoolIdle", "roomy"), "the roomy one's alert")
    wait_for(lambda: stack.webhook.received("VllmAdvisorMemoryBinds", "full"), "the full one's alert")

    assert stack.alertmanager.state("VllmAdvisorCapBindsPoolIdle", "full") == "suppressed"
    assert stack.webhook.received("VllmAdvisorCapBindsPoolIdle", "full") is None
