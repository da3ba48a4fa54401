"""A real Prometheus scrapes the daemon, and promtool has no complaint about its page."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from support.daemon_process import DaemonProcess, daemon_process
from support.waiting import wait_for

WANTED = (
    "vllm_advisor_recommended_max_model_len_tokens",
    "vllm_advisor_recommended_max_num_seqs",
    'vllm_advisor_ceiling_sequences{ceiling="memory"}',
    'vllm_advisor_ceiling_sequences{ceiling="latency"}',
    "vllm_advisor_binding_ceiling == 1",
    'vllm_advisor_recommendation_grade{flag="max_num_seqs",grade="measured"} == 1',
    'vllm_advisor_context_length_tokens{quantile="0.999"}',
    "vllm_advisor_tpot_seconds",
    "vllm_advisor_kv_pool_used_ratio",
    "vllm_advisor_advice == 1",
    'vllm_advisor_scrapes_total{outcome="ok"} > 0',
    'vllm_advisor_log_lines_total{outcome="served"} > 0',
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """Run the demo until both flags are measured."""
    with daemon_process(["demo"], tmp_path_factory.mktemp("demo")) as daemon:
        for flag in ("max_model_len", "max_num_seqs"):
            measured = {"deployment": "demo", "flag": flag, "grade": "measured"}
            wait_for(
                lambda measured=measured: daemon.value("recommendation_grade", **measured), flag, seconds=60
            )
        yield daemon


def test_both_flags_are_measured_within_a_minute(demo: DaemonProcess) -> None:
    """The demo's page shows both flags, the ceilings and the one that binds."""
    assert demo.value("recommended_max_num_seqs", deployment="demo")
    assert demo.value("recommended_max_model_len_tokens", deployment="demo")
    bound = [
        demo.value("binding_ceiling", deployment="demo", ceiling=one) for one in ("memory", "latency", "none")
    ]
    assert sorted(map(float, filter(lambda value: value is not None, bound))) == [0.0, 0.0, 1.0]


def test_promtool_has_no_complaint(demo: DaemonProcess) -> None:
    """``promtool check metrics`` prints nothing and exits 0."""
    ended = subprocess.run(
        ["promtool", "check", "metrics"],
        input=demo.get("/metrics"),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@contextmanager
def prometheus(target: str, folder: Path) -> Iterator[str]:
    """Run Prometheus on one target; give its URL."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    job = {"job_name": "advisor", "static_configs": [{"targets": [target]}]}
    config = folder / "prometheus.yml"
    config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
    command = [
        *("prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb"),
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (
        (folder / "prometheus.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def query(url: str, expression: str) -> list[object]:
    """Return the series that answer a query; none while Prometheus starts."""
    try:
        with urlopen(f"{url}/api/v1/query?query={quote(expression)}", timeout=5) as answer:  # noqa: S310
            return json.load(answer)["data"]["result"]
    except (URLError, ConnectionError):
        return []


def test_prometheus_has_every_series(demo: DaemonProcess, tmp_path: Path) -> None:
    """Flags, ceilings, grade, curve, occupancy, advice and the daemon's own: all can be queried."""
    with prometheus(demo.url.removeprefix("http://"), tmp_path) as url:
        for expression in WANTED:
            wait_for(lambda expression=expression: query(url, expression), expression, seconds=30)
        (up,) = query(url, "up")
        assert up["value"][1] == "1"
