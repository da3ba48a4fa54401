"""Batch work: the rule reversed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.advice_pages import (
    ScriptedEngine,
    access_log,
    capture,
    codes,
    config_file,
    logs,
    ramp,
    replayed,
    text_of,
)
from vllm_advisor.ceilings.batch import batch_cap, throughput_knee
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.latency import CurvePoint, CurveSource
from vllm_advisor.ceilings.memory import MemoryCeiling
from vllm_advisor.ceilings.recommendation import Binding
from vllm_advisor.commands.answer import print_recommendation
from vllm_advisor.web.words import cap_reason


def curve(*rates: tuple[float, float]) -> list[CurvePoint]:
    """Return a curve with a throughput at each concurrency."""
    return [
        CurvePoint(
            concurrency=n,
            tpot_seconds=n / rate,
            output_tokens_per_second=rate,
            weight=1.0,
            source=CurveSource.SWEEP,
        )
        for n, rate in rates
    ]


def memory(expected: int | None, hard_limit: int | None = None) -> MemoryCeiling:
    """Return a memory ceiling with so many sequences of the observed lengths."""
    return MemoryCeiling(10, Grade.MEASURED, expected_sequences=expected, hard_limit_sequences=hard_limit)


RISING = curve((64, 4000.0), (128, 7000.0), (256, 12000.0))
PEAKED = curve((128, 7000.0), (256, 15000.0), (512, 19000.0), (1024, 12000.0))
"""As measured of a state-space model: 19,000 tokens a second at 512, 12,000 at 1,024."""


def test_the_knee_is_where_throughput_stops_growing() -> None:
    """Half the throughput of 512 sequences is lost at 1,024."""
    knee = throughput_knee(PEAKED)

    assert knee is not None
    assert (knee.sequences, knee.reached) == (512, True)


def test_throughput_that_still_grows_has_no_knee_yet() -> None:
    """The highest seen is not known to be the peak."""
    knee = throughput_knee(RISING)

    assert knee is not None
    assert not knee.reached


@pytest.mark.parametrize(
    ("expected", "hard_limit", "points", "sequences"),
    [
        (312, None, [], 312),
        (312, None, RISING, 312),
        (200, None, RISING, 256),
        (900, None, PEAKED, 512),
        (300, None, PEAKED, 512),
        (300, 400, PEAKED, 400),
    ],
)
def test_batch_goes_to_the_expected_ceiling_and_beyond_to_the_knee(
    expected: int, hard_limit: int | None, points: list[CurvePoint], sequences: int
) -> None:
    """Memory, what was seen to bring more, the knee, and what state layers hold decide in turn."""
    observed_to = int(max((point.concurrency for point in points), default=256))
    assert batch_cap(memory(expected, hard_limit), points, observed_to).sequences == sequences


@pytest.mark.parametrize(
    ("expected", "sequences", "grade"),
    [(755, 96, Grade.EXTRAPOLATED), (80, 80, Grade.EXTRAPOLATED), (64, 64, Grade.MEASURED)],
)
def test_batch_stays_within_reach_of_what_was_seen(expected: int, sequences: int, grade: Grade) -> None:
    """With 64 seen at once, 96 is the most whatever memory holds, and beyond 64 it is extrapolated."""
    cap = batch_cap(memory(expected), curve((32, 3000.0), (64, 4500.0)), 64)

    assert (cap.sequences, cap.grade) == (sequences, grade)


def test_batch_without_any_concurrency_is_no_number() -> None:
    """Memory alone says nothing of throughput."""
    assert batch_cap(memory(312), [], None).sequences is None


def test_what_was_not_seen_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight at once support twelve, the answer says so, and it has no line of a latency ceiling."""
    script = ramp((2, 4, 8), 600, base=0.020, per_sequence=0.0001)
    pages = capture(tmp_path / "capture.jsonl", ScriptedEngine(), script)
    recommendation = replayed(config_file(tmp_path, workload="batch"), [pages])
    print_recommendation(recommendation)

    assert recommendation.max_num_seqs.recommended == 12
    assert recommendation.max_num_seqs.grade is Grade.EXTRAPOLATED
    assert "up to 1.5 times what was seen" in text_of(recommendation, "evidence_thin")
    assert "At most 8 sequences ran at once" in cap_reason(recommendation)
    printed = capsys.readouterr().out
    assert "latency ceiling" not in printed
    assert "at most 50ms" not in printed


def test_nothing_known_is_no_number() -> None:
    """Neither memory nor throughput: no recommendation."""
    assert batch_cap(memory(None), [], None).grade is Grade.NONE


def test_the_longest_document_decides_the_length(tmp_path: Path) -> None:
    """One document of 30,000 tokens among 4,000 short ones counts whole, and no latency target is held up."""
    requests = [{"prompt": 900, "output": 100}] * 4000 + [{"prompt": 29_900, "output": 100}]
    log = access_log(tmp_path / "access.jsonl", requests)
    script = ramp((8, 16, 32, 64), 600, base=0.010, per_sequence=0.010)
    pages = capture(tmp_path / "capture.jsonl", ScriptedEngine(max_model_len=65536), script)
    recommendation = replayed(config_file(tmp_path, workload="batch", access_logs=logs(log)), [pages])

    assert recommendation.max_model_len.recommended == 37_888
    assert recommendation.max_num_seqs.recommended is not None
    assert recommendation.binding in {Binding.MEMORY, Binding.NONE}
    assert not codes(recommendation) & {"tpot_slo_missed", "cap_above_latency_ceiling", "sweep_needed"}
