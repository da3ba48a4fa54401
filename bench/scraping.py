"""200 engines scraped every 2 s: vllm-advisor beside Debian's Prometheus, on the same pages at the same time.

nginx serves a captured page on 200 loopback ports. The page moves on as an engine's does: before each scrape
all of its counters have grown (``--static`` leaves it as it was captured).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from engine_pages import PAGE, nginx_command, pages_in_time, pages_served, turn_pages
from processes import Usage, free_ports, running, until_answers, usage_of

INTERVAL_SECONDS = 2.0
WARM_UP_SECONDS = 12.0  # Prometheus holds its targets back for 5 s
CPU_TARGET_RATIO = 0.7
MEMORY_TARGET_RATIO = 1 / 3


@dataclass(frozen=True, slots=True)
class Ports:
    """Where everybody listens."""

    engines: list[int]
    advisor: int
    prometheus: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One scraper's use: since its start, and since both were up."""

    whole: Usage
    steady_cpu_seconds: float
    pages: int


def write_advisor(folder: Path, ports: Ports, deployments: int) -> Path:
    """Write the advisor's configuration: the engines dealt out over some deployments."""
    each = [
        {
            "name": f"deployment-{index}",
            "slo": {"tpot": "40ms"},
            "engine": {"max_num_seqs": 256},
            "static_configs": [
                {"targets": [f"127.0.0.1:{port}" for port in ports.engines[index::deployments]]}
            ],
        }
        for index in range(deployments)
    ]
    interval = f"{INTERVAL_SECONDS:g}s"
    path = folder / "advisor.yml"
    content = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        "storage": {"path": "data"},
        "deployments": each,
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def write_prometheus(folder: Path, ports: Ports) -> Path:
    """Write Prometheus' configuration for the same engines."""
    interval = f"{INTERVAL_SECONDS:g}s"
    targets = [f"127.0.0.1:{port}" for port in ports.engines]
    path = folder / "prometheus.yml"
    content = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        "scrape_configs": [{"job_name": "vllm", "static_configs": [{"targets": targets}]}],
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, Measured]:
    """Run nginx and both scrapers for some time; return what each used."""
    first, *rest = free_ports(arguments.engines + 2)
    ports = Ports(rest[1:], first, rest[0])
    pages = pages_in_time(static=arguments.static)
    (folder / "page").write_bytes(next(pages))
    advisor = [sys.executable, "-m", "vllm_advisor", "serve", "--log.level=error"]
    advisor += [f"--config.file={write_advisor(folder, ports, arguments.deployments)}"]
    advisor += [f"--web.listen-address=127.0.0.1:{ports.advisor}"]
    prometheus = ["prometheus", f"--config.file={write_prometheus(folder, ports)}", "--log.level=error"]
    prometheus += [f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address=127.0.0.1:{ports.prometheus}"]
    with ExitStack() as programs:
        nginx = nginx_command(folder, (f"127.0.0.1:{port}" for port in ports.engines))
        programs.enter_context(running(nginx, folder / "nginx.log"))
        until_answers(f"http://127.0.0.1:{ports.engines[0]}/metrics")
        pids = {
            "vllm-advisor": programs.enter_context(running(advisor, folder / "advisor.log")),
            "prometheus": programs.enter_context(running(prometheus, folder / "prometheus.log")),
        }
        until_answers(f"http://127.0.0.1:{ports.advisor}/-/healthy")
        until_answers(f"http://127.0.0.1:{ports.prometheus}/-/ready")
        turn_pages(folder, pages, INTERVAL_SECONDS, WARM_UP_SECONDS)
        before = {name: usage_of(pid) for name, pid in pids.items()}
        turn_pages(folder, pages, INTERVAL_SECONDS, arguments.seconds)
        after = {name: usage_of(pid) for name, pid in pids.items()}
    served = pages_served(folder)
    agents = {"vllm-advisor": "vllm-advisor", "prometheus": "Prometheus"}
    return {
        name: Measured(after[name], after[name].cpu_seconds - before[name].cpu_seconds, served[agents[name]])
        for name in pids
    }


def report(measured: dict[str, Measured], arguments: argparse.Namespace) -> bool:
    """Print a table and the ratios; tell whether both targets were met."""
    kind = "static" if arguments.static else "growing"
    print(
        f"{arguments.engines} engines in {arguments.deployments} deployments every {INTERVAL_SECONDS:g} s, "
        f"{kind} pages of {PAGE.stat().st_size:,} bytes, {arguments.seconds:g} s, {os.cpu_count()} cores"
    )
    print(f"  {'':14}{'pages':>8}{'CPU s':>9}{'with start':>12}{'RSS MB':>9}{'peak MB':>9}")
    for name, one in measured.items():
        print(
            f"  {name:14}{one.pages:8,}{one.steady_cpu_seconds:9.2f}{one.whole.cpu_seconds:12.2f}"
            f"{one.whole.resident_bytes / 1e6:9.1f}{one.whole.peak_resident_bytes / 1e6:9.1f}"
        )
    ours, theirs = measured["vllm-advisor"], measured["prometheus"]
    cpu_ratio = ours.steady_cpu_seconds / theirs.steady_cpu_seconds
    memory_ratio = ours.whole.resident_bytes / theirs.whole.resident_bytes
    print(f"  CPU ratio {cpu_ratio:.2f} (target: at most {CPU_TARGET_RATIO:g})")
    print(f"  memory ratio {memory_ratio:.2f} (target: under {MEMORY_TARGET_RATIO:.2f})")
    return cpu_ratio <= CPU_TARGET_RATIO and memory_ratio < MEMORY_TARGET_RATIO


def main() -> int:
    """Measure and report; return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", type=int, default=200)
    parser.add_argument("--deployments", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--static", action="store_true")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="bench-scraping-") as folder:
        return 0 if report(measure(Path(folder), arguments), arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
