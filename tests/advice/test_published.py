"""What stays published while the evidence moves."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_advisor.advice_config import StabilityConfig
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.published import Candidate, Published, PublishedFlag, settle

HOUR = 3600.0
STABILITY = StabilityConfig()
STANDING = PublishedFlag(40, Grade.MEASURED, Grade.MEASURED, since_seconds=0.0, supported_seconds=24 * HOUR)


def candidate(value: int, *, spread: int = 2, grade: Grade = Grade.MEASURED) -> Candidate:
    """Return a candidate for max-num-seqs."""
    return Candidate(value, grade, value - spread, value + spread)


def published_over(values: list[tuple[float, Candidate]]) -> list[PublishedFlag | None]:
    """Return what is published after each of some candidates, given with their times."""
    held: PublishedFlag | None = STANDING
    return [held := settle(held, one, now, STABILITY) for now, one in values]


def test_the_first_value_is_published_at_once() -> None:
    """Nothing stands, so nothing is waited for."""
    first = settle(None, candidate(40), 100.0, STABILITY)

    assert first is not None
    assert (first.value, first.since_seconds) == (40, 100.0)


def test_a_value_within_the_uncertainty_stays() -> None:
    """38 to 42 are not told apart from 40."""
    (held,) = published_over([(25 * HOUR, candidate(42))])

    assert held is not None
    assert (held.value, held.since_seconds, held.pending) == (40, 0.0, None)


def test_a_lower_cap_protects_and_waits_three_minutes() -> None:
    """A single evaluation lowers nothing; what has held for three minutes does."""
    held = published_over([(25 * HOUR + seconds, candidate(30)) for seconds in (0, 60, 179, 180)])

    assert [flag and flag.value for flag in held] == [40, 40, 40, 30]


def test_one_low_evaluation_among_others_lowers_nothing() -> None:
    """Noise that goes back within the uncertainty starts the wait over."""
    values = (30, 40, 30, 40, 30)
    held = published_over([(25 * HOUR + 120 * i, candidate(value)) for i, value in enumerate(values)])

    assert {flag and flag.value for flag in held} == {40}


def test_a_cap_does_not_ratchet_down_on_young_evidence() -> None:
    """68 after 20 s stays at 62 measured between 57 and 70, and at 67 after that."""
    held = settle(None, Candidate(68, Grade.EXTRAPOLATED, 60, 76), 20.0, STABILITY)
    values = []
    for now, one in (
        (45.0, Candidate(62, Grade.MEASURED, 57, 70)),
        (60.0, Candidate(67, Grade.MEASURED, 62, 72)),
    ):
        held = settle(held, one, now, STABILITY)
        values.append(held and (held.value, held.grade))

    assert values == [(68, Grade.MEASURED)] * 2


def test_a_value_of_little_evidence_is_replaced_within_minutes() -> None:
    """Published between 52 and 72, a value of 62 gives way to 67 once that is known to 5."""
    early = settle(None, Candidate(62, Grade.MEASURED, 52, 72), 0.0, STABILITY)
    values, held = [], early
    for now in (3600.0, 3700.0, 3780.0):
        held = settle(held, Candidate(67, Grade.MEASURED, 62, 72), now, STABILITY)
        values.append(held and held.value)

    assert values == [62, 62, 67]
    assert held is not None
    assert held.width == 10


def test_a_higher_cap_waits_six_hours() -> None:
    """A cap of 60 is published once it has been right for six hours on end."""
    held = published_over([(hour * HOUR, candidate(60)) for hour in (25, 28, 30.9, 31)])

    assert [flag and flag.value for flag in held] == [40, 40, 40, 60]


def test_a_higher_cap_that_did_not_hold_starts_over() -> None:
    """An hour back at 40 ends the wait."""
    hours = [(25, 60), (28, 60), (29, 40), (30, 60), (35.9, 60), (36, 60)]
    held = published_over([(hour * HOUR, candidate(value)) for hour, value in hours])

    assert [flag and flag.value for flag in held] == [40, 40, 40, 40, 40, 60]


def test_a_young_value_follows_the_growing_evidence() -> None:
    """What has stood for a minute gives way to what has held for a minute."""
    young = replace(STANDING, since_seconds=1000.0)
    waiting = settle(young, candidate(60), 1060.0, STABILITY)
    moved = settle(waiting, candidate(60), 1120.0, STABILITY)

    assert waiting is not None
    assert moved is not None
    assert (waiting.value, moved.value) == (40, 60)


def test_better_graded_evidence_waits_minutes_only() -> None:
    """A measured value replaces an extrapolated one once it held for three minutes."""
    guess = replace(STANDING, grade=Grade.EXTRAPOLATED, best_grade=Grade.EXTRAPOLATED)
    waiting = settle(guess, candidate(60), 25 * HOUR, STABILITY)
    held = settle(waiting, candidate(60), 25 * HOUR + 180, STABILITY)

    assert held is not None
    assert (held.value, held.grade) == (60, Grade.MEASURED)


def test_a_grade_that_comes_and_goes_moves_nothing() -> None:
    """Evidence that is measured, interpolated and measured again was no better the second time."""
    grades = [Grade.MEASURED, Grade.INTERPOLATED, Grade.MEASURED]
    values = [(25 * HOUR + at, candidate(41, grade=grade)) for at, grade in enumerate(grades)]
    held = published_over(values)

    assert [flag and (flag.value, flag.grade) for flag in held] == [(40, grade) for grade in grades]


def test_weaker_evidence_waits_even_to_protect() -> None:
    """A few minutes after a restart do not overrule a measured week."""
    (held,) = published_over([(25 * HOUR, candidate(20, grade=Grade.EXTRAPOLATED))])

    assert held is not None
    assert held.value == 40


def test_a_value_outlives_a_restart_for_a_day_and_says_so() -> None:
    """Without evidence the number stands as extrapolated, then goes."""
    none = Candidate(None, Grade.NONE, 0, 0)
    kept, gone = published_over([(30 * HOUR, none), (48.1 * HOUR, none)])

    assert kept is not None
    assert (kept.value, kept.grade_at(30 * HOUR)) == (40, Grade.EXTRAPOLATED)
    assert gone is None


@pytest.mark.parametrize(("value", "soon"), [(16384, True), (8192, False)])
def test_for_a_length_the_higher_value_protects(value: int, *, soon: bool) -> None:
    """Users are refused by a limit too low: raising it waits for minutes, lowering it for hours."""
    standing = replace(STANDING, value=12288)
    one = Candidate(value, Grade.MEASURED, value, value, rising_protects=True)
    waiting = settle(standing, one, 25 * HOUR, STABILITY)
    held = settle(waiting, one, 25 * HOUR + 180, STABILITY)

    assert held is not None
    assert (held.value == value) is soon


def test_what_is_published_survives_as_json() -> None:
    """A pending move and both flags come back as they were."""
    (waiting,) = published_over([(25 * HOUR, candidate(60))])
    published = Published(None, waiting, "latency", {"model_name": "llama"})

    assert Published.from_state(json.loads(json.dumps(published.state()))) == published


def test_another_model_is_another_recommendation() -> None:
    """What was not known before does not count as different; what was and differs, does."""
    published = Published(None, STANDING, "latency", {"model_name": "llama"})

    assert published.holds_for({"model_name": "llama", "vllm_version": "0.32.0"})
    assert not published.holds_for({"model_name": "qwen"})


@given(
    st.lists(st.tuples(st.floats(1, 3000), st.integers(30, 50)), min_size=1, max_size=60),
)
def test_noise_within_the_uncertainty_never_moves_it(steps: list[tuple[float, int]]) -> None:
    """Candidates that wander by ten about 40, and know that they do, leave 40 standing."""
    now, values = 24 * HOUR, []
    for seconds, value in steps:
        now += seconds
        values.append((now, candidate(value, spread=10)))

    assert {flag and flag.value for flag in published_over(values)} == {40}


@given(st.lists(st.tuples(st.floats(1, 3000), st.integers(1, 200)), min_size=1, max_size=60))
def test_what_is_published_was_once_the_evidence(steps: list[tuple[float, int]]) -> None:
    """Whatever comes, the published value is the first one or a candidate."""
    now, values = 24 * HOUR, []
    for seconds, value in steps:
        now += seconds
        values.append((now, candidate(value)))
    for held in published_over(values):
        assert held is not None
        assert held.value in {40, *(given_value for _, given_value in steps)}
