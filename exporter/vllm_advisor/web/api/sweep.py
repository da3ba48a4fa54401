"""Sweeps that are sent to the daemon, where it takes them."""

from __future__ import annotations

from aiohttp import web

from vllm_advisor.errors import InputError
from vllm_advisor.sources.sweep_file import Sweep, SweepLevel, sweep_from_text

__all__ = ["read_upload"]

_MOST_LEVELS = 1000
_MOST_SEQUENCES = 100_000
_MOST_SECONDS = 1000
_MOST_OF_ANYTHING = 1e9
_KINDS = {"application/json", "text/csv"}


async def read_upload(request: web.Request) -> Sweep:
    """Read the sweep that a request brings, JSON or CSV as in a sweep file.

    Raises:
        InputError: it is none.
    """
    if request.content_type not in _KINDS:
        raise web.HTTPUnsupportedMediaType(text="Send application/json or text/csv.")
    try:
        text = (await request.read()).decode()
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", key="body") from error
    sweep = sweep_from_text(text)
    if len(sweep.levels) > _MOST_LEVELS:
        raise InputError(f"has more than {_MOST_LEVELS} levels", key="levels")
    for level in sweep.levels:
        if not _is_possible(level):
            raise InputError("a number is too large", key=f"concurrency {level.concurrency:.4g}")
    return sweep


def _is_possible(level: SweepLevel) -> bool:
    seconds = [*level.tpot_seconds.values(), level.ttft_p99_seconds or 0.0]
    others = [level.output_tokens_per_second or 0.0, level.requests or 0]
    return (
        level.concurrency <= _MOST_SEQUENCES
        and max(seconds) <= _MOST_SECONDS
        and max(others) <= _MOST_OF_ANYTHING
    )
