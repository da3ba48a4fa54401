"""One demo and one browser for all tests of the pages and the API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from support.daemon_process import DaemonProcess, daemon_process
from support.waiting import wait_for
from support.web import CHROMIUM, CHROMIUM_FLAGS, flag_grades


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """Run the demo until both flags are measured, with an API that takes sweeps."""
    folder = tmp_path_factory.mktemp("demo")
    with daemon_process(["demo", "--web.enable-api-writes"], folder) as daemon:
        wait_for(lambda: set(flag_grades(daemon)) == {"measured"}, "both flags measured", seconds=60)
        yield daemon


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run a headless browser; while it lasts, no other event loop can run here."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield running
        running.close()
