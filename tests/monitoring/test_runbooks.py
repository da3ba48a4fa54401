"""A runbook for every alert and every advice code, all of one shape."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from monitoring.rule_files import ALERTS
from support.promql import ROOT
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
