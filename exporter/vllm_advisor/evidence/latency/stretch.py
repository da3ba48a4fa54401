"""Request-scale stretches of one engine's time.

A latency target is about a request's mean over its output tokens. So intervals between scrapes are joined
until a running sequence makes as many tokens as a typical request has, and all that run make at least as
many; they slide on piece by piece.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from vllm_advisor.evidence.interval import Interval

__all__ = ["EngineStretches", "Stretch"]

_PIECES_PER_REQUEST = 8
_LONG_STRETCH = 4
_LONGEST_INTERVAL_SECONDS = 120.0
"""An interval beyond this holds a gap or a clock step, and its mean concurrency means nothing."""

_POOL_FULL_RATIO = 0.97
_AT_PEAK = 0.98


class Stretch(NamedTuple):
    """One stretch as it counts: its own means, and the newest piece by which it is weighted.

    ``concurrency`` is that of running sequences as the tokens saw them; ``sequence_tokens`` what a sequence
    made that ran all the stretch long; ``prefill_ratio`` prompt tokens per decoded token; ``pieces`` how many
    pieces it joins, each of the stretches that share one counting for a part.
    """

    concurrency: float
    tpot_seconds: float
    sequence_tokens: float
    prefill_ratio: float
    pieces: int
    newest_seconds: float
    newest_decode_tokens: float
    newest_generation_tokens: float


class _Totals(NamedTuple):
    """Running totals at the end of a piece; two of them give a stretch by difference."""

    seconds: float = 0.0
    running_seconds: float = 0.0
    decode_seconds: float = 0.0
    decode_tokens: float = 0.0
    generation_tokens: float = 0.0
    prompt_tokens: float = 0.0
    seen_concurrency: float = 0.0
    """Decode concurrency times decoded tokens: what the tokens saw."""


class EngineStretches:
    """Joins one engine's intervals into stretches; keeps totals at some 40 moments."""

    __slots__ = ("_marks", "_short_start", "_totals", "_waiting_before", "running_peak")

    def __init__(self) -> None:
        self.running_peak = 0.0
        self.break_off()

    def break_off(self) -> None:
        """Start anew: no stretch reaches over this moment."""
        self._totals = _Totals()
        self._marks = deque([self._totals])
        self._short_start = 0
        self._waiting_before = 0.0

    def push(self, interval: Interval, request_tokens: float) -> tuple[Stretch | None, Stretch | None]:
        """Take in an interval and give the stretches it completes: of one request's length, and of four.

        Args:
            interval: what the engine did next.
            request_tokens: decoded tokens of a typical request.
        """
        running = interval.running or 0.0
        self.running_peak = max(self.running_peak, running)
        seconds = interval.end_seconds - interval.start_seconds
        if seconds > _LONGEST_INTERVAL_SECONDS or not self._decodes(interval, running):
            self.break_off()
            return None, None
        self._add(interval, seconds)
        if not self._made(self._marks[-1], request_tokens / _PIECES_PER_REQUEST):
            return None, None
        return self._completed(request_tokens)

    def _decodes(self, interval: Interval, running: float) -> bool:
        """Tell whether TPOT says something: not while idle, asleep, or short of memory (preempting)."""
        idle = interval.decode_tokens <= 0 and running == 0
        full = bool(interval.waiting) and (interval.kv_used_ratio or 0.0) > _POOL_FULL_RATIO
        short_of_memory = interval.preemptions > 0 or (full and running < _AT_PEAK * self.running_peak)
        return interval.awake and not idle and not short_of_memory

    def _add(self, interval: Interval, seconds: float) -> None:
        so_far = self._totals
        tokens = interval.decode_tokens
        self._totals = _Totals(
            so_far.seconds + seconds,
            so_far.running_seconds + self._running_seconds(interval, seconds),
            so_far.decode_seconds + interval.decode_seconds,
            so_far.decode_tokens + tokens,
            so_far.generation_tokens + interval.generation_tokens,
            so_far.prompt_tokens + interval.prompt_tokens,
            so_far.seen_concurrency + interval.decode_seconds / seconds * tokens,
        )
        self._waiting_before = interval.waiting or 0.0

    def _running_seconds(self, interval: Interval, seconds: float) -> float:
        """Return running sequences times seconds: decoding ones by Little's law, and those in prefill.

        Prefill time is the time to first token where nobody waits; where somebody does, the batch is as full
        as its gauge says at both ends, and queueing is not running.
        """
        decoding = interval.decode_seconds
        if self._waiting_before or interval.waiting:
            running = interval.running or 0.0
            before = running if interval.running_before is None else interval.running_before
            return max(decoding, (before + running) / 2 * seconds)
        return min(decoding + interval.ttft_seconds, max(decoding, self.running_peak * seconds))

    def _made(self, start: _Totals, tokens: float) -> bool:
        """Tell whether one sequence since a mark made some tokens (time over TPOT), and all that ran did.

        Where the engine hardly decodes, time over TPOT is many tokens, and the few there are say nothing.
        """
        totals = self._totals
        decoded = totals.decode_tokens - start.decode_tokens
        needed = tokens * (totals.decode_seconds - start.decode_seconds)
        return decoded >= tokens and (totals.seconds - start.seconds) * decoded >= needed

    def _completed(self, request_tokens: float) -> tuple[Stretch | None, Stretch | None]:
        marks = self._marks
        marks.append(self._totals)
        last = len(marks) - 1
        start = self._short_start
        while start < last - 1 and self._made(marks[start + 1], request_tokens):
            start += 1
        long_tokens, long_pieces = _LONG_STRETCH * request_tokens, _LONG_STRETCH * (last - start)
        while last > long_pieces and self._made(marks[1], long_tokens):
            marks.popleft()
            start, last = start - 1, last - 1
        self._short_start = max(0, start)
        short = self._stretch(self._short_start, request_tokens)
        return short, self._stretch(0, long_tokens) if last >= long_pieces else None

    def _stretch(self, start: int, tokens: float) -> Stretch | None:
        marks, end = self._marks, self._totals
        begin, before = marks[start], marks[-2]
        if not self._made(begin, tokens):
            return None
        seconds = end.seconds - begin.seconds
        decoded = end.decode_tokens - begin.decode_tokens
        decode_seconds = end.decode_seconds - begin.decode_seconds
        seen = (end.seen_concurrency - begin.seen_concurrency) / decoded - decode_seconds / seconds
        return Stretch(
            (end.running_seconds - begin.running_seconds) / seconds + max(0.0, seen),
            decode_seconds / decoded,
            seconds * decoded / decode_seconds,
            (end.prompt_tokens - begin.prompt_tokens) / decoded,
            len(marks) - 1 - start,
            end.seconds - before.seconds,
            end.decode_tokens - before.decode_tokens,
            end.generation_tokens - before.generation_tokens,
        )
