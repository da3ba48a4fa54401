"""The latency ceiling of a measured sweep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.latency import combined_ceiling, sweep_ceiling
from vllm_advisor.ceilings.latency.curve import fit_nondecreasing
from vllm_advisor.config import SloConfig
from vllm_advisor.sources.sweep_file import Sweep, SweepLevel

WORKED_EXAMPLE = {8: 1 / 62, 24: 1 / 41, 40: 1 / 26, 48: 1 / 19}
MEAN_40MS = SloConfig(tpot="40ms", quantile="mean")


def _sweep(tpot_by_concurrency: dict[int, float], statistic: str = "mean") -> Sweep:
    return Sweep(tuple(SweepLevel(n, {statistic: tpot}) for n, tpot in tpot_by_concurrency.items()))


def test_worked_example() -> None:
    """Rates of 62, 41, 26 and 19 at 8, 24, 40 and 48 sequences: 40 under a target of 40 ms."""
    ceiling = sweep_ceiling(_sweep(WORKED_EXAMPLE), MEAN_40MS)
    assert (ceiling.sequences, ceiling.grade) == (40, Grade.MEASURED)
    assert (ceiling.low, ceiling.high, ceiling.observed_to) == (40, 47, 48)


def test_it_never_goes_beyond_the_last_level() -> None:
    """Where every level meets the target, the sweep says how far, and names no ceiling."""
    ceiling = sweep_ceiling(_sweep(WORKED_EXAMPLE), SloConfig(tpot="60ms", quantile="mean"))
    assert (ceiling.sequences, ceiling.grade) == (None, Grade.NONE)
    assert (ceiling.low, ceiling.high) == (48, None)


def test_a_target_missed_everywhere_has_no_ceiling() -> None:
    """Where even the lowest level misses, the ceiling is below it."""
    ceiling = sweep_ceiling(_sweep(WORKED_EXAMPLE), SloConfig(tpot="10ms", quantile="mean"))
    assert (ceiling.sequences, ceiling.low, ceiling.high) == (None, None, 7)


def test_a_level_missed_by_a_hair_is_missed() -> None:
    """200 ms and a rounding error at 8 sequences: the ceiling is not above its interval's end of 7."""
    ceiling = sweep_ceiling(
        _sweep({4: 0.1, 8: 0.20000000000000004}), SloConfig(tpot="200ms", quantile="mean")
    )
    assert (ceiling.sequences, ceiling.high) == (7, 7)


def test_a_missing_quantile_is_stood_in_for_by_the_next_higher() -> None:
    """P99 within the target means p95 within it: a safe ceiling, and not graded measured."""
    levels = _sweep({1: 0.01, 10: 0.03, 20: 0.06}, "p99")
    ceiling = sweep_ceiling(levels, SloConfig(tpot="45ms", quantile=0.95))
    assert (ceiling.sequences, ceiling.grade) == (15, Grade.INTERPOLATED)
    assert sweep_ceiling(levels, SloConfig(tpot="45ms", quantile=0.999)).grade is Grade.NONE
    assert sweep_ceiling(levels, MEAN_40MS).grade is Grade.NONE


def test_repeats_of_a_level_are_averaged_by_their_requests() -> None:
    """Three requests at 30 ms and one at 70 ms make 40 ms."""
    repeats = Sweep(
        (
            SweepLevel(1, {"mean": 0.01}),
            SweepLevel(10, {"mean": 0.03}, requests=3),
            SweepLevel(10, {"mean": 0.07}, requests=1),
            SweepLevel(20, {"mean": 0.08}),
        )
    )
    assert sweep_ceiling(repeats, MEAN_40MS).curve[1].tpot_seconds == pytest.approx(0.04)


def test_a_sweep_answers_where_traffic_does_not() -> None:
    """The better founded ceiling wins, and the curve shows the points of both."""
    answered = sweep_ceiling(_sweep(WORKED_EXAMPLE), MEAN_40MS)
    unanswered = sweep_ceiling(_sweep({2: 0.01, 4: 0.012}), MEAN_40MS)
    both = combined_ceiling(unanswered, answered)
    assert (both.sequences, both.observed_to) == (40, 48)
    assert [point.concurrency for point in both.curve] == [2, 4, 8, 24, 40, 48]
    assert combined_ceiling(unanswered, None) is unanswered


@given(st.lists(st.tuples(st.floats(0.001, 10), st.floats(0.1, 1000)), min_size=1, max_size=40))
def test_monotone_fit_is_scipys(points: list[tuple[float, float]]) -> None:
    """The fit is the weighted least-squares isotonic regression."""
    values, weights = zip(*points, strict=True)
    expected = isotonic_regression(values, weights=weights).x
    assert fit_nondecreasing(values, weights) == pytest.approx(expected, rel=1e-9)


@given(
    st.lists(st.floats(0.001, 0.2), min_size=2, max_size=12),
    st.floats(0.001, 0.2),
)
def test_a_ceiling_lies_between_a_met_and_a_missed_level(tpots: list[float], target: float) -> None:
    """Whatever the curve, the ceiling is within its own interval, and a laxer target never lowers it."""
    sweep = _sweep({4 * (index + 1): tpot for index, tpot in enumerate(tpots)})
    ceiling = sweep_ceiling(sweep, SloConfig(tpot=f"{target * 1000:.3f}ms", quantile="mean"))
    laxer = sweep_ceiling(sweep, SloConfig(tpot=f"{target * 1100:.3f}ms", quantile="mean"))
    if ceiling.sequences is not None:
        assert ceiling.low is not None
        assert ceiling.high is not None
        assert ceiling.low <= ceiling.sequences <= ceiling.high
        assert laxer.sequences is None or laxer.sequences >= ceiling.sequences
