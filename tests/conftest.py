"""Fixtures for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


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
