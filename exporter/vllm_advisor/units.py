"""Durations and sizes as people write them: ``40ms``, ``1h30m``, ``80GB``, ``79.1GiB``."""

from __future__ import annotations

import math
import re

__all__ = ["format_bytes", "format_duration", "format_size", "parse_duration_seconds", "parse_size_bytes"]

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
_BYTES: dict[str, int] = {"B": 1, "KB": 1000}
_BYTES |= {f"{prefix}B": 1000**power for power, prefix in enumerate("kMGT", 1)}
_BYTES |= {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)}

_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdwy])")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_SIZE = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([kKMGT]?i?B)")


def parse_duration_seconds(text: str) -> float:
    """Read a duration such as ``40ms``, ``5s``, ``1h30m`` or ``7d``.

    Raises:
        ValueError: the text is not a duration with its unit.
    """
    if not _DURATION.fullmatch(text):
        raise ValueError(f"expected a duration such as 40ms, 5s or 7d, not {text!r}")
    return math.fsum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text))


def parse_size_bytes(text: str) -> int:
    """Read a size such as ``80GB`` (1e9 bytes each) or ``79.1GiB`` (2**30 bytes each), rounded to a byte.

    Raises:
        ValueError: the text is not a size with its unit.
    """
    match = _SIZE.fullmatch(text)
    size_bytes = float(match[1]) * _BYTES.get(match[2], math.nan) if match else math.nan
    if not math.isfinite(size_bytes):
        raise ValueError(f"expected a size such as 80GB or 79.1GiB, not {text!r}")
    return round(size_bytes)


def format_duration(seconds: float) -> str:
    """Write seconds the way a configuration takes them: ``40ms``, ``5s``, ``7d``."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    for unit in ("d", "h", "m"):
        if seconds >= _SECONDS[unit] and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:.0f}{unit}"
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def format_bytes(size_bytes: float) -> str:
    """Write bytes in decimal gigabytes, as flags and data sheets do: ``48.1 GB``."""
    return f"{size_bytes / 1e9:.4g} GB"


def format_size(size_bytes: int) -> str:
    """Write bytes the way a configuration takes them, exactly: ``80GB``, ``64MiB``, ``1001B``."""
    largest_first = sorted(_BYTES.items(), key=lambda unit: unit[1], reverse=True)
    unit, factor = next((unit, factor) for unit, factor in largest_first if size_bytes % factor == 0)
    return f"{size_bytes // factor}{unit}"
