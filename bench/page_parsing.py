"""Reading one captured page: our reader, cold and warm, against prometheus-client's text parser."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from prometheus_client.parser import text_string_to_metric_families

from vllm_advisor.sources.page import PageReader

PAGE = Path(__file__).parents[1] / "tests/data/pages/metrics-tiny-llama-idle.prom"
ROUNDS = 60
TARGET_RATIO = 20.0


def seconds_each(read: Callable[[], object], calls: int) -> float:
    """Return the mean time of some calls in a row."""
    start = perf_counter()
    for _ in range(calls):
        read()
    return (perf_counter() - start) / calls


def main() -> int:
    """Print a table; return 1 when the warm reader misses its target."""
    page = PAGE.read_bytes()
    text = page.decode()
    warm = PageReader()
    warm.read(page, "engine")
    contestants: dict[str, tuple[Callable[[], object], int]] = {
        "prometheus-client's parser": (lambda: list(text_string_to_metric_families(text)), 1),
        "PageReader, first page of a target": (lambda: PageReader().read(page, "engine"), 4),
        "PageReader, every later page": (lambda: warm.read(page, "engine"), 50),
    }
    rounds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, (read, calls) in contestants.items():
            rounds[name].append(seconds_each(read, calls))
    middle = {name: median(times) for name, times in rounds.items()}
    theirs = middle["prometheus-client's parser"]
    lines = page.count(b"\n")
    print(f"{lines} lines, {len(page):,} bytes, median of {ROUNDS} interleaved rounds")
    for name, seconds in middle.items():
        print(f"  {name:36} {seconds * 1e3:8.3f} ms {theirs / seconds:8.1f}x")
    reached = theirs / middle["PageReader, every later page"]
    print(f"  target: at least {TARGET_RATIO:g}x; reached {reached:.1f}x")
    return 0 if reached >= TARGET_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
