"""A runbook for every alert and every advice code, all of one shape."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from monitoring.recording import DEPLOYMENT_RECORDINGS, ENGINE_RECORDINGS
from monitoring.rule_files import ALERTS
from support.promql import ROOT, dashboards, exported_names
from vllm_advisor.ceilings.advice import Code

PAGES = sorted((ROOT / "docs/runbooks").glob("*.md"))
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]


def test_none_is_missing_and_none_is_left_over() -> None:
    """One page an alert and one an advice code, named after it."""
    wanted = {alert.name for alert in ALERTS} | {str(code) for code in Code}

    assert {page.stem for page in PAGES} == wanted


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_its_four_sections(page: Path) -> None:
    """Meaning, impact, diagnosis and mitigation, each with something in it; links lead somewhere."""
    text = page.read_text(encoding="utf-8")
    title, *parts = re.split(r"^## ", text, flags=re.MULTILINE)

    assert title.strip() == f"# {page.stem}"
    assert [part.partition("\n")[0] for part in parts] == SECTIONS
    assert all(len(part.partition("\n")[2].split()) > 3 for part in parts)
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (page.parent / link).is_file(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_sends_people_to_is_there(page: Path) -> None:
    """Metrics are exported or recorded, and panels and rows are on the dashboards, under these very names."""
    text = page.read_text(encoding="utf-8")
    titles = {panel["title"] for board in dashboards().values() for panel in board["panels"]}
    recorded = {rule.record for rule in (*DEPLOYMENT_RECORDINGS, *ENGINE_RECORDINGS)}
    known = exported_names() | recorded
    named = re.findall(r"\b(?:vllm_advisor_\w+|vllm:\w+|engine:vllm_[\w:]+|deployment\w*:vllm_[\w:]+)", text)

    assert set(re.findall(r"(?:panel|row) \*([^*]+)\*", text)) <= titles
    assert {name for name in named if name not in known and f"{name}_sum" not in known} == set()
