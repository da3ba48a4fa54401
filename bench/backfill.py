"""A fresh daemon reads the past of 100 engines from a real Prometheus: its CPU time against the server's.

The past is what a captured page holds of vLLM's families, every 15 s, its counters growing, written as blocks
by promtool. The work grows with the samples, so hours stand for the week (``--hours=168`` for all of it).
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

import numpy as np
from engine_pages import PAGE
from numpy.typing import NDArray
from processes import Usage, free_ports, running, until_answers, usage_of

from vllm_advisor.sources.page_layout import WANTED_NAMES

Floats = NDArray[np.float64]
EVERY_SECONDS = 15
_LINE = re.compile(r"^([a-zA-Z_:]+)\{(.*)\} (\S+)$")
_COUNTERS = ("_total", "_bucket", "_sum", "_count")
_DAY_SECONDS = 86400
_BLOCK_SECONDS = 18 * 3600
"""The longest block of a Prometheus that keeps 15 days, as by default."""
_ROUND_SHARE = 0.1
"""Of the page's counts, which a busy engine adds every round."""
_SLOWNESS_IDLE = 0.4
_SLO_TPOT = "75ms"
"""Met up to two thirds of the sequences that a busy engine runs."""
_LOGGED_EVERY_SECONDS = 5
_LATER_HOURS = 2
"""How long the engines go on after now: they are there when all is written and read."""


@dataclass(frozen=True)
class Past:
    """How busy an engine was at each of its pages, and what it had done and spent its time on by then.

    A busier engine needs longer for each token: less gets done in the same time.
    """

    times_seconds: NDArray[np.int64]
    busy: Floats
    done: Floats
    spent: Floats

    def between(self, start_seconds: int, end_seconds: int) -> Past:
        """Return the pages of this time alone."""
        first, end = np.searchsorted(self.times_seconds, (start_seconds, end_seconds))
        return Past(*(getattr(self, field.name)[first:end] for field in fields(self)))


def pasts(engines: int, hours: float, end_seconds: int) -> list[Past]:
    """Return the past of each engine: a day's swing, out of step with the others', and noise."""
    rounds = int(hours * 3600 / EVERY_SECONDS)
    times = end_seconds - EVERY_SECONDS * np.arange(rounds, 0, -1)
    random = np.random.default_rng(0)
    result = []
    for engine in range(engines):
        busy = 0.5 + 0.45 * np.sin(2 * np.pi * (times / _DAY_SECONDS + engine / engines))
        busy *= random.uniform(0.8, 1.2, rounds)
        slowness = (_SLOWNESS_IDLE + (1 - _SLOWNESS_IDLE) * busy) * random.uniform(0.9, 1.1, rounds)
        result.append(Past(times, busy, np.cumsum(busy / slowness), np.cumsum(busy)))
    return result


def openmetrics(engines: list[Past]) -> Iterator[str]:
    """Yield the past as text, engine by engine, one series at a time."""
    wanted = frozenset(WANTED_NAMES)
    series = [
        (match[1], match[2], float(match[3]))
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if (match := _LINE.match(line)) and match[1] in wanted
    ]
    for engine, past in enumerate(engines):
        stamps = [f" {moment}.{engine:03}\n" for moment in past.times_seconds.tolist()]
        for name, labels, value in series:
            prefix = f'{name}{{{labels},instance="vllm-{engine}:8000",job="vllm"}} '
            numbers = _numbers(name, value, past)
            yield "".join([f"{prefix}{text}{stamp}" for text, stamp in zip(numbers, stamps, strict=True)])


def _numbers(name: str, value: float, past: Past) -> list[str]:
    """Return a series' numbers: whole ones but for seconds and shares, as engines show them."""
    if name.endswith("_seconds_sum"):
        return list(map(repr, (value * _ROUND_SHARE * (1 + past.spent)).tolist()))
    if name.endswith(_COUNTERS):
        return list(map(str, np.round(value * _ROUND_SHARE * (1 + past.done)).astype(np.int64).tolist()))
    if name.endswith("requests_running"):
        return list(map(str, np.round(22 * past.busy).astype(int).tolist()))
    if name.endswith("requests_waiting"):
        return list(map(str, np.where(past.busy > 1, 3, 0).tolist()))
    if name.endswith("usage_perc"):
        return list(map(repr, (0.7 * past.busy).tolist()))
    return [repr(value)] * len(past.busy)


def write_blocks(blocks: Path, engines: int, hours: float) -> None:
    """Write the blocks that Prometheus serves, text for one at a time."""
    text, part = blocks.with_suffix(".om"), blocks.with_suffix(".part")
    past = pasts(engines, hours + _LATER_HOURS, int(time.time()) + _LATER_HOURS * 3600)
    first_block, last_block = past[0].times_seconds[[0, -1]] // _BLOCK_SECONDS
    for block in range(first_block, last_block + 1):
        span = (block * _BLOCK_SECONDS, (block + 1) * _BLOCK_SECONDS)
        with text.open("w", encoding="utf-8") as file:
            file.writelines(openmetrics([one.between(*span) for one in past]))
            file.write("# EOF\n")
        command = ["promtool", "tsdb", "create-blocks-from", f"--max-block-duration={_BLOCK_SECONDS}s"]
        subprocess.run([*command, "openmetrics", text, part], check=True, capture_output=True)
    text.unlink()
    part.rename(blocks)


def first_seconds(blocks: Path) -> float:
    """Return the time of the first sample."""
    metas = (json.loads(path.read_text(encoding="utf-8")) for path in blocks.glob("*/meta.json"))
    return float(min(meta["minTime"] for meta in metas)) / 1000


def write_log(path: Path, since_seconds: float) -> dict[str, Any]:
    """Write an access log as old as the blocks; return its configuration."""
    times = np.arange(since_seconds, time.time(), _LOGGED_EVERY_SECONDS).tolist()
    lengths = np.random.default_rng(0).integers((20, 10), (240, 150), (len(times), 2)).tolist()
    with path.open("w", encoding="utf-8") as file:
        for moment, (prompt, output) in zip(times, lengths, strict=True):
            file.write(json.dumps({"ts": moment, "prompt": prompt, "output": output, "status": 200}) + "\n")
    fields = {"time": "ts", "prompt_tokens": "prompt", "completion_tokens": "output", "status": "status"}
    return {"paths": [path.name], "format": "json", "fields": fields}


def write_advisor(folder: Path, store: str, since_seconds: float) -> Path:
    """Write the advisor's configuration: one deployment over the store, as far back as that reaches."""
    window = f"{math.ceil((time.time() - since_seconds) / 60)}m"
    source = {"url": store, "selector": '{job="vllm"}'}
    deployment: dict[str, Any] = {"name": "chat", "engine": {"max_num_seqs": 256}, "prometheus": source}
    deployment |= {"context": {"window": window}, "slo": {"tpot": _SLO_TPOT}}
    deployment["access_logs"] = [write_log(folder / "access.jsonl", since_seconds)]
    path = folder / "advisor.yml"
    path.write_text(json.dumps({"storage": {"path": "data"}, "deployments": [deployment]}), encoding="utf-8")
    return path


def first_answer(log: Path, url: str, timeout_seconds: float) -> str:
    """Wait for the first recommendation, which comes when the past is read; return its flags, graded.

    Raises:
        TimeoutError: it did not come in time.
    """
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        with urlopen(f"{url}/api/v1/recommendations", timeout=10) as response:  # noqa: S310 - always loopback
            found = json.load(response)["recommendations"]
        if found:
            flags = found[0]["flags"].items()
            return ", ".join(f"{flag} {of['recommended']} ({of['grade']})" for flag, of in flags)
        time.sleep(0.5)
    raise TimeoutError(log.read_text(encoding="utf-8")[-2000:])


def used(before: Usage, after: Usage) -> str:
    """Return a row's numbers."""
    cpu_seconds = after.cpu_seconds - before.cpu_seconds
    return f"{cpu_seconds:9.2f}{after.peak_resident_bytes / 1e6:10.1f}"


def measure(folder: Path, blocks: Path, engines: int, hours: float) -> bool:
    """Run both; print what each took, and tell whether the target was met."""
    if not blocks.exists():
        write_blocks(blocks, engines, hours)
    store_port, own_port = free_ports(2)
    store, own = f"http://127.0.0.1:{store_port}", f"http://127.0.0.1:{own_port}"
    (folder / "prometheus.yml").write_text("{}", encoding="utf-8")
    prometheus = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={blocks}"]
    prometheus += [f"--web.listen-address=127.0.0.1:{store_port}", "--log.level=error"]
    advisor = [sys.executable, "-m", "vllm_advisor", "serve", "--log.format=json"]
    advisor += [f"--config.file={write_advisor(folder, store, first_seconds(blocks))}"]
    advisor += [f"--web.listen-address=127.0.0.1:{own_port}"]
    with ExitStack() as programs:
        server = programs.enter_context(running(prometheus, folder / "prometheus.log"))
        until_answers(f"{store}/-/ready", 60)
        time.sleep(2)
        server_before, started = usage_of(server), time.monotonic()
        pid = programs.enter_context(running(advisor, folder / "advisor.log"))
        until_answers(f"{own}/-/healthy")
        own_before = usage_of(pid)
        answer = first_answer(folder / "advisor.log", own, 3600)
        own_after, server_after, passed = usage_of(pid), usage_of(server), time.monotonic() - started
    read_seconds = time.time() - first_seconds(blocks)
    pages = int(engines * read_seconds / EVERY_SECONDS)
    past = f"{read_seconds / 3600:.1f} h at {EVERY_SECONDS} s"
    print(f"{engines} engines, {past}: {pages:,} pages, {passed:.0f} s in all")
    print(f"  {'':14}{'CPU s':>9}{'peak MB':>10}")
    print(f"  {'vllm-advisor':14}{used(own_before, own_after)}")
    print(f"  {'prometheus':14}{used(server_before, server_after)}")
    print(f"  first answer: {answer}")
    ours = own_after.cpu_seconds - own_before.cpu_seconds
    theirs = server_after.cpu_seconds - server_before.cpu_seconds
    print(f"  CPU ratio {ours / theirs:.2f} (target: at most 1); {ours / pages * 1e6:.0f} us a page")
    return ours <= theirs


def main() -> int:
    """Measure and report; return 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", type=int, default=100)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--blocks", type=Path, help="written if not there, and kept")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="bench-backfill-") as folder:
        blocks = arguments.blocks or Path(folder) / "blocks"
        return 0 if measure(Path(folder), blocks, arguments.engines, arguments.hours) else 1


if __name__ == "__main__":
    sys.exit(main())
