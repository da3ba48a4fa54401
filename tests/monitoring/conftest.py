"""One running stack for the tests of rules and of dashboards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.monitoring_stack import Stack, monitoring_stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run Prometheus, Alertmanager, the daemon and its engines."""
    with monitoring_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running
