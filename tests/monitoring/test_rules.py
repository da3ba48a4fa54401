"""The rule files: what Prometheus' own tool says of them, and what people must find in each alert."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring.advice_alerts import alert_name
from monitoring.rule_files import DEFAULT_RUNBOOK_BASE, rule_files
from support.promql import PROMETHEUS_OWN, ROOT, exported_names, names
from vllm_advisor.ceilings.advice import SEVERITY, Code

RULE_FILES = [ROOT / f"rules/{name}.yml" for name in ("vllm-advisor", "vllm-only", "vllm-intervals")]
TEST_FILES = sorted((ROOT / "rules/tests").glob("*.yml"))

NOT_ALERTED = {
    Code.CEILINGS_FAR_APART: "a choice of hardware, not a fault",
    Code.CONTEXT_CENSORED: "said beside max_model_len_rejecting, which is the symptom",
    Code.MIXED_WORKLOADS: "a choice of how deployments are cut",
    Code.SWEEP_NEEDED: "what is missing for a number, and nothing is wrong meanwhile",
    Code.EVIDENCE_THIN: "true of every deployment in its first hours",
}


def rules(path: Path) -> list[dict[str, Any]]:
    """Return a file's rules in their order."""
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = [rule for path in RULE_FILES for rule in rules(path) if "alert" in rule]
RECORDED = {rule["record"] for path in RULE_FILES for rule in rules(path) if "record" in rule}


def test_promtool_checks_the_rules() -> None:
    """``promtool check rules`` finds nothing to say."""
    done = subprocess.run(
        ["promtool", "check", "rules", *RULE_FILES], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.stem)
def test_promtool_tests_the_rules(path: Path) -> None:
    """Every alert fires, keeps quiet on the near miss, and resolves."""
    done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_both_ways() -> None:
    """No alert is without a moment at which it fires, and one at which it does not."""
    fires, quiet = set(), set()
    for path in TEST_FILES:
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            for check in test.get("alert_rule_test", ()):
                (fires if check["exp_alerts"] else quiet).add(check["alertname"])

    assert {alert["alert"] for alert in ALERTS} == fires & quiet


def test_files_are_fresh() -> None:
    """What is committed is what `make rules` writes."""
    for name, text in rule_files(DEFAULT_RUNBOOK_BASE).items():
        assert text == (ROOT / name).read_text(encoding="utf-8"), f"{name}: run `make rules`"


def test_runbooks_can_live_anywhere() -> None:
    """One setting moves every runbook link."""
    moved = rule_files("https://wiki.example.org/vllm/")

    for text in moved.values():
        assert DEFAULT_RUNBOOK_BASE not in text
        links = text.count("runbook_url: ")
        assert links == text.count("runbook_url: https://wiki.example.org/vllm/Vllm")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: f"{alert['alert']}-{alert['labels']['severity']}")
def test_an_alert_says_what_a_person_needs(alert: dict[str, Any]) -> None:
    """Held for a while, with severity, a static sentence, a description with its numbers, and a runbook."""
    summary, description = alert["annotations"]["summary"], alert["annotations"]["description"]

    assert alert["for"][:-1] > "0"
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert summary.endswith(".")
    assert "{{" not in summary
    assert "{{" in description
    assert f"{DEFAULT_RUNBOOK_BASE}/{alert['alert']}.md" == alert["annotations"]["runbook_url"]
    assert alert["alert"].startswith(("VllmAdvisor", "VllmOnly"))


def test_severity_is_the_advices_own() -> None:
    """An alert on an advice is as severe as the advice; only a target missed by far is more."""
    by_name: dict[str, set[str]] = {}
    for alert in ALERTS:
        by_name.setdefault(alert["alert"], set()).add(alert["labels"]["severity"])
    expected = {alert_name(code): {str(SEVERITY[code])} for code in Code if code not in NOT_ALERTED}
    expected[alert_name(Code.TPOT_SLO_MISSED)] |= {"critical"}

    assert expected == {name: by_name[name] for name in expected}
    assert not {alert_name(code) for code in NOT_ALERTED} & by_name.keys()


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.stem)
def test_rules_ask_for_what_there_is(path: Path) -> None:
    """Every name is one that the advisor or vLLM exports, or was recorded before."""
    known = exported_names() | PROMETHEUS_OWN | RECORDED
    for rule in rules(path):
        assert names(rule["expr"]) <= known, rule


def test_rules_without_the_advisor_need_none_of_its_series() -> None:
    """The file for vLLM alone asks for nothing of the advisor."""
    asked = {name for rule in rules(RULE_FILES[1]) for name in names(rule["expr"])}

    assert not {name for name in asked if "vllm_advisor" in name}
