"""Access-log lines that a shipper sends: counted like lines of a file, bounded, and only where allowed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from support.access_logs import usage_line
from support.daemon_process import DaemonProcess, daemon_process
from support.waiting import wait_for
from support.web import Answer, ask, serve_command

NDJSON = {"Content-Type": "application/x-ndjson"}
SAMPLES = Path(__file__).parents[1] / "data" / "access_logs"
EXPECTED = json.loads((SAMPLES / "expected.json").read_text())
PATH = "/api/v1/deployments/chat/requests"


def push(daemon: DaemonProcess, body: bytes, query: str = "", **headers: str) -> Answer:
    """Send lines."""
    return ask(f"{daemon.url}{PATH}{query}", method="POST", body=body, headers=NDJSON | headers)


def counted_requests(daemon: DaemonProcess) -> float | None:
    """Return how many requests the evidence holds, as the metrics have it."""
    return daemon.value("context_requests", deployment="chat")


def test_lines_sent_are_evidence(tmp_path: Path) -> None:
    """They count by outcome and in the metrics, once however often they are sent, and outlive a restart."""
    lines = [usage_line(100 + number, 5, request_id=f"r{number}") for number in range(40)]
    failed = json.dumps({"status": 500, "usage": None}).encode() + b"\n"
    command = serve_command(tmp_path, "--web.enable-api-writes")
    (tmp_path / "advisor.yml").write_text(
        (tmp_path / "advisor.yml").read_text().replace("[{name", "[{context: {window: 36500d}, name")
    )
    with daemon_process(command, tmp_path) as daemon:
        first = push(daemon, b"".join(lines) + failed + b"{broken\n")
        again = push(daemon, gzip.compress(b"".join(lines)), **{"Content-Encoding": "gzip"})
        named = push(daemon, b"a,b\n", "?format=azure_llm_trace", **{"Content-Type": "text/csv"})
        read = [
            daemon.value("log_lines_total", outcome=outcome)
            for outcome in ("served", "failed", "broken", "duplicate")
        ]
        wait_for(lambda: counted_requests(daemon) == 40, "the requests sent", seconds=20)
        daemon.stop()
    with daemon_process(command, tmp_path) as daemon:
        wait_for(lambda: counted_requests(daemon) == 40, "the requests kept", seconds=20)

    assert first.json() == {"lines": 42, "outcomes": {"served": 40, "failed": 1, "broken": 1}}
    assert again.json() == {"lines": 40, "outcomes": {"duplicate": 40}}
    assert named.json() == {"lines": 1, "outcomes": {"other": 1}}
    assert read == [40, 1, 1, 40]


def test_what_cannot_be_taken_is_a_problem(tmp_path: Path) -> None:
    """A name, format or type that is none, and a body over the limit, also when it was packed small."""
    with daemon_process(serve_command(tmp_path, "--web.enable-api-writes"), tmp_path) as daemon:
        url = f"{daemon.url}/api/v1/deployments/none/requests"
        unknown = ask(url, method="POST", body=b"{}", headers=NDJSON)
        form = push(daemon, b"{}", "?format=regex")
        kind = push(daemon, b"{}", **{"Content-Type": "image/png"})
        bomb = push(daemon, gzip.compress(b" " * (17 << 20)), **{"Content-Encoding": "gzip"})
        empty = push(daemon, b"")

    assert [unknown.status, form.status, kind.status, bomb.status] == [404, 400, 415, 413]
    assert "expected one of auto, apisix" in form.json()["detail"]
    assert empty.json() == {"lines": 0, "outcomes": {}}


def test_nothing_is_taken_unless_allowed(tmp_path: Path) -> None:
    """Without --web.enable-api-writes the answer is 403."""
    with daemon_process(serve_command(tmp_path), tmp_path) as daemon:
        assert push(daemon, usage_line(10, 2)).status == 403


def test_formats_are_those_of_files(tmp_path: Path) -> None:
    """Every sample comes to the outcomes that are known of it, whatever its format."""
    with daemon_process(serve_command(tmp_path, "--web.enable-api-writes"), tmp_path) as daemon:
        answers = {
            name: push(daemon, (SAMPLES / name).read_bytes(), **{"Content-Type": "text/plain"}).json()
            for name in EXPECTED
        }

    for name, expected in EXPECTED.items():
        outcomes = answers[name]["outcomes"]
        assert outcomes.get("served", 0) == expected["usable"], name
        assert outcomes.get("broken", 0) == expected["broken"], name
        assert outcomes.get("rejected_for_length", 0) == expected["refused_too_long"], name
