"""The ceiling of live traffic against the truth of a closed loop, on simulated engines."""

from __future__ import annotations

import pytest

from support.traffic_scenarios import Scenario, closed_loop, found_ceiling, statistic, target_seconds
from support.traffic_simulator import Lengths, StepLaw
from vllm_advisor.ceilings.grade import Grade

LAW = StepLaw(0.015, 0.0003, 2e-8, 1.5e-5, noise_ratio=0.05)
LENGTHS = Lengths(600, 0.6, 120, 0.5)


def _scenario(name: str, **changes: object) -> Scenario:
    wanted = {"true_ceiling": 24, "peak_ratio": 1.3, "hours": 1.0} | changes
    return Scenario(name, LAW, LENGTHS, **wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "scenario",
    [
        _scenario("mean", scrape_seconds=1.0),
        _scenario("mean, old names", scrape_seconds=5.0, old_names=True, seed=2),
        _scenario("p99", quantile=0.99, seed=3),
        _scenario("p95, coarse scrapes", quantile=0.95, scrape_seconds=15.0, hours=3.0, seed=4),
        _scenario("cap above the crossing", max_num_seqs=30, peak_ratio=1.2, seed=5),
        _scenario("two tokens a step", tokens_per_step=2, seed=6),
    ],
    ids=lambda scenario: scenario.name,
)
def test_ceiling_is_near_the_truth(scenario: Scenario) -> None:
    """Within 10%, and never above by more than 5% while graded measured."""
    ceiling = found_ceiling(scenario, target_seconds(scenario, requests=8000))
    assert ceiling.sequences == pytest.approx(scenario.true_ceiling, rel=0.1)
    if ceiling.grade is Grade.MEASURED:
        assert ceiling.sequences <= 1.05 * scenario.true_ceiling


@pytest.mark.parametrize(
    "scenario",
    [
        _scenario("cap below the crossing", max_num_seqs=19),
        _scenario("quiet traffic", peak_ratio=0.3, quantile=0.99),
    ],
    ids=lambda scenario: scenario.name,
)
def test_what_traffic_never_reached_is_not_measured(scenario: Scenario) -> None:
    """An answer from beyond what was seen says so, and lies at most 1.5 times beyond it."""
    ceiling = found_ceiling(scenario, target_seconds(scenario, requests=8000))
    assert ceiling.grade in {Grade.EXTRAPOLATED, Grade.NONE}
    assert ceiling.high is None
    assert ceiling.observed_to is not None
    assert (ceiling.sequences or 0) <= 1.5 * (ceiling.observed_to + 1)


def test_a_minute_of_a_fast_engine_is_enough() -> None:
    """Short answers, a scrape a second: traffic that swings over the target is measured in 60 s."""
    law = StepLaw(0.004, 0.0004, 0.0, 2e-6, noise_ratio=0.05)
    scenario = Scenario("demo", law, Lengths(100, 0.3, 60, 0.3), 40, 1.3, scrape_seconds=1.0, hours=60 / 3600)
    ceiling = found_ceiling(scenario, target_seconds(scenario, requests=4000))
    assert ceiling.grade is Grade.MEASURED
    assert ceiling.sequences == pytest.approx(40, abs=2)


def test_a_closed_loop_follows_the_step_law() -> None:
    """The simulator itself: decode alone takes base + per sequence, at every step."""
    law = StepLaw(0.010, 0.001, 0.0, 0.0, noise_ratio=0.0)
    scenario = Scenario("bare", law, Lengths(1, 0.0, 200, 0.0), 8, 1.0)
    tpots, _ = closed_loop(scenario, 8, 400)
    assert statistic(tpots, None) == pytest.approx(0.018, rel=0.01)
