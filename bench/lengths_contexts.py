"""`contexts` on a large JSON log against DuckDB on one thread, and following the same log with commits.

Run as ``python bench/lengths_contexts.py [--lines 5000000]``; needs the dependency group ``bench``. Both
answer from the same file in the same run: number of requests, and p50 to p999 of prompt plus output tokens.
`contexts` takes as many processes as there are cores, so its time is told both as elapsed and as used, and
its memory is that of all its processes together, shared pages once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

RESIDENT_LIMIT_BYTES = 200_000_000
_LOOK_SECONDS = 0.1

DUCKDB = """
import duckdb, json, sys
connection = duckdb.connect()
connection.execute("SET threads = 1; SET enable_progress_bar = false")
columns = "{usage: 'STRUCT(prompt_tokens BIGINT, completion_tokens BIGINT)'}"
print(json.dumps(connection.execute(
    "SELECT count(*), quantile_cont(usage.prompt_tokens + usage.completion_tokens, [0.5, 0.9, 0.99, 0.999]) "
    f"FROM read_json(?, format = 'newline_delimited', columns = {columns})", [sys.argv[1]]).fetchone()))
"""

FOLLOW = """
import sys, time
from pathlib import Path
from vllm_advisor.config import AccessLogConfig
from vllm_advisor.evidence.lengths import ContextLengths
from vllm_advisor.sources.access_logs import LogTail
from vllm_advisor.store import Store
lengths, tail = ContextLengths(604800.0), LogTail(AccessLogConfig(paths=(sys.argv[1],)))
store, now = Store(Path(sys.argv[2])), time.time()
while logged := tail.poll(now):
    for one in logged:
        lengths.observe(one)
    store.save({"lengths": lengths.state(), "tail": tail.state()})
print(sum(tail.counts.values()))
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one program gave and took."""

    output: str
    wall_seconds: float
    cpu_seconds: float
    peak_resident_bytes: int
    processes: int


def main() -> int:
    """Write the log, run each program on it, print ratios; return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=5_000_000)
    lines = parser.parse_args().lines
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.jsonl"
        write_log(path, lines)
        print(f"{lines} lines, {path.stat().st_size / lines:.0f} bytes each")
        duckdb = measured([sys.executable, "-c", DUCKDB, path])
        contexts = measured([sys.executable, "-m", "vllm_advisor", "contexts", path, "--json"])
        follow = measured([sys.executable, "-c", FOLLOW, path, Path(folder) / "data"])
        state_bytes = sum(file.stat().st_size for file in (Path(folder) / "data").iterdir())
    return report(lines, duckdb, contexts, follow, state_bytes)


def write_log(path: Path, lines: int) -> None:
    """Write requests of a week, as an application logs them."""
    chance = random.Random(5)  # noqa: S311 - the same log each time
    time_utc, step = datetime(2026, 11, 20, tzinfo=UTC), timedelta(seconds=604_800 / lines)
    with path.open("w") as file:
        for _ in range(lines):
            prompt = int(chance.lognormvariate(7, 1.1)) + 1
            output = int(chance.lognormvariate(5, 0.9)) + 1
            time_utc += step
            file.write(
                f'{{"ts":"{time_utc:%Y-%m-%dT%H:%M:%S.%f}Z","level":"info","msg":"llm call done",'
                f'"request_id":"chatcmpl-{chance.getrandbits(64):016x}","model":"qwen3-8b","stream":true,"latency_ms":4711,'
                f'"finish_reason":"stop","status":200,"usage":{{"prompt_tokens":{prompt},"total_tokens":'
                f'{prompt + output},"completion_tokens":{output},"prompt_tokens_details":null}}}}\n'
            )


def measured(command: Sequence[str | Path]) -> Measured:
    """Run a program to its end, and look at its processes ten times a second."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    peak_bytes = processes = 0
    while not select.select([process.stdout], [], [], _LOOK_SECONDS)[0]:
        resident = [proportional_bytes(pid) for pid in (process.pid, *children(process.pid))]
        peak_bytes, processes = max(peak_bytes, sum(resident)), max(processes, len(resident))
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[:3]} failed")
    seconds = time.perf_counter() - started
    return Measured(output, seconds, usage.ru_utime + usage.ru_stime, peak_bytes, processes)


def children(pid: int) -> list[int]:
    """Return the processes that one has started and that are still there."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def proportional_bytes(pid: int) -> int:
    """Return what a process holds in memory, its share of what it has in common with others; 0 when gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def report(lines: int, duckdb: Measured, contexts: Measured, follow: Measured, state_bytes: int) -> int:
    """Print figures and ratios; return 1 when a target is missed."""
    requests, quantiles = json.loads(duckdb.output)
    answer = json.loads(contexts.output)
    for name, one in (("DuckDB, one thread", duckdb), ("contexts", contexts), ("follow, commits", follow)):
        print(
            f"{name:20} {one.wall_seconds:7.2f} s wall {one.cpu_seconds:7.2f} s CPU "
            f"{one.peak_resident_bytes / 1e6:6.0f} MB {one.cpu_seconds / lines * 1e6:6.2f} us a line, "
            f"{one.processes} processes"
        )
    errors = [
        abs(answer[key] / value - 1)
        for key, value in zip(("p50", "p90", "p99", "p999"), quantiles, strict=True)
    ]
    checks = {
        "the same requests": answer["requests"] == requests == int(follow.output),
        "quantiles within 0.5%": max(errors) <= 0.005,
        f"contexts {contexts.wall_seconds / duckdb.wall_seconds:.2f}x DuckDB's time, at most 1": (
            contexts.wall_seconds <= duckdb.wall_seconds
        ),
        f"following {follow.cpu_seconds / duckdb.cpu_seconds:.2f}x DuckDB's CPU seconds, at most 2": (
            follow.cpu_seconds <= 2 * duckdb.cpu_seconds
        ),
        f"contexts holds {contexts.peak_resident_bytes / 1e6:.0f} MB, under 200": (
            contexts.peak_resident_bytes < RESIDENT_LIMIT_BYTES
        ),
        f"state of a week {state_bytes / 1e6:.1f} MB, under 20": state_bytes < 20_000_000,
    }
    for name, met in checks.items():
        print(f"{'met   ' if met else 'MISSED'} {name}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
