"""The one table of access-log formats: where each keeps what the advisor reads, and how it is told apart.

``auto`` takes the first format of the table whose marks a line carries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vllm_advisor.sources.access_logs.fields import FIELD_NAMES, Fields, look_up
from vllm_advisor.sources.access_logs.meaning import Rules
from vllm_advisor.sources.access_logs.records import (
    Record,
    each_record,
    is_langfuse,
    langfuse_records,
    otlp_records,
    production_stack_record,
    vllm_record,
)
from vllm_advisor.sources.access_logs.request import Outcome
from vllm_advisor.sources.access_logs.values import MISSING, BrokenLineError

__all__ = ["CSV_FORMATS", "FORMATS", "JSON_FORMATS", "TEXT_FORMATS", "Format", "pattern_format"]


@dataclass(frozen=True, slots=True)
class Format:
    """One shape of access log.

    Args:
        name: as a configuration names it.
        rules: where the fields are and what they mean.
        marks: paths, or columns, that every record has and other formats' have not.
        records: the records of one JSON document.
        record: for plain text, the record of one line; None where it tells of no request.
        looks: tells a record, or a line of text, where marks do not.
    """

    name: str
    rules: Rules
    marks: tuple[str, ...] = ()
    records: Callable[[Any], Iterable[Record]] = each_record
    record: Callable[[str], Record | Outcome | None] | None = None
    looks: Callable[[Any], bool] | None = None

    def recognises(self, record: Mapping[str, Any] | str) -> bool:
        """Tell whether a record, or a line of text, is this format's."""
        if self.looks is not None:
            return self.looks(record)
        return isinstance(record, Mapping) and all(
            look_up(record, (mark,)) is not MISSING for mark in self.marks
        )


_CANONICAL = Fields(**{name: (name,) for name in FIELD_NAMES})
"""For records that are put together here, and for named groups of a pattern."""

_COMMON = Fields(
    time=(
        "ts",
        "time",
        "timestamp",
        "@timestamp",
        "start_time",
        "startTime",
        "created_at",
        "started_at",
        "msec",
    ),
    prompt_tokens=("usage.prompt_tokens", "usage.input_tokens", "prompt_tokens", "input_tokens"),
    completion_tokens=(
        "usage.completion_tokens",
        "usage.output_tokens",
        "completion_tokens",
        "output_tokens",
        "generation_tokens",
    ),
    total_tokens=("usage.total_tokens", "total_tokens"),
    max_tokens=("max_tokens", "max_completion_tokens", "request.max_tokens", "request.max_completion_tokens"),
    n=("n", "request.n"),
    status=("status", "status_code", "http_status", "response_code", "response.status"),
    error=("error.message", "error_message", "error"),
    finish_reason=("finish_reason", "choices.finish_reason"),
    cached=("cache_hit",),
    id=("request_id", "x-request-id", "id"),
    model=("model", "request.model"),
    path=("path", "uri", "endpoint", "request_path"),
    method=("method", "request_method"),
)
"""The names that applications and proxies use most.

Gateways that write one line a request, retries within it, and take the request's id from the client have no
``id`` below: it tells of no repetition.
"""

_LITELLM = Fields(
    time=("startTime",),
    prompt_tokens=("prompt_tokens",),
    completion_tokens=("completion_tokens",),
    total_tokens=("total_tokens",),
    max_tokens=("model_parameters.max_tokens", "model_parameters.max_completion_tokens"),
    n=("model_parameters.n",),
    status=("status",),
    error=("error_information.error_message", "error_str"),
    cached=("cache_hit",),
    id=("id",),
    model=("model_group", "model"),
    path=("call_type",),
)


def _has_prompt_tokens(record: Record) -> bool:
    return look_up(record, _COMMON.prompt_tokens) is not MISSING


JSON_FORMATS = (
    Format("litellm", Rules(_LITELLM, records_only=True), ("call_type", "startTime", "model_group")),
    Format(
        "envoy_ai_gateway",
        Rules(
            replace(
                _COMMON,
                prompt_tokens=("gen_ai.usage.input_tokens",),
                completion_tokens=("gen_ai.usage.output_tokens",),
                status=("response_code",),
                model=("gen_ai.request.model",),
                path=("request.path", "x-envoy-origin-path"),
            )
        ),
        ("gen_ai.usage.input_tokens", "response_code"),
    ),
    Format(
        "higress",
        Rules(
            replace(
                _COMMON,
                prompt_tokens=("ai_log.input_token",),
                completion_tokens=("ai_log.output_token",),
                total_tokens=("ai_log.total_token",),
                status=("response_code",),
                model=("ai_log.model",),
                id=(),
            )
        ),
        ("ai_log", "response_code"),
    ),
    Format(
        "kong",
        Rules(
            Fields(
                time=("started_at",),
                prompt_tokens=("ai.*.usage.prompt_tokens",),
                completion_tokens=("ai.*.usage.completion_tokens",),
                total_tokens=("ai.*.usage.total_tokens",),
                status=("response.status",),
                model=("ai.*.meta.request_model", "route.name"),
                path=("request.uri",),
                method=("request.method",),
            ),
            records_only=True,
        ),
        ("started_at", "latencies", "response.status"),
    ),
    Format(
        "apisix",
        Rules(
            Fields(
                time=("start_time",),
                prompt_tokens=("llm_summary.prompt_tokens",),
                completion_tokens=("llm_summary.completion_tokens",),
                total_tokens=("llm_summary.total_tokens",),
                status=("response.status",),
                model=("llm_summary.request_model", "llm_summary.model"),
                path=("request.uri",),
                method=("request.method",),
            ),
            records_only=True,
        ),
        ("llm_summary", "response.status"),
    ),
    Format("otlp", Rules(_CANONICAL), ("resourceSpans",), records=otlp_records),
    Format(
        "langfuse",
        Rules(
            replace(
                _CANONICAL,
                time=("startTime", "start_time"),
                max_tokens=("modelParameters.max_tokens", "model_parameters.max_tokens"),
                status=("level",),
                error=("statusMessage", "status_message"),
                path=("type",),
            ),
            records_only=True,
            generation="GENERATION",
        ),
        records=langfuse_records,
        looks=is_langfuse,
    ),
    Format(
        "portkey",
        Rules(
            Fields(
                time=("created_at",),
                prompt_tokens=("req_units",),
                completion_tokens=("res_units",),
                total_tokens=("total_units",),
                status=("response_status_code", "is_success"),
                id=("id",),
                model=("ai_model",),
                path=("request_url",),
            ),
            records_only=True,
        ),
        ("req_units", "res_units"),
    ),
    Format(
        "cloudflare",
        Rules(
            Fields(
                time=("created_at",),
                prompt_tokens=("tokens_in",),
                completion_tokens=("tokens_out",),
                status=("status_code",),
                cached=("cached",),
                id=("id",),
                model=("model",),
                path=("path",),
            ),
            records_only=True,
        ),
        ("tokens_in", "tokens_out"),
    ),
    Format(
        "mooncake",
        Rules(
            Fields(
                time=("timestamp",), prompt_tokens=("input_length",), completion_tokens=("output_length",)
            ),
            counts_required=True,
            time_unit_seconds=0.001,
        ),
        ("input_length", "output_length"),
    ),
    Format(
        "nginx", Rules(replace(_COMMON, time=("msec", "time"))), ("request_time", "upstream_addr", "status")
    ),
    Format("envoy", Rules(_COMMON), ("response_flags", "response_code")),
    Format("openai", Rules(_COMMON), ("usage",)),
    Format("json", Rules(_COMMON), looks=_has_prompt_tokens),
)
"""Formats of one JSON document a line."""

CSV_FORMATS = (
    Format(
        "litellm_spendlogs",
        Rules(
            replace(
                _LITELLM,
                error=("metadata.error_information.error_message",),
                max_tokens=("proxy_server_request.max_tokens",),
                n=("proxy_server_request.n",),
                id=("request_id",),
            ),
            records_only=True,
        ),
        ("request_id", "call_type", "startTime"),
    ),
    Format(
        "azure_llm_trace",
        Rules(
            Fields(
                time=("TIMESTAMP",), prompt_tokens=("ContextTokens",), completion_tokens=("GeneratedTokens",)
            ),
            counts_required=True,
        ),
        ("ContextTokens", "GeneratedTokens"),
    ),
    Format(
        "burstgpt",
        Rules(
            Fields(
                time=("Timestamp",),
                prompt_tokens=("Request tokens",),
                completion_tokens=("Response tokens",),
                total_tokens=("Total tokens",),
                model=("Model",),
            ),
            counts_required=True,
            failed_without_output=True,
            time_unit_seconds=1.0,
        ),
        ("Request tokens", "Response tokens"),
    ),
    Format("csv", Rules(_COMMON), looks=_has_prompt_tokens),
)
"""Formats with a header line and comma-separated values."""

_APISIX_ACCESS = re.compile(
    r'\S+ - \S+ \[(?P<time>[^\]]+)\] \S+ "(?P<method>[A-Z]+) (?P<path>\S+) [^"]*" (?P<status>\d{3}) .*'
    r' "(?P<model>[^"]*)" "[^"]*" "(?P<prompt_tokens>[^"]*)" "(?P<completion_tokens>[^"]*)"'
)
"""An access log whose lines end with model, time to first token and both token counts, each quoted."""


def pattern_format(name: str, pattern: re.Pattern[str]) -> Format:
    """Return the format of lines that a pattern matches, its named groups being the fields."""

    def record(text: str) -> Record:
        match = pattern.fullmatch(text)
        if match is None:
            raise BrokenLineError("the pattern does not match")
        return match.groupdict()

    return Format(
        name, Rules(_CANONICAL), record=record, looks=lambda text: pattern.fullmatch(text) is not None
    )


def _looks_like_vllm(text: str) -> bool:
    return "Received request " in text or " non-default args: " in text


TEXT_FORMATS = (
    pattern_format("apisix_access", _APISIX_ACCESS),
    Format("vllm", Rules(_CANONICAL), record=vllm_record, looks=_looks_like_vllm),
    Format(
        "production_stack",
        Rules(_CANONICAL),
        record=production_stack_record,
        looks=lambda text: production_stack_record(text) is not None,
    ),
)
"""Formats of plain text."""

FORMATS: Mapping[str, Format] = {one.name: one for one in (*JSON_FORMATS, *CSV_FORMATS, *TEXT_FORMATS)}
