"""Every benchmark, one after another: ratios against real alternatives, measured in one run each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "page_parsing.py",
    "scraping.py",
    "status_page.py",
    "fleet.py",
    "backfill.py",
    "latency_accuracy.py",
    "lengths_contexts.py",
    "restore.py",
)


def main() -> int:
    """Run them all; return 1 when one missed a target."""
    failed = False
    for name in BENCHMARKS:
        print(f"\n== {name}", flush=True)
        failed |= (
            subprocess.run([sys.executable, Path(__file__).with_name(name)], check=False).returncode != 0
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
