"""`sweep --daemon` against the real daemon: what it measured becomes the deployment's ceiling."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import trustme

from support.daemon_process import DaemonProcess, daemon_process
from support.openai_server import OpenAiServer, serving
from support.waiting import wait_for
from vllm_advisor.cli import main

QUICK = ("--yes", "--prompt-tokens=60", "--output-tokens=12", "--requests=8", "--levels=1,8", "--no-refine")
SLO = ("--slo.tpot=65ms", "--slo.quantile=mean")
WRITES = "--web.enable-api-writes"


@contextmanager
def _daemon(
    server: OpenAiServer, folder: Path, *flags: str, sweep: Path | None = None
) -> Iterator[DaemonProcess]:
    """Run a daemon that scrapes the server as its deployment *chat*."""
    config = folder / "advisor.yml"
    config.write_text(
        f"storage: {{path: {folder}/data}}\n"
        "global: {evaluation_interval: 1s}\n"
        "deployments:\n"
        "  - name: chat\n"
        "    slo: {tpot: 65ms, quantile: mean}\n"
        f"    static_configs: [{{targets: ['{server.url}']}}]\n" + (f"    sweep: {sweep}\n" if sweep else ""),
        encoding="utf-8",
    )
    with daemon_process(["serve", f"--config.file={config}", *flags], folder) as daemon:
        yield daemon


def _sweep(server: OpenAiServer, folder: Path, daemon_url: str, *flags: str) -> int:
    output = f"--output={folder / 'sweep.json'}"
    return main(["sweep", server.url, *QUICK, *SLO, output, f"--daemon={daemon_url}", *flags])


def _crossing(folder: Path) -> int:
    """Return where a straight line between the file's two levels crosses the target, rounded down."""
    one, eight = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))["levels"]
    return math.floor(1 + 7 * (0.065 - one["tpot_mean"]) / (eight["tpot_mean"] - one["tpot_mean"]))


def _latency_ceiling(daemon: DaemonProcess) -> int | None:
    """Return the ceiling that a daemon tells, once it has worked one out."""

    def recommendations() -> list[dict[str, Any]]:
        return json.loads(daemon.get("/api/v1/recommendations"))["recommendations"]

    (chat,) = wait_for(recommendations, "a recommendation")
    ceiling: int | None = chat["ceilings"]["latency"]["sequences"]
    return ceiling


def test_a_sweep_becomes_the_daemons_ceiling(tmp_path: Path) -> None:
    """30 ms with one user and 100 ms with eight cross 65 ms in between, and the daemon says so."""
    with serving(OpenAiServer(0.02, 0.01)) as server, _daemon(server, tmp_path, WRITES) as daemon:
        before = _latency_ceiling(daemon)
        assert _sweep(server, tmp_path, daemon.url, "--deployment=chat") == 0
        held = json.loads(daemon.get("/api/v1/deployments/chat/sweep"))
        after = _latency_ceiling(daemon)
    assert before is None
    assert held == json.loads((tmp_path / "sweep.json").read_text(encoding="utf-8"))
    assert after == _crossing(tmp_path)


def test_the_file_is_the_daemons_evidence_too(tmp_path: Path) -> None:
    """The same file under `sweep:` gives a daemon that takes no writes the same ceiling."""
    output = tmp_path / "sweep.json"
    with serving(OpenAiServer(0.02, 0.01)) as server:
        assert main(["sweep", server.url, *QUICK, *SLO, f"--output={output}"]) == 0
        with _daemon(server, tmp_path, sweep=output) as daemon:
            assert _latency_ceiling(daemon) == _crossing(tmp_path)


@pytest.mark.parametrize(
    ("flags", "deployment", "said"),
    [
        ((), "chat", "the daemon answers 403: The API takes no writes: start with --web.enable-api-writes."),
        ((WRITES,), "other", "the daemon answers 404: There is no recommendation for a deployment 'other'."),
    ],
    ids=["no writes", "no such deployment"],
)
def test_a_daemon_that_would_refuse_is_known_before_any_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], deployment: str, said: str
) -> None:
    """One line in the daemon's words, and no request was sent."""
    with serving(OpenAiServer()) as server, _daemon(server, tmp_path, *flags) as daemon:
        _latency_ceiling(daemon)
        assert _sweep(server, tmp_path, daemon.url, f"--deployment={deployment}") == 1
    assert said in capsys.readouterr().err
    assert not server.bodies


def test_a_daemon_that_is_not_there_is_known_before_any_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody listens at --daemon: one line with its address, and no request was sent."""
    with serving(OpenAiServer()) as gone:
        pass
    with serving(OpenAiServer()) as server:
        assert _sweep(server, tmp_path, gone.url) == 1
    assert f"{gone.url} cannot be reached" in capsys.readouterr().err
    assert not server.bodies


def test_a_daemon_behind_tls_and_a_password_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """User and password in its address, and its authority by --ca-file; the password is shown nowhere."""
    authority, password = trustme.CA(), "correct-horse"
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(str(tmp_path / "server.key"))
    leaf.cert_chain_pems[0].write_to_path(str(tmp_path / "server.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    web = tmp_path / "web.yml"
    web.write_text(
        "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
        f"basic_auth_users: {{alice: {hashed}}}\n",
        encoding="utf-8",
    )
    with (
        serving(OpenAiServer(0.02, 0.01)) as server,
        _daemon(server, tmp_path, WRITES, f"--web.config.file={web}") as daemon,
    ):
        trusted = f"--ca-file={tmp_path / 'authority.pem'}"
        assert _sweep(server, tmp_path, daemon.url, "--deployment=chat", trusted) == 1
        assert "the daemon answers 401" in capsys.readouterr().err
        known = daemon.url.replace("https://", f"https://alice:{password}@")
        assert _sweep(server, tmp_path, known, "--deployment=chat") == 1
        assert "its certificate is not trusted" in capsys.readouterr().err
        assert not server.bodies
        wait_for(lambda: _sweep(server, tmp_path, known, "--deployment=chat", trusted) == 0, "a hand-over")
    shown = capsys.readouterr()
    assert password not in shown.out + shown.err
