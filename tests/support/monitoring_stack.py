"""A real Prometheus, a real Alertmanager and the daemon over simulated engines, on loopback ports."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import yaml

from support.daemon_process import daemon_process
from vllm_advisor.demo.engine import EngineSettings
from vllm_advisor.demo.server import serve_engine

ROOT = Path(__file__).parents[2]


def wait_for(condition: Callable[[], Any], what: str, *, seconds: float = 45.0) -> Any:
    """Return a condition's first true value; fail where none comes in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.2)
    raise AssertionError(f"within {seconds:g} s {what} did not come")


def fetch(url: str, body: object | None = None) -> Any:
    """Return the JSON that an address answers; post a body where there is one."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data=data, headers={"Content-Type": "application/json"})  # noqa: S310 - loopback
    with urlopen(request, timeout=10) as response:  # noqa: S310
        text = response.read()
    return json.loads(text) if text else None


class Prometheus:
    """What a running Prometheus says."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return the instant vector of an expression."""
        return fetch(f"{self.url}/api/v1/query?query={quote(expr)}")["data"]["result"]

    def query_range(self, expr: str, *, seconds: float = 60.0, step: str = "1s") -> list[dict[str, Any]]:
        """Return the series of an expression up to now."""
        now = time.time()
        times = f"start={now - seconds}&end={now}&step={step}"
        return fetch(f"{self.url}/api/v1/query_range?query={quote(expr)}&{times}")["data"]["result"]

    def label_values(self, selector: str, label: str) -> list[str]:
        """Return the values of a label over the series that a selector finds."""
        return fetch(f"{self.url}/api/v1/label/{label}/values?match[]={quote(selector)}")["data"]

    def firing(self) -> set[tuple[str, str]]:
        """Return name and deployment of every firing alert."""
        alerts = fetch(f"{self.url}/api/v1/alerts")["data"]["alerts"]
        return {
            (alert["labels"]["alertname"], alert["labels"].get("deployment", ""))
            for alert in alerts
            if alert["state"] == "firing"
        }


class Alertmanager:
    """What a running Alertmanager says."""

    def __init__(self, url: str) -> None:
        self.url = url

    def state(self, name: str, deployment: str) -> str | None:
        """Return whether an alert is active or suppressed, None where it is not there."""
        for alert in fetch(f"{self.url}/api/v2/alerts"):
            labels = alert["labels"]
            if labels["alertname"] == name and labels.get("deployment") == deployment:
                return alert["status"]["state"]
        return None


class Webhook(ThreadingHTTPServer):
    """Keeps every alert that is delivered to it, with the receiver's path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Delivery)
        self.delivered: list[tuple[str, dict[str, Any]]] = []

    def received(
        self, name: str, deployment: str, status: str = "firing"
    ) -> tuple[str, dict[str, Any]] | None:
        """Return the path and the alert of the first delivery, None as long as there is none."""
        for path, alert in list(self.delivered):
            labels = alert["labels"]
            if (labels["alertname"], labels.get("deployment"), alert["status"]) == (name, deployment, status):
                return path, alert
        return None


class _Delivery(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.delivered += [(self.path, alert) for alert in document["alerts"]]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextmanager
def webhook() -> Iterator[Webhook]:
    """Take deliveries while the context lasts."""
    with Webhook() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def alertmanager(folder: Path, webhook_port: int) -> Iterator[Alertmanager]:
    """Run Alertmanager with the shipped example, but for its waits and its receivers' addresses."""
    text = (ROOT / "rules/alertmanager.yml").read_text(encoding="utf-8")
    text = re.sub(r"(group_wait|group_interval): \S+", r"\1: 1s", text)
    text = re.sub(r"http://(\w+)\.example\.com/\S*", rf"http://127.0.0.1:{webhook_port}/\1", text)
    config_path, port = folder / "alertmanager.yml", _free_port()
    config_path.write_text(text, encoding="utf-8")
    command = [
        *("prometheus-alertmanager", f"--config.file={config_path}", f"--storage.path={folder}/alertmanager"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="),
    ]
    with _running(command, folder / "alertmanager.log", f"http://127.0.0.1:{port}") as url:
        yield Alertmanager(url)


@contextmanager
def prometheus(
    folder: Path, jobs: dict[str, list[str]], alertmanager_url: str | None = None
) -> Iterator[Prometheus]:
    """Run Prometheus with the shipped rules, but for how long alerts must hold."""
    for name in ("vllm-advisor", "vllm-only"):
        text = (ROOT / f"rules/{name}.yml").read_text(encoding="utf-8")
        text = re.sub(r"for: \d+[mhd]", "for: 2s", text)
        (folder / f"{name}.yml").write_text(text, encoding="utf-8")
    config: dict[str, Any] = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "vllm-*.yml")],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": targets}]} for job, targets in jobs.items()
        ],
    }
    if alertmanager_url:
        managers = [{"static_configs": [{"targets": [alertmanager_url.removeprefix("http://")]}]}]
        config["alerting"] = {"alertmanagers": managers}
    config_path, port = folder / "prometheus.yml", _free_port()
    config_path.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [
        *("prometheus", f"--config.file={config_path}", f"--storage.tsdb.path={folder}/prometheus"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--rules.alert.resend-delay=1s", "--log.level=warn"),
    ]
    with _running(command, folder / "prometheus.log", f"http://127.0.0.1:{port}") as url:
        yield Prometheus(url)


class Engines:
    """Simulated engines in a thread, each stopped on its own."""

    def __init__(self) -> None:
        self.targets: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()
        self._stacks: dict[str, AsyncExitStack] = {}

    def start(self, name: str, settings: EngineSettings, folder: Path, **how: Any) -> str:
        """Start one, otherwise than `serve_engine` does if told so; return its ``host:port``."""
        return self._do(self._start(name, settings, folder, how))

    def stop(self, name: str) -> None:
        """Stop one."""
        self._do(self._stacks.pop(name).aclose())

    def run(self) -> None:
        """Serve until `close`."""
        self._loop.run_forever()

    def close(self) -> None:
        """Stop all of them, and the thread."""
        for name in list(self._stacks):
            self.stop(name)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _start(self, name: str, settings: EngineSettings, folder: Path, how: dict[str, Any]) -> str:
        stack = self._stacks[name] = AsyncExitStack()
        target = await stack.enter_async_context(serve_engine(settings, folder / f"{name}.jsonl", **how))
        self.targets[name] = target
        return target

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=20)


@contextmanager
def engines() -> Iterator[Engines]:
    """Serve engines while the context lasts."""
    served = Engines()
    thread = threading.Thread(target=served.run)
    thread.start()
    try:
        yield served
    finally:
        served.close()
        thread.join()
        served._loop.close()


@dataclass(frozen=True, slots=True)
class Stack:
    """Everything at once.

    Args:
        engines: of the deployments ``capped``, ``slow`` and ``gone``.
    """

    engines: Engines
    prometheus: Prometheus
    alertmanager: Alertmanager
    webhook: Webhook


@contextmanager
def monitoring_stack(folder: Path) -> Iterator[Stack]:
    """Run all of it: ``slow`` misses its target, the cap of ``capped`` binds, ``gone`` goes when told to."""
    with ExitStack() as stack:
        served = stack.enter_context(engines())
        served.start("slow", EngineSettings(model_name="slow-model"), folder)
        served.start("capped", EngineSettings(model_name="capped-model", max_num_seqs=8), folder)
        served.start("gone", EngineSettings(model_name="gone-model", max_num_seqs=8), folder)
        config_path = folder / "advisor.yml"
        config_path.write_text(yaml.safe_dump(_configuration(served, folder)), encoding="utf-8")
        daemon = stack.enter_context(daemon_process(["serve", f"--config.file={config_path}"], folder))
        hook = stack.enter_context(webhook())
        manager = stack.enter_context(alertmanager(folder, hook.server_port))
        jobs = {"vllm-advisor": [daemon.url.removeprefix("http://")], "vllm": [*served.targets.values()]}
        yield Stack(served, stack.enter_context(prometheus(folder, jobs, manager.url)), manager, hook)


def _configuration(served: Engines, folder: Path) -> dict[str, Any]:
    model = json.loads((ROOT / "tests/data/monitoring/config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(model), encoding="utf-8")
    slos, caps = {"slow": "2ms", "capped": "40ms", "gone": "40ms"}, {"slow": 256, "capped": 8, "gone": 8}
    deployments = [
        {
            "name": name,
            "slo": {"tpot": slos[name]},
            "engine": {"max_num_seqs": caps[name]},
            "advice": {"stale_after": "4s"},
            "static_configs": [{"targets": [target]}],
        }
        for name, target in served.targets.items()
    ]
    deployments[0]["engine"] |= {"model_config": "config.json", "gpu_memory": "80GB"}
    return {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
        "storage": {"path": str(folder / "data")},
        "deployments": deployments,
    }


@contextmanager
def _running(command: Sequence[str], log_path: Path, url: str) -> Iterator[str]:
    with log_path.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_for(lambda: _is_ready(url, process, log_path), f"{command[0]} at {url}", seconds=20)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def _is_ready(url: str, process: subprocess.Popen[bytes], log_path: Path) -> bool:
    assert process.poll() is None, log_path.read_text(encoding="utf-8")
    try:
        with urlopen(f"{url}/-/ready", timeout=2) as response:  # noqa: S310
            return response.status == 200
    except (URLError, OSError):
        return False


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
