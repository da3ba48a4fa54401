"""How advice writes numbers."""

from __future__ import annotations

__all__ = ["a_day", "fold", "milliseconds", "over_target", "percent", "sequences", "span", "tokens"]

_FOLD_FROM = 2.0
_UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


def percent(ratio: float) -> str:
    """Write a share: ``41%``, ``0.4%``."""
    value = 100 * ratio
    return f"{value:.0f}%" if value >= 10 or value == 0 else f"{value:.2g}%"


def span(seconds: float) -> str:
    """Write a length of time to two digits or so: ``45 s``, ``3.4 h``, ``7 d``."""
    unit, size = next((one for one in _UNITS if seconds >= 1.5 * one[1]), _UNITS[-1])
    value = seconds / size
    return f"{value:.0f} {unit}" if value >= 10 or round(value, 1) == int(value) else f"{value:.1f} {unit}"


def milliseconds(seconds: float) -> str:
    """Write a time per token: ``38 ms``."""
    return f"{seconds * 1000:.3g} ms"


def tokens(count: float) -> str:
    """Write a whole number of tokens or sequences with thousands set apart."""
    return f"{round(count):,}"


def fold(factor: float) -> str:
    """Write how many times: ``85 times``, ``1.8 times``."""
    return f"{factor:.0f} times" if factor >= 10 else f"{factor:.1f} times"


def sequences(count: float) -> str:
    """Write a number of sequences: ``1 sequence``, ``1,024 sequences``."""
    return f"{tokens(count)} sequence{'' if round(count) == 1 else 's'}"


def a_day(count: float) -> str:
    """Write how many a day: ``5,012 a day``, ``fewer than 1 a day``."""
    return f"{tokens(count)} a day" if count >= 1 else "fewer than 1 a day"


def over_target(observed_seconds: float, target_seconds: float) -> str:
    """Write how far over a target: ``30% over``, from twice on ``94 times``."""
    factor = observed_seconds / target_seconds
    return fold(factor) if factor >= _FOLD_FROM else f"{percent(factor - 1)} over"
