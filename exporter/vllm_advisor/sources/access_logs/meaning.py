"""From a record's fields to what became of its request."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vllm_advisor.sources.access_logs.fields import Fields, look_up
from vllm_advisor.sources.access_logs.refusals import length_refusal
from vllm_advisor.sources.access_logs.request import LoggedRequest, Outcome
from vllm_advisor.sources.access_logs.values import (
    MISSING,
    BrokenLineError,
    epoch_seconds,
    is_true,
    read_tokens,
    status_failed,
)

__all__ = ["Rules", "understand"]

_NO_GENERATION = re.compile(
    r"embed|rerank|(?:^|/)(?:health\w*|metrics|ping|version|models|(?:de)?tokeni[sz]e|score|pooling|classify)\b"
)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a format means its fields.

    Args:
        fields: where they are.
        counts_required: whether a record without both counts is broken rather than one without usage.
        records_only: whether what is no record of a request has no business in the file, and is broken.
        generation: what ``path`` is on a generation's record, where it tells.
        failed_without_output: whether no output means that the request failed.
        time_unit_seconds: what one of its times is, where they do not count from the epoch.
    """

    fields: Fields
    counts_required: bool = False
    records_only: bool = False
    generation: str | None = None
    failed_without_output: bool = False
    time_unit_seconds: float | None = None


def understand(record: Mapping[str, Any], rules: Rules) -> LoggedRequest | None:
    """Say what became of the request that a record tells of; None when it tells of none.

    Raises:
        BrokenLineError: the record says what cannot be.
    """
    fields = rules.fields
    failed = status_failed(look_up(record, fields.status))
    if failed or (failed is None and look_up(record, fields.error)):
        return _failure(record, rules)
    if is_true(look_up(record, fields.cached)):
        return _request(record, rules, Outcome.CACHED)
    if _is_no_generation(record, rules):
        return _request(record, rules, Outcome.NOT_GENERATION)
    return _answered(record, rules, answered=failed is False)


def _request(
    record: Mapping[str, Any],
    rules: Rules,
    outcome: Outcome,
    *,
    prompt_tokens: int | None = None,
    output_tokens: int | None = None,
    max_tokens: int | None = None,
    limit_tokens: int | None = None,
) -> LoggedRequest:
    model = look_up(record, rules.fields.model)
    return LoggedRequest(
        outcome,
        _time_seconds(record, rules),
        prompt_tokens,
        output_tokens,
        max_tokens,
        cut_by_length=look_up(record, rules.fields.finish_reason) == "length",
        limit_tokens=limit_tokens,
        model=model if isinstance(model, str) else None,
    )


def _time_seconds(record: Mapping[str, Any], rules: Rules) -> float | None:
    time = look_up(record, rules.fields.time)
    if rules.time_unit_seconds is None:
        return epoch_seconds(time)
    number = epoch_seconds(str(time))
    return None if number is None else number * rules.time_unit_seconds


def _failure(record: Mapping[str, Any], rules: Rules) -> LoggedRequest:
    error = look_up(record, rules.fields.error)
    refusal = length_refusal(error) if isinstance(error, str) else None
    if refusal is None:
        return _request(record, rules, Outcome.FAILED)
    asked = refusal.max_tokens
    if asked is None:
        asked = _quiet_tokens(look_up(record, rules.fields.max_tokens))
    return _request(
        record,
        rules,
        Outcome.REJECTED_FOR_LENGTH,
        prompt_tokens=refusal.prompt_tokens,
        max_tokens=asked,
        limit_tokens=refusal.limit_tokens,
    )


def _is_no_generation(record: Mapping[str, Any], rules: Rules) -> bool:
    path = look_up(record, rules.fields.path)
    if rules.generation is not None:
        return bool(path != rules.generation)
    if look_up(record, rules.fields.method) == "GET":
        return True
    return isinstance(path, str) and _NO_GENERATION.search(path) is not None


def _answered(record: Mapping[str, Any], rules: Rules, *, answered: bool) -> LoggedRequest | None:
    fields = rules.fields
    raw_prompt, raw_output = look_up(record, fields.prompt_tokens), look_up(record, fields.completion_tokens)
    prompt, output = read_tokens(raw_prompt), read_tokens(raw_output)
    if rules.counts_required and (prompt is None or output is None):
        raise BrokenLineError("a count is missing")
    if prompt and output:
        return _served(record, rules, prompt, output)
    if prompt and raw_output is MISSING:
        return _request(record, rules, Outcome.NOT_GENERATION)
    if raw_prompt is MISSING and raw_output is MISSING and not answered:
        if rules.records_only:
            raise BrokenLineError("no record of a request")
        return None
    failed = rules.failed_without_output and output == 0
    asked = _quiet_tokens(look_up(record, fields.max_tokens))
    outcome = Outcome.FAILED if failed else Outcome.WITHOUT_USAGE
    return _request(record, rules, outcome, prompt_tokens=prompt or None, max_tokens=asked)


def _served(record: Mapping[str, Any], rules: Rules, prompt: int, output: int) -> LoggedRequest:
    fields = rules.fields
    total = read_tokens(look_up(record, fields.total_tokens))
    if total and prompt + output != total:
        raise BrokenLineError("the total is not the sum")
    answers = _quiet_tokens(look_up(record, fields.n)) or 1
    return _request(
        record,
        rules,
        Outcome.SERVED,
        prompt_tokens=prompt,
        output_tokens=math.ceil(output / answers),
        max_tokens=_quiet_tokens(look_up(record, fields.max_tokens)),
    )


def _quiet_tokens(value: object) -> int | None:
    """Read a count that a record need not have, and that does not break it."""
    try:
        return read_tokens(value)
    except BrokenLineError:
        return None
