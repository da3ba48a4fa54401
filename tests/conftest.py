"""Fixtures for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

WITH_REAL_PROGRAMS = ("daemon", "demo", "fleet", "monitoring", "web", "test_live_daemon")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a test that waits for other programs try again: the machine may be busy with something else."""
    for item in items:
        path = item.path.relative_to(Path(__file__).parent)
        if path.parts[0] in WITH_REAL_PROGRAMS or path.stem in WITH_REAL_PROGRAMS:
            item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.fixture(scope="session")
def test_data() -> Path:
    """Return the folder of files that are not the project's to publish; skip where there is none."""
    folder = os.environ.get("VLLM_ADVISOR_TEST_DATA")
    if not folder:
        pytest.skip("VLLM_ADVISOR_TEST_DATA names no folder with the traces and pages of others")
    return Path(folder)


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of test data that the project ships."""
    return Path(__file__).parent / "data"
