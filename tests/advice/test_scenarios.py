"""For each advice code a scenario that makes it appear and one like it that makes it go, through `replay`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from support.memory import LLAMA_70B, saved
from vllm_advisor.ceilings.advice import Code
from vllm_advisor.ceilings.recommendation import Recommendation

BUSY = Situation(8, 0, 0.1)
LEVELS = (1, 2, 4, 8, 16, 24, 32, 48, 64)
"""With a base of 10 ms and 1 ms a sequence, a target of 50 ms is met up to 40."""


def replay_of(
    folder: Path, engine: ScriptedEngine, script: Iterable[tuple[Situation, float]], /, **deployment: Any
) -> Recommendation:
    """Return what a script leads to."""
    return replayed(config_file(folder, **deployment), [capture(folder / "capture.jsonl", engine, script)])


def of_requests(folder: Path, requests: Iterable[Mapping[str, Any]], **deployment: Any) -> Recommendation:
    """Return what an access log beside a quiet engine with a limit of 4,096 tokens leads to."""
    log = access_log(folder / "access.jsonl", requests)
    script = [(BUSY, 60)]
    return replay_of(folder, ScriptedEngine(max_model_len=4096), script, access_logs=logs(log), **deployment)


def curve(folder: Path, **deployment: Any) -> Recommendation:
    """Return what traffic across the target leads to, an hour at each of some concurrencies."""
    script = ramp(LEVELS, 1800, base=0.010, per_sequence=0.001)
    pool_tokens = deployment.pop("pool_tokens", 400_000)
    engine = ScriptedEngine(max_model_len=4096, pool_tokens=pool_tokens)
    log = access_log(folder / "access.jsonl", [{"prompt": 1400, "output": 200}] * 4000)
    return replay_of(folder, engine, script, access_logs=logs(log), **deployment)


def cap_above_memory_ceiling(folder: Path, *, given: bool) -> Recommendation:
    """A cap of 64 or 4 on a pool for 10 sequences of 4,096 tokens."""
    engine = ScriptedEngine(max_model_len=4096, pool_tokens=40_960)
    return replay_of(folder, engine, [(BUSY, 60)], engine={"max_num_seqs": 64 if given else 4})


def ceilings_far_apart(folder: Path, *, given: bool) -> Recommendation:
    """A latency ceiling of 40 beside memory for 195 full-length sequences, or for 39."""
    pool_tokens = 400_000 if given else 80_000
    return curve(folder, pool_tokens=pool_tokens, context={"margin": 0.25, "round_up_to": 2048})


def max_model_len_oversized(folder: Path, *, given: bool) -> Recommendation:
    """Requests of 700 tokens under a limit of 8,192, or of 1,024."""
    engine = ScriptedEngine(max_model_len=8192 if given else 1024)
    return replay_of(folder, engine, [(BUSY, 300)])


def max_model_len_rejecting(folder: Path, *, given: bool) -> Recommendation:
    """Five requests in 1,000 are refused for their length, or none."""
    refused = {"status": 400, "prompt": None, "output": None, "error": REFUSAL}
    served = {"prompt": 900, "output": 100}
    return of_requests(folder, [*[served] * 995, *([refused] * 5 if given else [])])


def max_tokens_rejecting(folder: Path, *, given: bool) -> Recommendation:
    """One request in ten asks for 4,000 tokens beside its prompt under a limit of 4,096, or for 400."""
    greedy = {"prompt": 900, "output": 100, "max_tokens": 4000 if given else 400}
    modest = {"prompt": 900, "output": 100, "max_tokens": 400}
    return of_requests(folder, [greedy, *[modest] * 9] * 100)


def context_censored(folder: Path, *, given: bool) -> Recommendation:
    """Two answers in a hundred end at the limit, or well below it."""
    cut = {"prompt": 3996 if given else 2000, "output": 100, "finish": "length" if given else "stop"}
    return of_requests(folder, [*[{"prompt": 900, "output": 100, "finish": "stop"}] * 980, *[cut] * 20])


def tpot_slo_missed(folder: Path, *, given: bool) -> Recommendation:
    """Tokens at 80 ms or at 30 ms."""
    situation = replace(BUSY, running=64, tpot_seconds=0.08 if given else 0.03)
    return replay_of(folder, ScriptedEngine(), [(situation, 300)])


def kv_pool_mismatch(folder: Path, *, given: bool) -> Recommendation:
    """An engine reports half of what the arithmetic gives, or all of it."""
    engine = ScriptedEngine(pool_tokens=293_568 if given else 587_152)
    arithmetic = {
        "model_config": saved(folder, LLAMA_70B),
        "gpu_memory": "80GB",
        "gpu_memory_utilization": 0.92,
        "weights_memory": "17.5GB",
        "headroom": "8GB",
        "tensor_parallel_size": 4,
    }
    return replay_of(folder, engine, [(BUSY, 60)], engine=arithmetic)


def traffic_shape_changed(folder: Path, *, given: bool) -> Recommendation:
    """Six hours of answers of 200 tokens, then most of an hour of twice that, or of the same."""
    doubled = replace(BUSY, lengths=((500, 400, 1.0),))
    script = [(BUSY, 6 * 3600), (doubled if given else BUSY, 3300)]
    pages = capture(folder / "capture.jsonl", ScriptedEngine(), script, every_seconds=60)
    return replayed(config_file(folder), [pages])


def mixed_workloads(folder: Path, *, given: bool) -> Recommendation:
    """Chat of some 800 tokens beside one document of 50,000 in ten, or alone."""
    chat = [{"prompt": 500 + 40 * (i % 15), "output": 100} for i in range(900)]
    documents = [{"prompt": 45_000 + 700 * (i % 15), "output": 300} for i in range(100)]
    return of_requests(folder, [*chat, *(documents if given else [])])


def sweep_needed(folder: Path, *, given: bool) -> Recommendation:
    """Traffic never crosses the target, without a sweep or with one."""
    sweep = folder / "sweep.csv"
    sweep.write_text("concurrency,tpot_mean\n8,0.02\n64,0.08\n")
    more = {} if given else {"sweep": str(sweep)}
    return replay_of(folder, ScriptedEngine(), [(BUSY, 300)], **more)


def evidence_thin(folder: Path, *, given: bool) -> Recommendation:
    """A minute of traffic, or hours across the target with 4,000 logged requests."""
    return replay_of(folder, ScriptedEngine(), [(BUSY, 60)]) if given else curve(folder)


def evidence_stale(folder: Path, *, given: bool) -> Recommendation:
    """The engine's page gives way to a proxy's error page for ten minutes, or for one."""
    pages = capture(folder / "capture.jsonl", ScriptedEngine(), [(BUSY, 60)])
    error = {"ts": START_SECONDS + 60 + (600 if given else 60), "target": "http://vllm-0:8000/metrics"}
    with pages.open("a", encoding="utf-8") as file:
        file.write(json.dumps(error | {"text": "<html>502 Bad Gateway</html>"}) + "\n")
    return replayed(config_file(folder), [pages])


def configuration_diverged(folder: Path, *, given: bool) -> Recommendation:
    """Three engines, one of them with another limit, or all alike."""
    captures = [
        capture(
            folder / f"{index}.jsonl",
            ScriptedEngine(max_model_len=4096 if given and index == 2 else 8192),
            [(BUSY, 60)],
            target=f"http://vllm-{index}:8000/metrics",
        )
        for index in range(3)
    ]
    return replayed(config_file(folder), captures)


def cap_binds_pool_idle(folder: Path, *, given: bool) -> Recommendation:
    """Requests wait at a cap of 8, or at one of 16 that is not reached."""
    situation = replace(BUSY, waiting=5 if given else 0)
    return replay_of(
        folder, ScriptedEngine(), [(situation, 300)], engine={"max_num_seqs": 8 if given else 16}
    )


def cap_above_latency_ceiling(folder: Path, *, given: bool) -> Recommendation:
    """A cap of 64 or 32 beside a latency ceiling of 40."""
    return curve(folder, engine={"max_num_seqs": 64 if given else 32})


def memory_binds(folder: Path, *, given: bool) -> Recommendation:
    """Requests wait with the pool full, or do not wait."""
    situation = Situation(50, 10 if given else 0, 0.97)
    return replay_of(folder, ScriptedEngine(), [(situation, 300)])


REFUSAL = (
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the "
    "messages, 1000 in the completion). Please reduce the length of the messages or completion."
)
SCENARIOS: dict[Code, Callable[..., Recommendation]] = {code: globals()[str(code)] for code in Code}


@pytest.mark.parametrize("code", list(Code))
def test_the_code_appears(tmp_path: Path, code: Code) -> None:
    """Its scenario gives it, in two or more sentences with numbers, the second part saying what to do."""
    recommendation = SCENARIOS[code](tmp_path, given=True)

    assert str(code) in codes(recommendation)
    (advice,) = (one for one in recommendation.advice if one.code is code)
    assert any(character.isdigit() for character in advice.seen)
    assert advice.seen.endswith(".")
    assert advice.action.endswith(".")


@pytest.mark.parametrize("code", list(Code))
def test_the_code_goes(tmp_path: Path, code: Code) -> None:
    """The scenario that differs in this alone does not give it."""
    assert str(code) not in codes(SCENARIOS[code](tmp_path, given=False))


def test_the_measured_curve_says_what_a_lower_cap_brings(tmp_path: Path) -> None:
    """At 64 sequences a token takes 74 ms: that stands in the advice, with the throughput."""
    text = text_of(curve(tmp_path, engine={"max_num_seqs": 64}), "cap_above_latency_ceiling")

    assert "Set --max-num-seqs 4" in text or "Set --max-num-seqs 39" in text
    assert "instead of 74 ms" in text
    assert "output tokens/s an engine" in text


def test_a_cap_at_the_latency_ceiling_asks_for_replicas(tmp_path: Path) -> None:
    """Requests wait at a cap of 40 that is the latency ceiling: one engine does all it can."""
    script = [
        *ramp(LEVELS, 1800, base=0.010, per_sequence=0.001),
        (Situation(40, 20, 0.1, tpot_seconds=0.0495), 4 * 3600),
    ]
    recommendation = replay_of(
        tmp_path, ScriptedEngine(max_model_len=4096), script, engine={"max_num_seqs": 40}
    )

    assert "Add replicas" in text_of(recommendation, "cap_binds_pool_idle")
    assert not any("raise it further" in advice.text for advice in recommendation.advice)


def test_thresholds_are_configurable(tmp_path: Path) -> None:
    """A limit eight times too large is let pass where ten times are allowed."""
    script = [(BUSY, 300)]
    recommendation = replay_of(tmp_path, ScriptedEngine(), script, advice={"oversized_factor": 10})

    assert "max_model_len_oversized" not in codes(recommendation)


def test_shorter_and_longer_kinds_hear_what_each_would_get(tmp_path: Path) -> None:
    """Documents of 55,100 tokens at most need 69,632 with a quarter more; chat of 1,160 needs 2,048."""
    text = text_of(mixed_workloads(tmp_path, given=True), "mixed_workloads")

    assert "the short ones would get --max-model-len 2048" in text
    assert "the long ones would get --max-model-len 69632" in text


def test_saturated_hours_with_other_requests_are_another_workload(tmp_path: Path) -> None:
    """Long documents at night keep requests waiting; by day short chats wait for nothing."""
    night = Situation(8, 30, 0.3, lengths=((8000, 50, 1.0),))
    script = [(BUSY, 6 * 3600), (night, 6 * 3600), (BUSY, 2 * 3600)]
    engine = ScriptedEngine(max_model_len=16384)
    pages = capture(tmp_path / "capture.jsonl", engine, script, every_seconds=60)
    recommendation = replayed(config_file(tmp_path), [pages])

    assert "workload: batch" in text_of(recommendation, "mixed_workloads")
