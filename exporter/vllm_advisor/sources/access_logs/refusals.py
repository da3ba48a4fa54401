"""Refusals of requests that are too long, told by vLLM's own texts (all of status 400)."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["LengthRefusal", "length_refusal"]

_LIMITS = (
    r"maximum context length is (\d+) tokens",  # the OpenAI-compatible server, every version
    r"maximum model length of (\d+)",  # the V1 engine's own check
    r"cannot be greater than max_model_len=(\d+)",  # about 0.16 on: max_tokens alone is over the limit
)
_LIMIT = re.compile("|".join(_LIMITS))
_PROMPTS = (
    r"\((\d+) in the messages",  # to 0.10.0
    r"requested (\d+) tokens in the messages",  # to 0.10.0, without max_tokens
    r"(?:request has|prompt contains) (\d+) input tokens",  # 0.10.1 on; "at least" is a floor and not read
    r"prompt \(length (\d+)\)",
)
_PROMPT = re.compile("|".join(_PROMPTS))
_ASKED = (
    r"(\d+) in the completion",
    r"requested (\d+) output tokens",
    r"is too large: (\d+)",
    r"max_tokens=(\d+) cannot",
)
_OUTPUT = re.compile("|".join(_ASKED))


@dataclass(frozen=True, slots=True)
class LengthRefusal:
    """What a refusal says; None where its text does not.

    Args:
        limit_tokens: the context limit then.
        prompt_tokens: the prompt's length, where it was counted to its end.
        max_tokens: output tokens asked for.
    """

    limit_tokens: int
    prompt_tokens: int | None
    max_tokens: int | None


def length_refusal(text: str) -> LengthRefusal | None:
    """Read an error's text; None when it is about something else."""
    limit = _number(_LIMIT.search(text))
    if limit is None:
        return None
    return LengthRefusal(limit, _number(_PROMPT.search(text)), _number(_OUTPUT.search(text)))


def _number(match: re.Match[str] | None) -> int | None:
    digits = next(filter(None, match.groups()), None) if match else None
    return int(digits) if digits and len(digits) <= 8 else None
