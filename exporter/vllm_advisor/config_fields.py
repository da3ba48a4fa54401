"""What a configuration's values may be: durations and sizes with their unit, counts, ratios, names."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from vllm_advisor.units import format_duration, format_size, parse_duration_seconds, parse_size_bytes

__all__ = ["Bytes", "Count", "Name", "Ratio", "Seconds", "SecondsOrZero", "Section"]


class Section(BaseModel):
    """A part of the file: frozen, and a key it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=False, validate_by_alias=True)


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, float) else parse_duration_seconds(str(value))


def _bytes(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else parse_size_bytes(str(value))


def _sized(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f"expected a size with its unit, such as 80GB or 79.1GiB, not {value!r}")
    return value


def _timed(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f"expected a duration with its unit, such as 40ms, 5s or 7d, not {value!r}")
    return value


_AsDuration = PlainSerializer(format_duration, return_type=str, when_used="json")
_AsSize = PlainSerializer(format_size, return_type=str, when_used="json")

Seconds = Annotated[float, BeforeValidator(_seconds), BeforeValidator(_timed), Field(gt=0), _AsDuration]
"""A duration with its unit, over zero."""
SecondsOrZero = Annotated[float, BeforeValidator(_seconds), BeforeValidator(_timed), Field(ge=0), _AsDuration]
"""A duration with its unit."""
Bytes = Annotated[int, BeforeValidator(_bytes), BeforeValidator(_sized), Field(gt=0), _AsSize]
"""A size with its unit, over zero."""
Count = Annotated[int, Field(strict=True, ge=1)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1)]
