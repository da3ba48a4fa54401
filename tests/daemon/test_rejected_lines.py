"""Access-log lines that cannot be used: counted by what is wrong, and told of once."""

from __future__ import annotations

import json
import time
from pathlib import Path

from support.access_logs import usage_line
from support.daemon_process import daemon_process
from support.waiting import wait_for
from support.web import serve_command


def test_rejected_lines_are_counted_and_told_once(tmp_path: Path) -> None:
    """The warning names the files and the kind; later lines of the kind are only counted."""
    log, now_seconds = tmp_path / "requests.jsonl", time.time()
    log.write_bytes(usage_line(10, 1, now_seconds) + usage_line(10, 1, now_seconds + 86_400) + b"{cut\n")
    command = serve_command(tmp_path)
    config = tmp_path / "advisor.yml"
    access_logs = f"[{{access_logs: [{{paths: [{json.dumps(str(log))}]}}], name"
    config.write_text(config.read_text().replace("[{name", access_logs))
    with daemon_process(command, tmp_path) as daemon:
        wait_for(lambda: daemon.value("log_lines_total", outcome="broken") == 1, "the first lines")
        with log.open("ab") as more:
            more.write(usage_line(10, 1, now_seconds + 86_400) * 3 + b"{cut\n" * 2)
        wait_for(lambda: daemon.value("log_lines_total", outcome="broken") == 3, "the later lines")
        counted = [daemon.value("log_lines_total", outcome=one) for one in ("served", "in_future")]
        wait_for(lambda: daemon.value("context_requests", deployment="chat") == 1, "the evidence", seconds=20)
        told = [event for event in daemon.log() if "files" in event]

    assert counted == [1, 4]
    assert sorted(event["outcome"] for event in told) == ["broken", "in_future"]
    assert {(event["level"], event["files"], event["deployment"]) for event in told} == {
        ("warning", str(log), "chat")
    }
