"""A real daemon in a process of its own, for tests."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["RunningDaemon", "running_daemon", "wait_for"]


def wait_for(condition: Callable[[], Any], *, seconds: float = 20.0, what: str = "the condition") -> Any:
    """Return the condition's first true value; fail when none came in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come within {seconds:g} s")


class RunningDaemon:
    """A daemon under test: its URL, its log as it comes, its pages."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log: list[dict[str, Any]] = []
        self._listening: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read_log, daemon=True).start()
        self.url = self._listening.get(timeout=30)

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                event = json.loads(line)
            except ValueError:
                event = {"msg": line.rstrip(), "level": "unreadable"}
            self.log.append(event)
            if event["msg"] == "listening":
                self._listening.put(event["url"])
        self._listening.put("")

    def get(self, path: str, *, method: str = "GET") -> tuple[int, str]:
        """Ask one of its doors; return status and body."""
        request = urllib.request.Request(self.url + path, method=method)  # noqa: S310 - its own URL
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metrics(self) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
        """Return its metrics page: by name, then by labels."""
        samples: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                samples.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        return samples

    def metric(self, name: str, **labels: str) -> float | None:
        """Return one series of its metrics page, None where it is absent."""
        return self.metrics().get(name, {}).get(frozenset(labels.items()))

    def recommendation(self, deployment: str) -> dict[str, Any] | None:
        """Return one deployment's recommendation, None before the first."""
        _, body = self.get("/api/v1/recommendations")
        listed = json.loads(body)["recommendations"]
        return next((one for one in listed if one["deployment"] == deployment), None)

    def events(self, message: str) -> list[dict[str, Any]]:
        """Return the log events with this message."""
        return [event for event in list(self.log) if event["msg"] == message]

    def stop(self) -> float:
        """Ask it to stop; return how many seconds that took."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=10)
        return time.monotonic() - started


@contextlib.contextmanager
def running_daemon(config: Path | None = None, *flags: str, cwd: Path | None = None) -> Iterator[RunningDaemon]:
    """Run `serve` on a free port of the loopback interface until the block ends."""
    command = [sys.executable, "-m", "vllm_advisor", "serve", "--web.listen-address=127.0.0.1:0"]
    if config is not None:
        command.append(f"--config.file={config}")
    process = subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True, cwd=cwd)
    try:
        yield RunningDaemon(process)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stderr:
            process.stderr.close()
