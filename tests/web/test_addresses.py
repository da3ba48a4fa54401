"""Addresses: everything below a path of its own, as behind a shared proxy, and no password of any target."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

from support.daemon_process import daemon_process
from support.waiting import wait_for
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


def test_password_of_a_target_is_nowhere(tmp_path: Path) -> None:
    """A target's password stands on no page, in no answer, and in no line of the log."""
    config = tmp_path / "advisor.yml"
    config.write_text(
        f"storage: {{path: {tmp_path}/data}}\n"
        "deployments: [{name: chat, static_configs: [{targets: ['http://watcher:hunter2@127.0.0.1:9']}]}]\n"
    )
    page = {"Accept": "text/html"}
    with daemon_process(["serve", f"--config.file={config}"], tmp_path) as daemon:
        wait_for(lambda: ask(f"{daemon.url}/-/ready").status == 200, "the first evaluation")
        paths = ["/", "/deployments/chat", "/targets", "/config", "/metrics"]
        paths += [f"/api/v1/{name}" for name in ("recommendations", "targets", "deployments/chat/explain")]
        answers = [ask(daemon.url + path, headers=headers) for path in paths for headers in (page, {})]
        log = (tmp_path / "daemon.log").read_text(encoding="utf-8")

    assert {answer.status for answer in answers} == {200}
    assert all("hunter2" not in answer.text for answer in answers)
    assert "hunter2" not in log
