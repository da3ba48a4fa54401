"""Pages of a scripted engine under vLLM 0.32's names, with counters that move as its situation says."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.commands.replay import replay
from vllm_advisor.config import load_config

START_SECONDS = 1_764_547_200.0
TARGET = "http://vllm-0:8000/metrics"


@dataclass(frozen=True)
class Situation:
    """What an engine is in the middle of.

    Args:
        lengths: (prompt, output, share of the requests).
    """

    running: float = 0
    waiting: float = 0
    kv_used: float = 0.0
    tpot_seconds: float = 0.02
    preemptions_per_second: float = 0.0
    lengths: tuple[tuple[int, int, float], ...] = ((500, 200, 1.0),)

    @property
    def mean_output(self) -> float:
        """Mean output tokens of its requests."""
        return sum(output * share for _, output, share in self.lengths)


@dataclass
class _Histogram:
    bounds: tuple[float, ...]
    counts: list[float] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0.0] * (len(self.bounds) + 1)

    def observe(self, value: float, times: float) -> None:
        index = next((i for i, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        self.counts[index] += times
        self.total += value * times

    def lines(self, name: str, labels: str) -> Iterator[str]:
        yield f"# TYPE vllm:{name} histogram"
        seen = 0.0
        for bound, count in zip((*self.bounds, math.inf), self.counts, strict=True):
            seen += count
            shown = "+Inf" if math.isinf(bound) else f"{float(bound)}"
            yield f'vllm:{name}_bucket{{{labels},le="{shown}"}} {math.floor(seen + 1e-6)}'
        yield f"vllm:{name}_count{{{labels}}} {math.floor(seen + 1e-6)}"
        yield f"vllm:{name}_sum{{{labels}}} {self.total}"


class ScriptedEngine:
    """One engine whose page moves as it is told to.

    Args:
        max_model_len: cuts the token histograms, and is what the labels of the pool lead to.
        pool_tokens: the KV pool, in whole blocks of 16.
    """

    def __init__(
        self,
        *,
        max_model_len: int = 8192,
        pool_tokens: int = 400_000,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        steps = (digit * 10**power for power in range(7) for digit in (1, 2, 5))
        tokens = tuple(step for step in steps if step <= max_model_len)
        self.histograms = {
            "request_prompt_tokens": _Histogram(tokens),
            "request_generation_tokens": _Histogram(tokens),
            "time_to_first_token_seconds": _Histogram((0.1, 1.0, 10.0)),
        }
        blocks = pool_tokens // 16
        concurrency = blocks / math.ceil(max_model_len / 16)
        self.labels = {
            "block_size": "16",
            "cache_dtype": "auto",
            "gpu_memory_utilization": "0.92",
            "kv_cache_max_concurrency": str(concurrency),
            "kv_cache_size_tokens": str(int(concurrency * max_model_len)),
            "num_gpu_blocks": str(blocks),
        } | dict(labels or {})
        self.situation = Situation()
        self.counters = dict.fromkeys(
            ("decode_seconds", "decode_tokens", "finished", "prompt", "preemptions", "steps"), 0.0
        )

    def run(self, situation: Situation, seconds: float) -> None:
        """Go on for some time in a situation."""
        self.situation = situation
        count, tokens = self.counters, situation.running * seconds / situation.tpot_seconds
        finished = tokens / max(1.0, situation.mean_output - 1)
        count["decode_seconds"] += situation.running * seconds
        count["decode_tokens"] += tokens
        count["steps"] += seconds / situation.tpot_seconds if situation.running else 0.0
        count["finished"] += finished
        count["preemptions"] += situation.preemptions_per_second * seconds
        self.histograms["time_to_first_token_seconds"].observe(0.05, finished)
        for prompt, output, share in situation.lengths:
            count["prompt"] += prompt * share * finished
            self.histograms["request_prompt_tokens"].observe(prompt, share * finished)
            self.histograms["request_generation_tokens"].observe(output, share * finished)

    def page(self) -> str:
        """Return the metrics page."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        labels, now, count = 'engine="0",model_name="llama"', self.situation, self.counters
        for name, level in (
            ("num_requests_running", now.running),
            ("num_requests_waiting", now.waiting),
            ("kv_cache_usage_perc", now.kv_used),
        ):
            yield f"# TYPE vllm:{name} gauge"
            yield f"vllm:{name}{{{labels}}} {level}"
        for name, value in (
            ("prompt_tokens_total", count["prompt"]),
            ("generation_tokens_total", count["decode_tokens"] + count["finished"]),
            ("num_preemptions_total", count["preemptions"]),
        ):
            yield f"# TYPE vllm:{name} counter"
            yield f"vllm:{name}{{{labels}}} {value}"
        yield "# TYPE vllm:request_success_total counter"
        yield f'vllm:request_success_total{{{labels},finished_reason="stop"}} {math.floor(count["finished"])}'
        for name, total, observations in (
            ("inter_token_latency_seconds", count["decode_seconds"], count["decode_tokens"]),
            ("request_queue_time_seconds", 0.0, count["finished"]),
            ("iteration_tokens_total", count["decode_tokens"] + count["prompt"], count["steps"]),
        ):
            yield f"# TYPE vllm:{name} histogram"
            yield f'vllm:{name}_bucket{{{labels},le="+Inf"}} {observations}'
            yield f"vllm:{name}_count{{{labels}}} {observations}"
            yield f"vllm:{name}_sum{{{labels}}} {total}"
        for name, histogram in self.histograms.items():
            yield from histogram.lines(name, labels)
        cache = ",".join(f'{name}="{value}"' for name, value in self.labels.items())
        yield "# TYPE vllm:cache_config_info gauge"
        yield f'vllm:cache_config_info{{engine="0",{cache}}} 1.0'


Script = Iterable[tuple[Situation, float]]


def pages(engine: ScriptedEngine, script: Script, every_seconds: float = 5.0) -> Iterator[tuple[float, str]]:
    """Yield (time, page) through a script of situations, each lasting some seconds."""
    now_seconds = START_SECONDS
    yield now_seconds, engine.page()
    for situation, seconds in script:
        for _ in range(round(seconds / every_seconds)):
            engine.run(situation, every_seconds)
            now_seconds += every_seconds
            yield now_seconds, engine.page()


def capture(
    path: Path, engine: ScriptedEngine, script: Script, every_seconds: float = 5.0, target: str = TARGET
) -> Path:
    """Write a capture of a script."""
    with path.open("w", encoding="utf-8") as file:
        for time_seconds, text in pages(engine, script, every_seconds):
            file.write(json.dumps({"ts": time_seconds, "target": target, "text": text}) + "\n")
    return path


def access_log(path: Path, requests: Iterable[Mapping[str, Any]]) -> Path:
    """Write an access log as JSON lines, twenty a second."""
    with path.open("w", encoding="utf-8") as file:
        for index, request in enumerate(requests):
            file.write(json.dumps({"ts": START_SECONDS + index / 20, "status": 200} | dict(request)) + "\n")
    return path


LOG_FIELDS = {
    "time": "ts",
    "prompt_tokens": "prompt",
    "completion_tokens": "output",
    "max_tokens": "max_tokens",
    "status": "status",
    "error": "error",
    "finish_reason": "finish",
}


def config_file(folder: Path, **deployment: Any) -> Path:
    """Write the configuration of one deployment, with a target of 50 ms at the mean unless told otherwise."""
    one = {
        "name": "chat",
        "slo": {"tpot": "50ms", "quantile": "mean"},
        "static_configs": [{"targets": ["vllm-0:8000"]}],
    } | deployment
    path = folder / "advisor.yml"
    path.write_text(yaml.safe_dump({"deployments": [one]}), encoding="utf-8")
    return path


def logs(path: Path) -> list[dict[str, Any]]:
    """Return the configuration of an access log."""
    return [{"paths": [str(path)], "format": "json", "fields": LOG_FIELDS}]


def replayed(config_path: Path, captures: Sequence[Path]) -> Recommendation:
    """Return what `replay` answers for the only deployment."""
    (recommendation,) = replay(load_config(config_path), captures)
    return recommendation


def codes(recommendation: Recommendation) -> set[str]:
    """Return the codes of the advice given, no rule having failed."""
    assert recommendation.failed_rules == ()
    return {str(advice.code) for advice in recommendation.advice}


def text_of(recommendation: Recommendation, code: str) -> str:
    """Return one advice's text."""
    return next(advice.text for advice in recommendation.advice if advice.code == code)


def ramp(levels: Iterable[int], seconds: float, *, base: float, per_sequence: float) -> Script:
    """Return a script that runs each number of sequences for a while, its TPOT linear in it."""
    situation = Situation()
    return [
        (
            replace(situation, running=level, tpot_seconds=base + per_sequence * level, kv_used=level / 1000),
            seconds,
        )
        for level in levels
    ]
