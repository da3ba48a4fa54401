"""Everything below a path of its own, as behind a proxy that several programs share."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

from support.daemon_process import daemon_process
from support.web import ask, open_page, serve_command


def test_everything_is_below_the_path(tmp_path: Path, browser: Browser) -> None:
    """Pages, files, metrics and API are below the external URL's path, and the root leads there."""
    with daemon_process(serve_command(tmp_path, "--web.external-url=/advisor/"), tmp_path) as daemon:
        root = daemon.url.removesuffix("/advisor")
        found = [ask(daemon.url + path).status for path in ("/", "/metrics", "/-/healthy", "/openapi.json")]
        elsewhere = ask(f"{root}/metrics").status
        servers = ask(f"{daemon.url}/openapi.json").json()["servers"]
        problem = ask(f"{daemon.url}/api/v1/nothing").headers["content-type"]
        with open_page(browser, root) as opened:
            address = opened.page.url

    assert daemon.url.endswith("/advisor")
    assert found == [200, 200, 200, 200]
    assert elsewhere == 404
    assert servers == [{"url": "/advisor"}]
    assert problem.startswith("application/problem+json")
    assert address == f"{daemon.url}/"
    assert opened.complaints == []
