"""How long the daemon takes to have its evidence back: for 100 deployments, a week of 200,000 requests each.

Run as ``python bench/restore.py [--deployments 100]``. The state is saved and the store closed; what is
measured is opening it, reading every row with its checksum, and rebuilding each deployment's evidence.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from vllm_advisor.config import DeploymentConfig
from vllm_advisor.evidence.lengths import ContextLengths
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.sources.access_logs import ServedBlock
from vllm_advisor.store import Store

REQUESTS = 200_000
WEEK_SECONDS = 604_800.0
END_SECONDS = 1_796_000_000.0


def main() -> int:
    """Save, restore, print; return 1 when it took more than a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deployments", type=int, default=100)
    configs = [config(number) for number in range(parser.parse_args().deployments)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        state = {
            one.name: DeploymentPipeline(one).state() | {"lengths": week_of(one.name)} for one in configs
        }
        store = Store(folder)
        store.save(state)
        store.close()
        megabytes = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        requests, seconds = restored(folder, configs)
    print(f"{len(configs)} deployments, {megabytes / len(configs):.2f} MB each: {seconds:.2f} s")
    met = requests == REQUESTS * len(configs) and seconds < 1.0
    print(f"{'met   ' if met else 'MISSED'} every request restored in under a second")
    return 0 if met else 1


def config(number: int) -> DeploymentConfig:
    """Return a deployment that has never been scraped."""
    return DeploymentConfig.model_validate(
        {"name": f"deployment-{number}", "static_configs": [{"targets": ["localhost:1"]}]}
    )


def week_of(name: str) -> dict[str, object]:
    """Return the state of a week's lengths."""
    chance = np.random.default_rng(sum(name.encode()))
    lengths = ContextLengths(WEEK_SECONDS)
    lengths.observe(
        ServedBlock(
            END_SECONDS - chance.uniform(0, 0.99 * WEEK_SECONDS, REQUESTS),
            chance.lognormal(7, 1.1, REQUESTS).astype(np.int64) + 1,
            chance.lognormal(5, 0.9, REQUESTS).astype(np.int64) + 1,
            np.full(REQUESTS, -1),
            np.zeros(REQUESTS, np.bool_),
        )
    )
    return lengths.state()


def restored(folder: Path, configs: list[DeploymentConfig]) -> tuple[int, float]:
    """Open the store and rebuild everything; return how many requests came back, and in how long."""
    pipelines = [DeploymentPipeline(one) for one in configs]
    started = time.perf_counter()
    store = Store(folder)
    state = store.load() or {}
    for pipeline in pipelines:
        pipeline.restore(state[pipeline.config.name])
    seconds = time.perf_counter() - started
    store.close()
    snapshots = [pipeline.evidence.snapshot(END_SECONDS) for pipeline in pipelines]
    return sum(snapshot.context.requests for snapshot in snapshots), seconds


if __name__ == "__main__":
    sys.exit(main())
