"""From an engine's page to a person: daemon, Prometheus, Alertmanager and a webhook, all of them real."""

from __future__ import annotations

import pytest

from support.monitoring_stack import Stack, wait_for


@pytest.mark.parametrize(
    ("name", "deployment", "said"),
    [
        ("VllmAdvisorCapBindsPoolIdle", "capped", "--max-num-seqs 8 with requests waiting"),
        ("VllmAdvisorTpotSloMissed", "slow", "its target 2ms"),
    ],
)
def test_an_engine_in_trouble_reaches_the_webhook(
    stack: Stack, name: str, deployment: str, said: str
) -> None:
    """A cap that binds, and a target that is missed, are delivered with their numbers and their runbook."""
    path, alert = wait_for(lambda: stack.webhook.received(name, deployment), f"{name} at the webhook")

    assert {"warning": "/chat", "critical": "/pager"}[alert["labels"]["severity"]] == path
    assert said in alert["annotations"]["description"]
    assert "error" not in alert["annotations"]["description"]
    assert alert["annotations"]["runbook_url"].endswith(f"/{name}.md")


def test_an_engine_that_is_down_silences_what_follows_from_it(stack: Stack) -> None:
    """Evidence goes stale because the engine is down: only the engine is told of."""
    wait_for(lambda: ("VllmAdvisorCapBindsPoolIdle", "gone") in stack.prometheus.firing(), "its evidence")
    stack.engines.stop("gone")
    wait_for(lambda: stack.webhook.received("VllmAdvisorTargetDown", "gone"), "the engine's alert")
    wait_for(lambda: ("VllmAdvisorEvidenceStale", "gone") in stack.prometheus.firing(), "stale evidence")
    wait_for(lambda: stack.alertmanager.state("VllmAdvisorEvidenceStale", "gone"), "it at Alertmanager")

    assert stack.alertmanager.state("VllmAdvisorEvidenceStale", "gone") == "suppressed"
    assert stack.webhook.received("VllmAdvisorEvidenceStale", "gone") is None
    assert not {deployment for name, deployment in stack.prometheus.firing() if name == "VllmAdvisorDown"}
