"""The real daemon as a process of its own, watched from outside through its doors and its log."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

START_SECONDS = 20.0


class DaemonProcess:
    """A running daemon.

    Args:
        process: started with JSON logs.
        log_path: where its standard error goes.
    """

    def __init__(self, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self.process = process
        self._log_path = log_path
        self.url = self._wait_for_url()

    def log(self) -> list[dict[str, Any]]:
        """Return every event logged so far; what is not JSON, such as a traceback, is ``unreadable``."""
        text = self._log_path.read_text(encoding="utf-8")
        return [_event(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def get(self, path: str) -> str:
        """Fetch one of its doors."""
        with urlopen(self.url + path, timeout=5) as response:  # noqa: S310 - always loopback
            return response.read().decode()

    def ask(self, path: str, method: str = "GET") -> tuple[int, str]:
        """Ask one of its doors; return status and text, errors too."""
        request = Request(self.url + path, method=method)  # noqa: S310 - always loopback
        try:
            with urlopen(request, timeout=5) as response:  # noqa: S310
                return response.status, response.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def value(self, name: str, **labels: str) -> float | None:
        """Return one series of its metrics, None where it is absent."""
        family = self.metrics().get(name.removesuffix("_total"))
        samples = family.samples if family else []
        wanted = (s.value for s in samples if s.labels == labels and s.name.endswith(name))
        return next(wanted, None)

    def metrics(self) -> dict[str, Metric]:
        """Fetch and parse its metrics, by family, without the advisor's prefix."""
        families = text_string_to_metric_families(self.get("/metrics"))
        return {family.name.removeprefix("vllm_advisor_"): family for family in families}

    def peak_memory_bytes(self) -> int:
        """Return the most memory it has held."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Tell it to stop; return the seconds it took.

        Raises:
            subprocess.TimeoutExpired: it had not stopped after 10 s.
        """
        start = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(timeout=10)
        return time.monotonic() - start

    def _wait_for_url(self) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for event in self.log():
                if event["msg"] == "listening":
                    return str(event["url"])
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"the daemon did not start: {self._log_path.read_text(encoding='utf-8')}")


def _event(line: str) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:
        return {"msg": line, "level": "unreadable"}


@contextmanager
def daemon_process(command: Sequence[str | Path], folder: Path) -> Iterator[DaemonProcess]:
    """Run a command that starts the daemon (``serve …``, ``demo``) on a free port while the context lasts."""
    log_path, output_path = folder / "daemon.log", folder / "daemon.out"
    arguments = [*command, "--web.listen-address=127.0.0.1:0", "--log.format=json"]
    with (
        log_path.open("wb") as log,
        output_path.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", "vllm_advisor", *arguments], stdout=output, stderr=log, cwd=folder
        ) as process,
    ):
        try:
            yield DaemonProcess(process, log_path)
        finally:
            process.kill()
