"""The first page of a large installation."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from support.worked_example import NOW_SECONDS, worked_example
from vllm_advisor.web.rendering import render
from vllm_advisor.web.words import overview_summary

DEPLOYMENTS = 200


def test_two_hundred_deployments_cost_little(tmp_path: Path) -> None:
    """The page takes under a second of CPU and, with its files, under 500 kB; every name is on it."""
    one = worked_example(tmp_path).recommend(NOW_SECONDS)
    many = [
        replace(one, deployment=one.deployment.model_copy(update={"name": f"chat-{number:03}"}))
        for number in range(DEPLOYMENTS)
    ]
    start = time.process_time()
    page = render("overview.html", root=".", recommendations=many, summary=overview_summary(many, 400, 0))
    seconds = time.process_time() - start
    static = Path(__file__).parents[2] / "exporter/vllm_advisor/web/static"
    files = sum((static / name).stat().st_size for name in ("style.css", "live.js", "icon.svg"))

    assert all(f"deployments/chat-{number:03}" in page for number in range(DEPLOYMENTS))
    assert "200 deployments · 200 would be started with other flags · 400 targets, all well" in page
    assert seconds < 1
    assert len(page.encode()) + files < 500_000
