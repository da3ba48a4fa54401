"""How near the latency ceiling of live traffic comes to the truth, over varied simulated deployments.

Run as ``python bench/latency_accuracy.py [--scenarios 48] [--seed 5 6 7]``. The truth of each scenario is a
closed loop at a fixed concurrency on the same simulated engine. What it prints stands in ``docs/latency.md``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.traffic_scenarios import Scenario, found_ceiling, target_seconds, varied_scenarios
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.latency import LatencyCeiling

Result = tuple[Scenario, LatencyCeiling, float]


def main() -> None:
    """Run the scenarios and print each, then the distribution of errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", type=int, default=48, help="for each seed")
    parser.add_argument("--seed", type=int, nargs="+", default=[5])
    arguments = parser.parse_args()
    started = time.process_time()
    results = [
        _run(scenario) for seed in arguments.seed for scenario in varied_scenarios(arguments.scenarios, seed)
    ]
    for scenario, ceiling, error in results:
        print(_row(scenario, ceiling, error))
    _print_distribution("all answered", [result for result in results if result[1].sequences])
    for grade in Grade:
        _print_distribution(grade, [result for result in results if result[1].grade is grade])
    print(f"CPU seconds: {time.process_time() - started:.0f}")


def _run(scenario: Scenario) -> Result:
    ceiling = found_ceiling(scenario, target_seconds(scenario))
    return scenario, ceiling, (ceiling.sequences or 0) / scenario.true_ceiling - 1


def _row(scenario: Scenario, ceiling: LatencyCeiling, error: float) -> str:
    found = "-" if ceiling.sequences is None else f"{ceiling.sequences} ({error:+.1%})"
    return (
        f"{scenario.name:>6} {ceiling.statistic:>5} scrape {scenario.scrape_seconds:>2g} s "
        f"cap {scenario.max_num_seqs:>4} peak {scenario.peak_ratio:>4}x observed to {ceiling.observed_to:>4} "
        f"truth {scenario.true_ceiling:>3} found {found:>13} {ceiling.grade}"
    )


def _print_distribution(title: str, results: Sequence[Result]) -> None:
    errors = np.array([error for _, ceiling, error in results if ceiling.sequences])
    if not len(errors):
        print(f"{title}: {len(results)}")
        return
    sizes = np.abs(errors)
    print(
        f"{title}: {len(results)}; median error {np.median(sizes):.1%}, nine in ten within "
        f"{np.quantile(sizes, 0.9):.1%}, within 10%: {np.mean(sizes <= 0.1):.0%}, "
        f"lowest {errors.min():+.1%}, highest {errors.max():+.1%}, over +5%: {np.sum(errors > 0.05)}"
    )


if __name__ == "__main__":
    main()
