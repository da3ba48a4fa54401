"""Which concurrency a sweep measures next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["next_concurrency"]

_FINE_RATIO = 0.05
"""A bracket this narrow, over its upper end, is not halved further."""


def next_concurrency(
    met: Mapping[int, bool], *, levels: Sequence[int] | None, highest: int, refine: bool
) -> int | None:
    """Return the next concurrency to measure, None when the sweep is done.

    Without given levels, concurrency doubles until the target is missed; a sweep stops early once it is. With
    refining, the bracket between the last level that met the target and the first that missed it is halved.

    Args:
        met: by concurrency measured so far, whether it met the target.
        levels: what to measure, ascending; None to double.
        highest: the most users.
        refine: whether to halve the bracket.
    """
    missed = [concurrency for concurrency, ok in met.items() if not ok]
    if not missed:
        return _upwards(met, levels, highest)
    above = min(missed)
    below = max((concurrency for concurrency in met if concurrency < above), default=0)
    if not refine or above - below <= max(1, _FINE_RATIO * above):
        return None
    return (above + below) // 2


def _upwards(met: Mapping[int, bool], levels: Sequence[int] | None, highest: int) -> int | None:
    if levels is not None:
        return next((level for level in levels if level not in met), None)
    if not met:
        return 1
    top = max(met)
    return min(2 * top, highest) if top < highest else None
