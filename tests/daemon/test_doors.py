"""The daemon's doors: health, readiness, reload, state over a restart, stop."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon_process import DaemonProcess, daemon_process
from support.waiting import wait_for

FAST = "global: {scrape_interval: 500ms, scrape_timeout: 400ms, evaluation_interval: 500ms}\n"
LINE = {"ts": 0.0, "model": "m", "status": 200, "usage": {"prompt_tokens": 900, "completion_tokens": 100}}
FIELDS = (
    "{time: ts, status: status, "
    "prompt_tokens: usage.prompt_tokens, completion_tokens: usage.completion_tokens}"
)


def write_config(folder: Path, *names: str) -> Path:
    """Write a configuration of deployments that read one log each."""
    path = folder / "advisor.yml"
    sections = "".join(
        f"  - name: {name}\n"
        f"    access_logs: [{{paths: [{folder}/{name}.jsonl], format: json, fields: {FIELDS}}}]\n"
        for name in names
    )
    path.write_text(f"{FAST}storage: {{path: {folder}/data}}\ndeployments:\n{sections}")
    return path


def append_requests(path: Path, count: int) -> None:
    """Append log lines of 1,000 tokens each."""
    now_seconds = time.time()
    with path.open("a") as file:
        file.writelines(json.dumps(LINE | {"ts": now_seconds}) + "\n" for _ in range(count))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """Run a daemon with one deployment and no engine."""
    config = write_config(tmp_path, "chat")
    with daemon_process(["serve", f"--config.file={config}", "--web.enable-lifecycle"], tmp_path) as running:
        yield running


def requests_seen(daemon: DaemonProcess, deployment: str = "chat") -> float | None:
    """Return how many requests its context lengths rest on."""
    return daemon.value("context_requests", deployment=deployment)


def test_health_and_readiness(daemon: DaemonProcess) -> None:
    """Healthy at once; ready when every deployment has been evaluated."""
    assert daemon.ask("/-/healthy")[0] == 200
    assert wait_for(lambda: daemon.ask("/-/ready")[0] == 200, "readiness")
    assert daemon.ask("/nowhere")[0] == 404


def test_every_door_answers(daemon: DaemonProcess) -> None:
    """Status page, recommendations, targets and metrics answer before any engine does."""
    wait_for(lambda: daemon.ask("/-/ready")[0] == 200, "readiness")

    for path in ("/", "/metrics", "/targets", "/api/v1/recommendations"):
        assert daemon.ask(path)[0] == 200, path
    (one,) = json.loads(daemon.get("/api/v1/recommendations"))["recommendations"]
    flag = one["flags"]["max_num_seqs"]
    assert (flag["recommended"], flag["configured"], flag["grade"]) == (None, None, "none")
    assert one["binding"] == "none"


def test_unknown_number_is_absent(daemon: DaemonProcess) -> None:
    """What is not known is no series: neither 0 nor NaN."""
    wait_for(lambda: daemon.ask("/-/ready")[0] == 200, "readiness")
    names = {name for name, family in daemon.metrics().items() if family.samples}

    assert not names & {"recommended_max_num_seqs", "recommended_max_model_len_tokens", "ceiling_sequences"}
    assert {"advice", "binding_ceiling", "recommendation_grade"} <= names


def test_stop_takes_less_than_a_second(tmp_path: Path) -> None:
    """SIGTERM ends the daemon within a second (the best of three: others may have the machine)."""
    taken_seconds = []
    for _ in range(3):
        config = write_config(tmp_path, "chat")
        with daemon_process(["serve", f"--config.file={config}"], tmp_path) as daemon:
            wait_for(lambda daemon=daemon: daemon.ask("/-/ready")[0] == 200, "readiness")
            taken_seconds.append(daemon.stop(signal.SIGTERM))
            assert daemon.process.returncode == 0
            assert not [event for event in daemon.log() if event["level"] != "info"]
        if taken_seconds[-1] < 1.0:
            return
    pytest.fail(f"stops took {taken_seconds} seconds")


@pytest.mark.parametrize("door", ["signal", "http"])
def test_reload_keeps_evidence_and_takes_new_deployments(
    door: str, daemon: DaemonProcess, tmp_path: Path
) -> None:
    """By SIGHUP and by POST: a new deployment appears, what was learnt of the old one stays."""
    append_requests(tmp_path / "chat.jsonl", 50)
    wait_for(lambda: requests_seen(daemon) == 50, "50 requests")
    append_requests(tmp_path / "batch.jsonl", 7)
    write_config(tmp_path, "chat", "batch")
    if door == "signal":
        daemon.process.send_signal(signal.SIGHUP)
    else:
        assert daemon.ask("/-/reload", "POST") == (200, "reloaded\n")

    wait_for(lambda: requests_seen(daemon, "batch") == 7, "7 requests")
    assert requests_seen(daemon) == 50
    append_requests(tmp_path / "chat.jsonl", 5)
    wait_for(lambda: requests_seen(daemon) == 55, "55 requests")


def test_changed_deployment_keeps_its_evidence(daemon: DaemonProcess, tmp_path: Path) -> None:
    """Another target for the same deployment loses and doubles nothing."""
    append_requests(tmp_path / "chat.jsonl", 50)
    wait_for(lambda: requests_seen(daemon) == 50, "50 requests")
    config = write_config(tmp_path, "chat")
    config.write_text(config.read_text() + "    slo: {tpot: 25ms}\n")

    assert daemon.ask("/-/reload", "POST")[0] == 200
    wait_for(lambda: daemon.value("tpot_slo_seconds", deployment="chat") == 0.025, "the new target")
    assert requests_seen(daemon) == 50
    append_requests(tmp_path / "chat.jsonl", 5)
    wait_for(lambda: requests_seen(daemon) == 55, "55 requests")


def test_bad_reload_changes_nothing(daemon: DaemonProcess, tmp_path: Path) -> None:
    """All or nothing: a mistake is told, the gauge falls to 0, the old configuration runs on."""
    (tmp_path / "advisor.yml").write_text("deployments:\n  - name: chat\n    slo: {tpot: 40}\n")
    status, text = daemon.ask("/-/reload", "POST")

    assert status == 500
    assert "advisor.yml:3: deployments[0].slo.tpot" in text
    assert daemon.value("config_last_reload_successful") == 0
    append_requests(tmp_path / "chat.jsonl", 3)
    wait_for(lambda: requests_seen(daemon) == 3, "3 requests")


def test_reload_over_http_is_off_by_default(tmp_path: Path) -> None:
    """Without --web.enable-lifecycle the door is closed, and says how to open it."""
    config = write_config(tmp_path, "chat")
    with daemon_process(["serve", f"--config.file={config}"], tmp_path) as daemon:
        status, text = daemon.ask("/-/reload", "POST")

    assert status == 403
    assert "--web.enable-lifecycle" in text


def test_evidence_outlives_a_restart(tmp_path: Path) -> None:
    """A stopped and started daemon knows what it knew, and goes on where it was in its logs."""
    config = write_config(tmp_path, "chat")
    append_requests(tmp_path / "chat.jsonl", 40)
    with daemon_process(["serve", f"--config.file={config}"], tmp_path) as daemon:
        wait_for(lambda: requests_seen(daemon) == 40, "40 requests")
        daemon.stop()
    append_requests(tmp_path / "chat.jsonl", 2)
    with daemon_process(["serve", f"--config.file={config}"], tmp_path) as daemon:
        wait_for(lambda: requests_seen(daemon) == 42, "42 requests")


def test_damaged_state_is_set_aside(tmp_path: Path) -> None:
    """A state file that is no state file is kept beside, named once, and the daemon starts."""
    config = write_config(tmp_path, "chat")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "state.db").write_bytes(b"not a database, but long enough to look at" * 50)
    with daemon_process(["serve", f"--config.file={config}"], tmp_path) as daemon:
        (event,) = [one for one in daemon.log() if one["level"] == "warning"]

    assert Path(event["kept"]).read_bytes().startswith(b"not a database")


def run(*arguments: Any, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that is to end by itself."""
    command = [sys.executable, "-m", "vllm_advisor", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=folder, check=False)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["serve"], "give either --config.file or --target"),
        (["serve", "--target=a:1", "--slo.tpot=40"], "--slo.tpot: expected a duration"),
        (
            ["serve", "--target=a:1", "--web.listen-address=nowhere"],
            "--web.listen-address: expected host:port",
        ),
        (["serve", "--target=a:1", "--shard=x"], "--shard: expected a share such as 2/5"),
        (["serve", "--target=a b"], "--target: expected host:port or an address"),
        (["serve", "--config.file=a", "--slo.tpot=40ms"], "--slo.tpot: goes with --target"),
        (["replay", "a", "--config.file=a", "--slo.tpot=40ms"], "a configuration file has its own"),
        (["serve", "--log.level=loud"], "--log.level: invalid choice: 'loud'"),
        (["recommend"], "give either a daemon's URL or --replay"),
        (["bogus"], "COMMAND: invalid choice: 'bogus'"),
    ],
)
def test_wrong_flag_is_one_line(flags: list[str], words: str, tmp_path: Path) -> None:
    """A flag that cannot be used is one line on stderr and exit 2."""
    ended = run(*flags, folder=tmp_path)

    assert ended.returncode == 2
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_taken_port_is_one_line(tmp_path: Path) -> None:
    """A port in use is told without a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("serve", "--target=a:1", f"--web.listen-address=127.0.0.1:{port}", folder=tmp_path)

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("vllm-advisor serve: --web.listen-address: cannot listen")
    assert "Traceback" not in ended.stderr


def test_second_daemon_on_the_same_state_is_refused(daemon: DaemonProcess, tmp_path: Path) -> None:
    """Two daemons never write one state file."""
    ended = run(
        "serve",
        f"--config.file={tmp_path / 'advisor.yml'}",
        "--web.listen-address=127.0.0.1:0",
        folder=tmp_path,
    )

    assert ended.returncode == 1
    assert "is in use by another process" in ended.stderr
    assert daemon.process.poll() is None
