"""Pages that lack a number, or hold one that means nothing: no number is made of it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from support.advice_pages import (
    TARGET,
    ScriptedEngine,
    Situation,
    codes,
    config_file,
    logs,
    pages,
    replayed,
)
from vllm_advisor.web.recommendation_json import document

QUEUED = Situation(running=4, waiting=60, kv_used=0.1)
RISING = Situation(running=8), Situation(running=24)
RUNNING = "vllm:num_requests_running"


def without(page: str, prefix: str) -> str:
    """Return a page without the lines that begin so."""
    return "".join(line for line in page.splitlines(keepends=True) if not line.startswith(prefix))


def changed(page: str, running: str) -> str:
    """Return a page that says something else of the sequences that run."""
    return page.replace(
        f'{RUNNING}{{engine="0",model_name="llama"}} 4',
        f'{RUNNING}{{engine="0",model_name="llama"}} {running}',
    )


def written(folder: Path, texts: list[tuple[float, str]]) -> Path:
    """Write a capture of pages."""
    path = folder / "capture.jsonl"
    lines = (json.dumps({"ts": at, "target": TARGET, "text": text}) for at, text in texts)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("running", ["NaN", "+Inf", "0", "lots"])
def test_no_cap_is_inferred_where_nothing_is_known_to_run(tmp_path: Path, running: str) -> None:
    """Requests wait, and how many run is not a number or none: there is no plateau, and no cap of 0."""
    texts = [(at, changed(page, running)) for at, page in pages(ScriptedEngine(), [(QUEUED, 300)])]
    recommendation = replayed(config_file(tmp_path), [written(tmp_path, texts)])

    assert all(f"}} {running}" in text for _, text in texts[1:])
    assert recommendation.max_num_seqs.configured is None
    assert "cap_binds_pool_idle" not in codes(recommendation)


def test_tokens_without_their_times_are_no_latency(tmp_path: Path) -> None:
    """A page cut short after its counters, or of an engine that keeps no latencies, has no TPOT."""
    texts = [
        (at, without(page, "vllm:inter_token_latency"))
        for at, page in pages(ScriptedEngine(), [(QUEUED, 300)])
    ]
    recommendation = replayed(config_file(tmp_path), [written(tmp_path, texts)])

    assert recommendation.latency.curve == ()
    assert recommendation.max_num_seqs.configured == QUEUED.running
    assert "tpot_slo_missed" not in codes(recommendation)


def test_a_replay_keeps_to_its_own_clock(tmp_path: Path) -> None:
    """A log line without a time, or of a time to come, makes nothing of the capture old."""
    lines = [json.dumps({"prompt": 1000, "output": 10, "ts": ts}) for ts in (None, time.time() + 1e8)]
    log = tmp_path / "requests.jsonl"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    texts = list(pages(ScriptedEngine(), [(QUEUED, 300)]))
    path = written(tmp_path, texts)
    alone = replayed(config_file(tmp_path), [path])
    logged = replayed(config_file(tmp_path, access_logs=logs(log)), [path])

    assert logged.snapshot.context.requests == 1
    assert logged.snapshot.now_seconds == alone.snapshot.now_seconds == texts[-1][0]
    assert "evidence_stale" not in codes(logged)


@pytest.mark.parametrize("value", ["-5", "1e300", "+Inf", "NaN"])
def test_a_counter_that_cannot_be_is_none(tmp_path: Path, value: str) -> None:
    """One page with such a number comes to what one without it does, and the answer is still JSON."""
    name, script = "vllm:generation_tokens_total", [(RISING[0], 600), (RISING[1], 600)]
    texts = list(pages(ScriptedEngine(), script))
    at, page = texts[60]
    odd, lacking = list(texts), list(texts)
    odd[60] = at, re.sub(rf"(?m)^({name}\S*) .*$", rf"\1 {value}", page)
    lacking[60] = at, without(page, name)
    answers = [
        json.dumps(document([replayed(config_file(tmp_path), [written(tmp_path, one)])]), allow_nan=False)
        for one in (odd, lacking)
    ]

    assert value in odd[60][1]
    assert answers[0] == answers[1]


def test_another_model_in_an_engines_place_is_another_engine(tmp_path: Path) -> None:
    """Its counters may be higher than those before: nothing is compared, and the curve starts anew."""
    first = list(pages(ScriptedEngine(), [(RISING[0], 600)]))
    engine = ScriptedEngine()
    other = [
        (at + 605, text.replace('model_name="llama"', 'model_name="qwen"'))
        for at, text in pages(engine, [(RISING[1], 1800)])
        if engine.counters["decode_seconds"] > 20_000
    ]
    config = config_file(tmp_path)
    both, alone = (replayed(config, [written(tmp_path, texts)]) for texts in (first + other, other))

    assert both.snapshot.model_name == "qwen"
    assert both.latency == alone.latency
    assert (both.latency.observed_to or 0) > RISING[0].running
    assert both.snapshot.occupancy == alone.snapshot.occupancy
