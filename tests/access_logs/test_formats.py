"""Every format is told by its lines and read to the last broken one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.access_logs import log_config, read_lines, served
from vllm_advisor.config import AccessLogFormat, LogField
from vllm_advisor.sources.access_logs import LineReader, Outcome
from vllm_advisor.sources.access_logs.fields import FIELD_NAMES
from vllm_advisor.sources.access_logs.formats import FORMATS

FORMAT_OF = {
    "apisix-access.log": "apisix_access",
    "apisix-llm-summary.jsonl": "apisix",
    "app-openai-usage.jsonl": "openai",
    "azure-llm-trace.csv": "azure_llm_trace",
    "burstgpt.csv": "burstgpt",
    "cloudflare-ai-gateway.jsonl": "cloudflare",
    "cri-container.log": "openai",
    "docker-json-file.jsonl": "openai",
    "envoy-ai-gateway.jsonl": "envoy_ai_gateway",
    "envoy-istio-generic.jsonl": "envoy",
    "higress-ai-log.jsonl": "higress",
    "kong-file-log.jsonl": "kong",
    "langfuse-observations.jsonl": "langfuse",
    "litellm-spendlogs.csv": "litellm_spendlogs",
    "litellm-standard-payload.jsonl": "litellm",
    "mooncake.jsonl": "mooncake",
    "nginx-json.jsonl": "nginx",
    "otlp-genai-spans.jsonl": "otlp",
    "portkey-export.jsonl": "portkey",
    "production-stack-router.log": "production_stack",
    "vllm-server-0.32.log": "vllm",
    "vllm-server-0.9.log": "vllm",
}
SAMPLES = Path(__file__).parents[1] / "data" / "access_logs"
EXPECTED = json.loads((SAMPLES / "expected.json").read_text())


@pytest.mark.parametrize("name", sorted(EXPECTED))
@pytest.mark.parametrize("named", [False, True], ids=["auto", "named"])
def test_a_sample_gives_exactly_what_is_in_it(name: str, named: bool) -> None:  # noqa: FBT001
    """Counts by outcome, totals and format are those that were worked out with the sample."""
    reader = LineReader(log_config(format=FORMAT_OF[name] if named else "auto"))
    reader, requests = read_lines((SAMPLES / name).read_bytes().split(b"\n"), reader)
    lengths = served(requests)
    expected = {key: value for key, value in EXPECTED[name].items() if key != "notes"}
    assert reader.format_name == FORMAT_OF[name]
    assert expected == {
        "lines": reader.lines,
        "usable": reader.counts[Outcome.SERVED],
        "sum_prompt": sum(prompt for prompt, _ in lengths),
        "sum_output": sum(output for _, output in lengths),
        "max_prompt_plus_output": max((sum(both) for both in lengths), default=0),
        "refused_too_long": reader.counts[Outcome.REJECTED_FOR_LENGTH],
        "other_failed": reader.counts[Outcome.FAILED],
        "no_usage": reader.counts[Outcome.WITHOUT_USAGE],
        "duplicates": reader.counts[Outcome.DUPLICATE],
        "broken": reader.counts[Outcome.BROKEN],
    }


def test_every_format_has_a_sample_and_a_name_in_the_configuration() -> None:
    """A format is in the table, among the configuration's names and among the samples, or nowhere."""
    generic = {"auto", "csv", "json", "regex"}
    assert set(AccessLogFormat.__args__) - {"auto", "regex"} == set(FORMATS)
    assert set(FORMATS) - generic == set(FORMAT_OF.values())


def test_the_configuration_knows_every_field() -> None:
    """What `fields:` takes is what a format can look up."""
    assert set(LogField.__args__) == set(FIELD_NAMES)


@pytest.mark.parametrize(
    "name", [name for name in FORMAT_OF if name not in {"burstgpt.csv", "mooncake.jsonl"}]
)
def test_times_are_those_of_the_sample_day(name: str) -> None:
    """Whatever way a format writes its times, they come out on the morning the samples are of."""
    _, requests = read_lines((SAMPLES / name).read_bytes().split(b"\n"))
    morning = 1796029200.0  # 2026-11-30T09:00:00Z
    times = {request.time_seconds for request in requests if request.outcome is Outcome.SERVED}
    assert all(morning < seconds < morning + 3600 for seconds in times)
    assert len(times) > 5 or EXPECTED[name]["usable"] == 0


def test_traces_count_time_from_their_start() -> None:
    """Mooncake writes milliseconds and BurstGPT seconds since their first day."""
    first = {}
    for name in ("mooncake.jsonl", "burstgpt.csv"):
        _, requests = read_lines((SAMPLES / name).read_bytes().split(b"\n"))
        first[name] = requests[0].time_seconds
    assert first == {"mooncake.jsonl": 5.901, "burstgpt.csv": 10.0}


def test_a_refusal_says_what_was_asked_for() -> None:
    """The limit, the prompt's length and the output asked for stand in vLLM's text."""
    lines = (SAMPLES / "app-openai-usage.jsonl").read_bytes().split(b"\n")
    _, requests = read_lines(lines)
    (refused,) = [one for one in requests if one.outcome is Outcome.REJECTED_FOR_LENGTH]
    assert (refused.limit_tokens, refused.prompt_tokens, refused.max_tokens) == (8192, 7900, 1024)
