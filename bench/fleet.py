"""A growing fleet: CPU time and memory of the daemon at 10, 100, 1,000 and 2,000 engines scraped every 5 s.

nginx serves a captured page, its counters growing before every round, on one port of as many loopback
addresses as there are engines, so each has a connection of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from engine_pages import PAGE, nginx_command, pages_in_time, pages_served, turn_pages
from processes import free_ports, running, until_answers, usage_of

INTERVAL_SECONDS = 5.0
WARM_UP_SECONDS = 15.0
ENGINES_OF_A_DEPLOYMENT = 10
TARGET_ENGINES = 1000
TARGET_CORES = 0.5
TARGET_BYTES = 300e6


@dataclass(frozen=True, slots=True)
class Measured:
    """What one size of fleet took of the daemon."""

    engines: int
    pages: int
    cores: float
    resident_bytes: int
    peak_bytes: int


def addresses(engines: int, port: int) -> list[str]:
    """Return one loopback address for each engine."""
    hosts = (f"127.{b}.{c}.{d}" for b in range(1, 256) for c in range(250) for d in range(1, 250))
    return [f"{host}:{port}" for host in itertools.islice(hosts, engines)]


def write_advisor(folder: Path, targets: list[str]) -> Path:
    """Write the advisor's configuration: ten engines a deployment."""
    deployments = [
        {
            "name": f"deployment-{index}",
            "slo": {"tpot": "40ms"},
            "engine": {"max_num_seqs": 256},
            "static_configs": [{"targets": targets[start : start + ENGINES_OF_A_DEPLOYMENT]}],
        }
        for index, start in enumerate(range(0, len(targets), ENGINES_OF_A_DEPLOYMENT))
    ]
    path = folder / "advisor.yml"
    path.write_text(json.dumps({"storage": {"path": "data"}, "deployments": deployments}), encoding="utf-8")
    return path


def measure(engines: int, seconds: float, folder: Path) -> Measured:
    """Run one size of fleet for some time."""
    engine_port, own_port = free_ports(2)
    pages = pages_in_time()
    (folder / "page").write_bytes(next(pages))
    targets = addresses(engines, engine_port)
    nginx = nginx_command(folder, [f"{engine_port} backlog=4096"])
    advisor = [sys.executable, "-m", "vllm_advisor", "serve", "--log.level=error"]
    advisor += [f"--config.file={write_advisor(folder, targets)}"]
    advisor += [f"--web.listen-address=127.0.0.1:{own_port}"]
    with ExitStack() as programs:
        programs.enter_context(running(nginx, folder / "nginx.log"))
        until_answers(f"http://{targets[0]}/metrics")
        pid = programs.enter_context(running(advisor, folder / "advisor.log"))
        until_answers(f"http://127.0.0.1:{own_port}/-/healthy")
        turn_pages(folder, pages, INTERVAL_SECONDS, WARM_UP_SECONDS)
        before, started = usage_of(pid), time.monotonic()
        turn_pages(folder, pages, INTERVAL_SECONDS, seconds)
        after, passed = usage_of(pid), time.monotonic() - started
    served = pages_served(folder)["vllm-advisor"]
    cores = (after.cpu_seconds - before.cpu_seconds) / passed
    return Measured(engines, served, cores, after.resident_bytes, after.peak_resident_bytes)


def main() -> int:
    """Measure and report; return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", type=int, nargs="+", default=[10, 100, 1000, 2000])
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    print(
        f"every {INTERVAL_SECONDS:g} s, {ENGINES_OF_A_DEPLOYMENT} engines a deployment, pages of "
        f"{PAGE.stat().st_size:,} bytes, {arguments.seconds:g} s"
    )
    print(
        f"  {'engines':>8}{'pages':>9}{'cores':>8}{'ms an engine and round':>24}{'RSS MB':>9}{'peak MB':>9}"
    )
    failed = False
    for engines in arguments.engines:
        with TemporaryDirectory(prefix="bench-fleet-") as folder:
            one = measure(engines, arguments.seconds, Path(folder))
        each = one.cores * INTERVAL_SECONDS * 1000 / engines
        print(
            f"  {engines:8,}{one.pages:9,}{one.cores:8.3f}{each:24.2f}"
            f"{one.resident_bytes / 1e6:9.1f}{one.peak_bytes / 1e6:9.1f}",
            flush=True,
        )
        if engines == TARGET_ENGINES:
            failed = one.cores > TARGET_CORES or one.resident_bytes > TARGET_BYTES
            print(f"  (targets: {TARGET_CORES:g} cores, {TARGET_BYTES / 1e6:.0f} MB)")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
