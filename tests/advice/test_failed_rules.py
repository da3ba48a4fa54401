"""A rule of advice that raises: said once, shown for as long as it fails."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Never

import pytest
from structlog.testing import capture_logs

from support.advice_pages import START_SECONDS, config_file
from vllm_advisor.ceilings import recommendation
from vllm_advisor.ceilings.advice import advise
from vllm_advisor.ceilings.advice.codes import Code
from vllm_advisor.ceilings.advice.rules.evidence_thin import evidence_thin
from vllm_advisor.config import load_config
from vllm_advisor.deployment import open_deployment


def failing(*_: object) -> Never:
    """Fail as a fault in a rule would."""
    raise ZeroDivisionError("division by zero")


def test_a_failing_rule_is_logged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three evaluations with the same fault are one line, and a fault that comes back is said again."""
    (config,) = load_config(config_file(tmp_path)).deployments
    deployment = open_deployment(config, None)
    with capture_logs() as lines:
        for second, rule in enumerate((failing, failing, failing, evidence_thin, failing)):
            asked = partial(advise, rules={Code.EVIDENCE_THIN: rule})
            monkeypatch.setattr(recommendation, "advise", asked)
            deployment.evaluate(START_SECONDS + second)

    told = [line for line in lines if line["event"] == "a rule of advice failed, the others answer"]
    assert [line["code"] for line in told] == ["evidence_thin", "evidence_thin"]
    assert told[0]["problem"] == "ZeroDivisionError: division by zero"
    assert told[0]["deployment"] == "chat"
    assert json.dumps(told[0])
