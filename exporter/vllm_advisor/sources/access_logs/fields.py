"""Fields of a record by their path: ``usage.prompt_tokens``, also through JSON kept as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from vllm_advisor.config import LogField
from vllm_advisor.sources.access_logs.values import MISSING, BrokenLineError

__all__ = ["FIELD_NAMES", "Fields", "look_up"]

_NOTHING = ("", "-")


@dataclass(frozen=True, slots=True)
class Fields:
    """Where a format keeps what the advisor reads: for each, paths of which the first found is taken.

    Args:
        time: start or end of the request.
        prompt_tokens: the whole prompt.
        completion_tokens: the output.
        total_tokens: their sum, to check them by.
        max_tokens: output tokens asked for.
        n: answers asked for.
        status: HTTP code, or a word.
        error: text of an error.
        finish_reason: why the answer ended.
        cached: whether a proxy answered from its cache.
        id: the same on every record of one request.
        model: model or route.
        path: the HTTP path or the kind of call.
        method: the HTTP method.
    """

    time: tuple[str, ...] = ()
    prompt_tokens: tuple[str, ...] = ()
    completion_tokens: tuple[str, ...] = ()
    total_tokens: tuple[str, ...] = ()
    max_tokens: tuple[str, ...] = ()
    n: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    error: tuple[str, ...] = ()
    finish_reason: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    method: tuple[str, ...] = ()

    def given(self, paths: Mapping[LogField, str]) -> Fields:
        """Return the fields with some of them elsewhere: ``{"time": "ts"}``."""
        return replace(self, **{name: (path,) for name, path in paths.items()})


FIELD_NAMES = tuple(field.name for field in fields(Fields))


def look_up(record: Mapping[str, Any], paths: tuple[str, ...]) -> object:
    """Return the first of some paths that holds a value; None where one is there and empty, else `MISSING`.

    A path is a key as it stands, dots and all, or keys one inside the other; ``*`` stands for any key. A
    value on the way that is JSON as text is read as JSON.

    Raises:
        BrokenLineError: such a text is no JSON.
    """
    found: object = MISSING
    for path in paths:
        value = record[path] if path in record else _inside(record, path)
        if value is not MISSING and value is not None:
            return value
        found = None if value is None else found
    return found


def _inside(value: object, path: str) -> object:
    key, dot, rest = path.partition(".")
    if not isinstance(value, Mapping):
        return MISSING
    if key == "*":
        inside = (_inside(one, rest) for one in value.values())
        return next((one for one in inside if one is not MISSING), MISSING)
    found = value.get(key, MISSING)
    if not dot or found is MISSING:
        return found
    opened = _opened(found)
    return None if opened is None else _inside(opened, rest)


def _opened(value: object) -> object:
    if not isinstance(value, str) or not value.startswith("{"):
        return None if value in _NOTHING else value
    try:
        opened: object = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        raise BrokenLineError("JSON within the line is cut") from None
    return opened
