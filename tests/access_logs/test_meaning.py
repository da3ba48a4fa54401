"""What a record says of its request, beyond where its fields are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.access_logs import NOW_SECONDS, log_config, read_lines, served, usage_line
from vllm_advisor.sources.access_logs import LineReader, LoggedRequest, Outcome
from vllm_advisor.sources.access_logs.refusals import length_refusal


def outcome_of(record: dict[str, Any], **settings: Any) -> Outcome:
    """Return what becomes of one JSON record."""
    reader, _ = read_lines([json.dumps(record).encode()], LineReader(log_config(**settings)))
    (outcome,) = +reader.counts
    return outcome


def request_of(record: dict[str, Any]) -> LoggedRequest:
    """Return the request of one JSON record."""
    (request,) = read_lines([json.dumps(record).encode()])[1]
    return request


USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({}, Outcome.SERVED),
        ({"status": 200}, Outcome.SERVED),
        ({"status": "201"}, Outcome.SERVED),
        ({"status": 400}, Outcome.FAILED),
        ({"status": "502"}, Outcome.FAILED),
        ({"status": 0}, Outcome.FAILED),
        ({"status": "error"}, Outcome.FAILED),
        ({"error": {"message": "boom"}}, Outcome.FAILED),
        ({"cache_hit": True}, Outcome.CACHED),
        ({"cache_hit": "True"}, Outcome.CACHED),
        ({"uri": "/v1/embeddings"}, Outcome.NOT_GENERATION),
        ({"uri": "/shipping/v1/chat/completions"}, Outcome.SERVED),
        ({"method": "GET"}, Outcome.NOT_GENERATION),
        ({"usage": {**USAGE, "total_tokens": 7}}, Outcome.BROKEN),
        ({"usage": {**USAGE, "prompt_tokens": 0}}, Outcome.WITHOUT_USAGE),
        ({"usage": {**USAGE, "completion_tokens": 0}}, Outcome.WITHOUT_USAGE),
        ({"usage": None}, Outcome.WITHOUT_USAGE),
        ({"usage": {"prompt_tokens": 5, "total_tokens": 5}}, Outcome.NOT_GENERATION),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": 2}}, Outcome.BROKEN),
        ({"usage": {"prompt_tokens": 4294967295, "completion_tokens": 2}}, Outcome.BROKEN),
        ({"usage": {"prompt_tokens": "1,204", "completion_tokens": 2}}, Outcome.BROKEN),
        ({"usage": {"prompt_tokens": "NaN", "completion_tokens": 2}}, Outcome.BROKEN),
        ({"usage": {"prompt_tokens": True, "completion_tokens": 2}}, Outcome.BROKEN),
        ({"usage": {"prompt_tokens": 1.5, "completion_tokens": 2}}, Outcome.BROKEN),
        ({"usage": {"prompt_tokens": "12", "completion_tokens": "3.0"}}, Outcome.SERVED),
    ],
)
def test_a_record_is_what_its_fields_make_it(more: dict[str, Any], outcome: Outcome) -> None:
    """Failures, cache hits, other calls, missing and impossible counts are told apart."""
    assert outcome_of({"usage": USAGE, **more}) is outcome


def test_a_json_object_that_is_no_request_is_another_line() -> None:
    """Start-up and other messages in the same stream are neither requests nor broken."""
    reader, _ = read_lines(
        [usage_line(10, 2), b'{"msg": "started"}', b'INFO:  1.2.3.4:5 - "GET /x HTTP/1.1" 200']
    )
    assert reader.counts == {Outcome.SERVED: 1, Outcome.OTHER: 2, Outcome.BROKEN: 0}


def test_several_answers_share_one_prompt() -> None:
    """With n answers the log adds their outputs up; a sequence is the prompt and one answer."""
    record = {"usage": {"prompt_tokens": 100, "completion_tokens": 90, "total_tokens": 190}, "n": 4}
    request = request_of(record)
    assert (request.prompt_tokens, request.output_tokens) == (100, 23)


def test_what_was_asked_for_and_how_it_ended_are_kept() -> None:
    """max_tokens and finish_reason tell whether today's limit cut an answer."""
    request = request_of({"usage": USAGE, "max_tokens": 20, "finish_reason": "length", "model": "m"})
    assert (request.max_tokens, request.cut_by_length, request.model) == (20, True, "m")


REFUSALS = {
    "This model's maximum context length is 8192 tokens. However, you requested 9216 tokens (8192 in the "
    "messages, 1024 in the completion). Please reduce the length.": (8192, 8192, 1024),
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens in the messages, "
    "Please reduce the length of the messages.": (8192, 9000, None),
    "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192 "
    "tokens and your request has 5000 input tokens (4096 > 8192 - 5000).": (8192, 5000, 4096),
    "This model's maximum context length is 8192 tokens. However, you requested 1024 output tokens and your "
    "prompt contains at least 7169 input tokens, for a total of at least 8193 tokens.": (8192, None, 1024),
    "This model's maximum context length is 8192 tokens. However, your prompt contains 8200 input tokens, "
    "which exceeds this limit even without any output tokens.": (8192, 8200, None),
    "max_tokens=9000 cannot be greater than max_model_len=8192. Please request fewer tokens.": (
        8192,
        None,
        9000,
    ),
    "The decoder prompt (length 8300) is longer than the maximum model length of 8192.": (8192, 8300, None),
}
"""Texts of vLLM by version, with the limit, the prompt's length and the output tokens that they name."""


@pytest.mark.parametrize(("text", "named"), REFUSALS.items())
def test_refusals_of_every_version_are_told(text: str, named: tuple[int, int | None, int | None]) -> None:
    """A floor ("at least") is not the prompt's length, and is not taken for it."""
    refusal = length_refusal(f"litellm.ContextWindowExceededError: {text}")
    assert refusal is not None
    assert (refusal.limit_tokens, refusal.prompt_tokens, refusal.max_tokens) == named


def test_another_error_of_status_400_is_no_refusal_for_length() -> None:
    """HTTP 400 alone says nothing of the length."""
    assert length_refusal("temperature must be non-negative") is None
    assert outcome_of({"status": 400, "usage": None, "error": "bad temperature"}) is Outcome.FAILED


def test_a_repeated_record_counts_once() -> None:
    """The id tells a record shipped twice; a failed attempt of the same id is not one."""
    lines = [
        usage_line(10, 2, request_id="a"),
        usage_line(10, 2, request_id="a"),
        usage_line(10, 2, request_id="b"),
        json.dumps({"status": 500, "request_id": "b"}).encode(),
    ]
    reader, _ = read_lines(lines)
    assert reader.counts == {Outcome.SERVED: 2, Outcome.DUPLICATE: 1, Outcome.FAILED: 1, Outcome.BROKEN: 0}


def test_only_the_deployments_own_lines_count() -> None:
    """Lines of other models, or with other values of a matched field, are another deployment's."""
    lines = [
        usage_line(1, 1, model="qwen3-8b", tenant="a"),
        usage_line(2, 1, model="hosted_vllm/qwen3-8b", tenant="a"),
        usage_line(3, 1, model="llama", tenant="a"),
        usage_line(4, 1, model="qwen3-8b", tenant="b"),
        usage_line(5, 1, tenant="a"),
    ]
    reader = LineReader(log_config(models=("qwen3-8b",), match={"tenant": "a"}))
    reader, requests = read_lines(lines, reader)
    assert served(requests) == [(1, 1), (2, 1), (5, 1)]
    assert reader.counts[Outcome.OTHER_DEPLOYMENT] == 2


def test_fields_may_be_anywhere() -> None:
    """A configuration says where an operator's own names are, through keys with dots and JSON as text."""
    record = {"a.b": 7, "inner": json.dumps({"out": 3}), "when": "2026-11-30T09:15:00Z"}
    fields = {"prompt_tokens": "a.b", "completion_tokens": "inner.out", "time": "when"}
    reader = LineReader(log_config(format="json", fields=fields))
    _, (request,) = read_lines([json.dumps(record).encode()], reader)
    assert (request.prompt_tokens, request.output_tokens, request.time_seconds) == (7, 3, 1796030100.0)


def test_a_pattern_names_its_fields() -> None:
    """Plain text is read by a regular expression with named groups."""
    pattern = r"(?P<time>\S+) in=(?P<prompt_tokens>\d+) out=(?P<completion_tokens>\d+)"
    reader = LineReader(log_config(format="regex", pattern=pattern))
    reader, requests = read_lines([b"2026-11-30T09:15:00Z in=12 out=3", b"garbage"], reader)
    assert served(requests) == [(12, 3)]
    assert reader.counts[Outcome.BROKEN] == 1


def test_a_request_without_a_time_is_of_now() -> None:
    """The daemon reads lines as they are written, so that its own time is near enough."""
    _, (request,) = read_lines([json.dumps({"usage": USAGE}).encode()])
    assert request.time_seconds == NOW_SECONDS


@pytest.mark.parametrize("way", ["one by one", "at once"])
def test_lines_from_the_future_are_left_out(way: str) -> None:
    """Clocks may differ by five minutes; a time beyond that is none, whichever way lines are read."""
    reader, ahead = LineReader(log_config()), (-5, 299, 301, 90_000, 3e9)
    lines = [usage_line(1, 1, NOW_SECONDS + seconds, request_id=f"{seconds}") for seconds in ahead] * 20
    lines += [
        usage_line(1, 1, NOW_SECONDS, request_id="301"),
        usage_line(1, 1, NOW_SECONDS + 301, status=400),
    ]
    if way == "at once":
        found = reader.read_block(b"".join(lines), 0, NOW_SECONDS)
        times = {time for one in found for time in np.atleast_1d(one.time_seconds).tolist()}
    else:
        times = {one.time_seconds for one in read_lines(lines, reader)[1]}
    assert times == {NOW_SECONDS - 5, NOW_SECONDS, NOW_SECONDS + 299}
    assert reader.counts[Outcome.IN_FUTURE] == 3 * 20 + 1
