"""Advice names one value of a flag, as published, and promises nothing that was seen to fail."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from support.advice_pages import (
    START_SECONDS,
    ScriptedEngine,
    Situation,
    access_log,
    capture,
    codes,
    config_file,
    logs,
    ramp,
    replayed,
    text_of,
)
from vllm_advisor.ceilings.advice import advise
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.words import a_day, over_target, sequences
from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.config import config_for_target
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.web.recommendation_json import vllm_args

LEVELS = (1, 2, 4, 8, 16, 24, 32, 48, 64)


def typed(text: str, flag: str) -> list[str]:
    """Return every number typed after a flag."""
    return re.findall(rf"{flag} (\d+)", text)


def overloaded(folder: Path, *, pool_tokens: int = 400_000, cap: int | None = 256) -> Recommendation:
    """Return what traffic across the target of 50 ms leads to, on vLLM 0.32, late in its last minutes."""
    script = [
        *ramp(LEVELS, 1800, base=0.010, per_sequence=0.001),
        (Situation(64, 4, 0.99, tpot_seconds=0.08, preemptions_per_second=0.1), 1800),
    ]
    log = access_log(
        folder / "access.jsonl", [{"prompt": 1400 + i % 900, "output": 200} for i in range(4000)]
    )
    engine = {"vllm_version": "0.32.0"} | ({"max_num_seqs": cap} if cap else {})
    config = config_file(folder, access_logs=logs(log), engine=engine)
    scripted = ScriptedEngine(max_model_len=8192, pool_tokens=pool_tokens)
    return replayed(config, [capture(folder / "capture.jsonl", scripted, script)])


def late(folder: Path, tpot_seconds: float, cap: int | None = None) -> Recommendation:
    """Return what one request at a time, later than the target of 50 ms, leads to."""
    engine = {"max_num_seqs": cap} if cap else {}
    script = ramp((1, 8, 64), 300, base=tpot_seconds, per_sequence=0.001)
    pages = capture(folder / "capture.jsonl", ScriptedEngine(), script)
    return replayed(config_file(folder, engine=engine), [pages])


@pytest.mark.parametrize("pool_tokens", [400_000, 60_000])
def test_every_advice_names_the_flags_of_the_command_line(tmp_path: Path, pool_tokens: int) -> None:
    """Whatever the rule, after a flag stands the number that the recommended command line has there."""
    recommendation = overloaded(tmp_path, pool_tokens=pool_tokens)
    args, told = vllm_args(recommendation), " ".join(one.action for one in recommendation.advice)

    assert "cap_above_memory_ceiling" in codes(recommendation)
    assert typed(told, "--max-num-seqs")
    for flag in ("--max-model-len", "--max-num-seqs", "--max-num-active-seqs"):
        assert set(typed(told, flag)) <= set(typed(args, flag)), flag


def test_a_published_cap_is_named_while_the_live_ceiling_moves(tmp_path: Path) -> None:
    """A live ceiling a little below the published cap is what was seen, and not the flag to set."""
    found = overloaded(tmp_path)
    flag = replace(found.max_num_seqs, recommended=(found.max_num_seqs.recommended or 0) + 1)
    case = Case(
        deployment=found.deployment,
        snapshot=found.snapshot,
        context=found.context,
        memory=found.memory,
        latency=found.latency,
        latency_bounds=found.latency_bounds,
        max_model_len=found.max_model_len,
        max_num_seqs=flag,
        bound_time=found.bound_time,
        headroom=found.headroom,
    )
    given, failed = advise(case, found.deployment.advice)
    told = " ".join(advice.action for advice in given)

    assert failed == ()
    assert set(typed(told, "--max-num-active-seqs")) | set(typed(told, "--max-num-seqs")) <= {
        str(flag.recommended),
        "48",
    }


@pytest.mark.parametrize("cap", [None, 64])
def test_a_target_missed_by_one_sequence_alone_is_promised_nowhere(tmp_path: Path, cap: int | None) -> None:
    """At 61 ms with one sequence no cap reaches 50 ms, and no advice says otherwise."""
    recommendation = late(tmp_path, 0.060, cap)
    told = " ".join(advice.action for advice in recommendation.advice)

    assert {"cap_above_latency_ceiling", "tpot_slo_missed"} <= codes(recommendation)
    assert told.count("No --max-num-seqs is expected to meet this target") == 1
    actions = [advice.action for advice in recommendation.advice]
    assert len(set(actions)) == len(actions)
    assert "the target to be met" not in told
    assert not [value for value in typed(told, "--max-num-seqs") if int(value) == 1]
    assert not any(re.search(r"\b1 sequences", advice.text) for advice in recommendation.advice)


def test_an_unknown_cap_is_not_blamed(tmp_path: Path) -> None:
    """Only what was seen running is known, so concurrency is to blame and not a flag nobody read."""
    text = text_of(overloaded(tmp_path, cap=None, pool_tokens=4_000_000), "tpot_slo_missed")

    assert "is to blame: it lets" not in text


def test_a_missed_target_is_promised_at_the_measured_ceiling(tmp_path: Path) -> None:
    """Below a ceiling that was crossed in traffic, the target was met."""
    script = ramp(LEVELS, 1800, base=0.010, per_sequence=0.001)
    pages = capture(tmp_path / "capture.jsonl", ScriptedEngine(), script)
    recommendation = replayed(config_file(tmp_path, engine={"max_num_seqs": 64}), [pages])
    text = text_of(recommendation, "tpot_slo_missed")

    assert "--max-num-seqs is to blame: it lets 64 run" in text
    assert text.endswith("and expect the target to be met.")


def test_ceilings_far_apart_says_what_it_compares(tmp_path: Path) -> None:
    """The expected ceiling is named as what is compared, and no second --max-model-len is told."""
    text = text_of(overloaded(tmp_path), "ceilings_far_apart")

    assert "of the lengths observed, which is the number compared" in text
    assert "--max-model-len" not in text


def test_rounding_up_is_said(tmp_path: Path) -> None:
    """Requests of 700 tokens do not need 1,024 by their margin alone."""
    pages = capture(tmp_path / "capture.jsonl", ScriptedEngine(), [(Situation(8, 0, 0.1), 300)])
    text = text_of(replayed(config_file(tmp_path), [pages]), "max_model_len_oversized")

    assert "with its margin, rounded up to a multiple of 1,024" in text


def test_preemptions_are_named_only_where_there_were_some(tmp_path: Path) -> None:
    """A cap of 64 over memory for 10 sequences, without a single preemption so far."""
    engine = ScriptedEngine(max_model_len=4096, pool_tokens=40_960)
    pages = capture(tmp_path / "capture.jsonl", engine, [(Situation(8, 0, 0.1), 60)])
    recommendation = replayed(config_file(tmp_path, engine={"max_num_seqs": 64}), [pages])

    assert "preempt" not in text_of(recommendation, "cap_above_memory_ceiling")


def test_a_deployment_without_a_scraped_engine_says_so() -> None:
    """No concurrency of zero is made up for a deployment that is known from its access log alone."""
    config = config_for_target("vllm-0:8000").deployments[0]
    recommendation = DeploymentPipeline(config).recommend(START_SECONDS)
    text = text_of(recommendation, "evidence_thin")

    assert "no engine was scraped" in text
    assert "up to 0" not in text


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (a_day(5012.3), "5,012 a day"),
        (a_day(0.3), "fewer than 1 a day"),
        (sequences(1), "1 sequence"),
        (sequences(1024), "1,024 sequences"),
        (over_target(0.94, 0.01), "94 times"),
        (over_target(0.052, 0.04), "30% over"),
    ],
)
def test_numbers_are_written_for_people(written: str, words: str) -> None:
    """Whole numbers have commas, one has no plural, and thousands of percent are times."""
    assert written == words
