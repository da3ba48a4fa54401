import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vllm_advisor.demo.engine import Engine, EngineSettings, FinishedRequest, Request, StepLaw
from vllm_advisor.demo.traffic import Swing, Traffic

STEADY = StepLaw(0.002, 0.0, 0.0, 0.0)


def _engine(settings: EngineSettings | None = None, law: StepLaw = STEADY) -> Engine:
    return Engine(settings or EngineSettings(), law, lambda: 1.0, 0.0)


def _run_all(simulated: Engine, requests: list[Request]) -> list[FinishedRequest]:
    for request in requests:
        simulated.submit(request)
    return simulated.advance_to(3600.0)


def test_a_lone_request_takes_one_step_a_token() -> None:
    """Prefill gives the first token, each further step one more; the gaps are the steps."""
    simulated = _engine()

    (finished,) = _run_all(simulated, [Request(1.0, 100, 5, 1000)])

    assert math.isclose(finished.end_seconds, 1.0 + 5 * 0.002)
    assert math.isclose(simulated.counters.token_gap_seconds.total, 4 * 0.002)
    assert sum(simulated.counters.token_gap_seconds.counts) == 4


def test_a_long_prompt_is_prefilled_in_chunks() -> None:
    """With 1,000 tokens a step, 2,500 prompt tokens need three steps before the first token."""
    simulated = _engine(EngineSettings(max_num_batched_tokens=1000))

    _run_all(simulated, [Request(0.0, 2500, 1, 1000)])

    assert math.isclose(simulated.counters.first_token_seconds.total, 3 * 0.002)


def test_no_more_sequences_run_than_the_cap_allows() -> None:
    """Ten equal requests under a cap of four go through in three waves, and the rest are counted waiting."""
    simulated = _engine(EngineSettings(max_num_seqs=4))
    for _ in range(10):
        simulated.submit(Request(0.0, 8, 50, 1000))

    simulated.advance_to(0.05)
    running_and_waiting = simulated.running, simulated.waiting
    finished = simulated.advance_to(3600.0)

    assert running_and_waiting == (4, 6)
    assert sorted({round(one.end_seconds, 6) for one in finished}) == [0.1, 0.2, 0.3]


def test_the_pool_holds_back_what_does_not_fit_whole() -> None:
    """A pool of 160 tokens runs one request of 100 tokens at a time."""
    simulated = _engine(EngineSettings(num_gpu_blocks=10))

    finished = _run_all(simulated, [Request(0.0, 50, 50, 1000), Request(0.0, 50, 50, 1000)])

    assert [round(one.end_seconds, 6) for one in finished] == [0.1, 0.2]


def test_an_answer_as_long_as_was_asked_for_ends_with_length() -> None:
    """The reason tells a cut answer from a complete one, as the engine's counter does."""
    simulated = _engine()

    finished = _run_all(simulated, [Request(0.0, 5, 10, 10), Request(0.0, 5, 9, 10)])

    assert [one.reason for one in finished] == ["stop", "length"]
    assert simulated.counters.finished == {"stop": 1, "length": 1}


@given(
    lengths=st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 300)), min_size=1, max_size=30),
    ticks=st.lists(st.floats(0.001, 2.0), max_size=10),
)
def test_every_token_is_counted_once(lengths: list[tuple[int, int]], ticks: list[float]) -> None:
    """Whatever the ticks, the totals are those of the requests, and nothing is left in the pool."""
    simulated = _engine(law=StepLaw())
    requests = [Request(index * 0.01, *length, 1000) for index, length in enumerate(lengths)]
    for request in requests:
        simulated.submit(request)

    now_seconds, finished = 0.0, []
    for tick in ticks:
        now_seconds += tick
        finished += simulated.advance_to(now_seconds)
    finished += simulated.advance_to(3600.0)

    counters = simulated.counters
    assert sorted(map(id, requests)) == sorted(id(one.request) for one in finished)
    assert counters.prompt_tokens == sum(prompt for prompt, _ in lengths)
    assert counters.generation_tokens == sum(output for _, output in lengths)
    assert sum(counters.token_gap_seconds.counts) == sum(output - 1 for _, output in lengths)
    assert counters.step_tokens.total == counters.prompt_tokens + counters.generation_tokens
    assert (simulated.running, simulated.waiting, simulated.kv_used_ratio) == (0, 0, 0)


def test_decoding_time_follows_littles_law() -> None:
    """The sum of token gaps grows by one second a second for each decoding sequence."""
    simulated = _engine()
    for _ in range(20):
        simulated.submit(Request(0.0, 1, 1000, 1000))

    simulated.advance_to(0.5)
    before = simulated.clock_seconds, simulated.counters.token_gap_seconds.total
    simulated.advance_to(1.5)
    after = simulated.clock_seconds, simulated.counters.token_gap_seconds.total

    assert math.isclose((after[1] - before[1]) / (after[0] - before[0]), 20)


def test_traffic_is_as_long_as_the_traces() -> None:
    """Means lie within 3% of the conversation trace's own, 1,154.7 prompt and 211.1 output tokens."""
    traffic = Traffic(Swing(1000.0, 1000.0), np.random.default_rng(1), 0.0)

    requests = traffic.arrivals_until(60.0)

    assert math.isclose(np.mean([one.prompt_tokens for one in requests]), 1154.7, rel_tol=0.03)
    assert math.isclose(np.mean([one.output_tokens for one in requests]), 211.1, rel_tol=0.03)


def test_traffic_swings_from_night_to_day() -> None:
    """Arrivals per second follow the swing, in order, none twice, whatever the ticks."""
    traffic = Traffic(Swing(100.0, 900.0, 20.0), np.random.default_rng(1), 0.0)

    arrivals = [one.arrival_seconds for tick in range(1, 1001) for one in traffic.arrivals_until(tick * 0.02)]
    night, day = np.histogram(arrivals, bins=10, range=(0, 20))[0][[0, 5]]

    assert arrivals == sorted(arrivals)
    assert math.isclose(night / 2, 100, rel_tol=0.3)
    assert math.isclose(day / 2, 900, rel_tol=0.1)
