"""Sweeps that are sent to the daemon, where it takes them."""

from __future__ import annotations

from aiohttp import web

from vllm_advisor.errors import InputError
from vllm_advisor.sources.sweep_file import Sweep, SweepLevel, sweep_from_text

__all__ = ["read_upload"]

_LARGEST = 1e9
_MOST_LEVELS = 1000
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
        if max(_numbers(level)) > _LARGEST:
            raise InputError(f"a number is over {_LARGEST:g}", key=f"concurrency {level.concurrency:.4g}")
    return sweep


def _numbers(level: SweepLevel) -> list[float]:
    others = (level.ttft_p99_seconds, level.output_tokens_per_second, level.requests)
    return [level.concurrency, *level.tpot_seconds.values(), *(one for one in others if one is not None)]
