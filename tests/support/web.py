"""Talking to the daemon's web part in tests: JSON, a browser page, and what a page logged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from playwright.sync_api import Browser, Page

from support.daemon_process import DaemonProcess

CHROMIUM = "/usr/bin/chromium"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
API = "/api/v1/deployments/demo"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    text: str

    def json(self) -> Any:
        """Read it as JSON."""
        return json.loads(self.text)


def ask(
    url: str, *, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
) -> Answer:
    """Ask for a URL; an answer that is an error is returned too."""
    request = Request(url, data=body, method=method, headers=headers or {})  # noqa: S310 - always loopback
    try:
        with urlopen(request, timeout=10) as response:  # noqa: S310
            return Answer(response.status, _lower(response.headers.items()), response.read().decode())
    except HTTPError as error:
        with error:
            return Answer(error.code, _lower(error.headers.items()), error.read().decode())


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}


def flag_grades(daemon: DaemonProcess) -> list[str]:
    """Return both flags' grades."""
    recommendations = json.loads(daemon.get("/api/v1/recommendations"))["recommendations"]
    return [flag["grade"] for one in recommendations for flag in one["flags"].values()]


@dataclass(slots=True)
class OpenPage:
    """A page in a browser, what it complained of, and whom it asked."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


def serve_command(folder: Path, *flags: str) -> list[str]:
    """Write a configuration whose one engine never answers, and return what serves it."""
    config = folder / "advisor.yml"
    config.write_text(
        f"storage: {{path: {folder}/data}}\n"
        "deployments: [{name: chat, static_configs: [{targets: ['127.0.0.1:9']}]}]\n"
    )
    return ["serve", f"--config.file={config}", *flags]


@contextmanager
def open_page(
    browser: Browser,
    url: str,
    *,
    width: int = 1280,
    height: int = 900,
    scheme: str = "light",
    own_clock: bool = False,
) -> Iterator[OpenPage]:
    """Open a page in a context of its own; with its own clock its timers can be put forward."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    opened = OpenPage(page)
    page.on("console", lambda message: _note(opened, message.type, message.text))
    page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    page.on("request", lambda request: opened.asked.append(request.url))
    if own_clock:
        page.clock.install()
    page.goto(url)
    page.wait_for_load_state("networkidle")
    try:
        yield opened
    finally:
        context.close()


def _note(opened: OpenPage, kind: str, text: str) -> None:
    if kind in {"error", "warning"}:
        opened.complaints.append(text)
