"""Formats whose records need more than their fields looked up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from vllm_advisor.sources.access_logs.request import Outcome
from vllm_advisor.sources.access_logs.values import BrokenLineError

__all__ = [
    "each_record",
    "is_langfuse",
    "is_server_line",
    "langfuse_records",
    "otlp_records",
    "production_stack_record",
    "vllm_record",
]

Record = Mapping[str, Any]


def each_record(document: object) -> Iterable[Record]:
    """Return a JSON object, or the objects of an array that a shipper made of several.

    Raises:
        BrokenLineError: the document is neither.
    """
    if isinstance(document, dict):
        return (document,)
    if isinstance(document, list) and all(isinstance(one, dict) for one in document):
        return document
    raise BrokenLineError("no JSON object")


def otlp_records(document: object) -> Iterable[Record]:
    """Return the generation spans of an OTLP/JSON line, their attributes as fields.

    A client's span and the engine's describe the same call: they share times or, within one trace, counts.
    """
    try:
        records = [
            _span_record(span)
            for one in each_record(document)
            for resource in one["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]
    except (KeyError, TypeError, AttributeError):
        raise BrokenLineError("no spans") from None
    return [record for record in records if record["generation"]]


def _span_record(span: Record) -> dict[str, Any]:
    attributes = {one["key"]: next(iter(one["value"].values()), None) for one in span.get("attributes", ())}
    status = span.get("status") or {}
    failed = status.get("code") in (2, "2", "STATUS_CODE_ERROR") or "error.type" in attributes
    prompt = attributes.get("gen_ai.usage.prompt_tokens", attributes.get("gen_ai.usage.input_tokens"))
    output = attributes.get("gen_ai.usage.completion_tokens", attributes.get("gen_ai.usage.output_tokens"))
    start, end = span.get("startTimeUnixNano"), span.get("endTimeUnixNano")
    reasons = attributes.get("gen_ai.response.finish_reasons")
    return {
        "generation": any(key.startswith("gen_ai.") for key in attributes),
        "time": start,
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "max_tokens": attributes.get("gen_ai.request.max_tokens"),
        "n": attributes.get("gen_ai.request.n"),
        "status": "failed" if failed else "ok",
        "error": status.get("message"),
        "finish_reason": "length" if "length" in str(reasons) else None,
        "model": attributes.get("gen_ai.request.model"),
        "path": attributes.get("gen_ai.operation.name"),
        "id": (f"{start} {end} {prompt} {output}", f"{span.get('traceId')} {prompt} {output}"),
    }


def is_langfuse(record: Record) -> bool:
    """Tell an observation, by the names of the API or of the blob export."""
    return "type" in record and any(key in record for key in ("usageDetails", "usage_details"))


def langfuse_records(document: object) -> Iterable[Record]:
    """Return observations with their prompt made whole: integrations split off what was cached.

    Raises:
        BrokenLineError: usage is counted in something else than tokens.
    """
    return [_langfuse_record(record) for record in each_record(document)]


def _langfuse_record(record: Record) -> Record:
    usage = record.get("usage") or {}
    unit = usage.get("unit") if isinstance(usage, dict) else None
    if unit not in (None, "TOKENS"):
        raise BrokenLineError("not counted in tokens")
    details = record.get("usageDetails") or record.get("usage_details") or usage
    if not isinstance(details, dict):
        raise BrokenLineError("no usage")
    inputs = [value for key, value in details.items() if key.startswith("input")]
    if not all(isinstance(value, int) for value in inputs):
        raise BrokenLineError("no count of tokens")
    whole = {"prompt_tokens": sum(inputs), "completion_tokens": details.get("output")}
    return {**record, **whole}


_VLLM_REQUEST = re.compile(r"Received request (\S+?):? ")
_VLLM_PARAMS = "params: SamplingParams("
_VLLM_MAX_TOKENS = re.compile(r"\bmax_tokens=(\d+)")
_VLLM_N = re.compile(r"\bn=(\d+)")
_VLLM_IDS = re.compile(r"prompt_token_ids: \[([\d, ]*)\]")
_UVICORN = re.compile(r"(?:\(\w+ pid=\d+\) )?INFO: +\S+ - \"(\S+) (\S+) HTTP/[\d.]+\" (\d{3})")


def vllm_record(text: str) -> Record | None:
    """Read a line of vLLM's own log: what was asked for, and refusals; it has no output counts.

    What a server answers with 4xx has a line of its own where the log tells why.
    """
    if access := _UVICORN.match(text):
        return {"status": access[3]} if access[3].startswith("5") else None
    if "ValueError: " in text or "VLLMValidationError: " in text:
        return {"status": "error", "error": text} if "maximum" in text else None
    request = _VLLM_REQUEST.search(text)
    if request is None:
        return None
    parameters = text[text.rfind(_VLLM_PARAMS) :]
    asked, answers = _VLLM_MAX_TOKENS.search(parameters), _VLLM_N.search(parameters)
    ids = _VLLM_IDS.search(parameters)
    return {
        "id": request[1],
        "prompt_tokens": ids[1].count(",") + 1 if ids and ids[1] else None,
        "completion_tokens": None,
        "max_tokens": asked[1] if asked else None,
        "n": answers[1] if answers else None,
    }


_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_ROUTED = re.compile(r"Routing request (\S+) (?:with session id|to \S+ (\(attempt ))")


def production_stack_record(text: str) -> Record | Outcome | None:
    """Read a line of production-stack's router: one for each attempt at a request, without any count."""
    routed = _ROUTED.search(_COLOURS.sub("", text))
    if routed is None:
        return None
    if routed[2]:
        return Outcome.DUPLICATE
    return {"id": routed[1], "prompt_tokens": None, "completion_tokens": None}


def is_server_line(text: str) -> bool:
    """Tell an access line of uvicorn's, which turns up in any stream of a container."""
    return _UVICORN.match(text) is not None
