"""Real metrics stores on loopback ports: Debian's Prometheus and VictoriaMetrics."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from support.waiting import wait_for

__all__ = ["free_port", "prometheus_store", "query", "running", "victoria_store"]


def free_port() -> int:
    """Return a loopback port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str | Path], log_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program while the context lasts."""
    with log_path.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def prometheus_store(
    folder: Path, targets: Sequence[str], *, tsdb: Path | None = None, scrape_interval: str = "500ms"
) -> Iterator[str]:
    """Run Prometheus on some engines; give its URL."""
    port, config = free_port(), folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(_scraping(targets, scrape_interval)), encoding="utf-8")
    command = [
        *("prometheus", f"--config.file={config}", f"--storage.tsdb.path={tsdb or folder / 'prometheus'}"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=30d", "--log.level=warn"),
    ]
    with running(command, folder / "prometheus.log"):
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: _answers(f"{url}/-/ready"), "Prometheus")
        yield url


@contextmanager
def victoria_store(folder: Path, targets: Sequence[str], *, scrape_interval: str = "500ms") -> Iterator[str]:
    """Run VictoriaMetrics on some engines; give its URL."""
    port, config = free_port(), folder / "victoria.yml"
    config.write_text(yaml.safe_dump(_scraping(targets, scrape_interval)), encoding="utf-8")
    command = [
        *("victoria-metrics", f"-promscrape.config={config}", f"-storageDataPath={folder / 'victoria'}"),
        *(f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=30d", "-memory.allowedBytes=100MB"),
    ]
    with running(command, folder / "victoria.log"):
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: _answers(f"{url}/health"), "VictoriaMetrics")
        yield url


def query(url: str, expression: str) -> list[dict[str, Any]]:
    """Return the series that answer a query."""
    with urlopen(f"{url}/api/v1/query?{urlencode({'query': expression})}", timeout=10) as answer:  # noqa: S310
        return list(json.load(answer)["data"]["result"])


def _scraping(targets: Sequence[str], interval: str) -> dict[str, Any]:
    job = {"job_name": "vllm", "static_configs": [{"targets": list(targets)}]}
    limits = {"scrape_interval": interval, "scrape_timeout": interval}
    return {"global": limits, "scrape_configs": [job]}


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as response:  # noqa: S310 - always loopback
            return bool(response.status == 200)
    except (URLError, OSError):
        return False
